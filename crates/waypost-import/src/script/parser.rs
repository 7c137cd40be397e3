//! Tokens as a tree, by the precedence of their operators.

use serde_json::Value;

use super::lexer::{Token, tokens};
use super::{Ast, Language};
use crate::expr::EXPRESSION_BYTES_MAX;

/// How deep expressions may be nested.
const DEPTH_MAX: u32 = 60;
/// Operators, or fields, one after the other.
const LINKS_MAX: u32 = 100;

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    pub(super) language: Language,
    pub(super) depth: u32,
}

/// Reads one expression.
pub(crate) fn parse(source: &str, language: Language) -> Result<Ast, String> {
    if source.len() > EXPRESSION_BYTES_MAX {
        return Err("it is too long".to_owned());
    }
    parse_at(source, language, 0)
}

/// Reads one expression inside of so many others.
pub(super) fn parse_at(source: &str, language: Language, depth: u32) -> Result<Ast, String> {
    let mut parser = Parser { tokens: tokens(source, language)?, at: 0, language, depth };
    let ast = match language {
        Language::JavaScript => parser.script()?,
        Language::Jq | Language::Actions => parser.expression(0)?,
    };
    match parser.peek() {
        Token::End => Ok(ast),
        token => Err(format!("{} is not expected", name_of(token))),
    }
}

pub(super) fn name_of(token: &Token) -> String {
    match token {
        Token::Name(name) => format!("`{name}`"),
        Token::Symbol(symbol) => format!("`{symbol}`"),
        Token::Number(number) => format!("`{number}`"),
        Token::Text(_) | Token::Template(_) => "a text".to_owned(),
        Token::End => "the end".to_owned(),
    }
}

