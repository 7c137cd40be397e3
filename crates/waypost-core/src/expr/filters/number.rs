//! Filters about numbers.

use super::Bound;
use crate::expr::budget::{Budget, Stop};
use crate::expr::number::{self, Number, number};
use crate::expr::value::Value;

/// Work of formatting or parsing a float with all of its digits.
const EXACT: usize = 4_000;

pub(super) fn abs(value: &Value, _: &Bound, _: &Budget) -> Result<Value, Stop> {
    match (value, number(value)?) {
        (Value::Bool(_), _) | (_, None) => {
            Err(Stop::failed(format!("cannot get absolute value of {}", value.kind())))
        }
        (_, Some(Number::Int(value))) => number::int(value.abs()),
        (_, Some(Number::Float(value))) => number::float(value.abs()),
    }
}

/// The number that a value is or a text spells; the default for those that are none.
fn converted(
    value: &Value,
    (bound, budget): (&Bound, &Budget),
    (wanted, zero): (&str, Value),
    from_text: impl FnOnce(&str) -> Result<Value, Stop>,
    from_number: impl FnOnce(Number) -> Result<Value, Stop>,
) -> Result<Value, Stop> {
    let converted = match (value.defined()?, number(value)?) {
        (Value::None, _) => return Ok(bound.given(0).cloned().unwrap_or(zero)),
        (_, Some(number)) => return from_number(number),
        (Value::Text(text), _) => {
            budget.work(text.len() + 50)?;
            from_text(text)
        }
        (other, _) => Err(Stop::failed(format!("cannot convert {} to {wanted}", other.kind()))),
    };
    match (converted, bound.given(0)) {
        (Err(Stop::Failed(_) | Stop::Range), Some(default)) => Ok(default.clone()),
        (converted, _) => converted,
    }
}

pub(super) fn int(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let base = bound.int(1)?.and_then(|base| u32::try_from(base).ok()).unwrap_or(10);
    let from_text = |text: &str| match digits(text, base) {
        Some(value) => number::int(value),
        None => text.parse().map_err(|_| Stop::failed("invalid number")).and_then(truncated),
    };
    converted(
        value,
        (bound, budget),
        ("integer", Value::Int(0)),
        from_text,
        |number| match number {
            Number::Int(value) => number::int(value),
            Number::Float(value) => truncated(value),
        },
    )
}

fn truncated(value: f64) -> Result<Value, Stop> {
    number::int(number::whole(value.trunc()).ok_or(Stop::Range)?)
}

fn digits(text: &str, base: u32) -> Option<i128> {
    let prefix = match base {
        2 => "0b",
        8 => "0o",
        16 => "0x",
        3..=36 => "",
        _ => return None,
    };
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let has_prefix = rest.get(..prefix.len()).is_some_and(|p| p.eq_ignore_ascii_case(prefix));
    let rest = if has_prefix { rest.get(prefix.len()..)? } else { rest };
    if rest.starts_with(['+', '-']) {
        return None;
    }
    i128::from_str_radix(rest, base).ok().map(|value| sign * value)
}

pub(super) fn float(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let from_text = |text: &str| {
        text.parse().map_err(|_| Stop::failed("invalid float literal")).and_then(number::float)
    };
    converted(value, (bound, budget), ("float", Value::Float(0.0)), from_text, |number| {
        number::float(number.to_f64())
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Method {
    Common,
    Ceil,
    Floor,
}

pub(super) fn round(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let precision = bound.int(0)?.unwrap_or(0);
    // Beyond these bounds a precision changes nothing any more.
    let precision = i32::try_from(precision.clamp(-2_000, 2_000)).unwrap_or(0);
    let method = match bound.text(1)?.as_deref() {
        None | Some("common") => Method::Common,
        Some("ceil") => Method::Ceil,
        Some("floor") => Method::Floor,
        Some(_) => return Err(Stop::failed("method must be common, ceil or floor")),
    };
    if matches!(value, Value::Bool(_)) {
        return Err(Stop::failed("cannot round value (bool)"));
    }
    budget.work(if (0..=20).contains(&precision) { 200 } else { EXACT })?;
    match number(value)? {
        None => Err(Stop::failed(format!("cannot round value ({})", value.kind()))),
        Some(Number::Int(value)) if precision >= 0 => number::int(value),
        Some(Number::Int(value)) => number::int(round_int(value, precision, method)?),
        Some(Number::Float(value)) if method != Method::Common => {
            number::float(round_directed(value, precision, method))
        }
        Some(Number::Float(value)) if precision > 1074 => number::float(value),
        Some(Number::Float(value)) => match usize::try_from(precision) {
            // Formatting rounds half to even, and by the decimal digits, as Python does.
            Ok(digits) => parsed(&format!("{value:.digits$}")),
            Err(_) => round_to_tens(value, precision),
        },
    }
}

fn parsed(text: &str) -> Result<Value, Stop> {
    text.parse().map_err(|_| Stop::failed("unable to round value")).and_then(number::float)
}

fn round_int(value: i128, precision: i32, method: Method) -> Result<i128, Stop> {
    let Some(factor) = 10i128.checked_pow(precision.unsigned_abs()) else {
        // The factor is larger than any integer, so that only zero is in reach.
        return match method {
            Method::Ceil if value > 0 => Err(Stop::Range),
            Method::Floor if value < 0 => Err(Stop::Range),
            _ => Ok(0),
        };
    };
    let (quotient, remainder) = (value.div_euclid(factor), value.rem_euclid(factor));
    let up = match method {
        Method::Ceil => remainder > 0,
        Method::Floor => false,
        Method::Common => {
            remainder > factor - remainder || remainder == factor - remainder && quotient % 2 != 0
        }
    };
    (quotient + i128::from(up)).checked_mul(factor).ok_or(Stop::Range)
}

fn round_directed(value: f64, precision: i32, method: Method) -> f64 {
    let factor = 10f64.powi(precision);
    let scaled = value * factor;
    // No digits at this precision, or none but these.
    if !scaled.is_finite() || !factor.is_normal() && precision > 0 {
        return value;
    }
    let rounded = if method == Method::Ceil { scaled.ceil() } else { scaled.floor() };
    // Adding 0.0 turns -0.0 into 0.0.
    (rounded + 0.0) / factor
}

/// Rounds to tens, hundreds and so on, half to even.
fn round_to_tens(value: f64, precision: i32) -> Result<Value, Stop> {
    let place = precision.unsigned_abs() as usize;
    // All digits before the point; a float has no more than 309 of them.
    let text = format!("{:.0}", value.abs());
    let Some(kept) = text.len().checked_sub(place) else {
        return number::float(0.0f64.copysign(value));
    };
    let (head, tail) = text.split_at(kept);
    let half = std::iter::once('5').chain(std::iter::repeat_n('0', place - 1));
    let is_odd = head.bytes().last().is_some_and(|digit| digit % 2 == 1);
    let up = match tail.chars().cmp(half) {
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => is_odd || value.abs().fract() > 0.0,
        std::cmp::Ordering::Less => false,
    };
    let mut digits: Vec<u8> = head.bytes().collect();
    if up {
        let nines = digits.iter().rev().take_while(|digit| **digit == b'9').count();
        let stays = digits.len() - nines;
        digits.iter_mut().skip(stays).for_each(|digit| *digit = b'0');
        match stays.checked_sub(1).and_then(|at| digits.get_mut(at)) {
            Some(digit) => *digit += 1,
            None => digits.insert(0, b'1'),
        }
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let head = String::from_utf8(digits).unwrap_or_default();
    parsed(&format!("{sign}{}e{place}", if head.is_empty() { "0" } else { &head }))
}
