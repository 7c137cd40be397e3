//! What a state makes of its data: `InputPath`, `Parameters`, `ResultSelector`, `ResultPath`,
//! `OutputPath`, `Assign`.

use serde_json::{Value, json};
use waypost_lang::{Tree, TreeValue};

use super::path::PathRoot;
use super::{MachineScope, Problem};
use crate::expr::{Expr, Shape};
use crate::json_path::{self, PathStep};
use crate::read::SourceFields;
use crate::target::TargetNode;

const ADVICE: &str = "write the expression by hand";

/// Steps of a path that a result is put at.
const PATH_STEPS_MAX: usize = 16;

/// A state that is being converted.
#[derive(Clone, Copy, Debug)]
pub(super) struct StateView<'t> {
    pub(super) name: &'t str,
    pub(super) tree: &'t Tree,
    /// All states of its machine.
    pub(super) states: &'t Tree,
    pub(super) scope: &'t MachineScope,
}

impl<'t> StateView<'t> {
    /// What paths in the state are relative to.
    pub(super) fn root(&self, root: impl Into<Shape>) -> PathRoot<'t> {
        PathRoot { root: root.into(), state: self.name, scope: self.scope }
    }

    /// The value of a field that is a path.
    pub(super) fn path(
        &self,
        field: &str,
        root: impl Into<Shape>,
    ) -> Result<Option<Expr>, Problem<'t>> {
        let Some(at) = self.tree.get(field) else { return Ok(None) };
        let text = at.as_text().ok_or_else(|| {
            Problem::new(at, format!("`{field}` is no path"), "write a path that begins with `$`")
        })?;
        let found = self.root(root).eval(text);
        found.map(Some).map_err(|message| Problem::new(at, message, ADVICE))
    }

    /// `InputPath`: all, nothing, or a part.
    pub(super) fn input(&self) -> Result<Expr, Problem<'t>> {
        self.part("InputPath", &self.scope.data().into())
    }

    fn part(&self, field: &str, of: &Shape) -> Result<Expr, Problem<'t>> {
        if self.is_null(field) {
            return Ok(Expr::atom("{}"));
        }
        Ok(self.path(field, of.clone())?.unwrap_or_else(|| of.to_expr()))
    }

    pub(super) fn is_null(&self, field: &str) -> bool {
        let entry = self.tree.entries().iter().find(|entry| entry.key == field);
        entry.is_some_and(|entry| matches!(entry.value.value, TreeValue::Null))
    }

    /// A payload template in this field, or else the value itself.
    pub(super) fn template(&self, field: &str, root: &Expr) -> Result<Shape, Problem<'t>> {
        let Some(at) = self.tree.get(field) else { return Ok(Shape::Expr(root.clone())) };
        let shape = self.root(root.clone()).template(&at.json());
        shape.map_err(|message| Problem::new(at, message, ADVICE))
    }

    /// What the state is given.
    pub(super) fn effective_input(&self) -> Result<Shape, Problem<'t>> {
        let input = self.input()?;
        self.template("Parameters", &input)
    }

    /// The data after the state, from its result; `None` if it stays as it is.
    pub(super) fn data_after(&self, result: &Shape) -> Result<Option<Shape>, Problem<'t>> {
        let selected = match self.tree.get("ResultSelector") {
            Some(at) => {
                let shape = self.root(result.clone()).template(&at.json());
                shape.map_err(|message| Problem::new(at, message, ADVICE))?
            }
            None => result.clone(),
        };
        let data = self.scope.data();
        let whole = match self.tree.text("ResultPath") {
            _ if self.is_null("ResultPath") => None,
            None | Some("$") => Some(selected),
            Some(_) => {
                Some(Shape::Expr(self.placed("ResultPath", self.tree, &selected.to_expr())?))
            }
        };
        let has_output_path = self.tree.has("OutputPath");
        match whole {
            Some(shape) if !has_output_path => Ok(Some(shape)),
            Some(shape) => Ok(Some(Shape::Expr(self.part("OutputPath", &shape)?))),
            None if has_output_path => {
                Ok(Some(Shape::Expr(self.part("OutputPath", &data.into())?)))
            }
            None => Ok(None),
        }
    }

    /// The data with a result at a reference path.
    pub(super) fn placed(
        &self,
        field: &str,
        within: &'t Tree,
        result: &Expr,
    ) -> Result<Expr, Problem<'t>> {
        let at = within.get(field).unwrap_or(within);
        let bad = |message: String| Problem::new(at, message, ADVICE);
        let text = at.as_text().unwrap_or_default();
        let rest = text.strip_prefix('$').unwrap_or(text);
        let mut keys = Vec::new();
        for step in json_path::parse(rest).map_err(bad)? {
            let PathStep::Key(key) = step else {
                return Err(bad(format!("`{field}` may only have fields")));
            };
            keys.push(key);
        }
        if keys.len() > PATH_STEPS_MAX {
            return Err(bad(format!("`{field}` has too many steps")));
        }
        Ok(insert(&self.scope.data(), &keys, result, true))
    }

    /// `Assign`: variables of the workflow.
    pub(super) fn assign(
        &self,
        place: &'t Tree,
        root: &Expr,
        node: &mut TargetNode,
    ) -> Result<(), Problem<'t>> {
        let Some(at) = place.get("Assign") else { return Ok(()) };
        let shape = self.root(root.clone()).template(&at.json());
        let shape = shape.map_err(|message| Problem::new(at, message, ADVICE))?;
        let fields: Vec<(String, Value)> = match shape {
            Shape::Object(fields) => {
                fields.into_iter().map(|(key, value)| (key, value.to_value())).collect()
            }
            Shape::Constant(Value::Object(map)) => map
                .into_iter()
                .map(|(key, value)| (key, Shape::Constant(value).to_value()))
                .collect(),
            _ => Vec::new(),
        };
        for (name, value) in fields {
            let variable = self.scope.assigned.get(&name).cloned().unwrap_or(name);
            node.variables.insert(variable, value);
        }
        Ok(())
    }
}

fn insert(base: &Expr, keys: &[String], value: &Expr, is_root: bool) -> Expr {
    let Some((key, deeper)) = keys.split_first() else { return value.clone() };
    let inner = insert(&base.field(key), deeper, value, false);
    let base = if is_root { base.clone() } else { base.or_default(&json!({})) };
    base.merged(&Expr::object(&[(key, inner)]))
}

/// A number of seconds as a duration.
pub(super) fn seconds(count: f64) -> Value {
    crate::convert::millis(count * 1_000.0)
}
