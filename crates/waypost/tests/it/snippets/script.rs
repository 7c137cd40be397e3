//! A page as a script. Each line of the page is a line of the script, so that the numbers in what
//! Bash complains about are those of the page.

use crate::markdown::{Block, blocks};
use crate::tidy::File;

/// What is not run, and why.
const SKIPPED: &[(&str, &str)] = &[
    ("make build", "the tests have built the program already"),
    ("make bench", "builds for release, and loads the machine for minutes"),
    ("make run", "builds for release; what it runs is run by the examples' tests"),
    ("make test", "would run this very test"),
];

/// The port that pages use: that of `waypost serve` where nobody says otherwise.
const PORT: &str = "7070";

/// Says where a snippet failed; a script ends at its first failure.
const COMPLAIN: &str = r#"set -E; trap 'echo "$0:$LINENO: this failed" >&2' ERR"#;

/// What is done with a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// It is run.
    Run,
    /// It is asked for its help, which it gives only where it knows its flags.
    Ask,
}

/// A page as a script, which prints what the block at line 12 prints into `$PRINTED/12.out`, and
/// finds files to save in `$SAVED`.
pub(super) fn script(page: &File, port: u16, how: How) -> String {
    let mut lines: Vec<String> = page.text.lines().map(|_| String::new()).collect();
    COMPLAIN.clone_into(&mut lines[0]);
    for block in blocks(page) {
        if let Some(name) = &block.saved_as {
            lines[block.line - 1] = format!(r#"cp "$SAVED/{}" '{name}'"#, block.line);
        }
        if block.language == "sh" {
            let line = block.line;
            lines[line - 1] = format!(r#"exec > "$PRINTED/{line}.out" 2> "$PRINTED/{line}.err""#);
            for (at, text) in (line..).zip(block.text.lines()) {
                let skipped = SKIPPED.iter().any(|(command, _)| text.starts_with(command));
                lines[at] = match how {
                    _ if skipped => String::new(),
                    How::Run => at_port(text, port),
                    How::Ask => asked(text),
                };
            }
        }
    }
    lines.join("\n") + "\n"
}

/// The files that readers are told to save: the line of each block, and its text.
pub(super) fn saved(page: &File, port: u16) -> Vec<(usize, String)> {
    let saved = |block: &Block| block.saved_as.is_some();
    blocks(page).iter().filter(|b| saved(b)).map(|b| (b.line, at_port(&b.text, port))).collect()
}

fn asked(text: &str) -> String {
    let command = text.split(" #").next().unwrap_or_default();
    let ends = command.contains("waypost ") && !command.ends_with('\\');
    if ends { format!("{command} --help") } else { command.to_owned() }
}

fn at_port(text: &str, port: u16) -> String {
    text.replace(PORT, &port.to_string())
}

#[test]
fn lines_stay_where_they_are() {
    let text = "# A\nSave this as `a.yaml`:\n```yaml\nx: 7070\n```\n\n```sh\nmake build\ncurl :7070\n```\n";
    let page = File { name: "a.md".to_owned(), text: text.to_owned() };
    let script = script(&page, 8123, How::Run);
    let lines: Vec<&str> = script.lines().collect();
    assert_eq!(lines.len(), text.lines().count());
    assert_eq!(lines[2], r#"cp "$SAVED/3" 'a.yaml'"#);
    assert_eq!(lines[6..9], [r#"exec > "$PRINTED/7.out" 2> "$PRINTED/7.err""#, "", "curl :8123"]);
    assert_eq!(saved(&page, 8123), [(3, "x: 8123\n".to_owned())]);
}
