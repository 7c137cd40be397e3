//! An expression as it was parsed.
//!
//! Whatever a source can repeat without brackets, operators, prefixes, attributes and filters, is a
//! list here and not a tree: only brackets nest, and their number is bounded.

use std::ops::Range;

use super::checks::Check;
use super::filters::Filter;
use super::value::Value;

#[derive(Debug)]
pub(super) enum ExprNode {
    Const(Value),
    Name(Box<str>),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Not(usize, Box<Self>),
    Negate(usize, Box<Self>),
    /// Operators of one precedence, from left to right.
    Binary(Box<Self>, Vec<(Operator, Self)>),
    Compare(Box<Self>, Vec<(Comparison, Self)>),
    And(Vec<Self>),
    Or(Vec<Self>),
    /// Conditions with their results, tried in order.
    If(Vec<(Self, Self)>, Option<Box<Self>>),
    Steps(Box<Self>, Vec<Step>),
}

/// An operation on the value to the left.
#[derive(Debug)]
pub(super) enum Step {
    Attribute(Box<str>),
    Item(ExprNode),
    Slice(Box<[Option<ExprNode>; 3]>),
    Call(Arguments),
    Filter(&'static Filter, Arguments),
    Test(&'static Check, Arguments),
    /// `is not`.
    Not,
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<ExprNode>,
    pub(super) named: Vec<(Box<str>, ExprNode)>,
    /// The positions of the positional ones.
    pub(super) places: Vec<Range<usize>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operator {
    Add,
    Subtract,
    Join,
    Multiply,
    Divide,
    DivideFloor,
    Remainder,
    Power,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

impl Operator {
    pub(super) fn of(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "+" => Self::Add,
            "-" => Self::Subtract,
            "~" => Self::Join,
            "*" => Self::Multiply,
            "/" => Self::Divide,
            "//" => Self::DivideFloor,
            "%" => Self::Remainder,
            "**" => Self::Power,
            _ => return None,
        })
    }

    pub(super) fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Join => "~",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::DivideFloor => "//",
            Self::Remainder => "%",
            Self::Power => "**",
        }
    }

    /// The higher, the closer it binds.
    pub(super) fn precedence(self) -> u8 {
        match self {
            Self::Add | Self::Subtract => 1,
            Self::Join => 2,
            Self::Multiply | Self::Divide | Self::DivideFloor | Self::Remainder => 3,
            Self::Power => 4,
        }
    }
}

impl Comparison {
    pub(super) fn of(symbol: &str) -> Option<Self> {
        Some(match symbol {
            "==" => Self::Equal,
            "!=" => Self::NotEqual,
            "<" => Self::Less,
            "<=" => Self::LessOrEqual,
            ">" => Self::Greater,
            ">=" => Self::GreaterOrEqual,
            _ => return None,
        })
    }
}
