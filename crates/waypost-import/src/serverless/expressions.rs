//! Runtime expressions: `${ … }` of jq, in texts and inside of objects.

use serde_json::Value;
use waypost_lang::{Tree, TreeValue};

use super::{CONTEXT, Converter, ListScope};
use crate::expr::{Expr, Shape};
use crate::names;
use crate::report::shortened;
use crate::script::{self, Language, ScriptNames};

impl Converter<'_, '_> {
    /// A value, which may be an expression or have some in it, of this data.
    pub(super) fn evaluate(
        &self,
        tree: &Tree,
        data: &Shape,
        scope: &ListScope,
        task: &str,
    ) -> Result<Shape, String> {
        match &tree.value {
            TreeValue::Text { text, .. } => match expression_of(text) {
                Some(source) => self.jq(source, data, scope, task),
                None => Ok(Shape::Constant(Value::from(text.as_str()))),
            },
            TreeValue::List(items) => {
                let items: Result<Vec<Shape>, String> =
                    items.iter().map(|item| self.evaluate(item, data, scope, task)).collect();
                Ok(Shape::list(items?))
            }
            TreeValue::Map(entries) => {
                let fields: Result<Vec<(String, Shape)>, String> = entries
                    .iter()
                    .map(|e| Ok((e.key.clone(), self.evaluate(&e.value, data, scope, task)?)))
                    .collect();
                Ok(Shape::object(fields?))
            }
            _ => Ok(Shape::Constant(tree.to_json())),
        }
    }

    /// An expression of jq.
    pub(super) fn jq(
        &self,
        source: &str,
        data: &Shape,
        scope: &ListScope,
        task: &str,
    ) -> Result<Shape, String> {
        let resolve = |name: &str, fields: &[String]| self.name(name, fields, data, scope, task);
        let names =
            ScriptNames { language: Language::Jq, dot: Some(data.clone()), resolve: &resolve };
        let found =
            script::parse(source, Language::Jq).and_then(|ast| script::emit_shape(&ast, &names));
        found.map_err(|message| format!("the expression `{}`: {message}", shortened(source)))
    }

    /// A condition, with or without `${ }`.
    pub(super) fn condition(
        &self,
        source: &str,
        data: &Shape,
        scope: &ListScope,
        task: &str,
    ) -> Result<Expr, String> {
        let source = expression_of(source).unwrap_or(source);
        let resolve = |name: &str, fields: &[String]| self.name(name, fields, data, scope, task);
        let names =
            ScriptNames { language: Language::Jq, dot: Some(data.clone()), resolve: &resolve };
        let found = script::parse(source, Language::Jq).and_then(|ast| names.truth(&ast));
        found.map_err(|message| format!("the condition `{}`: {message}", shortened(source)))
    }

    fn name(
        &self,
        name: &str,
        fields: &[String],
        data: &Shape,
        scope: &ListScope,
        task: &str,
    ) -> Result<(Shape, usize), String> {
        let name = name.trim_start_matches('$');
        if let Some(known) = scope.names.get(name) {
            return Ok((known.clone(), 0));
        }
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        let atom = |text: &str, used: usize| Ok((Shape::Expr(Expr::atom(text)), used));
        match (name, &fields[..]) {
            ("context", _) if self.exports => Ok((Shape::Expr(Expr::variable(CONTEXT)), 0)),
            ("context", _) => atom("none", 0),
            ("output", _) => Ok((data.clone(), 0)),
            ("input", _) => match &self.input {
                Some(input) => Ok((input.clone(), 0)),
                None => Err("`$input` has no counterpart here".to_owned()),
            },
            ("secrets", [secret, ..]) => {
                Ok((Shape::Expr(Expr::atom("secrets").field(&names::secret(secret))), 1))
            }
            ("workflow", ["id", ..]) => atom("execution.id", 1),
            ("workflow", ["input", ..]) => atom("input", 1),
            ("workflow", ["startedAt", "iso8601", ..]) => atom("execution.startedAt", 2),
            ("workflow", ["definition", "document", "name", ..]) => atom("execution.workflow", 3),
            ("task", ["name", ..]) => Ok((Shape::Constant(Value::from(task)), 1)),
            _ => Err(format!("`${}` has no counterpart", shortened(name))),
        }
    }
}

/// What is between `${` and `}`, if that is all there is.
pub(super) fn expression_of(text: &str) -> Option<&str> {
    text.trim().strip_prefix("${")?.strip_suffix('}').map(str::trim)
}
