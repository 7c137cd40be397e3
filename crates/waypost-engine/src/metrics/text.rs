//! The text format of Prometheus, version 0.0.4.

use std::fmt;
use std::fmt::Write;

use super::instruments::PARTS;

/// An instrument on a page of metrics.
pub trait Metric {
    /// `counter`, `gauge` or `histogram`.
    fn kind(&self) -> &'static str;

    /// Is there anything to show? A metric whose source does not answer is left out.
    fn is_known(&self) -> bool {
        true
    }

    /// Calls `each` with its samples, in the order of the page.
    fn samples(&self, each: &mut dyn FnMut(Sample<'_>));
}

/// One line of a metric.
pub struct Sample<'a> {
    pub suffix: &'static str,
    pub label: Option<(&'static str, &'a str)>,
    pub value: Decimal,
}

impl Sample<'_> {
    /// A value and nothing else.
    pub fn plain(value: Decimal) -> Self {
        Self { suffix: "", label: None, value }
    }
}

/// A number with up to six places, written without rounding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decimal {
    whole: u64,
    /// Millionths.
    parts: u64,
}

impl Decimal {
    /// A whole number.
    pub fn whole(whole: u64) -> Self {
        Self { whole, parts: 0 }
    }

    /// So many millionths: microseconds as seconds.
    pub fn parts(parts: u64) -> Self {
        Self { whole: parts / PARTS, parts: parts % PARTS }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.whole)?;
        if self.parts == 0 {
            return Ok(());
        }
        let places = format!("{:06}", self.parts);
        write!(f, ".{}", places.trim_end_matches('0'))
    }
}

/// Writes one metric: its help, its kind, its samples.
pub fn write_metric(name: &str, help: &str, metric: &dyn Metric, out: &mut String) {
    if !metric.is_known() {
        return;
    }
    let (help, kind) = (escaped(help), metric.kind());
    writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}").expect(WRITES);
    metric.samples(&mut |Sample { suffix, label, value }| {
        let label = label.map(|(label, of)| (label, escaped(of).replace('"', "\\\"")));
        let label = label.map(|(label, of)| format!("{{{label}=\"{of}\"}}")).unwrap_or_default();
        writeln!(out, "{name}{suffix}{label} {value}").expect(WRITES);
    });
}

const WRITES: &str = "a string takes everything";

/// A help text ends with its line; the value of a label ends with its quote, too, which its caller
/// escapes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::instruments::CounterFamily;
    use super::*;

    #[test]
    fn numbers_are_written_exactly() {
        let cases = [
            (0, "0"),
            (100, "0.0001"),
            (2_500, "0.0025"),
            (1_000_000, "1"),
            (1_500_001, "1.500001"),
        ];
        for (parts, expected) in cases {
            assert_eq!(Decimal::parts(parts).to_string(), expected);
        }
        assert_eq!(Decimal::whole(u64::MAX).to_string(), u64::MAX.to_string());
    }

    #[test]
    fn write_metric_with_quotes_and_line_ends_escapes_them() {
        let family = CounterFamily::new("path", &["C:\\\"x\"\n"]);
        let mut page = String::new();
        write_metric("x_total", "a \"back\\slash\"\nand more", &family, &mut page);
        let expected = concat!(
            "# HELP x_total a \"back\\\\slash\"\\nand more\n",
            "# TYPE x_total counter\n",
            "x_total{path=\"C:\\\\\\\"x\\\"\\n\"} 0\n",
        );
        assert_eq!(page, expected);
    }
}
