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
                return self.list("]", Vec::new());
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
        self.list(")", vec![first])
    }

    fn list(&mut self, close: &str, mut items: Vec<ExprNode>) -> Parsed<ExprNode> {
        self.row(close, items.is_empty(), |parser| {
            items.push(parser.expression()?);
            Ok(())
        })?;
        Ok(ExprNode::List(items))
    }

    fn map(&mut self) -> Parsed<ExprNode> {
        self.at += 1;
        let mut entries = Vec::new();
        self.row("}", true, |parser| {
            let key = parser.expression()?;
            parser.expect(":")?;
            entries.push((key, parser.expression()?));
            Ok(())
        })?;
        Ok(ExprNode::Map(entries))
    }

    /// Items with commas between them, and perhaps one after the last, up to a bracket.
    pub(super) fn row(
        &mut self,
        close: &str,
        mut is_first: bool,
        mut item: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<()> {
        while !self.skip(close) {
            if !std::mem::take(&mut is_first) {
                self.expect(",")?;
                if self.skip(close) {
                    break;
                }
            }
            item(self)?;
        }
        Ok(())
    }
}
