//! Expressions: the expressions of Jinja, with an evaluation that always ends.
//!
//! ```text
//!   "nodes.a.output.n > 3"          Expression   (bare, in conditions and filters)
//!   "Hello ${{ input.name }}"       Template     (text with holes, or a whole JSON tree of them)
//! ```
//!
//! An [`Expression`] is compiled once, knows which nodes and names it refers to, and is evaluated
//! against a [`Scope`] that holds just those. The language is that of minijinja, but parser, filters
//! and evaluation are our own, because evaluation must be total: brackets nest to a bounded depth,
//! and every step pays from a budget of work and of memory before it is taken. A result is never
//! evaluated again. Secrets are in no scope: `secrets.<name>` marks a place in a rendered config (a
//! [`Placeholder`]), and that is all that is ever known of it here.
//!
//! ```text
//!   source ─ lexer ─ parser ─▶ ast            references: what a source mentions
//!   payload ─ read ─▶ value ─ eval, operators, filters, checks ─▶ value ─ write ─▶ JSON
//! ```

mod ast;
mod budget;
mod checks;
mod compare;
mod contents;
mod eval;
mod filters;
mod lexer;
mod number;
mod operators;
mod parser;
mod paths;
mod read;
mod references;
mod required;
mod scope;
mod template;
mod value;
mod write;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use budget::{MEMORY_BYTES_MAX, WORK_MAX};
pub use contents::{Contents, FetchedContent, ITEMS_PAGE, Wanted};
pub use filters::is_function;
pub use parser::NESTING_MAX;
pub use paths::{PathRef, Step};
pub use references::{NodeRef, References, SecretRef};
pub use scope::{Payloads, Scope, ScopeNode};
pub use template::{Placeholder, Rendered, Template, TemplateFault};

use budget::Stop;
use eval::Evaluation;
use value::Value;
use write::Style;

use crate::failure::{Failure, kind};
use crate::json::{BadJson, Json};

/// Longest source of one expression, in bytes.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024;
/// Largest result of one evaluation, as JSON text.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// A compiled expression.
pub struct Expression {
    source: Arc<str>,
    node: ast::ExprNode,
    references: References,
}

/// Why a source is not an expression, and where in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionFault {
    pub message: String,
    /// The bytes of the source that are meant.
    pub range: Range<usize>,
}

impl Expression {
    /// Compiles a bare expression.
    pub fn compile(source: &str) -> Result<Self, ExpressionFault> {
        let fault = |message| Err(ExpressionFault { message, range: 0..source.len() });
        if source.len() > SOURCE_BYTES_MAX {
            return fault(format!("an expression may have at most {SOURCE_BYTES_MAX} bytes"));
        }
        if source.trim().is_empty() {
            return fault("the expression is empty".to_owned());
        }
        let tokens = lexer::tokens(source)?;
        let references = References::scan(&tokens)?;
        let node = parser::parse(&tokens)?;
        Ok(Self { source: source.into(), node, references })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its references.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// The secret of this expression, if it is `secrets.<name>` and nothing else; or `callback.<field>`,
    /// which is filled in at the same place and has a dot in its name.
    pub fn secret(&self) -> Option<&str> {
        let References { secrets, callbacks, .. } = &self.references;
        secrets.first().or_else(|| callbacks.first())?.name.as_deref()
    }

    /// Evaluates to a JSON text.
    pub fn eval(&self, scope: &Scope) -> Result<Json, Failure> {
        let mut text = String::new();
        self.write(scope, &mut text)?;
        Json::parse_own(&text)
            .map_err(|error| self.failure(&format!("gave a value that cannot be kept: {error}")))
    }

    /// Evaluates to a JSON boolean; anything else is a failure, there is no truthiness.
    pub fn eval_bool(&self, scope: &Scope) -> Result<bool, Failure> {
        let value = self.inside(scope, self.eval_value(scope)?)?;
        let Value::Bool(value) = value else {
            let what = format!("gave {} where true or false is needed", value.kind());
            return Err(self.failure(&what));
        };
        Ok(value)
    }

    fn eval_value(&self, scope: &Scope) -> Result<Value, Failure> {
        let evaluation = Evaluation { scope, budget: scope.budget() };
        match evaluation.value(&self.node) {
            Ok(Value::Undefined) => {
                Err(self.failure("is undefined; use default() if it may be missing"))
            }
            Ok(value) => Ok(value),
            Err(stop) => Err(self.stopped(&stop)),
        }
    }

    /// Evaluates, and writes the value as JSON.
    fn write(&self, scope: &Scope, out: &mut String) -> Result<(), Failure> {
        let value = self.eval_value(scope)?;
        write::json(&value, Style::Compact, out, scope.budget()).map_err(|stop| self.stopped(&stop))
    }

    /// Evaluates, and writes the value as part of a JSON string: strings as they are, all else as
    /// JSON.
    fn write_inside(&self, scope: &Scope, out: &mut String) -> Result<(), Failure> {
        let value = self.inside(scope, self.eval_value(scope)?)?;
        let budget = scope.budget();
        let written = match &value {
            Value::Text(text) => write::escaped(text, false, out, budget),
            other => {
                let mut text = String::new();
                write::json(other, Style::Compact, &mut text, budget)
                    .and_then(|()| write::escaped(&text, false, out, budget))
            }
        };
        written.map_err(|stop| self.stopped(&stop))
    }

    /// The content, if the value is a reference.
    fn inside(&self, scope: &Scope, value: Value) -> Result<Value, Failure> {
        scope.inside(value).map_err(|stop| self.stopped(&stop))
    }

    fn stopped(&self, stop: &Stop) -> Failure {
        let short = self.short();
        let (kind, message) = match stop {
            Stop::Failed(what) => return self.failure(what),
            Stop::Blob(failure) => {
                let message = format!("expression `{short}`: {}", failure.message);
                return Failure { message, ..(**failure).clone() };
            }
            Stop::Limit(what) => (kind::EXPRESSION_LIMIT, format!("expression `{short}`: {what}")),
            Stop::Range => (
                kind::NUMBER_OUT_OF_RANGE,
                format!(
                    "expression `{short}` computes with a number that does not fit into 64 bits"
                ),
            ),
        };
        Failure::permanent(kind, message)
    }

    fn failure(&self, what: &str) -> Failure {
        Failure::permanent(kind::EXPRESSION, format!("expression `{}`: {what}", self.short()))
    }

    fn short(&self) -> String {
        if self.source.chars().count() <= 80 {
            return self.source.to_string();
        }
        self.source.chars().take(79).chain(['…']).collect()
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.source)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl From<BadJson> for Failure {
    fn from(error: BadJson) -> Self {
        let message = error.to_string();
        let is_range = message.contains("number out of range");
        let kind = if is_range { kind::NUMBER_OUT_OF_RANGE } else { kind::EXPRESSION };
        Self::permanent(kind, message)
    }
}

#[cfg(test)]
mod tests;
