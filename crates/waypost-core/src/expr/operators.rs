//! The operators.

use super::ast::{Comparison, Operator};
use super::budget::{Budget, Stop};
use super::compare::{equal, order, rank};
use super::number::{self, Number, as_int, number};
use super::value::{self, Items, Key, Value, items_of};
use super::write;

pub(super) fn binary(
    operator: Operator,
    a: &Value,
    b: &Value,
    budget: &Budget,
) -> Result<Value, Stop> {
    budget.work(4)?;
    match (operator, a, b) {
        (Operator::Join, ..) => join(a, b, budget),
        (Operator::Add, Value::Text(a), Value::Text(b)) => {
            budget.text("the text", a.len() + b.len())?;
            Ok(Value::Text([&**a, &**b].concat().into()))
        }
        (Operator::Add, Value::List(a), Value::List(b)) => {
            budget.copies(a.items.len() + b.items.len())?;
            Value::list([&*a.items, &*b.items].concat(), budget)
        }
        (Operator::Multiply, Value::Text(_) | Value::List(_), _) => repeat(a, b, budget),
        (Operator::Multiply, _, Value::Text(_) | Value::List(_)) => repeat(b, a, budget),
        _ => match (number(a)?, number(b)?) {
            (Some(a), Some(b)) => arithmetic(operator, a, b),
            _ => Err(Stop::failed(format!(
                "tried to use {} operator on unsupported types {} and {}",
                operator.symbol(),
                a.kind(),
                b.kind()
            ))),
        },
    }
}

fn arithmetic(operator: Operator, a: Number, b: Number) -> Result<Value, Stop> {
    if operator == Operator::Divide {
        return divided(a.to_f64(), b.to_f64(), operator, |a, b| a / b);
    }
    if let (Number::Int(a), Number::Int(b)) = (a, b) {
        let value = match operator {
            Operator::Add => a.checked_add(b),
            Operator::Subtract => a.checked_sub(b),
            Operator::Multiply => a.checked_mul(b),
            Operator::Power if b < 0 => {
                return powered(Number::Int(a).to_f64(), Number::Int(b).to_f64());
            }
            Operator::Power => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
            Operator::DivideFloor | Operator::Remainder if b == 0 => {
                return Err(by_zero(operator));
            }
            // The remainder has the sign of the divisor.
            Operator::DivideFloor => Some(a.div_euclid(b) - floor_step(a, b)),
            Operator::Remainder => Some(a.rem_euclid(b) + floor_step(a, b) * b),
            Operator::Divide | Operator::Join => None,
        };
        // Powers of 0, 1 and -1 fit whatever the exponent is.
        let value = match (operator, a, value) {
            (Operator::Power, 0 | 1, None) => Some(a),
            (Operator::Power, -1, None) => Some(if b % 2 == 0 { 1 } else { -1 }),
            (.., value) => value,
        };
        return number::int(value.ok_or(Stop::Range)?);
    }
    let (a, b) = (a.to_f64(), b.to_f64());
    match operator {
        Operator::Add => number::float(a + b),
        Operator::Subtract => number::float(a - b),
        Operator::Multiply => number::float(a * b),
        Operator::Power => powered(a, b),
        Operator::Remainder => divided(a, b, operator, |a, b| floor_division(a, b).1),
        Operator::DivideFloor | Operator::Divide | Operator::Join => {
            divided(a, b, operator, |a, b| floor_division(a, b).0)
        }
    }
}

/// The correction of Euclid's division for a negative divisor with a remainder.
fn floor_step(a: i128, b: i128) -> i128 {
    i128::from(b < 0 && a.rem_euclid(b) != 0)
}

fn by_zero(operator: Operator) -> Stop {
    Stop::failed(format!("unable to calculate: {} by zero", operator.symbol()))
}

fn divided(
    a: f64,
    b: f64,
    operator: Operator,
    divide: impl Fn(f64, f64) -> f64,
) -> Result<Value, Stop> {
    if b == 0.0 { Err(by_zero(operator)) } else { number::float(divide(a, b)) }
}

