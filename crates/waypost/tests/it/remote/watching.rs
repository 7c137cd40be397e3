//! Watching across restarts of the server, and where no server is.

use super::server::Server;
use super::{ASK, YES, file};
use crate::program::{Program, Running};

#[test]
fn a_watch_outlives_the_server() {
    for by_folder in [false, true] {
        let program = Program::new();
        let server = Server::start(&program, &[]);
        assert_eq!(program.run(&["deploy", &file(&program, "ask.yaml", ASK)]).code, 0);
        assert_eq!(program.run(&["start", "approval", "--id", "w"]).code, 0);
        let client = Program::new();
        let watch = match by_folder {
            true => program.command(&["watch", "w"]),
            false => client.command(&["--server", &server.url, "watch", "w"]),
        };
        let mut watching = Running::start(watch, "for signal approved");
        let address = server.address().to_owned();
        server.kill();
        watching.read_until("connection lost, trying again");
        // A folder says where its server is now; an address that was named stays the same.
        let address = if by_folder { "127.0.0.1:0" } else { &address };
        let server = Server::start_at(&program, address, &[]);
        watching.read_until("connected again");
        let signal = ["--server", &server.url, "signal", "w", "approved", "-b", YES];
        assert_eq!(program.run(&signal).code, 0);
        let (code, out) = watching.wait();
        assert_eq!(code, 0, "{out}");
        assert!(out.contains("output: \"Eve\""), "{out}");
        assert_eq!(out.matches("for signal approved").count(), 1, "nothing is told twice: {out}");
    }
}

#[test]
fn a_watch_without_a_server_reads_the_log() {
    let program = Program::new();
    let ask = file(&program, "ask.yaml", ASK);
    let running = program.start(&["run", &ask, "--id", "w"], "for signal approved");
    let watching = program.start(&["watch", "last"], "for signal approved");
    assert_eq!(program.run(&["signal", "w", "approved", "-b", YES]).code, 0);
    for (code, out) in [running.wait(), watching.wait()] {
        assert_eq!(code, 0, "{out}");
        assert!(out.contains("after") && out.contains("output: \"Eve\""), "{out}");
    }
    let running = program.start(&["run", &ask, "--id", "v"], "for signal approved");
    let watching = program.start(&["watch", "v"], "for signal approved");
    running.kill();
    let (code, out) = watching.wait();
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("no engine is running") && out.contains("waypost resume v"), "{out}");
}
