//! `shell`: what a command sees, what is kept of it, and that it leaves nothing behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;
use waypost_core::time::Millis;
use waypost_nodes::Settings;
use waypost_ports::handler::{Marks, Task};

use crate::support::{Signs, details, handler, run_with, settings, shell, task};

#[tokio::test]
async fn a_command_gives_its_output() {
    let output = shell(json!({"command": "echo out; echo err >&2"})).await.unwrap();
    let expected = json!({"exitCode": 0, "stdout": "out\n", "stderr": "err\n", "truncated": false});
    assert_eq!(output, expected);
}

#[tokio::test]
async fn output_that_is_json_is_parsed_too() {
    for (command, expected) in [
        (r#"echo '{"n": 9007199254740993}'"#, json!({"n": 9_007_199_254_740_993_u64})),
        ("echo 5", json!(5)),
        ("echo five", Value::Null),
        ("true", Value::Null),
        ("echo '{}'; echo '{}'", Value::Null),
    ] {
        let output = shell(json!({"command": command})).await.unwrap();
        assert_eq!(output["json"], expected, "{command}");
    }
    let deep = format!("{}{}", "[".repeat(127), "]".repeat(127));
    let output = shell(json!({"args": ["printf", "%s", deep]})).await.unwrap();
    assert_eq!(output["stdout"], json!(deep));
    assert_eq!(output["json"], Value::Null);
}

#[tokio::test]
async fn arguments_are_not_seen_by_a_shell() {
    let args = json!(["printf", "%s|", "$HOME", "a b", "*", 3, true, ""]);
    let output = shell(json!({"args": args})).await.unwrap();
    assert_eq!(output["stdout"], "$HOME|a b|*|3|true||");
}

#[tokio::test]
async fn exit_codes_are_failures_with_the_end_of_the_output() {
    let failure =
        shell(json!({"command": "echo so far; echo broken >&2; exit 7"})).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("exit_code", true));
    assert!(failure.message.contains('7'), "{}", failure.message);
    let expected = json!({"exitCode": 7, "stdout": "so far\n", "stderr": "broken\n"});
    assert_eq!(details(&failure), expected);

    let long = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; exit 1";
    let config = json!({"command": long, "outputBytesMax": 10});
    let found = details(&shell(config).await.unwrap_err());
    let stdout = found["stdout"].as_str().unwrap();
    assert!(stdout.ends_with("line 1999\n") && stdout.len() <= 4096, "{stdout}");

    let failure = shell(json!({"command": "kill -9 $$"})).await.unwrap_err();
    assert_eq!(failure.kind, "exit_code");
    assert!(failure.message.contains("signal 9"), "{}", failure.message);
}

#[tokio::test]
async fn shell_command_that_cannot_start_fails_with_its_reason() {
    for config in [
        json!({"args": ["/no/such/program"]}),
        json!({"command": "true", "cwd": "/no/such/place"}),
        json!({"args": ["/"]}),
    ] {
        let failure = shell(config.clone()).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("spawn", false), "{config}");
        assert!(failure.message.contains("cannot start"), "{}", failure.message);
    }
    for config in [
        json!({"args": []}),
        json!({"args": ["echo", "a\0b"]}),
        json!({"command": "true", "env": {"A=B": "1"}}),
        json!({"command": "true", "args": ["true"]}),
        json!({}),
    ] {
        let failure = shell(config.clone()).await.unwrap_err();
        assert_eq!((&*failure.kind, failure.retryable), ("invalid_config", false), "{config}");
    }
}

#[tokio::test]
async fn shell_environment_is_small_and_names_the_attempt() {
    let config = json!({
        "args": ["env"],
        "env": {"TEXT": "a b", "NUMBER": 5, "LIST": [1, 2], "LANG": null, "HOME": "/elsewhere"},
    });
    let task = Task { attempt: 3, ..task("shell", &config) };
    let output = run_with(&settings(), task).await.unwrap().to_value().unwrap();
    let mut names = Vec::new();
    for line in output["stdout"].as_str().unwrap().lines() {
        names.push(line.split('=').next().unwrap().to_owned());
        match line.split_once('=').unwrap() {
            ("TEXT", value) => assert_eq!(value, "a b"),
            ("NUMBER", value) => assert_eq!(value, "5"),
            ("LIST", value) => assert_eq!(value, "[1,2]"),
            ("HOME", value) => assert_eq!(value, "/elsewhere"),
            ("PATH", value) => assert_eq!(value, std::env::var("PATH").unwrap()),
            ("WAYPOST_EXECUTION", value) => assert_eq!(value, "exe_test"),
            ("WAYPOST_NODE", value) => assert_eq!(value, "profile"),
            ("WAYPOST_ATTEMPT", value) => assert_eq!(value, "3"),
            ("WAYPOST_IDEMPOTENCY_KEY", value) => assert_eq!(value, "exe_test/profile/1"),
            ("LC_ALL" | "LC_CTYPE" | "LOGNAME" | "TMPDIR" | "TZ" | "USER", _) => {}
            (name, _) => panic!("{name} is not for commands to see"),
        }
    }
    for name in ["TEXT", "NUMBER", "LIST", "HOME", "PATH", "WAYPOST_EXECUTION", "WAYPOST_NODE"] {
        assert!(names.iter().any(|found| found == name), "{name}");
    }
    // Cargo gives tests plenty of variables of its own: none of them may get through.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
}