fn powered(a: f64, b: f64) -> Result<Value, Stop> {
    if a == 0.0 && b < 0.0 { Err(by_zero(Operator::Power)) } else { number::float(a.powf(b)) }
}

/// Quotient and remainder as in Python.
fn floor_division(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder == 0.0 {
        remainder = 0.0f64.copysign(b);
    } else if (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    if quotient == 0.0 {
        return (0.0f64.copysign(a / b), remainder);
    }
    let floored = quotient.floor();
    (if quotient - floored > 0.5 { floored + 1.0 } else { floored }, remainder)
}

fn join(a: &Value, b: &Value, budget: &Budget) -> Result<Value, Stop> {
    let mut text = String::new();
    for part in [a, b] {
        write::display(part.defined()?, &mut text, budget)?;
    }
    budget.text("the text", text.len())?;
    Ok(Value::Text(text.into()))
}

fn repeat(what: &Value, times: &Value, budget: &Budget) -> Result<Value, Stop> {
    let times = as_int(times)?.and_then(|times| usize::try_from(times).ok()).ok_or_else(|| {
        Stop::failed("texts and lists can only be multiplied with integers that are not negative")
    })?;
    match what {
        Value::Text(text) => {
            budget.text("the repeated text", text.len().saturating_mul(times))?;
            Ok(Value::Text(text.repeat(times).into()))
        }
        Value::List(list) => {
            let count = list.items.len().saturating_mul(times);
            budget.copies(count)?;
            let items = list.items.iter().cycle().take(count).cloned().collect();
            Value::list(items, budget)
        }
        other => Err(Stop::failed(format!("cannot repeat {}", other.kind()))),
    }
}

pub(super) fn negate(value: &Value, budget: &Budget) -> Result<Value, Stop> {
    budget.work(2)?;
    match (value, number(value)?) {
        (Value::Bool(_), _) | (_, None) => {
            Err(Stop::failed(format!("cannot negate {}", value.kind())))
        }
        (_, Some(Number::Int(value))) => number::int(-value),
        (_, Some(Number::Float(value))) => number::float(-value),
    }
}

/// A number with a minus before it, as one literal: so one that does not fit is preserved, too.
pub(super) fn negative_literal(value: &Value) -> Option<Value> {
    match value {
        Value::Int(0) => Some(Value::Int(0)),
        Value::Int(value) => Some(number::read(&format!("-{value}"))),
        Value::Float(value) => Some(Value::Float(-value)),
        Value::Spelled(text, _) => Some(number::read(&format!("-{text}"))),
        _ => None,
    }
}

/// Has a comparison an answer for these values? For the conditions of lists.
pub(super) fn comparable(comparison: Comparison, a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Undefined, _) | (_, Value::Undefined) => false,
        _ => match comparison {
            Comparison::Equal | Comparison::NotEqual => true,
            Comparison::In | Comparison::NotIn => {
                matches!(b, Value::Text(_) | Value::List(_) | Value::Map(_))
            }
            Comparison::Less
            | Comparison::LessOrEqual
            | Comparison::Greater
            | Comparison::GreaterOrEqual => rank(a) == rank(b),
        },
    }
}

pub(super) fn compare(
    comparison: Comparison,
    a: &Value,
    b: &Value,
    budget: &Budget,
) -> Result<bool, Stop> {
    let (a, b) = (a.defined()?, b.defined()?);
    Ok(match comparison {
        Comparison::Equal => equal(a, b, budget)?,
        Comparison::NotEqual => !equal(a, b, budget)?,
        Comparison::Less => order(a, b, budget)?.is_lt(),
        Comparison::LessOrEqual => order(a, b, budget)?.is_le(),
        Comparison::Greater => order(a, b, budget)?.is_gt(),
        Comparison::GreaterOrEqual => order(a, b, budget)?.is_ge(),
        Comparison::In => contains(b, a, budget)?,
        Comparison::NotIn => !contains(b, a, budget)?,
    })
}

