//! Numbers: integers of 64 bits, signed or not, and floats that are finite.
//!
//! A number that was written in another way, with more digits or a larger exponent, is carried as
//! its text. Computing with it, and computing something that does not fit, stops the evaluation.

use std::cmp::Ordering;

use super::budget::Stop;
use super::value::Value;

#[derive(Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

/// Digits that a float is sure to keep apart; a decimal with more of them is only carried.
const DIGITS_MAX: usize = 17;

/// The number that a value is to compute with; booleans are 0 and 1.
pub(super) fn number(value: &Value) -> Result<Option<Number>, Stop> {
    Ok(Some(match value {
        Value::Bool(value) => Number::Int(i128::from(*value)),
        Value::Int(value) => Number::Int(*value),
        Value::Float(value) => Number::Float(*value),
        Value::Spelled(_, value) if value.is_nan() => return Err(Stop::Range),
        Value::Spelled(_, value) => Number::Float(*value),
        _ => return Ok(None),
    }))
}

impl Number {
    #[expect(clippy::cast_precision_loss, reason = "floats round; that is what they are for")]
    pub(super) fn to_f64(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a.cmp(&b),
            (Self::Float(a), Self::Float(b)) => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
            (Self::Int(a), Self::Float(b)) => compare_mixed(a, b),
            (Self::Float(a), Self::Int(b)) => compare_mixed(b, a).reverse(),
        }
    }
}

/// Exactly, also where a float could not hold the integer.
fn compare_mixed(integer: i128, float: f64) -> Ordering {
    match whole(float.trunc()) {
        Some(trunc) => integer.cmp(&trunc).then_with(|| {
            let fraction = float - float.trunc();
            0.0.partial_cmp(&fraction).unwrap_or(Ordering::Equal)
        }),
        None if float > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

/// The integer that a float is, where it is one of 64 bits or little more.
pub(super) fn whole(float: f64) -> Option<i128> {
    #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
    (float.trunc() == float && float.abs() < 1e30).then_some(float as i128)
}

pub(super) fn int(value: i128) -> Result<Value, Stop> {
    let fits = value >= i128::from(i64::MIN) && value <= i128::from(u64::MAX);
    if fits { Ok(Value::Int(value)) } else { Err(Stop::Range) }
}

pub(super) fn float(value: f64) -> Result<Value, Stop> {
    if value.is_finite() { Ok(Value::Float(value)) } else { Err(Stop::Range) }
}

/// The integer that an argument is.
pub(super) fn as_int(value: &Value) -> Result<Option<i128>, Stop> {
    Ok(match number(value)? {
        Some(Number::Int(value)) => Some(value),
        Some(Number::Float(value)) => whole(value),
        None => None,
    })
}

/// A JSON number, preserved as it is written.
pub(super) fn read(text: &str) -> Value {
    let plain = !text.contains(['.', 'e', 'E']);
    // Only `-0` is an integer that would not be written as it was read.
    if plain
        && text != "-0"
        && let Ok(Value::Int(value)) = text.parse().map_err(|_| Stop::Range).and_then(int)
    {
        return Value::Int(value);
    }
    if is_shortest(text)
        && let Ok(value) = text.parse()
    {
        return Value::Float(value);
    }
    Value::Spelled(text.into(), computable(text, plain))
}

/// Is it a decimal that a float is sure to be written as, so that its text need not be stored?
fn is_shortest(text: &str) -> bool {
    let Some((whole, fraction)) = text.trim_start_matches('-').split_once('.') else {
        return false;
    };
    whole.len() + fraction.len() <= 15
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit())
        && (!fraction.ends_with('0') || fraction == "0" && whole != "0")
        && !(whole == "0" && fraction.starts_with("000"))
}

/// The value of a decimal for computing: NaN if a float would be another number.
fn computable(text: &str, plain: bool) -> f64 {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).skip_while(|digit| *digit == b'0');
    let (mut length, mut significant) = (0, 0);
    for digit in digits {
        length += 1;
        if digit != b'0' {
            significant = length;
        }
    }
    let value: f64 = text.parse().unwrap_or(f64::NAN);
    let lost = value == 0.0 && significant > 0;
    if significant > DIGITS_MAX || lost || !value.is_finite() || plain && text != "-0" {
        return f64::NAN;
    }
    value
}