impl Parser {
    pub(super) fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    pub(super) fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == word)
    }

    pub(super) fn takes(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        self.at += usize::from(found);
        found
    }

    pub(super) fn takes_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.takes(symbol) {
            return Ok(());
        }
        Err(format!("`{symbol}` is missing before {}", name_of(self.peek())))
    }

    /// An expression of JavaScript, bare, or as what a function returns.
    fn script(&mut self) -> Result<Ast, String> {
        let opened = self.is("(")
            && matches!(self.tokens.get(self.at + 1), Some(Token::Name(name)) if name == "function");
        self.at += usize::from(opened);
        if self.takes_word("function") {
            let name = match self.next() {
                Token::Name(name) => {
                    self.expect("(")?;
                    Some(name)
                }
                Token::Symbol("(") => None,
                token => return Err(format!("{} is not expected", name_of(&token))),
            };
            self.expect(")")?;
            let body = self.block()?;
            if opened {
                let inner = self.takes("(") && self.takes(")");
                self.expect(")")?;
                if !inner {
                    self.expect("(")?;
                    self.expect(")")?;
                }
            } else if let Some(name) = name {
                if !self.takes_word(&name) {
                    return Err(format!("`{name}` is never called"));
                }
                self.expect("(")?;
                self.expect(")")?;
            }
            self.takes(";");
            return Ok(body);
        }
        let found = self.statement()?;
        self.takes(";");
        Ok(found)
    }

    fn block(&mut self) -> Result<Ast, String> {
        if !self.takes("{") {
            return self.statement();
        }
        let found = self.statement()?;
        self.expect("}")?;
        Ok(found)
    }

    /// `return x;`, `if (c) { … } else { … }`, or an expression.
    fn statement(&mut self) -> Result<Ast, String> {
        self.deeper(|parser| {
            if parser.takes_word("if") {
                parser.expect("(")?;
                let condition = parser.expression(0)?;
                parser.expect(")")?;
                let then = parser.block()?;
                if !parser.takes_word("else") && parser.is("}") {
                    return Err("an `if` without `else`".to_owned());
                }
                let otherwise = parser.block()?;
                return Ok(Ast::Choice(Box::new(condition), Box::new(then), Box::new(otherwise)));
            }
            parser.takes_word("return");
            let found = parser.expression(0)?;
            parser.takes(";");
            Ok(found)
        })
    }

    pub(super) fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deeply".to_owned());
        }
        let found = read(self);
        self.depth -= 1;
        found
    }

    /// The operator that comes next, its name and how tightly it binds.
    fn operator(&self) -> Option<(&'static str, u8)> {
        let symbol = match self.peek() {
            Token::Symbol(symbol) => *symbol,
            Token::Name(word) if self.language == Language::Jq && word == "and" => "and",
            Token::Name(word) if self.language == Language::Jq && word == "or" => "or",
            _ => return None,
        };
        let binds = match (self.language, symbol) {
            (Language::Jq, "|") => 1,
            (Language::Jq, "//") => 3,
            (Language::Jq, "||" | "&&" | "??" | "===" | "!==") => return None,
            (Language::JavaScript, "??") | (_, "||" | "or") => 4,
            (_, "&&" | "and") => 5,
            (_, "==" | "!=" | "===" | "!==") => 6,
            (_, "<" | ">" | "<=" | ">=") => 7,
            (Language::Actions, _) => return None,
            (_, "+" | "-") => 8,
            (_, "*" | "/" | "%") => 9,
            _ => return None,
        };
        let name = match symbol {
            "&&" => "and",
            "||" => "or",
            "===" => "==",
            "!==" => "!=",
            other => other,
        };
        Some((name, binds))
    }

    pub(super) fn expression(&mut self, least: u8) -> Result<Ast, String> {
        self.deeper(|parser| {
            let mut left = parser.unary()?;
            let mut links = 0;
            while let Some((operator, binds)) =
                parser.operator().filter(|(_, binds)| *binds > least)
            {
                links += 1;
                if links > LINKS_MAX {
                    return Err("it is too long".to_owned());
                }
                parser.at += 1;
                let right = parser.expression(binds)?;
                left = Ast::Binary(operator, Box::new(left), Box::new(right));
            }
            if parser.language == Language::JavaScript && least <= 2 && parser.takes("?") {
                let then = parser.expression(0)?;
                parser.expect(":")?;
                let otherwise = parser.expression(0)?;
                left = Ast::Choice(Box::new(left), Box::new(then), Box::new(otherwise));
            }
            Ok(left)
        })
    }

    fn unary(&mut self) -> Result<Ast, String> {
        if self.takes("!") {
            return self.deeper(|parser| Ok(Ast::Not(Box::new(parser.unary()?))));
        }
        if self.takes("-") {
            return self.deeper(|parser| Ok(Ast::Minus(Box::new(parser.unary()?))));
        }
        let first = self.primary()?;
        self.postfix(first)
    }

    fn postfix(&mut self, first: Ast) -> Result<Ast, String> {
        let mut here = first;
        for _ in 0..LINKS_MAX {
            if self.takes("[") {
                here = self.brackets(here)?;
            } else if self.takes(".") {
                here = match self.next() {
                    Token::Name(name) if self.language != Language::Jq && self.takes("(") => {
                        Ast::Method(Box::new(here), name, self.arguments(",")?)
                    }
                    Token::Name(name) => Ast::Field(Box::new(here), name),
                    Token::Text(name) if self.language == Language::Jq => {
                        Ast::Field(Box::new(here), name)
                    }
                    Token::Symbol("[") if self.language == Language::Jq => self.brackets(here)?,
                    token => return Err(format!("a name is missing before {}", name_of(&token))),
                };
            } else if self.language == Language::Jq && self.is("?") {
                return Err("`?` has no counterpart".to_owned());
            } else {
                return Ok(here);
            }
        }
        Err("it is too long".to_owned())
    }

    fn brackets(&mut self, base: Ast) -> Result<Ast, String> {
        if self.takes("]") {
            return Ok(Ast::Each(Box::new(base)));
        }
        let bound = |parser: &mut Self| match (parser.takes("-"), parser.peek().clone()) {
            (minus, Token::Number(number)) => {
                parser.at += 1;
                format!("{}{number}", if minus { "-" } else { "" })
            }
            (minus, _) => {
                parser.at -= usize::from(minus);
                String::new()
            }
        };
        let (begin, depth) = (self.at, self.depth);
        let from = bound(self);
        if self.takes(":") {
            let to = bound(self);
            self.expect("]")?;
            return Ok(Ast::Slice(Box::new(base), from, to));
        }
        (self.at, self.depth) = (begin, depth);
        let at = self.expression(0)?;
        self.expect("]")?;
        Ok(Ast::Index(Box::new(base), Box::new(at)))
    }

    pub(super) fn arguments(&mut self, separator: &str) -> Result<Vec<Ast>, String> {
        let mut all = Vec::new();
        while !self.takes(")") {
            all.push(self.expression(0)?);
            if !self.takes(separator) && !self.is(")") {
                return Err(format!("`)` is missing before {}", name_of(self.peek())));
            }
        }
        Ok(all)
    }

    fn primary(&mut self) -> Result<Ast, String> {
        match self.next() {
            Token::Number(number) => Ok(Ast::Literal(Value::Number(number))),
            Token::Text(text) => Ok(Ast::Literal(Value::String(text))),
            Token::Template(parts) => self.template(&parts),
            Token::Name(name) => self.name(name),
            Token::Symbol("(") => {
                let found = self.expression(0)?;
                self.expect(")")?;
                Ok(found)
            }
            Token::Symbol("[") => self.list(),
            Token::Symbol("{") => self.object(),
            Token::Symbol(".") if self.language == Language::Jq => match self.peek().clone() {
                Token::Name(name)
                    if !is_jq_word(&name)
                        || !matches!(
                            self.tokens.get(self.at.wrapping_sub(2)),
                            Some(Token::Name(_))
                        ) =>
                {
                    self.at += 1;
                    Ok(Ast::Field(Box::new(Ast::Dot), name))
                }
                Token::Text(name) => {
                    self.at += 1;
                    Ok(Ast::Field(Box::new(Ast::Dot), name))
                }
                _ => Ok(Ast::Dot),
            },
            token => Err(format!("{} is not expected", name_of(&token))),
        }
    }
}

/// Words that end what is before them: `if . then`.
fn is_jq_word(name: &str) -> bool {
    ["then", "else", "elif", "end", "and", "or"].contains(&name)
}
