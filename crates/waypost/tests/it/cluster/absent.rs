//! A database that is not there, or is no database: every command says so, and none falls over.

use std::process::Command;

use waypost_testbed::free_port;
use waypost_testbed::postgres::Postgres;

const COMMANDS: &[&[&str]] = &[
    &["serve", "--listen", "127.0.0.1:0"],
    &["list"],
    &["show", "last"],
    &["check"],
    &["migrate"],
    &["migrate", "--dry-run"],
    &["projections", "rebuild"],
    &["signal", "last", "go"],
];

fn failed(url: &str, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_waypost"));
    command.env_clear().env("HOME", "/nowhere").env("WAYPOST_DATABASE_URL", url).args(args);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(1..=3)), "{args:?}: {:?}\n{said}", output.status);
    assert!(said.starts_with("error: ") && !said.contains("panicked"), "{args:?}: {said}");
    said
}

#[test]
fn a_database_that_does_not_answer_is_named() {
    let place = format!("127.0.0.1:{}", free_port());
    for args in COMMANDS {
        let said = failed(&format!("postgres://u:canary@{place}/db?sslmode=disable"), args);
        assert!(said.contains("127.0.0.1") && said.contains("refused"), "{args:?}: {said}");
        assert!(!said.contains("canary"), "{args:?}: {said}");
    }
}

#[test]
fn a_database_that_does_not_exist_is_named() {
    let url = Postgres::shared().url("nothing_here");
    for args in COMMANDS {
        let said = failed(&url, args);
        assert!(said.contains("nothing_here"), "{args:?}: {said}");
    }
}
