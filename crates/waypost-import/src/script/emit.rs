//! The small languages' trees as our expressions.

use serde_json::{Value, json};

use super::{Ast, Language};
use crate::expr::{Binds, EXPRESSION_BYTES_MAX, Expr, Shape};

/// Gives a value for a name.
pub(crate) type Resolve<'a> = dyn Fn(&str, &[String]) -> Result<(Shape, usize), String> + 'a;

/// What the names of a source mean.
pub(crate) struct ScriptNames<'a> {
    pub(crate) language: Language,
    /// What jq works on.
    pub(crate) dot: Option<Shape>,
    /// The value of a name with this path of fields after it, and how many of these it used up.
    pub(crate) resolve: &'a Resolve<'a>,
}

pub(super) type Emitted = Result<Expr, String>;

/// The expression that means the same.
pub(crate) fn emit(ast: &Ast, names: &ScriptNames<'_>) -> Emitted {
    names.value(ast)
}

/// The same as a template.
pub(crate) fn emit_shape(ast: &Ast, names: &ScriptNames<'_>) -> Result<Shape, String> {
    names.shape(ast)
}

pub(super) fn no(what: impl std::fmt::Display) -> Emitted {
    Err(format!("{what} has no counterpart"))
}

impl ScriptNames<'_> {
    /// An operator may repeat its operand, so that each result is checked.
    pub(super) fn value(&self, ast: &Ast) -> Emitted {
        let found = self.value_of(ast)?;
        if found.text().len() > EXPRESSION_BYTES_MAX {
            return Err("it is too long".to_owned());
        }
        Ok(found)
    }

    fn value_of(&self, ast: &Ast) -> Emitted {
        match ast {
            Ast::Literal(value) => Ok(Expr::literal(value)),
            Ast::Dot | Ast::Name(_) | Ast::Field(..) => self.path(ast),
            Ast::Index(base, at) => match &**at {
                Ast::Literal(Value::String(_)) => self.path(ast),
                at => Ok(self.value(base)?.index(&self.value(at)?)),
            },
            Ast::Slice(base, from, to) => Ok(self.value(base)?.slice(from, to)),
            Ast::Each(_) => no("`[]` outside of a list"),
            Ast::Not(inner) => Ok(self.truth(inner)?.negated()),
            Ast::Minus(inner) => match self.value(inner)? {
                expr if matches!(**inner, Ast::Literal(_)) => {
                    Ok(Expr::new(format!("-{}", expr.text()), Binds::Multiply))
                }
                expr => Ok(Expr::atom("0").binary("-", &expr, Binds::Add)),
            },
            Ast::Binary(operator, left, right) => self.binary(operator, left, right),
            Ast::Choice(condition, then, otherwise) => {
                match (&**then, &**otherwise) {
                    (Ast::Literal(Value::Bool(true)), Ast::Literal(Value::Bool(false))) => {
                        return self.truth(condition);
                    }
                    (Ast::Literal(Value::Bool(false)), Ast::Literal(Value::Bool(true))) => {
                        return Ok(self.truth(condition)?.negated());
                    }
                    _ => {}
                }
                let (then, otherwise) = (self.value(then)?, self.value(otherwise)?);
                Ok(then.when(&self.truth(condition)?, &otherwise))
            }
            Ast::Call(name, arguments) => match self.language {
                Language::Jq => self.jq_call(name, arguments),
                Language::Actions => self.actions_call(name, arguments),
                Language::JavaScript => self.script_call(name, arguments),
            },
            Ast::Method(object, name, arguments) => self.method(object, name, arguments),
            Ast::List(items) => {
                let items: Result<Vec<Expr>, String> =
                    items.iter().map(|item| self.value(item)).collect();
                Ok(Expr::list(&items?))
            }
            Ast::Object(fields) => {
                let fields: Result<Vec<(&str, Expr)>, String> = fields
                    .iter()
                    .map(|(key, value)| Ok((key.as_str(), self.value(value)?)))
                    .collect();
                Ok(Expr::object(&fields?))
            }
            Ast::Collect(inner) => self.collect(inner),
            Ast::Text(parts) => Ok(Expr::concat(self.pieces(parts)?)),
        }
    }

    /// Parts of a text, without empty ones.
    fn pieces(&self, parts: &[Ast]) -> Result<Vec<Expr>, String> {
        let empty = Ast::Literal(json!(""));
        parts.iter().filter(|part| **part != empty).map(|part| self.value(part)).collect()
    }

    /// The value as a template: a text with values in it stays one.
    fn shape(&self, ast: &Ast) -> Result<Shape, String> {
        let mut parts = Vec::new();
        if !joined(ast, &mut parts) {
            return self.value(ast).map(Shape::Expr);
        }
        let mut texts: Vec<(String, Option<Expr>)> = vec![(String::new(), None)];
        for part in parts {
            let Some((text, expr)) = texts.last_mut() else { break };
            match part {
                Ast::Literal(Value::String(more)) => text.push_str(more),
                part => {
                    *expr = Some(self.value(part)?);
                    texts.push((String::new(), None));
                }
            }
        }
        Ok(Shape::Text(texts))
    }

    /// A name or the value of jq, and the fields after it.
    fn path(&self, ast: &Ast) -> Emitted {
        let mut fields = Vec::new();
        let mut here = ast;
        let base = loop {
            match here {
                Ast::Field(base, name) => {
                    fields.push(name.clone());
                    here = base;
                }
                Ast::Index(base, at) => match &**at {
                    Ast::Literal(Value::String(name)) => {
                        fields.push(name.clone());
                        here = base;
                    }
                    _ => break self.value(here)?.into(),
                },
                Ast::Dot => break self.dot.clone().ok_or("`.` has no value here")?,
                Ast::Name(name) => {
                    fields.reverse();
                    let (base, used) = (self.resolve)(name, &fields)?;
                    fields.drain(..used.min(fields.len()));
                    fields.reverse();
                    break base;
                }
                other => break self.value(other)?.into(),
            }
        };
        fields.reverse();
        let mut shape: Shape = base;
        for field in &fields {
            shape = match field.as_str() {
                "length" if self.language == Language::JavaScript => {
                    Shape::Expr(shape.to_expr().filter("length", &[]))
                }
                field => shape.field(field),
            };
        }
        Ok(shape.to_expr())
    }

    /// A value as a boolean, as the language sees it.
    pub(crate) fn truth(&self, ast: &Ast) -> Emitted {
        match ast {
            Ast::Binary("and", left, right) => {
                return Ok(self.truth(left)?.and(&self.truth(right)?));
            }
            Ast::Binary("or", left, right) => return Ok(self.truth(left)?.or(&self.truth(right)?)),
            _ => {}
        }
        let expr = self.value(ast)?;
        if is_boolean(ast, self.language) {
            return Ok(expr);
        }
        if self.language == Language::Jq {
            let known = expr.filter("default", &[Expr::atom("none")]);
            return Ok(known.is("not none").and(&known.is("not false")));
        }
        Ok(expr.filter("default", &[Expr::atom("false")]).filter("bool", &[]))
    }

    fn binary(&self, operator: &str, left: &Ast, right: &Ast) -> Emitted {
        let is_null = |ast: &Ast| matches!(ast, Ast::Literal(Value::Null));
        let is_text = |ast: &Ast| matches!(ast, Ast::Literal(Value::String(_)) | Ast::Text(_));
        match operator {
            "|" => {
                if has_each(left) {
                    return no("`[]` outside of a list");
                }
                self.on(self.value(left)?).value(right)
            }
            "and" | "or"
                if is_boolean(left, self.language) && is_boolean(right, self.language)
                    || self.language == Language::Jq =>
            {
                let (left, right) = (self.truth(left)?, self.truth(right)?);
                Ok(if operator == "and" { left.and(&right) } else { left.or(&right) })
            }
            // The value of one of them.
            "or" | "??" => {
                let (one, other) = (self.value(left)?, self.value(right)?);
                let arguments =
                    if operator == "or" { vec![other, Expr::atom("true")] } else { vec![other] };
                Ok(one.filter("default", &arguments))
            }
            "and" => Ok(self.value(right)?.when(&self.truth(left)?, &self.value(left)?)),
            "//" => {
                let (one, other) = (self.value(left)?, self.value(right)?);
                let known = one.filter("default", &[Expr::atom("none")]);
                Ok(other.when(&known.is("none").or(&known.is("false")), &one))
            }
            "==" | "!=" if is_null(left) || is_null(right) => {
                let value = self.value(if is_null(left) { right } else { left })?;
                let test = if operator == "==" { "none" } else { "not none" };
                Ok(value.filter("default", &[Expr::atom("none")]).is(test))
            }
            "+" if is_text(left) || is_text(right) => {
                Ok(Expr::concat([self.value(left)?, self.value(right)?]))
            }
            "+" | "*" if matches!(left, Ast::Object(_)) || matches!(right, Ast::Object(_)) => {
                Ok(self.value(left)?.merged(&self.value(right)?))
            }
            "+" | "-" => Ok(self.value(left)?.binary(operator, &self.value(right)?, Binds::Add)),
            "*" | "/" | "%" => {
                Ok(self.value(left)?.binary(operator, &self.value(right)?, Binds::Multiply))
            }
            "==" | "!=" | "<" | ">" | "<=" | ">=" => {
                Ok(self.value(left)?.compare(operator, &self.value(right)?))
            }
            other => no(format!("`{other}`")),
        }
    }

    /// The same names, where jq works on another value.
    pub(super) fn on(&self, dot: impl Into<Shape>) -> ScriptNames<'_> {
        ScriptNames { language: self.language, dot: Some(dot.into()), resolve: self.resolve }
    }

    pub(super) fn all(&self, arguments: &[Ast]) -> Result<Vec<Expr>, String> {
        arguments.iter().map(|argument| self.value(argument)).collect()
    }
}

