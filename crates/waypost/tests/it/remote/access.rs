//! Keys and the audit log.

use super::server::Server;
use super::{HELLO, file};
use crate::program::{Program, Ran};

fn key(program: &Program, role: &str) -> String {
    let made = program.run(&["keys", "create", "--role", role, "--name", "ci"]);
    assert_eq!(made.code, 0, "{}", made.err);
    made.out.trim().to_owned()
}

#[test]
fn a_server_that_asks_for_keys_gets_them() {
    let program = Program::new();
    let refused = program.run(&["serve", "--listen", "127.0.0.1:0", "--require-keys"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("waypost keys create"), "{}", refused.err);
    let (admin, viewer) = (key(&program, "admin"), key(&program, "viewer"));
    let server = Server::start(&program, &["--require-keys"]);
    let client = Program::new();
    let with = |key: Option<&str>, args: &[&str]| {
        let mut command = client.command(args);
        command.env("WAYPOST_SERVER", &server.url);
        command.envs(key.map(|key| ("WAYPOST_KEY", key)));
        Ran::from(command.output().unwrap())
    };
    let none = with(None, &["list"]);
    assert_eq!(none.code, 1);
    assert!(none.err.contains("set WAYPOST_KEY"), "{}", none.err);
    let wrong = with(Some("wpk_a_b"), &["list"]);
    assert!(wrong.err.contains("is taken from WAYPOST_KEY"), "{}", wrong.err);
    assert_eq!(with(Some(&viewer), &["list"]).code, 0);
    let hello = file(&program, "hello.yaml", HELLO);
    let forbidden = with(Some(&viewer), &["deploy", &hello]);
    assert_eq!(forbidden.code, 1);
    assert!(forbidden.err.contains("another role"), "{}", forbidden.err);
    assert_eq!(with(Some(&admin), &["deploy", &hello]).code, 0);

    let id = viewer.split('_').nth(1).unwrap().to_owned();
    let revoked = with(Some(&admin), &["keys", "revoke", &id]);
    assert_eq!(revoked.code, 0, "{}", revoked.err);
    assert_eq!(with(Some(&viewer), &["list"]).code, 1, "it is worth nothing at once");
    let by_server = with(Some(&admin), &["keys", "list", "-o", "json"]);
    let by_folder = program.run(&["keys", "list", "-o", "json"]);
    assert_eq!(by_server.out, by_folder.out, "{}{}", by_server.err, by_folder.err);
    assert!(!by_folder.out.contains(&admin), "a secret is shown once");

    let audit = program.run(&["audit"]);
    assert!(audit.out.contains("createKey") && audit.out.contains("folder"), "{}", audit.out);
}

#[test]
fn the_audit_log_says_who_did_what() {
    let program = Program::new();
    let admin = key(&program, "admin");
    let actor = format!("key:{}", admin.split('_').nth(1).unwrap());
    let mut server = Server::start(&program, &["--require-keys"]);
    let mut deploy = program.command(&["deploy", &file(&program, "hello.yaml", HELLO)]);
    assert!(deploy.env("WAYPOST_KEY", &admin).output().unwrap().status.success());
    // The audit log is written a moment later; what a server has taken is there when it has stopped.
    server.running().signal("-TERM");
    assert_eq!(server.wait().0, 0);
    let audit = program.json(&["audit", "--actor", &actor]);
    assert_eq!(audit["entries"][0]["action"], "deployDefinition", "{audit}");
    assert_eq!(audit["entries"][0]["subject"], "hello v1");
    let page = program.json(&["audit", "--limit", "1"]);
    let next = page["next"].as_str().unwrap();
    let rest = program.json(&["audit", "--before", next]);
    assert_eq!(rest["entries"][0]["action"], "createKey", "{rest}");
    let unknown = program.run(&["keys", "revoke", "nobody"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.err.contains("waypost keys list"), "{}", unknown.err);
}
