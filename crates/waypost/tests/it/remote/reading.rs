//! Commands print the same through a server as on the folder.

use waypost_testbed::postgres::Postgres;

use super::server::Server;
use super::{ASK, HELLO, file};
use crate::program::{Program, Ran};

/// Commands whose answer does not depend on the time of asking.
const QUESTIONS: &[&[&str]] = &[
    &["list", "-o", "json"],
    &["list", "--status", "completed", "--limit", "1", "-o", "json"],
    &["list", "--label", "team=red", "--text", "HELLO"],
    &["list", "--since", "2026-01-31T09:00:00Z", "--status", "failed"],
    &["show", "a-1"],
    &["show", "a-1", "-o", "json"],
    &["show", "b-2", "-o", "json"],
    &["show", "last", "-o", "json"],
    &["events", "a-1"],
    &["events", "b-2", "--type", "NodeWaiting", "-o", "json"],
    &["events", "a-1", "--node", "greet", "--after", "3", "--limit", "1", "-o", "json"],
    &["why", "a-1", "-o", "json"],
    &["why", "b-2", "-o", "json"],
    &["watch", "a-1"],
    &["watch", "a-1", "-o", "json"],
    &["definitions"],
    &["definitions", "hello", "-o", "json"],
    &["definitions", "hello", "--version", "1"],
    &["definitions", "hello", "--version", "1", "-o", "json"],
    &["limits", "-o", "json"],
    // What is not there, and what makes no sense.
    &["show", "nobody"],
    &["events", "nobody"],
    &["why", "nobody"],
    &["cancel", "nobody"],
    &["signal", "a-1", "late"],
    &["definitions", "nobody"],
    &["definitions", "hello", "--version", "9"],
    &["list", "--status", "done"],
    &["events", "a-1", "--limit", "0"],
];

fn prepared() -> Program {
    let program = Program::new();
    let (hello, ask) = (file(&program, "hello.yaml", HELLO), file(&program, "ask.yaml", ASK));
    let input = r#"{"name":"hello there"}"#;
    let ran = program.run(&["run", &hello, "--id", "a-1", "--label", "team=red", "-i", input]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    program.start(&["run", &ask, "--id", "b-2"], "for signal approved").kill();
    program
}

#[test]
fn commands_through_a_server_print_the_same_as_on_the_folder() {
    let program = prepared();
    let client = Program::new();
    let by_folder: Vec<Ran> = QUESTIONS.iter().map(|question| program.run(question)).collect();
    let server = Server::start(&program, &[]);
    for (question, expected) in QUESTIONS.iter().zip(by_folder) {
        let flag = [&["--server", &server.url], *question].concat();
        let mut by_variable = client.command(question);
        by_variable.env("WAYPOST_SERVER", server.address());
        for (way, ran) in [
            ("--server", client.run(&flag)),
            ("WAYPOST_SERVER", Ran::from(by_variable.output().unwrap())),
            ("the folder", program.run(question)),
        ] {
            assert_eq!(ran.out, expected.out, "{question:?} by {way}: {}", ran.err);
            assert_eq!(ran.err, expected.err, "{question:?} by {way}");
            assert_eq!(ran.code, expected.code, "{question:?} by {way}");
        }
    }
    assert!(!client.data().exists(), "a client of a server needs no folder");
}

#[test]
fn instances_are_those_of_the_server() {
    let program = prepared();
    let server = Server::start(&program, &[]);
    let instances = Program::new().json(&["--server", &server.url, "instances"]);
    let alive: Vec<_> = instances["instances"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["alive"] == true)
        .collect();
    assert_eq!(alive.len(), 1, "{instances}");
    assert_eq!(alive[0]["me"], true);
}

#[test]
fn unreachable_server_is_named_in_the_error() {
    let program = Program::new();
    let ran = program.run(&["--server", "127.0.0.1:1", "list"]);
    assert_eq!(ran.code, 1);
    for part in ["http://127.0.0.1:1", "named by --server", "connection refused", "waypost serve"] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = program.run(&["--server", "ftp://x", "list"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("is not a URL"), "{}", ran.err);
}

#[test]
fn some_things_are_done_to_a_folder_only() {
    let program = prepared();
    let server = Server::start(&program, &[]);
    let checked = program.run(&["check"]);
    assert_eq!(checked.code, 0, "beside a server: {}{}", checked.out, checked.err);
    for command in [&["check"][..], &["projections", "rebuild"]] {
        let ran = program.run(&[&["--server", &server.url], command].concat());
        assert_eq!(ran.code, 2, "{command:?}: {}", ran.out);
        assert!(ran.err.contains("works on a folder or a database"), "{}", ran.err);
        assert!(ran.err.contains("named by --server"), "{}", ran.err);
    }
    for command in [&["start", "hello"][..], &["complete-wait", "b-2~3"]] {
        let ran = Program::new().run(command);
        assert_eq!(ran.code, 1);
        assert!(ran.err.contains("waypost serve"), "{}", ran.err);
    }
}

/// A server and a database are both in the environment of many an operator: what is done to the
/// database itself is done there, unless a server is named more plainly.
#[test]
fn check_with_a_named_database_ignores_the_named_server() {
    let (program, url) = (Program::new(), Postgres::shared().database());
    let unreachable = "http://127.0.0.1:1,http://127.0.0.1:2";
    let run = |args: &[&str], database: &str| {
        let mut command = program.command(args);
        command.env("WAYPOST_SERVER", unreachable).env("WAYPOST_DATABASE_URL", database);
        Ran::from(command.output().unwrap())
    };
    for command in [&["check"][..], &["projections", "rebuild"]] {
        let by_variable = run(command, &url);
        assert_eq!(by_variable.code, 0, "{command:?}: {}{}", by_variable.out, by_variable.err);
        let flags = ["--server", "127.0.0.1:1", "--database-url", &url];
        let by_flag = run(&[&flags, command].concat(), "");
        assert_eq!(by_flag.code, 0, "{command:?}: {}{}", by_flag.out, by_flag.err);
        let refused = run(&[&["--server", "127.0.0.1:1"], command].concat(), &url);
        assert_eq!(refused.code, 2, "{command:?}: {}{}", refused.out, refused.err);
        assert!(refused.err.contains("name the database with --database-url"), "{}", refused.err);
    }
}
