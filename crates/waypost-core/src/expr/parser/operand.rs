//! Operands of operators and filters: names, literals, lists, maps, and expressions in parentheses.

use super::{Parsed, Parser};
use crate::expr::ast::ExprNode;
use crate::expr::lexer::Token;
use crate::expr::value::Value;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Parsed<ExprNode> {
        let token = self.peek().clone();
        let node = match token {
            Token::Name("true" | "True") => ExprNode::Const(Value::Bool(true)),
            Token::Name("false" | "False") => ExprNode::Const(Value::Bool(false)),
            Token::Name("none" | "None") => ExprNode::Const(Value::None),
            Token::Name(name) => ExprNode::Name(name.into()),
            Token::Number(value) => ExprNode::Const(value),
            Token::Text(mut text) => {
                self.at += 1;
                // Texts that follow each other are one.
                while let Token::Text(more) = self.peek() {
                    text.push_str(more);
                    self.at += 1;
                }
                return Ok(ExprNode::Const(Value::text(&text)));
            }
            Token::Symbol("(") => return self.parenthesis(),
            Token::Symbol("[") => {
                self.at += 1;
                return Ok(ExprNode::List(self.row("]", Vec::new())?));
            }
            Token::Symbol("{") => return self.map(),
            Token::Symbol(_) | Token::End => return Err(self.unexpected("expression")),
        };
        self.at += 1;
        Ok(node)
    }

    fn parenthesis(&mut self) -> Parsed<ExprNode> {
        self.at += 1;
        if self.skip(")") {
            return Ok(ExprNode::List(Vec::new()));
        }
        let first = self.expression()?;
        if self.skip(")") {
            return Ok(first);
        }
        if !self.is(",") {
            return Err(self.unexpected("`)`"));
        }
        Ok(ExprNode::List(self.row(")", vec![first])?))
    }

    fn row(&mut self, close: &str, mut items: Vec<ExprNode>) -> Parsed<Vec<ExprNode>> {
        while !self.skip(close) {
            if !items.is_empty() {
                self.expect(",")?;
                if self.skip(close) {
                    break;
                }
            }
            items.push(self.expression()?);
        }
        Ok(items)
    }

    fn map(&mut self) -> Parsed<ExprNode> {
        self.at += 1;
        let mut entries = Vec::new();
        while !self.skip("}") {
            if !entries.is_empty() {
                self.expect(",")?;
                if self.skip("}") {
                    break;
                }
            }
            let key = self.expression()?;
            self.expect(":")?;
            entries.push((key, self.expression()?));
        }
        Ok(ExprNode::Map(entries))
    }
}
