//! Functions of Actions, and functions and methods of JavaScript.

use serde_json::{Value, json};

use super::Ast;
use super::emit::{Emitted, ScriptNames, no};
use crate::expr::Expr;
use crate::report::shortened;

impl ScriptNames<'_> {
    pub(super) fn actions_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
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

    pub(super) fn script_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
        match (name, &self.all(arguments)?[..]) {
            ("String", [value]) => Ok(value.to_text()),
            ("Number" | "parseFloat", [value]) => Ok(value.filter("float", &[])),
            ("parseInt", [value, ..]) => Ok(value.filter("int", &[])),
            ("Boolean", [_]) => self.truth(&arguments[0]),
            _ => no(format!("the function `{}`", shortened(name))),
        }
    }

    pub(super) fn method(&self, object: &Ast, name: &str, arguments: &[Ast]) -> Emitted {
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