#[tokio::test]
async fn shell_command_runs_in_cwd_and_reads_stdin() {
    let place = TempDir::new().unwrap();
    let config = json!({"command": "pwd -P; cat", "cwd": place.path(), "stdin": "typed\n"});
    let output = shell(config).await.unwrap();
    let real = place.path().canonicalize().unwrap();
    assert_eq!(output["stdout"], json!(format!("{}\ntyped\n", real.display())));

    let output = shell(json!({"command": "cat"})).await.unwrap();
    assert_eq!(output["stdout"], "", "input ends where there is none");

    // More input than a pipe holds, to a command that reads none of it.
    let config = json!({"command": "exec <&-; echo done", "stdin": "x".repeat(500_000)});
    assert_eq!(shell(config).await.unwrap()["stdout"], "done\n");
    let config = json!({"command": "wc -c | tr -d ' '", "stdin": "x".repeat(500_000)});
    assert_eq!(shell(config).await.unwrap()["json"], 500_000);
}

#[tokio::test]
async fn shell_output_beyond_the_cap_is_truncated_and_marked() {
    let command = "head -c 3000000 /dev/zero | tr '\\0' 'x'; echo end >&2";
    let output = shell(json!({"command": command, "outputBytesMax": 1000})).await.unwrap();
    assert_eq!(output["stdout"].as_str().unwrap().len(), 1000);
    assert_eq!((&output["stderr"], &output["truncated"]), (&json!("end\n"), &json!(true)));

    let output = shell(json!({"command": command})).await.unwrap();
    assert_eq!(output["stdout"].as_str().unwrap().len(), 256 * 1024);

    let output = shell(json!({"command": "printf 'aü'", "outputBytesMax": 2})).await.unwrap();
    assert_eq!(output["stdout"], "a", "no half characters");
    let output = shell(json!({"command": "printf 12", "outputBytesMax": 1})).await.unwrap();
    assert_eq!(output["json"], Value::Null, "half a number is another number");
    let output = shell(json!({"command": "printf '\\377x'"})).await.unwrap();
    assert_eq!(output["stdout"], "\u{fffd}x");
}

#[tokio::test]
async fn commands_are_off_unless_switched_on() {
    let place = TempDir::new().unwrap();
    let config = json!({"command": "touch made", "cwd": place.path()});
    let failure = run_with(&Settings::default(), task("shell", &config)).await.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("shell_disabled", false));
    assert!(failure.message.contains("--enable-shell"), "{}", failure.message);
    assert!(!place.path().join("made").exists());
}

/// A family of processes: the command, a child and a grandchild, each holding a fifo open. Its end is
/// seen when, and only when, all of them are gone.
struct Family {
    fifo: PathBuf,
    _place: TempDir,
}

impl Family {
    async fn new() -> Self {
        let place = TempDir::new().unwrap();
        let fifo = place.path().join("fifo");
        let made = tokio::process::Command::new("mkfifo").arg(&fifo).status().await.unwrap();
        assert!(made.success());
        Self { fifo, _place: place }
    }

    /// Writes its three process ids to the fifo, one a line, and stays. `prelude` comes first in
    /// every process.
    fn command(&self, prelude: &str) -> String {
        let fifo = self.fifo.display();
        let grandchild = format!("{prelude} echo $$ >&3; while :; do sleep 1000; done");
        let child = format!("{prelude} sh -c '{grandchild}' & echo $$ >&3; wait; sleep 1000");
        let child = child.replace('\'', r#"'"'"'"#);
        format!("exec 3>{fifo}; {prelude} sh -c '{child}' & echo $$ >&3; wait; sleep 1000")
    }

    /// Waits for the first process to be there.
    async fn watch(&self) -> Watch {
        let fifo = self.fifo.clone();
        // Opening a fifo blocks until another process opens its other end.
        let opened = tokio::task::spawn_blocking(move || std::fs::File::open(fifo)).await.unwrap();
        Watch(BufReader::new(pipe::Receiver::from_file(opened.unwrap()).unwrap()))
    }
}

/// The reading end of a family's fifo.
struct Watch(BufReader<pipe::Receiver>);

impl Watch {
    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line
    }

