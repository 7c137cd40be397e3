//! Filters that pick from lists and maps, and `default`.

use std::sync::Arc;

use super::{Bound, find, path, path_if_any};
use crate::expr::budget::{Budget, Stop};
use crate::expr::checks;
use crate::expr::compare::{order_keys, sorted};
use crate::expr::value::{Items, Key, Map, Value, at, items_of};

pub(super) fn default(value: &Value, bound: &Bound, _: &Budget) -> Result<Value, Stop> {
    let lax = bound.value(1).map_or(Ok(false), Value::truth)?;
    if value.is_undefined() || lax && !value.is_true() {
        return Ok(bound.value(0).cloned().unwrap_or_else(|| Value::text("")));
    }
    Ok(value.clone())
}

/// `ref`: where the content of a payload is, for a handler that fetches it by itself. A payload that is
/// not in a blob comes as it is.
pub(super) fn reference(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    budget.bytes(512)?;
    let fields = match value.defined()? {
        Value::Blob(blob) => vec![
            (Key::Text("bytes".into()), Value::Int(blob.bytes.into())),
            (Key::Text("ref".into()), Value::text(&blob.digest.to_string())),
            (Key::Text("url".into()), Value::text(&format!("/v1/blobs/{}", blob.digest))),
        ],
        inline => vec![(Key::Text("value".into()), inline.clone())],
    };
    Value::map(fields, budget)
}

/// `map('upper')`, with arguments for the filter, or `map(attribute='id', default=0)`.
pub(super) fn map(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let named = |wanted: &str| {
        bound.named.iter().find(|(name, _)| **name == *wanted).map(|(_, value)| value)
    };
    if let (Some(attribute), true) = (named("attribute"), bound.any.is_empty()) {
        let unknown = |(name, _): &&(Box<str>, Value)| !["attribute", "default"].contains(&&**name);
        if let Some((name, _)) = bound.named.iter().find(unknown) {
            return Err(Stop::failed(format!("map() has no argument `{name}`")));
        }
        let wanted = super::text_of(attribute, budget)?;
        let found = |item: &Value| match (path(item, &wanted, budget), named("default")) {
            (Ok(Value::Undefined) | Err(Stop::Failed(_)), Some(default)) => Ok(default.clone()),
            (found, _) => found,
        };
        return Items::all(items_of(value, budget)?.iter().map(found), budget)?.finish();
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
    let mapped = |item: &Value| {
        budget.work(4)?;
        (filter.run)(item, &inner, budget)
    };
    Items::all(items_of(value, budget)?.iter().map(mapped), budget)?.finish()
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
pub(super) fn select(
    value: &Value,
    bound: &Bound,
    budget: &Budget,
    by_attribute: bool,
    wanted: bool,
) -> Result<Value, Stop> {
    bound.no_names()?;
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
    let keys = items.iter().map(|item| {
        let key = path_if_any(item, Some(&attribute), budget)?;
        let default = bound.value(1).filter(|_| key.is_undefined());
        Ok(default.cloned().unwrap_or(key))
    });
    let keys = Items::all(keys, budget)?.into_vec();
    let key = |place: usize| at(&keys, place);
    let places =
        sorted(items.len(), budget, |a, b| order_keys(key(a), key(b), case_sensitive, budget))?;
    let mut groups = Items::new(budget);
    let mut places = places.into_iter().peekable();
    while let Some(first) = places.next() {
        let mut group = Items::new(budget);
        group.push(at(&items, first).clone())?;
        let mut last = first;
        while let Some(next) = places.peek().copied() {
            if order_keys(key(first), key(next), case_sensitive, budget)?.is_ne() {
                break;
            }
            group.push(at(&items, next).clone())?;
            last = next;
            places.next();
        }
        let pair = Items::all([Ok(key(last).clone()), group.finish()], budget)?.into_vec();
        groups.push(Value::named_list(pair, &["grouper", "list"], budget)?)?;
    }
    groups.finish()
}

fn pair((key, value): &(Key, Value), budget: &Budget) -> Result<Value, Stop> {
    Items::all([Ok(key.to_value()), Ok(value.clone())], budget)?.finish()
}

fn entries<'a>(value: &'a Value, filter: &str) -> Result<&'a Arc<Map>, Stop> {
    match value.defined()? {
        Value::Map(map) => Ok(map),
        other => Err(Stop::failed(format!("{filter}() needs a map, not {}", other.kind()))),
    }
}

pub(super) fn items(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let entries = &entries(value, "items")?.entries;
    Items::all(entries.iter().map(|entry| pair(entry, budget)), budget)?.finish()
}

pub(super) fn dictsort(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let map = entries(value, "dictsort")?;
    let (case_sensitive, reverse) = (bound.flag(0)?, bound.flag(2)?);
    let by_value = bound.text(1)?.as_deref() == Some("value");
    let key = |(key, value): &(Key, Value)| if by_value { value.clone() } else { key.to_value() };
    let keys = Items::all(map.entries.iter().map(|entry| Ok(key(entry))), budget)?.into_vec();
    let places = sorted(keys.len(), budget, |a, b| {
        let found = order_keys(at(&keys, a), at(&keys, b), case_sensitive, budget)?;
        Ok(if reverse { found.reverse() } else { found })
    })?;
    let sorted = places.into_iter().filter_map(|place| map.entries.get(place));
    Items::all(sorted.map(|entry| pair(entry, budget)), budget)?.finish()
}
