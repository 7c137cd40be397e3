//! From tokens to the tree: by precedence, with a bound on how deep brackets nest.

mod operand;

use std::ops::Range;

use super::ExpressionFault;
use super::ast::{Arguments, Comparison, ExprNode, Operator, Step};
use super::checks;
use super::filters;
use super::lexer::{Spanned, Token};
use super::operators;
use super::value::Value;

/// How deep the brackets of an expression may nest: parentheses, lists, maps, arguments, indexes.
pub const NESTING_MAX: usize = 64;

type Parsed<T> = Result<T, ExpressionFault>;

pub(super) fn parse(tokens: &[Spanned<'_>]) -> Parsed<ExprNode> {
    let mut parser = Parser { tokens, at: 0, depth: 0 };
    let node = parser.expression()?;
    match parser.peek() {
        Token::End => Ok(node),
        _ => Err(parser.unexpected("the end of the expression")),
    }
}

struct Parser<'s> {
    tokens: &'s [Spanned<'s>],
    at: usize,
    depth: usize,
}

impl<'s> Parser<'s> {
    fn peek(&self) -> &Token<'s> {
        self.tokens.get(self.at).map_or(&Token::End, |(token, _)| token)
    }

    /// The position of the next token; at the end, that of the last one.
    fn place(&self) -> Range<usize> {
        let last = self.tokens.len().saturating_sub(2);
        self.tokens.get(self.at.min(last)).map_or(0..0, |(_, range)| range.clone())
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if *found == word)
    }

    fn skip(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    fn skip_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Parsed<()> {
        if self.skip(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, expected: &str) -> ExpressionFault {
        let found = match self.peek() {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "text".to_owned(),
            Token::Number(_) => "number".to_owned(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "end of input".to_owned(),
        };
        let message = format!("unexpected {found}, expected {expected}");
        ExpressionFault { message, range: self.place() }
    }

    /// Every recursion passes through here.
    fn expression(&mut self) -> Parsed<ExprNode> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            let message = format!("brackets nest more than {NESTING_MAX} levels deep");
            return Err(ExpressionFault { message, range: self.place() });
        }
        let node = self.conditional()?;
        self.depth -= 1;
        Ok(node)
    }

    fn conditional(&mut self) -> Parsed<ExprNode> {
        let mut value = self.or()?;
        let mut arms = Vec::new();
        while self.skip_word("if") {
            arms.push((self.or()?, value));
            if !self.skip_word("else") {
                return Ok(ExprNode::If(arms, None));
            }
            value = self.or()?;
        }
        if arms.is_empty() { Ok(value) } else { Ok(ExprNode::If(arms, Some(Box::new(value)))) }
    }

    fn or(&mut self) -> Parsed<ExprNode> {
        self.chain("or", Self::and, ExprNode::Or)
    }

    fn and(&mut self) -> Parsed<ExprNode> {
        self.chain("and", Self::not, ExprNode::And)
    }

    /// Operands with a word between them; a single one stays as it is.
    fn chain(
        &mut self,
        word: &str,
        operand: fn(&mut Self) -> Parsed<ExprNode>,
        node: fn(Vec<ExprNode>) -> ExprNode,
    ) -> Parsed<ExprNode> {
        let first = operand(self)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.skip_word(word) {
            all.push(operand(self)?);
        }
        Ok(node(all))
    }

    fn not(&mut self) -> Parsed<ExprNode> {
        let mut times = 0;
        while self.skip_word("not") {
            times += 1;
        }
        let node = self.comparison()?;
        Ok(if times == 0 { node } else { ExprNode::Not(times, Box::new(node)) })
    }

    fn comparison(&mut self) -> Parsed<ExprNode> {
        let first = self.binary(1)?;
        let mut more = Vec::new();
        loop {
            let comparison = match self.peek() {
                Token::Symbol(symbol) => Comparison::of(symbol),
                Token::Name("in") => Some(Comparison::In),
                Token::Name("not") => {
                    self.at += 1;
                    if !self.is_word("in") {
                        return Err(self.unexpected("`in`"));
                    }
                    Some(Comparison::NotIn)
                }
                _ => None,
            };
            let Some(comparison) = comparison else { break };
            self.at += 1;
            more.push((comparison, self.binary(1)?));
        }
        Ok(if more.is_empty() { first } else { ExprNode::Compare(Box::new(first), more) })
    }

    /// Operators that bind at least as close as `lowest`. Recurses once per precedence at most.
    fn binary(&mut self, lowest: u8) -> Parsed<ExprNode> {
        let mut left = self.unary()?;
        while let Token::Symbol(symbol) = self.peek()
            && let Some(operator) = Operator::of(symbol)
        {
            let precedence = operator.precedence();
            if precedence < lowest {
                break;
            }
            let mut row = Vec::new();
            while let Token::Symbol(symbol) = self.peek()
                && let Some(operator) = Operator::of(symbol)
                && operator.precedence() == precedence
            {
                self.at += 1;
                row.push((operator, self.binary(precedence + 1)?));
            }
            left = ExprNode::Binary(Box::new(left), row);
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<ExprNode> {
        let node = self.negated()?;
        self.filtered(node)
    }

    /// A negation applies to what follows with its attributes and indexes, not with its filters.
    fn negated(&mut self) -> Parsed<ExprNode> {
        let mut times = 0;
        while self.skip("-") {
            times += 1;
        }
        let node = self.primary()?;
        if let (1, ExprNode::Const(value)) = (times, &node)
            && let Some(negative) = operators::negative_literal(value)
        {
            return self.indexed(ExprNode::Const(negative));
        }
        let node = self.indexed(node)?;
        Ok(if times == 0 { node } else { ExprNode::Negate(times, Box::new(node)) })
    }

    fn indexed(&mut self, node: ExprNode) -> Parsed<ExprNode> {
        let mut steps = Vec::new();
        loop {
            if self.skip(".") {
                steps.push(match self.peek().clone() {
                    Token::Name(name) => Step::Attribute(name.into()),
                    Token::Number(index @ Value::Int(_)) => Step::Item(ExprNode::Const(index)),
                    _ => return Err(self.unexpected("a name or an integer")),
                });
                self.at += 1;
            } else if self.skip("[") {
                steps.push(self.subscript()?);
            } else if self.is("(") {
                steps.push(Step::Call(self.arguments()?));
            } else {
                break;
            }
        }
        Ok(with_steps(node, steps))
    }

    fn subscript(&mut self) -> Parsed<Step> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        for part in &mut parts {
            if !self.is(":") && !self.is("]") {
                *part = Some(self.expression()?);
            }
            if colons == 2 || !self.skip(":") {
                break;
            }
            colons += 1;
        }
        if !self.is("]") || colons == 0 && parts[0].is_none() {
            return Err(self.unexpected("an index and `]`"));
        }
        self.at += 1;
        Ok(match parts {
            [Some(index), _, _] if colons == 0 => Step::Item(index),
            parts => Step::Slice(Box::new(parts)),
        })
    }

    fn filtered(&mut self, node: ExprNode) -> Parsed<ExprNode> {
        let mut steps = Vec::new();
        loop {
            if self.skip("|") {
                let (name, range) = self.dotted_name()?;
                let Some(filter) = filters::find(&name) else {
                    return Err(unknown("filter", &name, range));
                };
                let arguments = self.arguments_if_any()?;
                filters::check_names(filter, &arguments)?;
                steps.push(Step::Filter(filter, arguments));
            } else if self.skip_word("is") {
                let negated = self.skip_word("not");
                let (name, range) = self.dotted_name()?;
                let Some(check) = checks::find(&name) else {
                    return Err(unknown("test", &name, range));
                };
                let arguments = self.arguments_of_test()?;
                steps.push(Step::Test(check, arguments));
                if negated {
                    steps.push(Step::Not);
                }
            } else {
                break;
            }
        }
        Ok(with_steps(node, steps))
    }

    fn dotted_name(&mut self) -> Parsed<(String, Range<usize>)> {
        let mut place = self.place();
        let mut full = String::new();
        loop {
            let Token::Name(name) = self.peek() else { return Err(self.unexpected("a name")) };
            full.push_str(name);
            place.end = self.place().end;
            self.at += 1;
            if !self.skip(".") {
                return Ok((full, place));
            }
            full.push('.');
        }
    }

    fn arguments_if_any(&mut self) -> Parsed<Arguments> {
        if self.is("(") { self.arguments() } else { Ok(Arguments::default()) }
    }

    /// The argument of a test may be without parentheses: `x is divisibleby 3`.
    fn arguments_of_test(&mut self) -> Parsed<Arguments> {
        let bare = match self.peek() {
            Token::Name(word) => !["and", "or", "else", "is", "if", "in", "not"].contains(word),
            Token::Text(_) | Token::Number(_) | Token::Symbol("-" | "[" | "{") => true,
            Token::Symbol(_) | Token::End => false,
        };
        if !bare {
            return self.arguments_if_any();
        }
        let place = self.place();
        // Its brackets are guarded; the operand itself recurses no further.
        let positional = vec![self.negated()?];
        Ok(Arguments { positional, named: Vec::new(), places: vec![place] })
    }

    fn arguments(&mut self) -> Parsed<Arguments> {
        let mut arguments = Arguments::default();
        self.expect("(")?;
        self.row(")", true, |parser| {
            let place = parser.place();
            match parser.expression()? {
                ExprNode::Name(name) if parser.skip("=") => {
                    arguments.named.push((name, parser.expression()?));
                }
                _ if !arguments.named.is_empty() => {
                    let message = "non-keyword arg after keyword arg".to_owned();
                    return Err(ExpressionFault { message, range: place });
                }
                node => {
                    arguments.positional.push(node);
                    arguments.places.push(place);
                }
            }
            Ok(())
        })?;
        Ok(arguments)
    }
}

fn with_steps(node: ExprNode, steps: Vec<Step>) -> ExprNode {
    if steps.is_empty() { node } else { ExprNode::Steps(Box::new(node), steps) }
}

/// The fault of a name that is not in our lists: whatever another version of Jinja has, only the
/// names in `filters.rs` and `checks.rs` can be used.
pub(super) fn unknown(what: &str, name: &str, range: Range<usize>) -> ExpressionFault {
    ExpressionFault { message: format!("there is no {what} `{name}`"), range }
}
