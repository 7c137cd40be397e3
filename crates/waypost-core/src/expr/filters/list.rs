//! Filters about lists, and `range`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::iter::repeat_n;

use super::text::lower_case;
use super::{Bound, path_if_any};
use crate::expr::ast::Operator;
use crate::expr::budget::{Budget, Stop};
use crate::expr::compare::{order, order_keys, sorted};
use crate::expr::operators;
use crate::expr::value::{Items, Value, at, copied_items, items_of};

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
    let keys = items.iter().map(|item| path_if_any(item, attribute, budget));
    let keys = Items::all(keys, budget)?.into_vec();
    Ok((items, keys))
}

fn pick(items: &[Value], places: &[usize], budget: &Budget) -> Result<Value, Stop> {
    Items::all(places.iter().map(|place| Ok(at(items, *place).clone())), budget)?.finish()
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
    let column = |attribute| Ok(keyed(value, attribute, budget)?.1);
    let keys = attributes.into_iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let places = sorted(items.len(), budget, |a, b| {
        let mut found = Ordering::Equal;
        for column in &keys {
            found = order_keys(at(column, a), at(column, b), case_sensitive, budget)?;
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
    let key = |place: usize| at(&keys, place);
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

/// The item that replaces all others, by the order of its key and that of the best so far.
pub(super) fn extreme(
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
    let batch = |chunk: &[Value]| {
        let fillers = bound.given(1).map(|filler| repeat_n(filler, count - chunk.len()));
        let batch = chunk.iter().chain(fillers.into_iter().flatten()).cloned();
        Items::all(batch.map(Ok), budget)?.finish()
    };
    Items::all(items.chunks(count).map(batch), budget)?.finish()
}

pub(super) fn slice(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let count = bound.count(0)?;
    let items = items_of(value, budget)?;
    let (each, longer) = (items.len() / count, items.len() % count);
    let mut rest = items.iter();
    let slice = |position: usize| {
        let own = rest.by_ref().take(each + usize::from(position < longer));
        let slice = own.chain(bound.given(1).filter(|_| position >= longer)).cloned();
        Items::all(slice.map(Ok), budget)?.finish()
    };
    Items::all((0..count).map(slice), budget)?.finish()
}

pub(super) fn chain(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    bound.no_names()?;
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
    bound.no_names()?;
    let values = std::iter::once(value).chain(&bound.any);
    let columns = values.map(|value| items_of(value, budget)).collect::<Result<Vec<_>, _>>()?;
    let count = columns.iter().map(|column| column.len()).min().unwrap_or(0);
    let row = |place: usize| {
        let row = columns.iter().map(|column| Ok(at(column, place).clone()));
        Items::all(row, budget)?.finish()
    };
    Items::all((0..count).map(row), budget)?.finish()
}
