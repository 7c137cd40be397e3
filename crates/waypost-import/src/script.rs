//! Small expression languages, as far as ours can say the same: expressions of JavaScript, jq, and the
//! expressions of GitHub Actions. One lexer and one parser read them; what they cannot read is an error.

mod emit;
mod functions;
mod jq;
mod lexer;
mod literals;
mod parser;

pub(crate) use emit::{ScriptNames, emit, emit_shape};
pub(crate) use parser::parse;

/// Which language a source has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    /// One expression, also returned by a function or an `if`.
    JavaScript,
    Jq,
    Actions,
}

/// An expression that was read.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Ast {
    /// A constant.
    Literal(serde_json::Value),
    /// The value that jq works on.
    Dot,
    /// A name: `$`, `$name` or `name`.
    Name(String),
    Field(Box<Self>, String),
    Index(Box<Self>, Box<Self>),
    /// `[a:b]`, of constants.
    Slice(Box<Self>, String, String),
    /// `[]`: all items.
    Each(Box<Self>),
    Not(Box<Self>),
    Minus(Box<Self>),
    Binary(&'static str, Box<Self>, Box<Self>),
    /// The condition, then both values.
    Choice(Box<Self>, Box<Self>, Box<Self>),
    /// A function, or a method, whose object is the first argument.
    Call(String, Vec<Self>),
    Method(Box<Self>, String, Vec<Self>),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
    /// `[…]` of jq around what is no list of values.
    Collect(Box<Self>),
    /// A text of jq with values in it.
    Text(Vec<Self>),
}
