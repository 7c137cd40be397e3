//! Small expression languages, as far as ours can say the same: expressions of JavaScript, jq, and the
//! expressions of GitHub Actions. One lexer and one parser read them; what they cannot read is an error.

mod emit;
mod lexer;
mod parser;

pub(crate) use emit::{Names, emit};
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
    Field(Box<Ast>, String),
    Index(Box<Ast>, Box<Ast>),
    /// `[a:b]`, of constants.
    Slice(Box<Ast>, String, String),
    /// `[]`: all items.
    Each(Box<Ast>),
    Not(Box<Ast>),
    Minus(Box<Ast>),
    Binary(&'static str, Box<Ast>, Box<Ast>),
    /// The condition, then both values.
    Choice(Box<Ast>, Box<Ast>, Box<Ast>),
    /// A function, or a method, whose object is the first argument.
    Call(String, Vec<Ast>),
    Method(Box<Ast>, String, Vec<Ast>),
    List(Vec<Ast>),
    Object(Vec<(String, Ast)>),
    /// `[…]` of jq around what is no list of values.
    Collect(Box<Ast>),
    /// A text of jq with values in it.
    Text(Vec<Ast>),
}