pub(super) fn contains(container: &Value, value: &Value, budget: &Budget) -> Result<bool, Stop> {
    match container {
        Value::Text(text) => {
            let mut part = String::new();
            write::display(value, &mut part, budget)?;
            budget.search(text.len(), part.len())?;
            Ok(text.contains(&part))
        }
        Value::List(list) => {
            for item in &list.items {
                if equal(item, value, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Map(map) => match Key::of(value) {
            Some(key) => Ok(map.get(&key, budget)?.is_some()),
            None => Ok(false),
        },
        other => Err(Stop::failed(format!("cannot look for a value in {}", other.kind()))),
    }
}

/// `value.name`: undefined where there is no such thing.
pub(super) fn attribute(value: &Value, name: &str, budget: &Budget) -> Result<Value, Stop> {
    budget.work(2)?;
    Ok(match value.defined()? {
        Value::Map(map) => map.get_text(name, budget)?.cloned(),
        Value::List(list) => {
            let at = list.names.iter().position(|known| *known == name);
            at.and_then(|at| list.items.get(at)).cloned()
        }
        _ => None,
    }
    .unwrap_or(Value::Undefined))
}

/// `value[key]`.
pub(super) fn item(value: &Value, key: &Value, budget: &Budget) -> Result<Value, Stop> {
    budget.work(2)?;
    let index = |count: usize| -> Result<Option<usize>, Stop> {
        let Some(index) = as_int(key)? else { return Ok(None) };
        let from_end = if index < 0 { count as i128 } else { 0 };
        Ok(usize::try_from(index + from_end).ok())
    };
    Ok(match (value.defined()?, key) {
        (Value::Map(map), key) => match Key::of(key) {
            Some(key) => map.get(&key, budget)?.cloned(),
            None => None,
        },
        (Value::List(_), Value::Text(name)) => return attribute(value, name, budget),
        (Value::List(list), _) => {
            index(list.items.len())?.and_then(|at| list.items.get(at)).cloned()
        }
        (Value::Text(text), _) => {
            budget.scan(text.len())?;
            let found = index(text.chars().count())?.and_then(|at| text.chars().nth(at));
            found.map(|found| Value::text(found.encode_utf8(&mut [0; 4])))
        }
        _ => None,
    }
    .unwrap_or(Value::Undefined))
}

/// `value[start:stop:step]`, as Python has it.
pub(super) fn slice(value: &Value, parts: &[Value; 3], budget: &Budget) -> Result<Value, Stop> {
    let bound = |part: &Value| match (part, as_int(part)?) {
        (Value::None, _) => Ok(None),
        (_, Some(bound)) => Ok(Some(bound)),
        _ => Err(Stop::failed(format!("cannot slice by {}", part.kind()))),
    };
    let [start, stop, step] = parts;
    let (start, stop, step) = (bound(start)?, bound(stop)?, bound(step)?.unwrap_or(1));
    let items = match value.defined()? {
        Value::Text(_) | Value::List(_) | Value::None => items_of(value, budget)?,
        other => {
            return Err(Stop::failed(format!("value of type {} cannot be sliced", other.kind())));
        }
    };
    let mut taken = Items::new(budget);
    let (mut at, stop) = slice_range(items.len() as i128, start, stop, step)?;
    while if step > 0 { at < stop } else { at > stop } {
        taken.push(value::at(&items, usize::try_from(at).unwrap_or(usize::MAX)).clone())?;
        at = at.saturating_add(step);
    }
    match value {
        Value::Text(_) => {
            let mut text = String::new();
            for part in taken.into_vec() {
                write::display(&part, &mut text, budget)?;
            }
            Ok(Value::Text(text.into()))
        }
        _ => taken.finish(),
    }
}

/// The first position, and the one to stop before.
fn slice_range(
    count: i128,
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> Result<(i128, i128), Stop> {
    let from_end = |bound: i128| if bound < 0 { bound + count } else { bound };
    match step {
        0 => Err(Stop::failed("cannot slice by step size of 0")),
        1.. => Ok((
            start.map_or(0, from_end).clamp(0, count),
            stop.map_or(count, from_end).clamp(0, count),
        )),
        _ => Ok((
            start.map_or(count - 1, from_end).clamp(-1, count - 1),
            stop.map_or(-1, |stop| from_end(stop).clamp(-1, count - 1)),
        )),
    }
}
