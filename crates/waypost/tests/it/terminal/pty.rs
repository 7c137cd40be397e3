//! A command on a terminal of its own.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// A command whose standard output and standard error are a terminal.
pub(super) struct OnTerminal {
    child: Child,
    /// What a terminal emulator would read.
    emulator: File,
    /// What was read and not given yet.
    seen: Vec<u8>,
}

impl OnTerminal {
    pub(super) fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let emulator = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&emulator).unwrap();
        unlockpt(&emulator).unwrap();
        set_size(&emulator, columns, rows);
        let name = ptsname(&emulator, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        command.env("TERM", "xterm-256color").env_remove("NO_COLOR").stdin(Stdio::null());
        command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
        let child = command.spawn().unwrap();
        // It holds the terminal open, which must end with the child.
        drop(command);
        Self { child, emulator: File::from(emulator), seen: Vec::new() }
    }

    pub(super) fn resize(&self, columns: u16, rows: u16) {
        set_size(&self.emulator, columns, rows);
    }

    /// Reads until what was read since the last call is enough, and gives it.
    pub(super) fn read_until(&mut self, enough: impl Fn(&str) -> bool) -> String {
        loop {
            if let Ok(text) = std::str::from_utf8(&self.seen)
                && enough(text)
            {
                return String::from_utf8(std::mem::take(&mut self.seen)).unwrap();
            }
            assert!(self.read() > 0, "it ended: {}", String::from_utf8_lossy(&self.seen));
        }
    }

    /// Reads to the end; gives the exit code and what was not given yet.
    pub(super) fn finish(mut self) -> (i32, String) {
        while self.read() > 0 {}
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        (code, String::from_utf8(self.seen).unwrap())
    }

    fn read(&mut self) -> usize {
        let mut bytes = [0; 4096];
        // A terminal that no process holds any more is an error, not an end.
        let read = self.emulator.read(&mut bytes).unwrap_or(0);
        self.seen.extend_from_slice(&bytes[..read]);
        read
    }
}

fn set_size(terminal: &(impl AsFd + ?Sized), columns: u16, rows: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal.as_fd(), size).unwrap();
}