pub(super) fn has_each(ast: &Ast) -> bool {
    match ast {
        Ast::Each(_) => true,
        Ast::Field(base, _) | Ast::Index(base, _) | Ast::Slice(base, ..) => has_each(base),
        Ast::Binary("|", first, rest) => has_each(first) || has_each(rest),
        _ => false,
    }
}

/// The parts of a text that is put together, beginning with a constant one.
fn joined<'a>(ast: &'a Ast, parts: &mut Vec<&'a Ast>) -> bool {
    match ast {
        Ast::Text(all) => {
            parts.extend(all);
            true
        }
        Ast::Binary("+", left, right) => {
            let is_text = matches!(**left, Ast::Literal(Value::String(_)));
            if is_text {
                parts.push(left);
            }
            if !is_text && !joined(left, parts) {
                return false;
            }
            parts.push(right);
            true
        }
        _ => false,
    }
}

/// Is the value surely a boolean?
fn is_boolean(ast: &Ast, language: Language) -> bool {
    match ast {
        Ast::Literal(Value::Bool(_)) | Ast::Not(_) => true,
        Ast::Binary(operator, left, right) => match *operator {
            "==" | "!=" | "<" | ">" | "<=" | ">=" => true,
            "and" | "or" => {
                language == Language::Jq
                    || is_boolean(left, language) && is_boolean(right, language)
            }
            "|" => is_boolean(right, language),
            _ => false,
        },
        Ast::Choice(_, then, otherwise) => {
            is_boolean(then, language) && is_boolean(otherwise, language)
        }
        Ast::Call(name, _) => {
            const TESTS: &[&str] = &[
                "not",
                "startswith",
                "endswith",
                "has",
                "contains",
                "startsWith",
                "endsWith",
                "Boolean",
            ];
            TESTS.contains(&name.as_str())
        }
        Ast::Method(_, name, _) => ["includes", "startsWith", "endsWith"].contains(&name.as_str()),
        _ => false,
    }
}
