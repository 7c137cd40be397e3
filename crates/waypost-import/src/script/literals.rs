//! What an expression begins with: names, lists, objects, texts, and `if` of jq.

use serde_json::Value;

use super::emit::has_each;
use super::lexer::Token;
use super::parser::{Parser, name_of, parse_at};
use super::{Ast, Language};

impl Parser {
    pub(super) fn template(&mut self, parts: &[String]) -> Result<Ast, String> {
        let mut all = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at % 2 == 0 {
                all.push(Ast::Literal(Value::String(part.clone())));
            } else {
                all.push(self.deeper(|parser| parse_at(part, Language::Jq, parser.depth))?);
            }
        }
        Ok(Ast::Text(all))
    }

    pub(super) fn name(&mut self, name: String) -> Result<Ast, String> {
        match name.as_str() {
            "true" | "false" => return Ok(Ast::Literal(Value::Bool(name == "true"))),
            "null" | "undefined" => return Ok(Ast::Literal(Value::Null)),
            "if" if self.language == Language::Jq => return self.jq_if(),
            "new" | "var" | "let" | "const" | "function" | "for" | "while" | "reduce"
            | "foreach" | "def" | "try" | "import" => {
                return Err(format!("`{name}` has no counterpart"));
            }
            _ => {}
        }
        if self.takes("(") {
            let separator = if self.language == Language::Jq { ";" } else { "," };
            return Ok(Ast::Call(name, self.arguments(separator)?));
        }
        if self.language == Language::Jq && !name.starts_with('$') {
            return Ok(Ast::Call(name, Vec::new()));
        }
        Ok(Ast::Name(name))
    }

    pub(super) fn jq_if(&mut self) -> Result<Ast, String> {
        self.deeper(|parser| {
            let condition = parser.expression(0)?;
            if !parser.takes_word("then") {
                return Err("`then` is missing".to_owned());
            }
            let then = parser.expression(0)?;
            let otherwise = if parser.takes_word("elif") {
                parser.jq_if()?
            } else if parser.takes_word("else") {
                let otherwise = parser.expression(0)?;
                if !parser.takes_word("end") {
                    return Err("`end` is missing".to_owned());
                }
                otherwise
            } else if parser.takes_word("end") {
                Ast::Dot
            } else {
                return Err("`end` is missing".to_owned());
            };
            Ok(Ast::Choice(Box::new(condition), Box::new(then), Box::new(otherwise)))
        })
    }

    pub(super) fn list(&mut self) -> Result<Ast, String> {
        let mut items = Vec::new();
        while !self.takes("]") {
            items.push(self.expression(0)?);
            if !self.takes(",") && !self.is("]") {
                return Err(format!("`]` is missing before {}", name_of(self.peek())));
            }
        }
        match &items[..] {
            [one] if self.language == Language::Jq && has_each(one) => {
                Ok(Ast::Collect(Box::new(items.remove(0))))
            }
            _ => Ok(Ast::List(items)),
        }
    }

    pub(super) fn object(&mut self) -> Result<Ast, String> {
        let mut fields = Vec::new();
        while !self.takes("}") {
            let key = match self.next() {
                Token::Name(name) | Token::Text(name) => name,
                token => return Err(format!("a field is missing before {}", name_of(&token))),
            };
            let value = if self.takes(":") {
                self.expression(2)?
            } else if self.language == Language::Jq && !key.starts_with('$') {
                Ast::Field(Box::new(Ast::Dot), key.clone())
            } else {
                Ast::Name(key.clone())
            };
            fields.push((key.trim_start_matches('$').to_owned(), value));
            if !self.takes(",") && !self.is("}") {
                return Err(format!("`}}` is missing before {}", name_of(self.peek())));
            }
        }
        Ok(Ast::Object(fields))
    }
}
