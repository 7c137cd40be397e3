//! Filters about texts.

use super::{Bound, path_if_any, text_of};
use crate::expr::budget::{Budget, Stop};
use crate::expr::value::{Items, Value, items_of};
use crate::expr::write::{self, Style};
use crate::time::{Millis, Timestamp};

/// The time so long ago, as the rows of lists write times: such texts compare as their times do.
pub(super) fn ago(now: &Value, bound: &Bound, _: &Budget) -> Result<Value, Stop> {
    let span = bound.text(0)?.unwrap_or_default();
    let span = span_of(&span).map_err(Stop::failed)?;
    let now = match now {
        Value::Int(ms) => i64::try_from(*ms).unwrap_or_default(),
        _ => 0,
    };
    Ok(Value::Text(Timestamp(now).minus(span).to_string().into()))
}

/// The span that `ago()` was given.
pub(in crate::expr) fn span_of(text: &str) -> Result<Millis, String> {
    Millis::parse(text).map_err(|_| format!("ago() needs a span such as ago('7d'), not {text:?}"))
}

/// Rewrites a text by its characters. Upper case can be three times as long.
pub(super) fn rewritten(
    value: &Value,
    budget: &Budget,
    rewrite: impl Fn(&str) -> String,
) -> Result<Value, Stop> {
    let text = text_of(value, budget)?;
    budget.bytes(text.len().saturating_mul(3))?;
    lower_case(&text, budget)?;
    let rewritten = rewrite(&text);
    budget.text("the text", rewritten.len())?;
    Ok(Value::Text(rewritten.into()))
}

/// Pays for lower case. A sigma is expensive: its result depends on the letters around it, and the
/// marks between them are scanned.
pub(super) fn lower_case(text: &str, budget: &Budget) -> Result<(), Stop> {
    let times = if text.contains('Σ') { 5 } else { 1 };
    budget.work(text.len().saturating_mul(times))
}

pub(super) fn capitalize(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    rewritten(value, budget, |text| {
        let mut rest = text.chars();
        let first: String = rest.next().into_iter().flat_map(char::to_uppercase).collect();
        first + &rest.as_str().to_lowercase()
    })
}

pub(super) fn title(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    rewritten(value, budget, |text| {
        let mut out = String::with_capacity(text.len());
        let mut begins = true;
        for part in text.chars() {
            if matches!(part, '-' | '(' | '{' | '[' | '<') || part.is_whitespace() {
                out.push(part);
                begins = true;
            } else if begins {
                out.extend(part.to_uppercase());
                begins = false;
            } else {
                out.extend(part.to_lowercase());
            }
        }
        out
    })
}

pub(super) fn trim(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let text = text_of(value, budget)?;
    let trimmed = match bound.given(0) {
        None => {
            budget.scan(text.len())?;
            text.trim()
        }
        Some(chars) => {
            let chars: std::collections::BTreeSet<char> = {
                let chars = text_of(chars, budget)?;
                budget.work(chars.len().saturating_mul(8))?;
                budget.bytes(chars.len().saturating_mul(16))?;
                chars.chars().collect()
            };
            let rounds = chars.len().checked_ilog2().unwrap_or(0) as usize + 2;
            budget.work(text.len().saturating_mul(rounds) / 2)?;
            text.trim_matches(|part| chars.contains(&part))
        }
    };
    budget.text("the text", trimmed.len())?;
    Ok(Value::text(trimmed))
}

pub(super) fn replace(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let text = text_of(value, budget)?;
    let (Some(from), Some(to)) = (bound.value(0), bound.value(1)) else {
        return Err(Stop::failed("replace() needs what to replace, and by what"));
    };
    let (from, to) = (text_of(from, budget)?, text_of(to, budget)?);
    budget.search(text.len(), from.len())?;
    let hits = text.matches(&*from).count();
    let size = text.len().saturating_sub(hits.saturating_mul(from.len()));
    budget.text("the result of replace()", hits.saturating_mul(to.len()).saturating_add(size))?;
    budget.search(text.len(), from.len())?;
    budget.work(hits.saturating_mul(2))?;
    Ok(Value::Text(text.replace(&*from, &to).into()))
}

pub(super) fn split(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let Value::Text(text) = value.defined()? else {
        return Err(Stop::failed(format!("split() needs a text, not {}", value.kind())));
    };
    let pieces_max = match bound.int(1)? {
        Some(splits @ 0..) => usize::try_from(splits).unwrap_or(usize::MAX).saturating_add(1),
        Some(_) | None => usize::MAX,
    };
    let mut items = Items::new(budget);
    let separator = bound.text(0)?;
    budget.search(text.len(), separator.as_ref().map_or(0, |text| text.len()))?;
    match separator {
        Some(separator) => {
            for part in text.splitn(pieces_max, &*separator) {
                items.push_text(part)?;
            }
        }
        None => {
            let mut rest = text.trim_start();
            while !rest.is_empty() {
                let last = items.len() + 1 >= pieces_max;
                let end = rest.find(char::is_whitespace).filter(|_| !last);
                let (part, tail) = rest.split_at(end.unwrap_or(rest.len()));
                items.push_text(part)?;
                rest = tail.trim_start();
            }
        }
    }
    items.finish()
}

pub(super) fn lines(value: &Value, _: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let Value::Text(text) = value.defined()? else {
        return Err(Stop::failed(format!("lines() needs a text, not {}", value.kind())));
    };
    budget.scan(text.len())?;
    let mut items = Items::new(budget);
    for line in text.lines() {
        items.push_text(line)?;
    }
    items.finish()
}

pub(super) fn tojson(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let style = match bound.given(0) {
        None | Some(Value::Bool(false)) => Style::Spaced,
        Some(Value::Bool(true)) => Style::Indented(2),
        Some(other) => match bound.int(0)? {
            Some(blanks @ 0..) => Style::Indented(usize::try_from(blanks).unwrap_or(usize::MAX)),
            Some(_) | None => return Err(bound.wrong(0, "zero or more", other)),
        },
    };
    let mut text = String::new();
    write::json(value, style, &mut text, budget)?;
    budget.text("the result of tojson()", text.len())?;
    Ok(Value::Text(text.into()))
}

pub(super) fn join(value: &Value, bound: &Bound, budget: &Budget) -> Result<Value, Stop> {
    let separator = match bound.given(0) {
        None => "".into(),
        Some(separator) => text_of(separator, budget)?,
    };
    let attribute = bound.text(1)?;
    let mut text = String::new();
    for (position, item) in items_of(value, budget)?.iter().enumerate() {
        if position > 0 {
            write::push(&separator, &mut text, budget)?;
        }
        let item = path_if_any(item, attribute.as_deref(), budget)?;
        write::display(&item, &mut text, budget)?;
    }
    budget.text("the result of join()", text.len())?;
    Ok(Value::Text(text.into()))
}
