//! Children are seen to live, freeze and die, with everything that they started.

use std::process::Command;

use waypost_testbed::{Process, Sink, wait_until};

use crate::PATIENCE;

fn shell(script: &str, folder: &std::path::Path) -> Process {
    let mut command = Command::new("sh");
    command.args(["-c", script]).env("GREETING", "good morning").current_dir(folder);
    Process::start(&command, &folder.join("log"))
}

/// The state letter of a process as the kernel tells it; nothing when there is no such process.
fn state(id: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    stat.rsplit(')').next()?.trim().chars().next()
}

#[test]
fn child_output_and_exit_status_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shell("echo \"$GREETING\"; pwd; echo oh >&2; exit 3", folder.path());
    assert_eq!(child.wait_for_line("good", PATIENCE), "good morning");
    assert_eq!(child.wait(PATIENCE).code(), Some(3));
    let here = folder.path().canonicalize().unwrap();
    assert_eq!(child.output(), format!("good morning\n{}\noh\n", here.display()));
}

#[test]
fn a_child_can_be_frozen_and_asked_to_end() {
    let folder = tempfile::tempdir().unwrap();
    // Starts nothing itself: a shell that is stopped while it starts something is not seen to be.
    let mut child =
        shell("trap 'echo bye; exit 0' TERM; echo up; while :; do :; done", folder.path());
    child.wait_for_line("up", PATIENCE);
    let id = child.id().to_string();
    child.freeze();
    wait_until("it stands still", PATIENCE, || state(&id) == Some('T'));
    child.thaw();
    wait_until("it goes on", PATIENCE, || state(&id) != Some('T'));
    child.terminate();
    assert!(child.wait(PATIENCE).success());
    child.wait_for_line("bye", PATIENCE);
}

#[test]
fn dropping_a_child_ends_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shell("sleep 1000 & echo grandchild=$!; wait", folder.path());
    let line = child.wait_for_line("grandchild=", PATIENCE);
    let grandchild = line.trim_start_matches("grandchild=").to_owned();
    assert!(state(&grandchild).is_some());
    drop(child);
    // Killed, and then reaped by the process that adopted it; a zombie has ended too.
    wait_until("it is gone", PATIENCE, || matches!(state(&grandchild), None | Some('Z')));
}

#[test]
fn readiness_is_an_answer_200() {
    let folder = tempfile::tempdir().unwrap();
    let sink = Sink::start();
    let mut child = shell("sleep 1000", folder.path());
    child.wait_ready(sink.port(), PATIENCE);
    assert_eq!(sink.received()[0].path, "/readyz");
}

#[test]
fn a_child_that_ends_early_is_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = shell("echo no such luck", folder.path());
    let wait = std::panic::AssertUnwindSafe(|| child.wait_for_line("up", PATIENCE));
    let panic = std::panic::catch_unwind(wait).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no such luck"), "{message}");
}

/// Runs itself in a process of its own, which starts a child and is then killed.
#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    const INNER: &str = "WAYPOST_TESTBED_INNER";
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os(INNER).is_some() {
        let child = shell("sleep 1000", folder.path());
        println!("child={}", child.id());
        std::thread::park();
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        "process::a_killed_test_process_leaves_nothing_behind",
        "--nocapture",
    ]);
    command.env(INNER, "1");
    let mut inner = Process::start(&command, &folder.path().join("log"));
    let line = inner.wait_for_line("child=", PATIENCE);
    let child = line.split_once("child=").unwrap().1.to_owned();
    assert!(state(&child).is_some());
    inner.kill();
    wait_until("it is gone", PATIENCE, || matches!(state(&child), None | Some('Z')));
}
