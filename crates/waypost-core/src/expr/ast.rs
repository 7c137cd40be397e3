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

impl ExprNode {
    /// The nodes right below it.
    pub(super) fn children(&self) -> Vec<&Self> {
        match self {
            Self::Const(_) | Self::Name(_) => Vec::new(),
            Self::List(items) | Self::And(items) | Self::Or(items) => items.iter().collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            Self::Not(_, node) | Self::Negate(_, node) => vec![&**node],
            Self::Binary(first, rest) => {
                [&**first].into_iter().chain(rest.iter().map(|(_, node)| node)).collect()
            }
            Self::Compare(first, rest) => {
                [&**first].into_iter().chain(rest.iter().map(|(_, node)| node)).collect()
            }
            Self::If(cases, otherwise) => {
                let cases = cases.iter().flat_map(|(condition, result)| [condition, result]);
                cases.chain(otherwise.as_deref()).collect()
            }
            Self::Steps(first, steps) => {
                [&**first].into_iter().chain(steps.iter().flat_map(Step::children)).collect()
            }
        }
    }
}

impl Step {
    fn children(&self) -> Vec<&ExprNode> {
        match self {
            Self::Attribute(_) | Self::Not => Vec::new(),
            Self::Item(node) => vec![node],
            Self::Slice(parts) => parts.iter().flatten().collect(),
            Self::Call(arguments) | Self::Filter(_, arguments) | Self::Test(_, arguments) => {
                let named = arguments.named.iter().map(|(_, node)| node);
                arguments.positional.iter().chain(named).collect()
            }
        }
    }

    /// Does it take a reference to a blob as it is, without a look at the content?
    pub(super) fn takes_references(&self) -> bool {
        match self {
            Self::Filter(filter, _) => matches!(filter.names, ["ref"] | ["default", "d"]),
            Self::Test(check, _) => matches!(check.names, ["defined"] | ["undefined"]),
            Self::Attribute(_) | Self::Item(_) | Self::Slice(_) | Self::Call(_) | Self::Not => {
                false
            }
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub(super) positional: Vec<ExprNode>,
    pub(super) named: Vec<(Box<str>, ExprNode)>,
    /// The positions of the positional ones.
    pub(super) places: Vec<Range<usize>>,
}

/// One line per operator: its symbol, and its precedence; the higher, the closer it binds.
macro_rules! operators {
    ($($operator:ident $symbol:literal $precedence:literal,)+) => {
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Operator { $($operator),+ }

        impl Operator {
            pub(super) fn of(symbol: &str) -> Option<Self> {
                Some(match symbol { $($symbol => Self::$operator,)+ _ => return None })
            }

            pub(super) fn symbol(self) -> &'static str {
                match self { $(Self::$operator => $symbol),+ }
            }

            pub(super) fn precedence(self) -> u8 {
                match self { $(Self::$operator => $precedence),+ }
            }
        }
    };
}

operators! {
    Add "+" 1,
    Subtract "-" 1,
    Join "~" 2,
    Multiply "*" 3,
    Divide "/" 3,
    DivideFloor "//" 3,
    Remainder "%" 3,
    Power "**" 4,
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

impl Comparison {
    /// Does it hold where its opposite does not?
    pub(super) fn is_negated(self) -> bool {
        matches!(self, Self::NotEqual | Self::NotIn)
    }

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
