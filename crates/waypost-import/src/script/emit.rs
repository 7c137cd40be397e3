//! The small languages' trees as our expressions.

use serde_json::{Value, json};

use super::{Ast, Language};
use crate::expr::{Binds, EXPRESSION_BYTES_MAX, Expr, Shape, quoted};
use crate::report::shortened;

/// Gives a value for a name.
pub(crate) type Resolve<'a> = dyn Fn(&str, &[String]) -> Result<(Shape, usize), String> + 'a;

/// What the names of a source mean.
pub(crate) struct Names<'a> {
    pub(crate) language: Language,
    /// What jq works on.
    pub(crate) dot: Option<Shape>,
    /// The value of a name with this path of fields after it, and how many of these it used up.
    pub(crate) resolve: &'a Resolve<'a>,
}

type Emitted = Result<Expr, String>;

/// The expression that means the same.
pub(crate) fn emit(ast: &Ast, names: &Names<'_>) -> Emitted {
    names.value(ast)
}

/// The same as a template.
pub(crate) fn emit_shape(ast: &Ast, names: &Names<'_>) -> Result<Shape, String> {
    names.shape(ast)
}

fn no(what: impl std::fmt::Display) -> Emitted {
    Err(format!("{what} has no counterpart"))
}

impl Names<'_> {
    /// An operator may repeat its operand, so that each result is checked.
    fn value(&self, ast: &Ast) -> Emitted {
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
    fn on(&self, dot: impl Into<Shape>) -> Names<'_> {
        Names { language: self.language, dot: Some(dot.into()), resolve: self.resolve }
    }

    fn all(&self, arguments: &[Ast]) -> Result<Vec<Expr>, String> {
        arguments.iter().map(|argument| self.value(argument)).collect()
    }

    fn jq_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
        let dot = || -> Emitted { Ok(self.dot.clone().ok_or("`.` has no value here")?.to_expr()) };
        let simple = match name {
            "length" => Some("length"),
            "tojson" => Some("tojson"),
            "ascii_downcase" => Some("lower"),
            "ascii_upcase" => Some("upper"),
            "first" => Some("first"),
            "last" => Some("last"),
            "min" => Some("min"),
            "max" => Some("max"),
            "add" => Some("sum"),
            "abs" => Some("abs"),
            "trim" => Some("trim"),
            _ => None,
        };
        match (simple, name, arguments) {
            (Some(filter), _, []) => Ok(dot()?.filter(filter, &[])),
            (_, "reverse" | "sort" | "unique", []) => {
                Ok(dot()?.filter(name, &[]).filter("list", &[]))
            }
            (_, "keys", []) => Ok(dot()?.filter("list", &[]).filter("sort", &[])),
            (_, "tostring", []) => Ok(dot()?.to_text()),
            (_, "tonumber", []) => Ok(dot()?.filter("float", &[])),
            (_, "not", []) => Ok(self.truth(&Ast::Dot)?.negated()),
            (_, "join", [separator]) => Ok(dot()?.filter("join", &[self.value(separator)?])),
            (_, "split", [separator]) => Ok(dot()?.filter("split", &[self.value(separator)?])),
            (_, "startswith" | "endswith", [part]) => {
                let test = if name == "startswith" { "startingwith" } else { "endingwith" };
                Ok(dot()?.is(&format!("{test}({})", self.value(part)?.text())))
            }
            (_, "contains", [part @ Ast::Literal(Value::String(_))]) => {
                Ok(self.value(part)?.compare("in", &dot()?))
            }
            (_, "has", [Ast::Literal(Value::String(key))]) => Ok(dot()?.field(key).is("defined")),
            (_, "map", [inner]) => self.map(dot()?, inner),
            (_, "range", [to]) => Ok(Expr::atom(format!("range({})", self.value(to)?.text()))),
            _ => no(format!("`{}` of jq", shortened(name))),
        }
    }

    /// `[.[] | …]`, `[.a[].b]`.
    fn collect(&self, inner: &Ast) -> Emitted {
        match inner {
            Ast::Each(list) => Ok(self.value(list)?.filter("list", &[])),
            Ast::Field(base, field) if has_each(base) => Ok(pick(&self.collect(base)?, field)),
            Ast::Binary("|", first, rest) if has_each(first) => {
                let list = self.collect(first)?;
                self.map(list, rest)
            }
            _ => no("this list"),
        }
    }

    /// `map(…)`: a field of each, or those for which a comparison holds.
    fn map(&self, list: Expr, inner: &Ast) -> Emitted {
        match inner {
            Ast::Dot => Ok(list),
            Ast::Binary("|", first, rest) => {
                let picked = self.map(list, first)?;
                self.map(picked, rest)
            }
            Ast::Field(base, field) => Ok(pick(&self.map(list, base)?, field)),
            Ast::Call(name, arguments) if name == "select" && arguments.len() == 1 => {
                let Ast::Binary(operator, left, right) = &arguments[0] else {
                    return no("this condition of `select`");
                };
                let test = match *operator {
                    "==" | "!=" | "<" | ">" | "<=" | ">=" => *operator,
                    _ => return no("this condition of `select`"),
                };
                let Ast::Literal(_) = **right else { return no("this condition of `select`") };
                let value = self.value(right)?;
                match &**left {
                    Ast::Dot => {
                        let arguments = [Expr::atom(quoted(test)), value];
                        Ok(list.filter("select", &arguments).filter("list", &[]))
                    }
                    Ast::Field(base, field) if **base == Ast::Dot && !field.contains('.') => {
                        let arguments =
                            [Expr::atom(quoted(field)), Expr::atom(quoted(test)), value];
                        Ok(list.filter("selectattr", &arguments).filter("list", &[]))
                    }
                    _ => no("this condition of `select`"),
                }
            }
            Ast::Call(name, arguments) if arguments.is_empty() => {
                let filter = match name.as_str() {
                    "length" => "length",
                    "ascii_downcase" => "lower",
                    "ascii_upcase" => "upper",
                    "tojson" => "tojson",
                    _ => return no(format!("`{}` for each item", shortened(name))),
                };
                Ok(list.filter("map", &[Expr::atom(quoted(filter))]).filter("list", &[]))
            }
            _ => no("this expression for each item"),
        }
    }

    fn actions_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
        match (name.to_ascii_lowercase().as_str(), &self.all(arguments)?[..]) {
            ("contains", [all, one]) => Ok(one.compare("in", all)),
            ("startswith", [text, part]) => Ok(text.is(&format!("startingwith({})", part.text()))),
            ("endswith", [text, part]) => Ok(text.is(&format!("endingwith({})", part.text()))),
            ("join", [list]) => Ok(list.filter("join", &[Expr::atom("','")])),
            ("join", [list, separator]) => Ok(list.filter("join", std::slice::from_ref(separator))),
            ("tojson", [value]) => Ok(value.filter("tojson", &[])),
            ("format", [_, values @ ..]) => match &arguments[0] {
                Ast::Literal(Value::String(template)) => format(template, values),
                _ => no("`format` with a computed text"),
            },
            _ => no(format!("the function `{}`", shortened(name))),
        }
    }

    fn script_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
        match (name, &self.all(arguments)?[..]) {
            ("String", [value]) => Ok(value.to_text()),
            ("Number" | "parseFloat", [value]) => Ok(value.filter("float", &[])),
            ("parseInt", [value, ..]) => Ok(value.filter("int", &[])),
            ("Boolean", [_]) => self.truth(&arguments[0]),
            _ => no(format!("the function `{}`", shortened(name))),
        }
    }

    fn method(&self, object: &Ast, name: &str, arguments: &[Ast]) -> Emitted {
        let given = self.all(arguments)?;
        if let Ast::Name(object) = object {
            match (object.as_str(), name, &given[..]) {
                ("JSON", "stringify", [value]) => return Ok(value.filter("tojson", &[])),
                ("Math", "abs" | "round", [value]) => return Ok(value.filter(name, &[])),
                ("Math", "min" | "max", all) => return Ok(Expr::list(all).filter(name, &[])),
                _ => {}
            }
        }
        let object = self.value(object)?;
        match (name, &given[..]) {
            ("includes", [part]) => Ok(part.compare("in", &object)),
            ("startsWith", [part]) => Ok(object.is(&format!("startingwith({})", part.text()))),
            ("endsWith", [part]) => Ok(object.is(&format!("endingwith({})", part.text()))),
            ("toUpperCase", []) => Ok(object.filter("upper", &[])),
            ("toLowerCase", []) => Ok(object.filter("lower", &[])),
            ("trim", []) => Ok(object.filter("trim", &[])),
            ("toString", []) => Ok(object.to_text()),
            ("split" | "join", [separator]) => {
                Ok(object.filter(name, std::slice::from_ref(separator)))
            }
            _ => no(format!("the method `{}`", shortened(name))),
        }
    }
}

fn pick(list: &Expr, field: &str) -> Expr {
    let attribute = Expr::atom(format!("attribute={}", quoted(field)));
    list.filter("map", &[attribute]).filter("list", &[])
}

fn has_each(ast: &Ast) -> bool {
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

/// `format('{0} of {1}', …)`.
fn format(template: &str, values: &[Expr]) -> Emitted {
    let mut all = Vec::new();
    let mut add = |piece: Expr| all.push(piece);
    let mut rest = template;
    while let Some(at) = rest.find(['{', '}']) {
        if at > 0 {
            add(Expr::literal(&json!(rest[..at])));
        }
        rest = &rest[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            add(Expr::literal(&json!(rest[..1])));
            rest = &rest[2..];
            continue;
        }
        let end = rest.find('}').filter(|_| rest.starts_with('{'));
        let number = end.and_then(|end| rest[1..end].parse::<usize>().ok());
        let (Some(end), Some(value)) = (end, number.and_then(|number| values.get(number))) else {
            return no("this text of `format`");
        };
        add(value.clone());
        rest = &rest[end + 1..];
    }
    if !rest.is_empty() {
        add(Expr::literal(&json!(rest)));
    }
    Ok(Expr::concat(all))
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
