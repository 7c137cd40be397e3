//! Progress on a terminal: what is left on the screen is what happened, without fragments of lines
//! that were drawn on the way.

mod pty;
mod screen;

use self::pty::OnTerminal;
use self::screen::Screen;
use crate::markdown::blocks;
use crate::program::Program;
use crate::snippets::expected;
use crate::tidy::{find, root};

/// Lines on the way are wider than any terminal: a retry's reason and time, a long and wide name.
const FLOW: &str = "name: live
nodes:
  - id: flaky
    type: shell
    config: { command: '[ \"$WAYPOST_ATTEMPT\" -ge 3 ] || exit 7' }
    retry: { maxAttempts: 3, waitDuration: 20ms }
  - id: a-node-with-a-name-that-is-longer-than-its-column
    type: noop
  - id: ask
    type: wait-for-events
    needs: [flaky]
    config: { name: 配送を承認してください🚀そして戻ってきてください, timeout: 2d }
  - id: ask-again
    type: wait-for-events
    needs: [flaky]
    config: { name: a-signal-with-quite-a-long-name-that-wraps-on-narrow-terminals, timeout: 2d }
  - id: fails
    type: shell
    needs: [ask, ask-again]
    onError: continue
    config: { args: [sh, -c, 'exit 9'] }
  - id: done
    type: output
    needs: [fails]
    config: { value: all done }
";

const SIGNALS: [&str; 2] = [
    "配送を承認してください🚀そして戻ってきてください",
    "a-signal-with-quite-a-long-name-that-wraps-on-narrow-terminals",
];

/// Runs the workflow on a terminal of this width; `resized` is its width from the waits on.
fn run(columns: u16, resized: Option<u16>, more: &[&str]) -> Screen {
    let program = Program::new();
    let flow = program.file("live.yaml", FLOW).display().to_string();
    let args = [&["run", &flow, "--id", "e"], more].concat();
    let mut terminal = OnTerminal::start(program.command(&args), columns, 40);
    let mut screen = Screen::new(columns.into(), 40);
    screen.feed(&terminal.read_until(|text| {
        // Both waits are drawn, in one block.
        let block = text.rsplit("\x1b[J").next().unwrap_or_default();
        block.matches("WAITING").count() == 2 && block.ends_with('\n')
    }));
    if let Some(columns) = resized {
        terminal.resize(columns, 40);
        screen.resize(columns.into());
    }
    for name in SIGNALS {
        let sent = program.run(&["signal", "e", name]);
        assert_eq!(sent.code, 0, "{}", sent.err);
    }
    let (code, rest) = terminal.finish();
    screen.feed(&rest);
    assert_eq!(code, 0, "{}", screen.text());
    screen
}

/// What must be on the screen in the end: each settled node once, and nothing of the way there.
fn check(screen: &Screen) {
    let text = screen.text();
    for passing in ["WAITING", "QUEUED", "RUNNING", "next attempt", "for signal", "…"] {
        assert!(!text.contains(passing), "{passing:?} is left on the screen:\n{text}");
    }
    let nodes = ["flaky ", "a-node-with-a-name", "ask ", "ask-again ", "fails ", "done "];
    for node in nodes {
        let lines = text.lines().filter(|line| line.contains(&format!("  {node}")));
        assert_eq!(lines.count(), 1, "{node}:\n{text}");
    }
    assert_eq!(text.matches("execution e").count(), 1, "{text}");
    assert!(text.contains("COMPLETED in ") && text.ends_with("output: \"all done\""), "{text}");
}

#[test]
fn progress_leaves_no_fragments_at_any_width() {
    for columns in [60, 80, 120] {
        check(&run(columns, None, &[]));
    }
}

#[test]
fn progress_leaves_no_fragments_when_the_terminal_is_resized() {
    for (before, after) in [(120, 60), (80, 61), (60, 120)] {
        check(&run(before, Some(after), &[]));
    }
}

#[test]
fn log_lines_stand_above_what_is_drawn() {
    let screen =
        run(80, None, &["--log", "waypost=debug,waypost_engine=debug", "--color", "never"]);
    let text = screen.text();
    let drawn = text.lines().filter(|line| line.contains("WAITING") && line.contains("  ask"));
    assert_eq!(drawn.count(), 0, "{text}");
}

#[test]
fn more_nodes_than_rows_are_counted() {
    let nodes: String = (0..30)
        .map(|at| {
            format!("  - {{ id: n{at}, type: wait-for-events, config: {{ name: go{at} }} }}\n")
        })
        .collect();
    let program = Program::new();
    let flow = program.file("many.yaml", format!("name: many\nnodes:\n{nodes}"));
    let command = program.command(&["run", &flow.display().to_string(), "--id", "e"]);
    let mut terminal = OnTerminal::start(command, 80, 8);
    let mut screen = Screen::new(80, 8);
    screen.feed(&terminal.read_until(|text| text.contains("… and 24 more nodes")));
    assert_eq!(program.run(&["cancel", "e"]).code, 0);
    let (code, rest) = terminal.finish();
    screen.feed(&rest);
    let text = screen.text();
    assert_eq!(code, 1, "{text}");
    assert!(!text.contains("WAITING") && !text.contains("more nodes"), "{text}");
    assert_eq!(text.matches("CANCELLED ").count(), 31, "{text}");
}

/// The first workflow of the guide, and what the guide shows of it.
#[test]
fn getting_started_shows_what_a_terminal_shows() {
    let page = find(&root(), &|name| name == "docs/guides/getting-started.md").remove(0);
    let blocks = blocks(&page);
    let shown = blocks.iter().find(|block| block.language == "terminal").unwrap();
    let flow = blocks.iter().find(|block| block.saved_as.as_deref() == Some("hello.yaml"));
    let program = Program::new();
    let flow = program.file("hello.yaml", &flow.unwrap().text).display().to_string();
    for columns in [60, 80, 120, 200] {
        let command = program.command(&["run", &flow, "--input", r#"{"name": "Ada"}"#]);
        let (code, text) = OnTerminal::start(command, columns, 24).finish();
        let mut screen = Screen::new(columns.into(), 24);
        screen.feed(&text);
        assert_eq!(code, 0, "{}", screen.text());
        assert!(expected::fits(&shown.text, &screen.text()), "{}:\n{}", shown.place, screen.text());
    }
}
