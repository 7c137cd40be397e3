//! Numbers: exact where they fit into 64 bits, refused where they do not.

use serde_json::Number;

use crate::diagnostics::{Code, Faults};
use crate::source::Span;

/// Why a text that looks like a number is none that we can keep, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadNumber {
    pub(super) message: &'static str,
    pub(super) hint: &'static str,
}

impl BadNumber {
    /// Reports it. Any number will do in its place: it keeps this from being reported as a wrong
    /// type too.
    pub(super) fn replaced(self, span: &Span, faults: &mut Faults) -> Number {
        faults.error(Code::BadNumber, span, self.message).hint(self.hint);
        1.into()
    }
}

const TOO_LARGE: BadNumber = BadNumber {
    message: "the number is too large for 64 bits",
    hint: "put it between quotes to keep it as a text",
};

/// A number that a float would change silently.
const TOO_LONG: BadNumber = BadNumber {
    message: "the number has more digits, or is closer to zero, than 64 bits can keep",
    hint: "put it between quotes to keep it as a text",
};

/// Significant digits that a float is sure to keep apart.
const DIGITS_MAX: usize = 17;

pub(super) fn json(text: &str) -> Result<Number, BadNumber> {
    if text.contains(['.', 'e', 'E']) {
        return float(text);
    }
    whole(text)
}

/// Reads a bare YAML scalar as YAML's core schema does; `None` where it is not a number.
pub(super) fn yaml(text: &str) -> Option<Result<Number, BadNumber>> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => ("-", text.get(1..)?),
        b'+' => ("", text.get(1..)?),
        _ => ("", text),
    };
    if matches!(digits, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return Some(Err(BadNumber {
            message: "infinity and not-a-number do not exist in JSON",
            hint: "put it between quotes to keep it as a text",
        }));
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return radix(octal, 8);
    }
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return radix(hexadecimal, 16);
    }
    if !looks_decimal(digits) {
        return None;
    }
    let integer = digits.split(['.', 'e', 'E']).next().unwrap_or_default();
    if integer.len() > 1 && integer.starts_with('0') {
        // YAML 1.1 reads 012 as ten, YAML 1.2 as twelve, and people mean a code such as "012".
        return Some(Err(BadNumber {
            message: "a number with leading zeros is read differently by different tools",
            hint: "put it between quotes to keep it as a text, or leave the zeros out",
        }));
    }
    let signed = format!("{sign}{digits}");
    Some(if digits.contains(['.', 'e', 'E']) { float(&signed) } else { whole(&signed) })
}

fn whole(text: &str) -> Result<Number, BadNumber> {
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(number), _) => Ok(number.into()),
        (Err(_), Ok(number)) => Ok(number.into()),
        (Err(_), Err(_)) => Err(TOO_LARGE),
    }
}

fn float(text: &str) -> Result<Number, BadNumber> {
    let value = text.parse::<f64>().map_err(|_| TOO_LARGE)?;
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    let digits = digits.trim_matches('0');
    if digits.len() > DIGITS_MAX || value == 0.0 && !digits.is_empty() {
        return Err(TOO_LONG);
    }
    Number::from_f64(value).ok_or(TOO_LARGE)
}

fn radix(digits: &str, radix: u32) -> Option<Result<Number, BadNumber>> {
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    Some(u64::from_str_radix(digits, radix).map(Number::from).map_err(|_| TOO_LARGE))
}

/// `12`, `1.5`, `.5`, `5.`, `1e3`.
fn looks_decimal(text: &str) -> bool {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    digits(integer) && digits(fraction) && integer.len() + fraction.len() > 0 && exponent_fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_or_refused() {
        for (text, expected) in [
            ("0", "0"),
            ("-5", "-5"),
            ("+5", "5"),
            ("9007199254740993", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("-9223372036854775808", "-9223372036854775808"),
            ("1.5", "1.5"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("1e3", "1000.0"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("0.1", "0.1"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("0.10000000000000000000000", "0.1"),
            ("0e-400", "0.0"),
            ("5e-324", "5e-324"),
        ] {
            assert_eq!(yaml(text).unwrap().unwrap().to_string(), expected, "{text}");
        }
        for text in ["1e-400", "-1e-400", "3.141592653589793238", "12345678901234567890.5"] {
            assert_eq!(yaml(text), Some(Err(TOO_LONG)), "{text}");
            assert_eq!(json(text), Err(TOO_LONG), "{text}");
        }
        for text in ["012", "-007", "00", "1e400", "18446744073709551616", ".inf", "-.INF", ".nan"]
        {
            assert!(yaml(text).unwrap().is_err(), "{text}");
        }
        for text in ["", "-", "1_000", "1.2.3", "2026-01-31", "5xx", "e5", "1e", ".", "0x", "+0x1"]
        {
            assert_eq!(yaml(text), None, "{text}");
        }
    }
}
