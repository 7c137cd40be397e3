//! Expressions: minijinja's expression language, fenced in.
//!
//! ```text
//!   "nodes.a.output.n > 3"          Expression   (bare, in conditions and filters)
//!   "Hello ${{ input.name }}"       Template     (text with holes, or a whole JSON tree of them)
//! ```
//!
//! An [`Expression`] is compiled once, knows which nodes and names it refers to, and is evaluated
//! against a [`Scope`] that holds just those. Evaluation is total: fuel bounds the steps, filters
//! that could blow up memory are replaced by capped ones, and the size of every result is checked.
//! A result is never evaluated again. Jinja statements do not exist here: only expressions are ever
//! compiled. Secrets are in no scope: `secrets.<name>` marks a place in a rendered config (a
//! [`Placeholder`]), and that is all that is ever known of it here.

mod builtins;
mod references;
mod scope;
mod template;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, LazyLock};

use minijinja::{Environment, ErrorKind, UndefinedBehavior, Value};

pub use references::{NodeRef, References, SecretRef};
pub use scope::{Payloads, Scope, ScopeNode};
pub use template::{Placeholder, Rendered, Template, TemplateFault};

use crate::failure::{Failure, kind};
use crate::json::{BadJson, Json};

/// Longest source of one expression, in bytes.
pub const SOURCE_BYTES_MAX: usize = 8 * 1024;
/// Instructions that one evaluation may execute.
pub const FUEL: u64 = 100_000;
/// Largest result of one evaluation, as JSON text.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// The one environment: the filters that may be used, and no loader, so that nothing is included.
static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(FUEL));
    environment.set_recursion_limit(64);
    builtins::install(&mut environment);
    environment
});

/// A compiled expression.
pub struct Expression {
    source: Arc<str>,
    compiled: minijinja::Expression<'static, 'static>,
    references: References,
}

/// Why a source is not an expression, and where in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ExpressionFault {
    /// What is wrong.
    pub message: String,
    /// The bytes of the source that are meant.
    pub range: Range<usize>,
}

impl Expression {
    /// Compiles a bare expression.
    pub fn compile(source: &str) -> Result<Self, ExpressionFault> {
        let whole = 0..source.len();
        if source.len() > SOURCE_BYTES_MAX {
            let message = format!("an expression may have at most {SOURCE_BYTES_MAX} bytes");
            return Err(ExpressionFault { message, range: whole });
        }
        if source.trim().is_empty() {
            return Err(ExpressionFault {
                message: "the expression is empty".into(),
                range: whole,
            });
        }
        let references = References::scan(source)?;
        let compiled = ENVIRONMENT
            .compile_expression_owned(source.to_owned())
            .map_err(|error| syntax_fault(&error, whole))?;
        builtins::refuse_unknown(&references, &ENVIRONMENT)?;
        Ok(Self { source: source.into(), compiled, references })
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What it refers to.
    pub fn references(&self) -> &References {
        &self.references
    }

    /// The secret that this expression stands for, where it is `secrets.<name>` and nothing else.
    pub fn secret(&self) -> Option<&str> {
        self.references.secrets.first()?.name.as_deref()
    }

    /// Evaluates to a JSON text.
    pub fn eval(&self, scope: &Scope) -> Result<Json, Failure> {
        self.to_json(&self.eval_value(scope)?)
    }

    /// Evaluates to a JSON boolean; anything else is a failure, there is no truthiness.
    pub fn eval_bool(&self, scope: &Scope) -> Result<bool, Failure> {
        let value = self.eval_value(scope)?;
        match value.kind() {
            minijinja::value::ValueKind::Bool => Ok(value.is_true()),
            other => Err(self.failure(&format!("gave {other} where true or false is needed"))),
        }
    }

    fn eval_value(&self, scope: &Scope) -> Result<Value, Failure> {
        let value = self.compiled.eval(scope.value()).map_err(|error| self.eval_failure(&error))?;
        if value.is_undefined() {
            return Err(self.failure("is undefined; use default() if it may be missing"));
        }
        Ok(value)
    }

    /// Evaluates to text for the inside of a string: strings as they are, all else as JSON.
    fn eval_text(&self, scope: &Scope) -> Result<String, Failure> {
        let value = self.eval_value(scope)?;
        match value.as_str() {
            Some(text) => Ok(text.to_owned()),
            None => Ok(self.to_json(&value)?.text().to_owned()),
        }
    }

    fn to_json(&self, value: &Value) -> Result<Json, Failure> {
        let mut sink = CappedSink { bytes: Vec::new(), overflow: false };
        match serde_json::to_writer(&mut sink, value) {
            Ok(()) => Json::parse_bytes(&sink.bytes).map_err(|error| {
                self.failure(&format!("gave a value that cannot be kept: {error}"))
            }),
            Err(_) if sink.overflow => Err(Failure::permanent(
                kind::EXPRESSION_LIMIT,
                format!("expression `{}` gave more than {RESULT_BYTES_MAX} bytes", self.short()),
            )),
            Err(error) => Err(self.failure(&format!("gave a value that is not JSON: {error}"))),
        }
    }

    fn eval_failure(&self, error: &minijinja::Error) -> Failure {
        let root = std::iter::successors(Some(error as &(dyn std::error::Error + 'static)), |e| {
            e.source()
        })
        .filter_map(|cause| cause.downcast_ref::<minijinja::Error>())
        .last()
        .unwrap_or(error);
        if root.kind() == ErrorKind::OutOfFuel {
            let message = format!("expression `{}` took more than {FUEL} steps", self.short());
            return Failure::permanent(kind::EXPRESSION_LIMIT, message);
        }
        let text = root.detail().map_or_else(|| root.kind().to_string(), ToOwned::to_owned);
        if text.contains(scope::NUMBER_OUT_OF_RANGE) {
            let message = format!("expression `{}` touched a number beyond 64 bits", self.short());
            return Failure::permanent(kind::NUMBER_OUT_OF_RANGE, message);
        }
        if text.contains(builtins::TOO_LARGE) {
            let message = format!("expression `{}`: {text}", self.short());
            return Failure::permanent(kind::EXPRESSION_LIMIT, message);
        }
        self.failure(&text)
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

fn syntax_fault(error: &minijinja::Error, whole: Range<usize>) -> ExpressionFault {
    let message = error.detail().map_or_else(|| error.kind().to_string(), ToOwned::to_owned);
    ExpressionFault { message, range: error.range().unwrap_or(whole) }
}

/// A writer that stops before a result grows beyond its cap.
struct CappedSink {
    bytes: Vec<u8>,
    overflow: bool,
}

impl std::io::Write for CappedSink {
    fn write(&mut self, more: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + more.len() > RESULT_BYTES_MAX {
            self.overflow = true;
            return Err(std::io::Error::other("result too large"));
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl From<BadJson> for Failure {
    fn from(error: BadJson) -> Self {
        Self::permanent(kind::EXPRESSION, error.to_string())
    }
}

#[cfg(test)]
mod tests;
