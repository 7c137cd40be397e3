//! Functions of jq, and its lists of what each item gives.

use serde_json::Value;

use super::Ast;
use super::emit::{Emitted, ScriptNames, has_each, no};
use crate::expr::{Expr, quoted};
use crate::report::shortened;

impl ScriptNames<'_> {
    pub(super) fn jq_call(&self, name: &str, arguments: &[Ast]) -> Emitted {
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
    pub(super) fn collect(&self, inner: &Ast) -> Emitted {
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
}

fn pick(list: &Expr, field: &str) -> Expr {
    let attribute = Expr::atom(format!("attribute={}", quoted(field)));
    list.filter("map", &[attribute]).filter("list", &[])
}
