//! Filters that pick from lists and maps, and `default`.

use std::sync::Arc;

use super::{Bound, find, path, path_if_any};
use crate::expr::budget::{Budget, Stop};
use crate::expr::checks;
use crate::expr::compare::{order_keys, sorted};
use crate::expr::value::{Items, Map, Value, items_of};

pub(super) fn default(value: &Value, bound: &Bound, _: &Budget) -> Result<Value, Stop> {
    let lax = bound.value(1).map_or(Ok(false), Value::truth)?;
    if value.is_undefined() || lax && !value.is_true() {
        return Ok(bound.value(0).cloned().unwrap_or_else(|| Value::text("")));
    }
    Ok(value.clone())
}

/// `map('upper')`, with arguments for the filter, or `map(attribute='id', default=0)`.
pub(super) fn map(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let named = |wanted: &str| {
        bound.named.iter().find(|(name, _)| **name == *wanted).map(|(_, value)| value)
    };
    let mut mapped = Items::new(budget);
    if let (Some(attribute), true) = (named("attribute"), bound.any.is_empty()) {
        let unknown = |(name, _): &&(Box<str>, Value)| !["attribute", "default"].contains(&&**name);
        if let Some((name, _)) = bound.named.iter().find(unknown) {
            return Err(Stop::failed(format!("map() has no argument `{name}`")));
        }
        let wanted = super::text_of(attribute, budget)?;
        for item in items_of(value, budget)?.iter() {
            let found = match (path(item, &wanted, budget), named("default")) {
                (Ok(Value::Undefined) | Err(Stop::Failed(_)), Some(default)) => default.clone(),
                (found, _) => found?,
            };
            mapped.push(found)?;
        }
        return mapped.finish();
    }
    let Some((Value::Text(name), arguments)) = bound.any.split_first() else {
        return Err(Stop::failed("map() needs the name of a filter, or an attribute"));
    };
    let filter = find(name).ok_or_else(|| Stop::failed(format!("there is no filter `{name}`")))?;
    let mut inner = Bound::new(filter);
    for argument in arguments {
        inner.push(argument.clone())?;
    }
    for (name, argument) in &bound.named {
        inner.name(name, argument.clone())?;
    }
    for item in items_of(value, budget)?.iter() {
        budget.work(4)?;
        mapped.push((filter.run)(item, &inner, budget)?)?;
    }
    mapped.finish()
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
pub(super) fn select(
    value: &Value,
    bound: &Bound,
    budget: &Budget,
    by_attribute: bool,
    wanted: bool,
) -> Result<Value, Stop> {
    if let Some((name, _)) = bound.named.first() {
        return Err(Stop::failed(format!("there is no argument `{name}`")));
    }
    let mut arguments = bound.any.as_slice();
    let mut attribute = None;
    if by_attribute {
        let Some((name, rest)) = arguments.split_first() else {
            return Err(Stop::failed("the name of an attribute is needed"));
        };
        attribute = Some(super::text_of(name, budget)?);
        arguments = rest;
    }
    let mut check = None;
    if let Some((name, rest)) = arguments.split_first() {
        let name = super::text_of(name, budget)?;
        let found = checks::find(&name);
        check = Some(found.ok_or_else(|| Stop::failed(format!("there is no test `{name}`")))?);
        arguments = rest;
    }
    let mut selected = Items::new(budget);
    for item in items_of(value, budget)?.iter() {
        let found;
        let tested = match &attribute {
            Some(attribute) => {
                found = path(item, attribute, budget)?;
                &found
            }
            None => item,
        };
        let holds = match check {
            Some(check) => check.holds(tested, arguments, budget)?,
            None => tested.is_true(),
        };
        if holds == wanted {
            selected.push(item.clone())?;
        }
    }
    selected.finish()
}

pub(super) fn groupby(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let Some(attribute) = bound.text(0)? else {
        return Err(Stop::failed("groupby() needs an attribute"));
    };
    let case_sensitive = bound.flag(2)?;
    let items = items_of(value, budget)?;
    let mut keys = Items::new(budget);
    for item in items.iter() {
        let key = path_if_any(item, Some(&attribute), budget)?;
        let default = bound.value(1).filter(|_| key.is_undefined());
        keys.push(default.cloned().unwrap_or(key))?;
    }
    let keys = keys.into_vec();
    let key = |at: usize| keys.get(at).unwrap_or(&Value::Undefined);
    let places =
        sorted(items.len(), budget, |a, b| order_keys(key(a), key(b), case_sensitive, budget))?;
    let mut groups = Items::new(budget);
    let mut places = places.into_iter().peekable();
    while let Some(first) = places.next() {
        let mut group = Items::new(budget);
        group.push(items.get(first).cloned().unwrap_or(Value::Undefined))?;
        let mut last = first;
        while let Some(next) = places.peek().copied() {
            if order_keys(key(first), key(next), case_sensitive, budget)?.is_ne() {
                break;
            }
            group.push(items.get(next).cloned().unwrap_or(Value::Undefined))?;
            last = next;
            places.next();
        }
        let mut pair = Items::new(budget);
        pair.push(key(last).clone())?;
        pair.push(group.finish()?)?;
        groups.push(Value::named_list(pair.into_vec(), &["grouper", "list"], budget)?)?;
    }
    groups.finish()
}

fn entries<'a>(value: &'a Value, filter: &str) -> Result<&'a Arc<Map>, Stop> {
    match value.defined()? {
        Value::Map(map) => Ok(map),
        other => Err(Stop::failed(format!("{filter}() needs a map, not {}", other.kind()))),
    }
}

pub(super) fn items(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let mut pairs = Items::new(budget);
    for (key, value) in &entries(value, "items")?.entries {
        let mut pair = Items::new(budget);
        pair.push(key.to_value())?;
        pair.push(value.clone())?;
        pairs.push(pair.finish()?)?;
    }
    pairs.finish()
}

pub(super) fn dictsort(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let map = entries(value, "dictsort")?;
    let (case_sensitive, reverse) = (bound.flag(0)?, bound.flag(2)?);
    let by_value = bound.text(1)?.as_deref() == Some("value");
    let mut keys = Items::new(budget);
    for (key, value) in &map.entries {
        keys.push(if by_value { value.clone() } else { key.to_value() })?;
    }
    let keys = keys.into_vec();
    let key = |at: usize| keys.get(at).unwrap_or(&Value::Undefined);
    let places = sorted(keys.len(), budget, |a, b| {
        let found = order_keys(key(a), key(b), case_sensitive, budget)?;
        Ok(if reverse { found.reverse() } else { found })
    })?;
    let mut pairs = Items::new(budget);
    for place in places {
        let Some((key, value)) = map.entries.get(place) else { continue };
        let mut pair = Items::new(budget);
        pair.push(key.to_value())?;
        pair.push(value.clone())?;
        pairs.push(pair.finish()?)?;
    }
    pairs.finish()
}
