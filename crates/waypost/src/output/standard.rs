//! Standard output and standard error. Either may be closed, full or a pipe that nothing reads: to
//! write to it then is no reason to end, and never a panic.

use std::io::{self, Write};
use std::sync::OnceLock;

use super::screen;

/// The first error of standard output; nothing is written there after it.
static FAILURE: OnceLock<io::Error> = OnceLock::new();

/// Why standard output does not take what is printed, if it does not.
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

/// Writes to standard output what only informs: an error is not remembered, and the process goes on.
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

/// Where log lines go: to standard error, above what is drawn there. Errors are swallowed, because the
/// subscriber would report them on standard error, and a report that fails is a panic.
#[derive(Clone, Copy, Debug)]
pub struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        screen::above(|| write_err(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
