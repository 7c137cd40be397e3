//! Evaluation: a walk over the tree that pays for every step before it takes it.

use super::ast::{Arguments, Comparison, ExprNode, Operator, Step};
use super::budget::{Budget, Stop};
use super::filters::{self, Bound};
use super::operators;
use super::scope::Scope;
use super::value::{Items, Key, Value};

pub(super) struct Evaluation<'a> {
    pub(super) scope: &'a Scope,
    pub(super) budget: &'a Budget,
}

impl Evaluation<'_> {
    pub(super) fn value(&self, node: &ExprNode) -> Result<Value, Stop> {
        self.budget.work(4)?;
        match node {
            ExprNode::Const(value) => Ok(value.clone()),
            ExprNode::Name(name) => Ok(self.walk(name, &[])?.0),
            ExprNode::List(nodes) => {
                Items::all(nodes.iter().map(|node| self.value(node)), self.budget)?.finish()
            }
            ExprNode::Map(nodes) => self.map(nodes),
            ExprNode::Not(times, node) => self.not(*times, node),
            ExprNode::Negate(times, node) => self.negate(*times, node),
            ExprNode::Binary(first, more) => self.binary(first, more),
            ExprNode::Compare(first, more) => self.compare(first, more),
            ExprNode::And(nodes) => self.first(nodes, false),
            ExprNode::Or(nodes) => self.first(nodes, true),
            ExprNode::If(arms, otherwise) => self.choose(arms, otherwise.as_deref()),
            ExprNode::Steps(first, steps) => self.steps(first, steps),
        }
    }

    // Each has its own stack frame: expressions nest, and that of `value` is in every level.

    fn not(&self, times: usize, node: &ExprNode) -> Result<Value, Stop> {
        self.budget.work(times)?;
        let value = self.inside_of(self.value(node)?)?;
        Ok(Value::Bool(value.truth()? != (times % 2 == 1)))
    }

    fn negate(&self, times: usize, node: &ExprNode) -> Result<Value, Stop> {
        let mut value = self.inside_of(self.value(node)?)?;
        for _ in 0..times {
            value = operators::negate(&value, self.budget)?;
        }
        Ok(value)
    }

    fn binary(&self, first: &ExprNode, more: &[(Operator, ExprNode)]) -> Result<Value, Stop> {
        let mut value = self.inside_of(self.value(first)?)?;
        for (operator, node) in more {
            let right = self.inside_of(self.value(node)?)?;
            value = operators::binary(*operator, &value, &right, self.budget)?;
        }
        Ok(value)
    }

    fn compare(&self, first: &ExprNode, more: &[(Comparison, ExprNode)]) -> Result<Value, Stop> {
        let mut left = self.inside_of(self.value(first)?)?;
        for (comparison, node) in more {
            let right = self.inside_of(self.value(node)?)?;
            let judges = self.scope.now().is_some();
            if judges && !operators::comparable(*comparison, &left, &right) {
                return Ok(Value::Bool(comparison.is_negated()));
            }
            if !operators::compare(*comparison, &left, &right, self.budget)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn choose(
        &self,
        arms: &[(ExprNode, ExprNode)],
        otherwise: Option<&ExprNode>,
    ) -> Result<Value, Stop> {
        for (condition, value) in arms {
            if self.inside_of(self.value(condition)?)?.truth()? {
                return self.value(value);
            }
        }
        otherwise.map_or(Ok(Value::Undefined), |node| self.value(node))
    }

    /// The content, if the value is a reference.
    fn inside_of(&self, value: Value) -> Result<Value, Stop> {
        if matches!(value, Value::Blob(_)) { self.scope.inside(value) } else { Ok(value) }
    }

    /// The first value that counts as `wanted`, else the last one.
    fn first(&self, nodes: &[ExprNode], wanted: bool) -> Result<Value, Stop> {
        let Some((last, before)) = nodes.split_last() else { return Ok(Value::Undefined) };
        for node in before {
            let value = self.value(node)?;
            if self.scope.inside(value.clone())?.truth()? == wanted {
                return Ok(value);
            }
        }
        self.value(last)
    }

    fn map(&self, nodes: &[(ExprNode, ExprNode)]) -> Result<Value, Stop> {
        let mut entries = Vec::new();
        for (key, value) in nodes {
            self.budget.bytes(128)?;
            let key = self.inside_of(self.value(key)?)?;
            let key = Key::of(key.defined()?).ok_or_else(|| {
                Stop::failed(format!("a key must be a text or an integer, not {}", key.kind()))
            })?;
            entries.push((key, self.value(value)?));
        }
        Value::map(entries, self.budget)
    }

    fn steps(&self, first: &ExprNode, steps: &[Step]) -> Result<Value, Stop> {
        let (mut value, rest) = match first {
            ExprNode::Name(name) => self.walk(name, steps)?,
            node => (self.value(node)?, steps),
        };
        for step in rest {
            if !step.takes_references() {
                value = self.scope.inside(value)?;
            }
            value = self.step(&value, step)?;
        }
        Ok(value)
    }

    /// A name with the steps that lead to a payload: only that one is read, not its neighbours.
    fn walk<'n>(&self, name: &str, steps: &'n [Step]) -> Result<(Value, &'n [Step]), Stop> {
        if let [Step::Call(arguments), rest @ ..] = steps {
            let now = self.scope.now();
            let Some(function) = filters::find_function(name, now.is_some()) else {
                return Err(Stop::failed(no_function(name, now.is_some())));
            };
            let bound = self.bind(function, arguments)?;
            let now = now.map_or(Value::Undefined, |now| Value::Int(now.0.into()));
            return Ok(((function.run)(&now, &bound, self.budget)?, rest));
        }
        let Some(entry) = self.scope.find(name) else { return Ok((Value::Undefined, steps)) };
        let mut entry = entry.clone();
        let mut rest = steps;
        while entry.is_tree() {
            self.budget.work(4)?;
            let (found, more) = match rest {
                [Step::Attribute(name), more @ ..] => (entry.get(name), more),
                [Step::Item(node), more @ ..] => match self.inside_of(self.value(node)?)? {
                    Value::Text(name) => (entry.get(&name), more),
                    key => {
                        key.defined()?;
                        (None, more)
                    }
                },
                _ => break,
            };
            let Some(found) = found else { return Ok((Value::Undefined, more)) };
            (entry, rest) = (found, more);
        }
        Ok((entry.read(self.budget)?, rest))
    }

    fn step(&self, value: &Value, step: &Step) -> Result<Value, Stop> {
        self.budget.work(4)?;
        let missing = matches!(value, Value::Undefined | Value::None);
        match step {
            Step::Attribute(_) | Step::Item(_) if missing && self.scope.now().is_some() => {
                Ok(Value::Undefined)
            }
            Step::Attribute(name) => operators::attribute(value, name, self.budget),
            Step::Item(node) => {
                let key = self.inside_of(self.value(node)?)?;
                operators::item(value, &key, self.budget)
            }
            Step::Slice(parts) => {
                let part = |part: &Option<ExprNode>| match part {
                    Some(node) => self.inside_of(self.value(node)?),
                    None => Ok(Value::None),
                };
                let [start, stop, step] = &**parts;
                operators::slice(value, &[part(start)?, part(stop)?, part(step)?], self.budget)
            }
            Step::Call(_) => {
                Err(Stop::failed("values have no methods; use a filter: `input.name | upper`"))
            }
            Step::Filter(filter, arguments) => {
                let bound = self.bind(filter, arguments)?;
                (filter.run)(value, &bound, self.budget)
            }
            Step::Test(check, arguments) => {
                let values =
                    arguments.positional.iter().map(|node| self.inside_of(self.value(node)?));
                let values = values.collect::<Result<Vec<_>, _>>()?;
                if let Some((name, _)) = arguments.named.first() {
                    return Err(Stop::failed(format!("a test has no argument `{name}`")));
                }
                Ok(Value::Bool(check.holds(value, &values, self.budget)?))
            }
            Step::Not => Ok(Value::Bool(!value.truth()?)),
        }
    }

    fn bind(&self, filter: &filters::Filter, arguments: &Arguments) -> Result<Bound, Stop> {
        let mut bound = Bound::new(filter);
        for node in &arguments.positional {
            bound.push(self.inside_of(self.value(node)?)?)?;
        }
        for (name, node) in &arguments.named {
            bound.name(name, self.inside_of(self.value(node)?)?)?;
        }
        Ok(bound)
    }
}

/// Says that there is no such function.
pub(super) fn no_function(name: &str, timed: bool) -> String {
    let known = if timed { "there are `range` and `ago`" } else { "`range` is the only one" };
    format!("there is no function `{name}`; {known}")
}
