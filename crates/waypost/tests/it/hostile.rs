//! Text that would act on a terminal, or make it show something else, in every place that users fill:
//! nothing of it comes through a command, in any format.

use serde_json::{Value, json};

use crate::program::{Program, Ran};

/// A colour that we never use, a title, a clearing of the screen (C1), turned writing, a line overwritten.
const HOSTILE: &str = "\x1b[38;5;201mpink\x1b[0m\x1b]0;title\x07\u{9b}2J\u{202e}live\u{2066}\u{2069}\
                       \u{200e}\u{200f}\u{61c}\u{7f}\rover";

fn is_harmful(char: char) -> bool {
    let turns = matches!(char, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}');
    turns || char.is_control() && !matches!(char, '\n' | '\t')
}

/// Our own colours are left out, where there are any; that of the hostile text never passes for one.
fn without_colors(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap().to_owned();
    for piece in pieces {
        let code: String = piece.chars().take_while(|char| "0123456789;".contains(*char)).collect();
        match piece[code.len()..].strip_prefix('m') {
            Some(rest) if !code.contains("201") => plain.push_str(rest),
            _ => plain.push_str(&format!("\x1b[{piece}")),
        }
    }
    plain
}

fn check(ran: &Ran, args: &[&str], colored: bool) {
    for text in [&ran.out, &ran.err] {
        let plain = if colored { without_colors(text) } else { text.clone() };
        let harmful: Vec<_> = plain.chars().filter(|char| is_harmful(*char)).collect();
        assert!(harmful.is_empty(), "{args:?} prints {harmful:?}:\n{}", text.escape_debug());
    }
}

/// Runs a command in every format and colour, with its log.
fn run_all(program: &Program, args: &[&str]) {
    for (extra, colored) in [
        (&["--color", "never"][..], false),
        (&["--color", "always"], true),
        (&["-o", "json"], false),
    ] {
        let all = [args, extra].concat();
        let ran = program.command(&all).env("WAYPOST_LOG", "debug").output().unwrap();
        check(&Ran::from(ran), &all, colored);
    }
}

fn definition(name: &str, node: &Value) -> String {
    json!({ "name": name, "nodes": [node] }).to_string()
}

#[test]
fn hostile_text_is_spelt_out_by_every_command() {
    let program = Program::new();
    let failing = definition(
        "failing",
        &json!({ "id": "boom", "type": "shell", "config": {
        "args": ["sh", "-c", "printf '%s' \"$TEXT\" >&2; exit 3"],
        "env": { "TEXT": "${{ input.text }}" },
    } }),
    );
    let waiting = definition(
        "waiting",
        &json!({ "id": "ask", "type": "wait-for-events",
        "config": { "name": HOSTILE } }),
    );
    let passing = definition(
        "passing",
        &json!({ "id": "out", "type": "output",
        "config": { "value": "${{ input }}" } }),
    );
    let faulty = definition(
        "faulty",
        &json!({ "id": "a", "type": HOSTILE, HOSTILE: HOSTILE,
        "description": HOSTILE, "needs": [HOSTILE], "config": { "value": HOSTILE } }),
    );
    let file = |name: &str, text: &str| program.file(name, text).display().to_string();
    let failing = file(&format!("{HOSTILE}.json").replace('/', "_"), &failing);
    let (waiting, passing) = (file("waiting.json", &waiting), file("passing.json", &passing));
    let faulty = file("faulty.json", &faulty);
    let input = json!({ "text": HOSTILE }).to_string();
    let label = format!("team={HOSTILE}");
    for flow in [&failing, &passing] {
        run_all(&program, &["run", flow, "--input", &input, "--label", &label]);
    }
    let shown = program.json(&["show", "last"]);
    assert_eq!(shown["input"]["text"], HOSTILE, "escaped, and the same value");

    for flow in [&failing, &waiting, &passing, &faulty] {
        run_all(&program, &["validate", flow]);
        run_all(&program, &["deploy", flow]);
    }
    let list = program.json(&["list"]);
    let executions = list["executions"].as_array().unwrap();
    for workflow in ["failing", "passing"] {
        let of_it = |execution: &&Value| execution["workflow"] == workflow;
        let id = executions.iter().find(of_it).unwrap()["id"].as_str().unwrap();
        for command in ["show", "events", "why", "watch", "resume", "check"] {
            run_all(&program, &[command, id]);
        }
        run_all(&program, &["cancel", id, "--reason", HOSTILE]);
        run_all(&program, &["signal", id, HOSTILE, "--body", &input]);
    }
    run_all(&program, &["list"]);
    run_all(&program, &["list", "--label", &label]);
    run_all(&program, &["definitions"]);
    for workflow in ["failing", "waiting", "passing", HOSTILE] {
        run_all(&program, &["definitions", workflow]);
        run_all(&program, &["definitions", workflow, "--version", "1"]);
    }
    run_all(&program, &["audit"]);
    for args in [
        ["show", HOSTILE],
        ["run", HOSTILE],
        ["validate", HOSTILE],
        ["start", HOSTILE],
        ["list", "--server=http://\u{9b}31m\u{202e}"],
    ] {
        run_all(&program, &args);
    }
}

#[test]
fn log_lines_are_in_color_only_where_colors_are_wanted() {
    for (args, no_color, colored) in [
        (&["--color", "never"][..], "", false),
        // A pipe.
        (&[], "", false),
        (&["--color", "always"], "1", true),
    ] {
        let program = Program::new();
        let mut command = program.command(&[&["migrate", "--log", "info"], args].concat());
        let log = Ran::from(command.env("NO_COLOR", no_color).output().unwrap()).err;
        assert!(log.contains("migrated"), "{args:?}: {log}");
        assert_eq!(log.contains('\x1b'), colored, "{args:?}: {log}");
    }
}
