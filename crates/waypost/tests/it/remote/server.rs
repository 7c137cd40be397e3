//! A real `waypost serve` on the folder of a program.

use crate::program::{Program, Running};

/// A server that runs; killed where nobody stops it.
pub(super) struct Server {
    running: Option<Running>,
    pub(super) url: String,
}

impl Server {
    /// On any port.
    pub(super) fn start(program: &Program, args: &[&str]) -> Self {
        Self::start_at(program, "127.0.0.1:0", args)
    }

    pub(super) fn start_at(program: &Program, address: &str, args: &[&str]) -> Self {
        let args = [&["serve", "--listen", address], args].concat();
        let running = program.start(&args, "serves http");
        let url = running.seen.split_whitespace().last().unwrap().to_owned();
        Self { running: Some(running), url }
    }

    /// Host and port.
    pub(super) fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    pub(super) fn running(&mut self) -> &mut Running {
        self.running.as_mut().unwrap()
    }

    /// `kill -9`.
    pub(super) fn kill(mut self) {
        self.running.take().unwrap().kill();
    }

    /// Waits for the end; gives the exit code and all that was printed.
    pub(super) fn wait(mut self) -> (i32, String) {
        self.running.take().unwrap().wait()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            running.kill();
        }
    }
}
