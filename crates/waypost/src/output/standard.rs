//! Standard output and standard error. Either may be closed, full or a pipe that nothing reads: to
//! write to it then is no reason to end, and never a panic.

use std::io::{self, Write};
use std::sync::OnceLock;

use super::escape::{escape_control, escape_painted};
use super::screen;

/// The first error of standard output; nothing is written there after it.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Why standard output failed, if it did.
pub fn failure() -> Option<&'static io::Error> {
    FAILURE.get()
}

/// Does nothing read standard output any more? That is `waypost list | head`, and no error.
pub fn is_reader_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Writes to standard output, and remembers the first error.
pub(super) fn write_out(text: &str) {
    if failure().is_some() {
        return;
    }
    if let Err(error) = try_write(io::stdout().lock(), text.as_bytes()) {
        // Another thread may have been first.
        FAILURE.set(error).unwrap_or_default();
    }
}

/// Writes information to standard output: an error is not remembered, and the process continues.
pub(super) fn write_out_if_possible(text: &str) {
    try_write(io::stdout().lock(), text.as_bytes()).unwrap_or_default();
}

/// Writes to standard error; there is no place to report an error to.
pub(super) fn write_err(bytes: &[u8]) {
    try_write(io::stderr().lock(), bytes).unwrap_or_default();
}

fn try_write(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)?;
    stream.flush()
}

/// The writer of log lines: to standard error, above the lines that are drawn there. Errors are
/// swallowed, because the subscriber would report them on standard error, and a report that fails
/// is a panic.
///
/// Logged text may come from outside. The subscriber spells out changes of colour in it, so that
/// those left are its own; line ends inside of an event are indented, so that nothing looks like
/// another event.
#[derive(Clone, Copy, Debug)]
pub struct LogWriter {
    /// Are events logged in colour?
    pub color: bool,
}

impl LogWriter {
    fn clean(self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let event = text.trim_end_matches('\n');
        let event = if self.color { escape_painted(event) } else { escape_control(event) };
        format!("{}\n", event.replace('\n', "\n    "))
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = self.clean(bytes);
        screen::above(|| write_err(line.as_bytes()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_writer_spells_out_what_acts_and_indents_what_follows() {
        let event = "WARN \x1b[31mred\x1b[0m \u{202e}\u{9b}2J\nINFO forged\n";
        let shown = |color| LogWriter { color }.clean(event.as_bytes());
        let plain = "WARN \\u{1b}[31mred\\u{1b}[0m \\u{202e}\\u{9b}2J\n    INFO forged\n";
        assert_eq!(shown(false), plain);
        assert_eq!(shown(true), plain.replace("\\u{1b}", "\x1b"));
    }
}
