//! Filters about lists, and `range`.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::text::lower_case;
use super::{Bound, path_if_any};
use crate::expr::ast::Operator;
use crate::expr::budget::{Budget, Stop};
use crate::expr::compare::{order, order_keys, sorted};
use crate::expr::operators;
use crate::expr::value::{Items, Value, copied_items, items_of};

/// Largest list that `range` may build.
pub(in crate::expr) const RANGE_MAX: usize = 10_000;

pub(super) fn range(_: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let Some(lower) = bound.int(0)? else { return Err(Stop::failed("range() needs an end")) };
    let (mut next, end) = match bound.int(1)? {
        Some(upper) => (lower, upper),
        None => (0, lower),
    };
    let step = bound.int(2)?.unwrap_or(1);
    if step == 0 {
        return Err(Stop::failed("range() cannot go in steps of 0"));
    }
    let mut items = Items::new(budget);
    while if step > 0 { next < end } else { next > end } {
        if items.len() == RANGE_MAX {
            return Err(Stop::Limit(format!("a range would be larger than {RANGE_MAX} items")));
        }
        items.push(Value::Int(next))?;
        next = next.saturating_add(step);
    }
    items.finish()
}

pub(super) fn first(value: &Value, _: &Bound, _: &Budget) -> Result<Value, Stop> {
    Ok(match value.defined()? {
        Value::Text(text) => {
            text.chars().next().map(|first| Value::text(first.encode_utf8(&mut [0; 4])))
        }
        Value::List(list) => list.items.first().cloned(),
        Value::Map(map) => map.entries.first().map(|(key, _)| key.to_value()),
        other => return Err(none_of(other, "first")),
    }
    .unwrap_or(Value::Undefined))
}

pub(super) fn last(value: &Value, _: &Bound, _: &Budget) -> Result<Value, Stop> {
    Ok(match value.defined()? {
        Value::Text(text) => {
            text.chars().next_back().map(|last| Value::text(last.encode_utf8(&mut [0; 4])))
        }
        Value::List(list) => list.items.last().cloned(),
        other => return Err(none_of(other, "last")),
    }
    .unwrap_or(Value::Undefined))
}

fn none_of(value: &Value, which: &str) -> Stop {
    Stop::failed(format!("cannot get {which} item from {}", value.kind()))
}

pub(super) fn length(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let count = match value.defined()? {
        Value::Text(text) => {
            budget.scan(text.len())?;
            text.chars().count()
        }
        Value::List(list) => list.items.len(),
        Value::Map(map) => map.entries.len(),
        other => {
            let kind = other.kind();
            return Err(Stop::failed(format!("cannot calculate length of value of type {kind}")));
        }
    };
    Ok(Value::Int(count as i128))
}

pub(super) fn list(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    match value {
        Value::List(list) if list.names.is_empty() => Ok(value.clone()),
        other => Value::list(copied_items(other, budget)?, budget),
    }
}

pub(super) fn reverse(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    match value {
        Value::Undefined | Value::None => Ok(value.clone()),
        Value::Text(text) => {
            budget.text("the text", text.len())?;
            budget.chars(text.len())?;
            Ok(Value::Text(text.chars().rev().collect::<String>().into()))
        }
        other => {
            let mut items = copied_items(other, budget)?;
            items.reverse();
            Value::list(items, budget)
        }
    }
}

/// The items with the keys to compare them by.
fn keyed<'v>(
    value: &'v Value,
    attribute: Option<&str>,
    budget: &Budget,
) -> Result<(Cow<'v, [Value]>, Vec<Value>), Stop> {
    let items = items_of(value, budget)?;
    let mut keys = Items::new(budget);
    for item in items.iter() {
        keys.push(path_if_any(item, attribute, budget)?)?;
    }
    Ok((items, keys.into_vec()))
}

fn pick(items: &[Value], places: &[usize], budget: &Budget) -> Result<Value, Stop> {
    let mut picked = Items::new(budget);
    for place in places {
        picked.push(items.get(*place).cloned().unwrap_or(Value::Undefined))?;
    }
    picked.finish()
}

fn nothing() -> &'static Value {
    &Value::Undefined
}

pub(super) fn sort(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let (reverse, case_sensitive) = (bound.flag(0)?, bound.flag(1)?);
    let attribute = bound.text(2)?;
    let attributes: Vec<Option<&str>> = match &attribute {
        None => vec![None],
        Some(names) => {
            budget.bytes(names.len().saturating_mul(16))?;
            names.split(',').map(|name| Some(name.trim())).filter(|n| *n != Some("")).collect()
        }
    };
    let items = items_of(value, budget)?;
    let mut keys = Vec::new();
    for attribute in attributes {
        let (_, column) = keyed(value, attribute, budget)?;
        keys.push(column);
    }
    let places = sorted(items.len(), budget, |a, b| {
        let mut found = Ordering::Equal;
        for column in &keys {
            let key = |at: usize| column.get(at).unwrap_or(nothing());
            found = order_keys(key(a), key(b), case_sensitive, budget)?;
            if found.is_ne() {
                break;
            }
        }
        Ok(if reverse { found.reverse() } else { found })
    })?;
    pick(&items, &places, budget)
}

