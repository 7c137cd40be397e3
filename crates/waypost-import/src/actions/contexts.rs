//! `${{ … }}` of Actions: contexts and functions, as ours.

use serde_json::Value;
use waypost_lang::Tree;

use super::{ADVICE, Converter, JobScope, Problem};
use crate::expr::{Expr, Shape};
use crate::names;
use crate::report::shortened;
use crate::script::{self, Language, ScriptNames};

impl Converter<'_, '_> {
    /// A value that becomes text, with expressions in it.
    pub(super) fn text<'t>(&self, at: &'t Tree, scope: &JobScope) -> Result<Shape, Problem<'t>> {
        let bad = |message: String| Problem::new(at, message, ADVICE);
        let text = match at.as_text() {
            Some(text) => text.to_owned(),
            None => match at.to_json() {
                value @ (Value::Bool(_) | Value::Number(_)) => value.to_string(),
                Value::Null => String::new(),
                _ => return Err(bad("a text is expected".to_owned())),
            },
        };
        self.template(&text, scope).map_err(bad)
    }

    /// A text with expressions in it.
    pub(super) fn template(&self, text: &str, scope: &JobScope) -> Result<Shape, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, inner)) = rest.split_once("${{") {
            let end = end_of(inner).ok_or_else(|| "`${{` has no end".to_owned())?;
            let (source, after) = (&inner[..end], &inner[end + 2..]);
            parts.push((before.to_owned(), Some(self.expression(source.trim(), scope)?)));
            rest = after;
        }
        if parts.is_empty() {
            return Ok(Shape::Constant(Value::from(text)));
        }
        // What is alone keeps its type; the environment takes numbers and booleans, too.
        if let [(before, Some(expr))] = &parts[..]
            && before.is_empty()
            && rest.is_empty()
        {
            return Ok(Shape::Expr(expr.clone()));
        }
        parts.push((rest.to_owned(), None));
        Ok(Shape::Text(parts))
    }

    pub(super) fn expression(&self, source: &str, scope: &JobScope) -> Result<Expr, String> {
        let resolve = |name: &str, fields: &[String]| self.context(name, fields, scope);
        let names = ScriptNames { language: Language::Actions, dot: None, resolve: &resolve };
        let found =
            script::parse(source, Language::Actions).and_then(|ast| script::emit(&ast, &names));
        found.map_err(|message| format!("the expression `{}`: {message}", shortened(source)))
    }

    /// A condition, with or without braces.
    pub(super) fn condition<'t>(
        &mut self,
        at: &'t Tree,
        scope: &JobScope,
    ) -> Result<Option<Expr>, Problem<'t>> {
        let flag = at.to_json();
        let text = match (at.as_text(), &flag) {
            (Some(text), _) => text.trim(),
            (None, Value::Bool(true)) => return Ok(None),
            (None, Value::Bool(false)) => return Ok(Some(Expr::atom("false"))),
            _ => return Err(Problem::new(at, "the condition cannot be read", ADVICE)),
        };
        let inner = text.strip_prefix("${{").and_then(|text| text.strip_suffix("}}"));
        let source = inner.map_or(text, str::trim);
        if source == "success()" || source.is_empty() {
            return Ok(None);
        }
        let compares = ["==", "!=", "contains", "startsWith", "endsWith"];
        if source.contains('\'') && compares.iter().any(|word| source.contains(word)) {
            let message = "texts are compared with their case, which Actions ignores";
            self.report.different(at, message, "use `| lower` on both sides");
        }
        let resolve = |name: &str, fields: &[String]| self.context(name, fields, scope);
        let names = ScriptNames { language: Language::Actions, dot: None, resolve: &resolve };
        let found = script::parse(source, Language::Actions).and_then(|ast| names.truth(&ast));
        found.map(Some).map_err(|message| {
            let message = format!("the condition `{}`: {message}", shortened(source));
            Problem::new(at, message, "use `onError` for what follows a failure")
        })
    }

    fn context(
        &self,
        name: &str,
        fields: &[String],
        scope: &JobScope,
    ) -> Result<(Shape, usize), String> {
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let expr = |expr: Expr, used: usize| Ok((Shape::Expr(expr), used));
        let input = Expr::atom("input");
        match (name, &fields[..]) {
            ("inputs", [input, ..]) => expr(self.input(input), 1),
            ("github", ["event", "inputs", input, ..]) => expr(self.input(input), 3),
            ("github", ["event", ..]) if self.by_push => expr(input, 1),
            ("github", ["ref"]) if self.by_push => expr(input.field("ref"), 1),
            ("github", ["sha"]) if self.by_push => expr(input.field("after"), 1),
            ("github", ["repository"]) if self.by_push => {
                expr(input.field("repository").field("full_name"), 1)
            }
            ("github", ["actor"]) if self.by_push => expr(input.field("sender").field("login"), 1),
            ("github", ["run_id"]) => expr(Expr::atom("execution.id"), 1),
            ("github", ["workflow"]) => expr(Expr::atom("execution.workflow"), 1),
            ("secrets", [secret]) => expr(Expr::atom("secrets").field(&names::secret(secret)), 1),
            ("matrix", _) if scope.has_matrix => expr(Expr::atom("item"), 0),
            ("strategy", ["job-index"]) if scope.has_matrix => expr(Expr::atom("index"), 1),
            ("env", [variable]) => match scope.env.get(*variable) {
                Some(value) => Ok((value.clone(), 1)),
                None => Err(format!("`env.{}` is not set here", shortened(variable))),
            },
            ("steps", [step, "outputs", output]) => match scope.steps.get(*step) {
                Some(node) => expr(output_of(node, output), 3),
                None => Err(format!("there is no step `{}` before", shortened(step))),
            },
            ("needs", [job, "outputs", ..]) => match scope.needs.get(*job) {
                Some(node) => expr(Expr::output_of(node), 2),
                None => Err(format!("the job `{}` is not in `needs`", shortened(job))),
            },
            _ => {
                let whole = std::iter::once(name).chain(fields).collect::<Vec<_>>().join(".");
                Err(format!("`{}` has no counterpart", shortened(&whole)))
            }
        }
    }

    fn input(&self, name: &str) -> Expr {
        let value = Expr::atom("input").field(name);
        match self.inputs.get(name) {
            Some(default) => value.filter("default", &[Expr::literal(default)]),
            None => value,
        }
    }
}

/// The value that a step wrote as `name=value`; the last one counts.
fn output_of(node: &str, name: &str) -> Expr {
    let lines = Expr::output_of(node).field("stdout").filter("lines", &[]);
    let prefix = format!("{name}=");
    let own = [Expr::atom("'startingwith'"), Expr::literal(&Value::from(prefix.as_str()))];
    let line = lines.filter("select", &own).filter("last", &[]);
    let line = line.filter("default", &[Expr::atom("''")]);
    line.slice(&prefix.chars().count().to_string(), "")
}

/// The bytes before `}}`, which may also be in a text.
fn end_of(source: &str) -> Option<usize> {
    let mut quoted = false;
    for (at, c) in source.char_indices() {
        match c {
            '\'' => quoted = !quoted,
            '}' if !quoted && source[at..].starts_with("}}") => return Some(at),
            _ => {}
        }
    }
    None
}
