//! The lines at the bottom of a terminal that are redrawn while a command runs.
//!
//! To redraw them, the cursor goes up over them and clears everything below. That needs the number
//! of their rows, so each line is cut to the terminal's width: a line that wraps takes more. A
//! terminal that became narrower since has wrapped them itself; their rows are counted again.

use std::io::IsTerminal;
use std::time::Duration;

use parking_lot::Mutex;

use super::standard;
use super::width::{columns, fit};

/// How long a log line waits for the lines to be drawn; then it is written where the cursor is. A
/// panic of the very thread that draws is logged, too.
const PATIENCE: Duration = Duration::from_millis(100);

/// The drawn lines, as they were written.
static DRAWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Columns and rows of the terminal that standard output is; `None` if it is none, or its size is
/// unknown.
pub(crate) fn size() -> Option<(usize, usize)> {
    size_of(std::io::stdout())
}

fn size_of(stream: impl std::os::fd::AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    (columns > 0 && rows > 0).then_some((columns, rows))
}

/// Columns of the terminal that standard error is; `None` where it is none.
pub(super) fn error_columns() -> Option<usize> {
    let stderr = std::io::stderr();
    stderr.is_terminal().then(|| size_of(stderr).map_or(COLUMNS_ASSUMED, |(columns, _)| columns))
}

/// Columns of a terminal of unknown width.
pub(crate) const COLUMNS_ASSUMED: usize = 80;
/// Rows of a terminal of unknown height.
pub(crate) const ROWS_ASSUMED: usize = 24;

/// Prints text that stays, whole lines, and draws `live` below it instead of the previous lines.
pub(crate) fn draw(stays: &str, live: &[String]) {
    let width = size().map_or(COLUMNS_ASSUMED, |(columns, _)| columns);
    let mut drawn = DRAWN.lock();
    let mut text = clear(&drawn, width);
    text.push_str(stays);
    *drawn = live.iter().map(|line| fit(line, width)).collect();
    drawn.iter().for_each(|line| push_line(&mut text, line));
    standard::write_out(&text);
}

/// Leaves the drawn lines as they are: the next output goes below them.
pub(super) fn leave(write: impl FnOnce()) {
    let drawn = DRAWN.try_lock_for(PATIENCE);
    if let Some(mut drawn) = drawn {
        drawn.clear();
    }
    write();
}

/// Writes whole lines to standard error, above the drawn ones.
pub(super) fn above(write: impl FnOnce()) {
    let drawn = DRAWN.try_lock_for(PATIENCE).filter(|drawn| !drawn.is_empty());
    let Some(drawn) = drawn.filter(|_| std::io::stderr().is_terminal()) else {
        return write();
    };
    let width = size().map_or(COLUMNS_ASSUMED, |(columns, _)| columns);
    standard::write_out(&clear(&drawn, width));
    write();
    let mut text = String::new();
    drawn.iter().for_each(|line| push_line(&mut text, &fit(line, width)));
    standard::write_out(&text);
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Goes up over lines that were drawn, on a terminal of this width, and clears from there.
fn clear(drawn: &[String], width: usize) -> String {
    let rows: usize = drawn.iter().map(|line| columns(line).div_ceil(width.max(1)).max(1)).sum();
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A\x1b[J") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_counts_the_rows_of_lines_that_a_narrower_terminal_has_wrapped() {
        let drawn = ["x".repeat(80), String::new(), "\x1b[32mdone\x1b[0m".to_owned()];
        assert_eq!(clear(&drawn, 120), "\x1b[3A\x1b[J");
        assert_eq!(clear(&drawn, 80), "\x1b[3A\x1b[J");
        assert_eq!(clear(&drawn, 79), "\x1b[4A\x1b[J");
        assert_eq!(clear(&drawn, 20), "\x1b[6A\x1b[J");
        assert_eq!(clear(&[], 80), "");
    }
}