pub(super) fn unique(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let case_sensitive = bound.flag(0)?;
    let (items, mut keys) = keyed(value, bound.text(1)?.as_deref(), budget)?;
    for key in &mut keys {
        if let Value::Text(text) = key
            && !case_sensitive
        {
            budget.bytes(text.len().saturating_mul(2))?;
            lower_case(text, budget)?;
            *key = Value::Text(text.to_lowercase().into());
        }
    }
    let key = |at: usize| keys.get(at).unwrap_or(nothing());
    let places = sorted(items.len(), budget, |a, b| order(key(a), key(b), budget))?;
    // Equal ones are adjacent, the first of them first.
    let mut kept = vec![true; items.len()];
    for pair in places.windows(2) {
        let [a, b] = pair else { continue };
        if order(key(*a), key(*b), budget)?.is_eq()
            && let Some(kept) = kept.get_mut(*b)
        {
            *kept = false;
        }
    }
    let places: Vec<usize> =
        kept.iter().enumerate().filter(|(_, kept)| **kept).map(|(at, _)| at).collect();
    pick(&items, &places, budget)
}

pub(super) fn min(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    extreme(value, bound, budget, |found| found == Ordering::Less)
}

pub(super) fn max(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    extreme(value, bound, budget, |found| found != Ordering::Less)
}

fn extreme(
    value: &Value,
    bound: &Bound,
    budget: &Budget,
    replaces: fn(Ordering) -> bool,
) -> Result<Value, Stop> {
    let case_sensitive = bound.flag(0)?;
    let (items, keys) = keyed(value, bound.text(1)?.as_deref(), budget)?;
    let mut best: Option<(&Value, &Value)> = None;
    for (item, key) in items.iter().zip(&keys) {
        let better = match best {
            None => true,
            Some((_, best)) => replaces(order_keys(key, best, case_sensitive, budget)?),
        };
        if better {
            best = Some((item, key));
        }
    }
    Ok(best.map_or(Value::Undefined, |(item, _)| item.clone()))
}

pub(super) fn sum(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let attribute = bound.text(0)?;
    let mut total = bound.given(1).cloned().unwrap_or(Value::Int(0));
    for item in items_of(value, budget)?.iter() {
        let item = path_if_any(item, attribute.as_deref(), budget)?;
        if item.is_undefined() {
            continue;
        }
        if total.is_number() && !item.is_number() && !matches!(item, Value::Bool(_)) {
            return Err(Stop::failed(format!("can only sum numbers, got {}", item.kind())));
        }
        total = operators::binary(Operator::Add, &total, &item, budget)?;
    }
    Ok(total)
}

pub(super) fn batch(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let count = bound.count(0)?;
    let items = items_of(value, budget)?;
    let mut batches = Items::new(budget);
    for chunk in items.chunks(count) {
        let mut batch = Items::new(budget);
        for item in chunk {
            batch.push(item.clone())?;
        }
        while let Some(filler) = bound.given(1)
            && batch.len() < count
        {
            batch.push(filler.clone())?;
        }
        batches.push(batch.finish()?)?;
    }
    batches.finish()
}

pub(super) fn slice(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let count = bound.count(0)?;
    let items = items_of(value, budget)?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.iter();
    let mut slices = Items::new(budget);
    for position in 0..count {
        let mut slice = Items::new(budget);
        for item in rest.by_ref().take(each + usize::from(position < longer)) {
            slice.push(item.clone())?;
        }
        if let Some(filler) = bound.given(1)
            && position >= longer
        {
            slice.push(filler.clone())?;
        }
        slices.push(slice.finish()?)?;
    }
    slices.finish()
}

pub(super) fn chain(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    no_names(bound)?;
    let all = || std::iter::once(value).chain(&bound.any);
    if all().all(|value| matches!(value, Value::Map(_))) {
        let mut entries = Vec::new();
        for value in all() {
            let Value::Map(map) = value else { continue };
            for entry in &map.entries {
                budget.bytes(128)?;
                entries.push(entry.clone());
            }
        }
        return Value::map(entries, budget);
    }
    let mut items = Items::new(budget);
    for value in all() {
        for item in items_of(value, budget)?.iter() {
            items.push(item.clone())?;
        }
    }
    items.finish()
}

pub(super) fn zip(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    no_names(bound)?;
    let mut columns = Vec::new();
    for value in std::iter::once(value).chain(&bound.any) {
        columns.push(items_of(value, budget)?);
    }
    let count = columns.iter().map(|column| column.len()).min().unwrap_or(0);
    let mut rows = Items::new(budget);
    for at in 0..count {
        let mut row = Items::new(budget);
        for column in &columns {
            row.push(column.get(at).cloned().unwrap_or(Value::Undefined))?;
        }
        rows.push(row.finish()?)?;
    }
    rows.finish()
}

fn no_names(bound: &Bound) -> Result<(), Stop> {
    match bound.named.first() {
        Some((name, _)) => Err(Stop::failed(format!("there is no argument `{name}`"))),
        None => Ok(()),
    }
}
