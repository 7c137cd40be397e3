//! The result of a scenario, as a table and as JSON. Each figure is written once, for both.

use std::fmt::Display;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// The result of a scenario, ready to be printed. It is serialized as one JSON object.
#[derive(Default)]
pub struct Printout {
    figures: Vec<Figure>,
    /// Set where the scenario ran to its end and some of its requests failed.
    pub failure: Option<anyhow::Error>,
}

struct Figure {
    key: &'static str,
    value: FigureValue,
    /// `None` for figures that only programs need.
    row: Option<(&'static str, String)>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum FigureValue {
    Plain(Value),
    Nested(Printout),
}

impl Printout {
    pub(super) fn of(scenario: &'static str) -> Self {
        let mut printout = Self::default();
        printout.plain("scenario", "scenario", scenario);
        printout
    }

    /// Adds a value that both forms show in full.
    pub(super) fn plain(
        &mut self,
        key: &'static str,
        name: &'static str,
        value: impl Into<Value> + ToString,
    ) {
        let text = value.to_string();
        self.add(key, value, Some((name, text)));
    }

    /// Adds a whole number that the table shows with its unit.
    pub(super) fn span(
        &mut self,
        key: &'static str,
        name: &'static str,
        value: impl Into<Value> + Display,
        unit: &str,
    ) {
        let text = format!("{value} {unit}");
        self.add(key, value, Some((name, text)));
    }

    /// Adds a number that the table rounds to so many decimals.
    pub(super) fn rounded(
        &mut self,
        key: &'static str,
        name: &'static str,
        number: impl Into<Option<f64>>,
        (decimals, unit): (usize, &str),
    ) {
        let number = number.into();
        let text = number.map_or_else(unknown, |number| format!("{number:.decimals$}{unit}"));
        self.add(key, number, Some((name, text)));
    }

    /// Adds an amount of memory, if the system reports it.
    pub(super) fn memory(&mut self, key: &'static str, name: &'static str, bytes: Option<u64>) {
        let mebibytes = |bytes: u64| format!("{:.0} MiB", bytes as f64 / 1_048_576.0);
        self.add(key, bytes, Some((name, bytes.map_or_else(unknown, mebibytes))));
    }

    /// Adds a value that the table does not show.
    pub(super) fn unlisted(&mut self, key: &'static str, value: impl Into<Value>) {
        self.add(key, value, None);
    }

    pub(super) fn extend(&mut self, others: Self) {
        self.figures.extend(others.figures);
    }

    /// Adds figures as an object of their own, and below an empty row of the table.
    pub(super) fn nest(&mut self, key: &'static str, inner: Self) {
        let row = Some(("", String::new()));
        self.figures.push(Figure { key, value: FigureValue::Nested(inner), row });
    }

    fn add(
        &mut self,
        key: &'static str,
        value: impl Into<Value>,
        row: Option<(&'static str, String)>,
    ) {
        self.figures.push(Figure { key, value: FigureValue::Plain(value.into()), row });
    }

    /// The table: names and values.
    pub fn rows(&self) -> Vec<(&str, &str)> {
        let mut rows = Vec::new();
        for figure in &self.figures {
            rows.extend(figure.row.as_ref().map(|(name, text)| (*name, text.as_str())));
            if let FigureValue::Nested(inner) = &figure.value {
                rows.extend(inner.rows());
            }
        }
        rows
    }
}

impl Serialize for Printout {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.figures.iter().map(|figure| (figure.key, &figure.value)))
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Sorts values, and returns those at some percentiles.
pub(super) fn percentiles<T: Ord + Copy + Default, const N: usize>(
    values: &mut [T],
    percents: [usize; N],
) -> [T; N] {
    values.sort_unstable();
    percents.map(|percent| {
        let position = values.len().saturating_sub(1) * percent / 100;
        values.get(position).copied().unwrap_or_default()
    })
}

pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