    /// Waits until all three processes are there.
    async fn all_there(&mut self) {
        for _ in 0..3 {
            assert_ne!(self.line().await, "", "the family ended by itself");
        }
    }

    /// Waits until none is left.
    async fn all_gone(&mut self) {
        let mut rest = Vec::new();
        let gone = tokio::time::timeout(Duration::from_secs(30), self.0.read_to_end(&mut rest));
        gone.await.expect("a process is left over").unwrap();
    }
}

fn quick() -> Settings {
    Settings { shell_grace: Millis(100), ..settings() }
}

#[tokio::test]
async fn shell_run_that_is_cancelled_ends_the_process_group() {
    // With processes that end when asked, and with ones that do not listen.
    for prelude in ["", "trap \"\" TERM;"] {
        let family = Family::new().await;
        let config = json!({"command": family.command(prelude)});
        let cancel = CancellationToken::new();
        let run = handler(&quick(), "shell").run(task("shell", &config), cancel.clone());
        let stop = async {
            let mut watch = family.watch().await;
            watch.all_there().await;
            cancel.cancel();
            watch.all_gone().await;
        };
        let (outcome, ()) = tokio::join!(run, stop);
        assert_eq!(outcome.unwrap_err().kind, "cancelled");
    }
}

#[tokio::test]
async fn shell_run_that_is_dropped_kills_the_process_group() {
    let family = Family::new().await;
    let config = json!({"command": family.command("trap \"\" TERM;")});
    let run = handler(&settings(), "shell").run(task("shell", &config), CancellationToken::new());
    let begun = async {
        let mut watch = family.watch().await;
        watch.all_there().await;
        watch
    };
    let mut watch = tokio::select! {
        outcome = run => panic!("{outcome:?}"),
        watch = begun => watch,
    };
    watch.all_gone().await;
}

#[tokio::test]
async fn shell_timeout_ends_the_process_group_and_keeps_its_output() {
    let family = Family::new().await;
    let config = json!({"command": format!("echo begun; {}", family.command(""))});
    let task = Task { timeout: Some(Millis(1000)), ..task("shell", &config) };
    let settings = quick();
    let (outcome, mut watch) = tokio::join!(run_with(&settings, task), family.watch());
    let failure = outcome.unwrap_err();
    assert_eq!((&*failure.kind, failure.retryable), ("timeout", true));
    assert_eq!(details(&failure)["stdout"], "begun\n");
    watch.all_gone().await;
}

#[tokio::test]
async fn a_command_may_clean_up_when_it_is_ended() {
    let family = Family::new().await;
    // The cleaning is done by a child that outlives the shell that started it.
    let command = format!(
        "sh -c 'trap \"echo cleaned; exit 0\" TERM; echo ready >{}; while :; do sleep 0.01; done'; true",
        family.fifo.display()
    );
    let cancel = CancellationToken::new();
    let config = json!({"command": command});
    let run = handler(&settings(), "shell").run(task("shell", &config), cancel.clone());
    let stop = async {
        assert_eq!(family.watch().await.line().await, "ready\n");
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(run, stop);
    assert_eq!(details(&outcome.unwrap_err())["stdout"], "cleaned\n");
}

#[tokio::test]
async fn shell_background_process_neither_delays_the_end_nor_survives() {
    let family = Family::new().await;
    // The child inherits the command's output as well as the fifo, and keeps both open.
    let command = format!("exec 3>{}; sleep 1000 & echo started", family.fifo.display());
    let (settings, task) = (quick(), task("shell", &json!({"command": command})));
    let (outcome, mut watch) = tokio::join!(run_with(&settings, task), family.watch());
    let output = outcome.unwrap().to_value().unwrap();
    assert_eq!((&output["stdout"], &output["exitCode"]), (&json!("started\n"), &json!(0)));
    watch.all_gone().await;
}

#[tokio::test]
async fn output_of_a_command_is_a_sign_of_life() {
    for (command, beats) in [("echo out", true), ("echo err >&2", true), ("true", false)] {
        let signs = Arc::new(Signs::default());
        let marks = Marks::to(Arc::clone(&signs) as _);
        let task = Task { marks, ..task("shell", &json!({"command": command})) };
        run_with(&settings(), task).await.unwrap();
        assert_eq!(signs.count() > 0, beats, "{command}");
    }
}
