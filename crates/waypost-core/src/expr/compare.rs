//! Equality and order of values, paid for step by step.

use std::cmp::Ordering;
use std::sync::Arc;

use super::budget::{Budget, Stop};
use super::number::number;
use super::value::Value;

/// `==`: numbers by their value, lists and maps by their parts, all else by type and value.
pub(super) fn equal(a: &Value, b: &Value, budget: &Budget) -> Result<bool, Stop> {
    budget.work(2)?;
    match (a, b) {
        (Value::Undefined, Value::Undefined) | (Value::None, Value::None) => Ok(true),
        (Value::Blob(a), Value::Blob(b)) => Ok(a == b),
        (Value::Text(a), Value::Text(b)) => {
            if a.len() == b.len() {
                budget.scan(a.len())?;
            }
            Ok(a == b)
        }
        (Value::List(a), Value::List(b)) if Arc::ptr_eq(a, b) => Ok(true),
        (Value::Map(a), Value::Map(b)) if Arc::ptr_eq(a, b) => Ok(true),
        (Value::List(a), Value::List(b)) => {
            if a.items.len() != b.items.len() {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.entries.len() != b.entries.len() {
                return Ok(false);
            }
            for ((a_key, a), (b_key, b)) in a.entries.iter().zip(&b.entries) {
                if !equal(&a_key.to_value(), &b_key.to_value(), budget)? || !equal(a, b, budget)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(match (number(a)?, number(b)?) {
            (Some(a), Some(b)) => a.compare(b).is_eq(),
            _ => false,
        }),
    }
}

/// The order of any two values: first by type, then by value.
pub(super) fn order(a: &Value, b: &Value, budget: &Budget) -> Result<Ordering, Stop> {
    budget.work(2)?;
    let by_type = rank(a).cmp(&rank(b));
    if by_type.is_ne() {
        return Ok(by_type);
    }
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => {
            budget.scan(a.len().min(b.len()))?;
            Ok(a.cmp(b))
        }
        (Value::List(a), Value::List(b)) if Arc::ptr_eq(a, b) => Ok(Ordering::Equal),
        (Value::Map(a), Value::Map(b)) if Arc::ptr_eq(a, b) => Ok(Ordering::Equal),
        (Value::List(a), Value::List(b)) => {
            for (a, b) in a.items.iter().zip(&b.items) {
                let found = order(a, b, budget)?;
                if found.is_ne() {
                    return Ok(found);
                }
            }
            Ok(a.items.len().cmp(&b.items.len()))
        }
        (Value::Map(a), Value::Map(b)) => {
            for ((a_key, a), (b_key, b)) in a.entries.iter().zip(&b.entries) {
                let found = order(&a_key.to_value(), &b_key.to_value(), budget)?;
                let found = if found.is_eq() { order(a, b, budget)? } else { found };
                if found.is_ne() {
                    return Ok(found);
                }
            }
            Ok(a.entries.len().cmp(&b.entries.len()))
        }
        _ => Ok(match (number(a)?, number(b)?) {
            (Some(a), Some(b)) => a.compare(b),
            _ => Ordering::Equal,
        }),
    }
}

pub(super) fn rank(value: &Value) -> u8 {
    match value {
        Value::Undefined => 0,
        Value::None => 1,
        Value::Bool(_) => 2,
        Value::Int(_) | Value::Float(_) | Value::Spelled(..) => 3,
        Value::Text(_) => 4,
        Value::List(_) => 5,
        Value::Map(_) => 6,
        Value::Blob(_) => 7,
    }
}

/// The order that `sort`, `min`, `max` and `groupby` use: texts without regard to the case of their
/// ASCII letters, unless requested.
pub(super) fn order_keys(
    a: &Value,
    b: &Value,
    case_sensitive: bool,
    budget: &Budget,
) -> Result<Ordering, Stop> {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) if !case_sensitive => {
            budget.work(2)?;
            budget.chars(a.len().min(b.len()))?;
            let lower = |byte: u8| byte.to_ascii_lowercase();
            Ok(a.bytes().map(lower).cmp(b.bytes().map(lower)))
        }
        _ => order(a, b, budget),
    }
}

/// The order in which to take `count` items, stable, by a comparison of their positions that may
/// fail; the library's sort takes none of those, and panics where an order contradicts itself.
pub(super) fn sorted(
    count: usize,
    budget: &Budget,
    mut compare: impl FnMut(usize, usize) -> Result<Ordering, Stop>,
) -> Result<Vec<usize>, Stop> {
    budget.bytes(count.saturating_mul(2 * size_of::<usize>()))?;
    let mut order: Vec<usize> = (0..count).collect();
    let mut merged = Vec::with_capacity(count);
    let mut width = 1;
    while width < count {
        budget.work(count)?;
        for run in order.chunks(width * 2) {
            let (mut left, mut right) = run.split_at(width.min(run.len()));
            while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
                if compare(*a, *b)?.is_gt() {
                    merged.push(*b);
                    right = right_rest;
                } else {
                    merged.push(*a);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut order, &mut merged);
        merged.clear();
        width *= 2;
    }
    Ok(order)
}
