//! The documentation, the strings and help texts of the program, and all comments contain none of the
//! forbidden words. Names in backquotes and quotes are left out: tests and cases have theirs.

use std::path::{Path, PathBuf};

/// Words without a referent, and words that have another name now.
const FORBIDDEN: &[&str] = &[
    "whoever",
    "somebody",
    "nobody",
    "elsewhere",
    "set aside",
    "sets aside",
    "trail",
    "roll call",
    "stand in line",
    "stands in line",
    "mend",
    "mends",
    "mended",
    "heal",
    "heals",
    "healed",
    "cure",
    "cures",
    "remedy",
    "heeds",
    "heeded",
    "kept back",
];

/// Words that describe a process as a person. Forbidden in comments only: strings quote them as names
/// of tests and bugs.
const FORBIDDEN_IN_COMMENTS: &[&str] = &[
    "heed",
    "mending",
    "keeps back",
    "told",
    "hears",
    "heard",
    "he",
    "him",
    "his",
    "look after",
    "looks after",
    "hands on",
    "handed on",
];

/// Lines of the documentation that speak about the words themselves.
const ABOUT_WORDS: &[&str] = &["| word | meaning |", "| audit log |"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn files(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir()
            && !["target", "tests", "golden"].contains(&&*name)
            && !name.starts_with('.')
        {
            files(&path, extension, found);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
}

fn forbidden(text: &str) -> Option<&'static str> {
    find(text, FORBIDDEN)
}

/// The first of these words in a text.
fn find(text: &str, words: &[&'static str]) -> Option<&'static str> {
    let text = text.to_lowercase();
    words.iter().copied().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            let before = text[..at].chars().next_back();
            let after = text[at + word.len()..].chars().next();
            let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            ends(before) && ends(after)
        })
    })
}

/// A line without what stands between two such marks.
fn without(line: &str, mark: char) -> String {
    line.split(mark).step_by(2).collect::<Vec<_>>().join(" ")
}

/// The strings of a line of code.
fn strings(line: &str) -> String {
    line.split('"').skip(1).step_by(2).collect::<Vec<_>>().join(" ")
}

/// The comments of a file, each with the number of its first line. Consecutive lines are one comment, so
/// that a phrase is found across a line break.
fn comments(text: &str, mark: &str) -> Vec<(usize, String)> {
    let behind_code = format!(" {mark} ");
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut continues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let whole = line.trim_start().strip_prefix(mark);
        let comment = whole.or_else(|| line.split_once(&behind_code).map(|(_, comment)| comment));
        match (comment, found.last_mut()) {
            (Some(comment), Some((_, before))) if continues && whole.is_some() => {
                before.push(' ');
                before.push_str(comment.trim_matches(['/', '!', ' ']));
            }
            (Some(comment), _) => found.push((number, comment.to_owned())),
            (None, _) => {}
        }
        continues = whole.is_some();
    }
    found
}

#[test]
fn documentation_has_no_forbidden_words() {
    let (root, mut found) = (root(), Vec::new());
    files(&root, "md", &mut found);
    assert!(found.len() > 30, "{found:?}");
    let mut faults = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut code = false;
        for (number, line) in (1..).zip(text.lines()) {
            code ^= line.trim_start().starts_with("```");
            if code || ABOUT_WORDS.iter().any(|about| line.starts_with(about)) {
                continue;
            }
            let prose = without(&without(line, '`'), '"');
            let name = path.strip_prefix(&root).unwrap().display();
            faults.extend(forbidden(&prose).map(|word| format!("{name}:{number}: {word:?}")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn texts_of_the_program_have_no_forbidden_words() {
    let (root, mut found) = (root(), Vec::new());
    files(&root.join("crates"), "rs", &mut found);
    // What only developers read: planted bugs, the simulator, the conformance suite, tests.
    let inner =
        ["planted.rs", "waypost-sim", "waypost-testbed", "conformance", "/tests.rs", "/examples/"];
    found.retain(|path| !inner.iter().any(|part| path.to_string_lossy().contains(part)));
    assert!(found.len() > 300, "{}", found.len());
    let mut faults = Vec::new();
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap();
        let place = path.to_string_lossy();
        let helps = ["/cli/", "/cli.rs", "/wire/"].iter().any(|part| place.contains(part));
        for (number, line) in (1..).zip(product.lines()) {
            let line = line.trim_start();
            let shown = match line.strip_prefix("///") {
                // Help texts and descriptions of the API are fields' and variants': they are indented.
                Some(help)
                    if helps && product.lines().nth(number - 1).unwrap().starts_with(' ') =>
                {
                    help.to_owned()
                }
                Some(_) => continue,
                None if line.starts_with("//") || line.contains("expect(") => continue,
                None => strings(line),
            };
            let name = path.strip_prefix(&root).unwrap().display();
            faults.extend(forbidden(&shown).map(|word| format!("{name}:{number}: {word:?}")));
        }
    }
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}

#[test]
fn comments_have_no_forbidden_words() {
    let (root, mut faults, mut count) = (root(), Vec::new(), 0);
    for (extension, mark) in [("rs", "//"), ("sql", "--"), ("lua", "--")] {
        let mut found = Vec::new();
        files(&root.join("crates"), extension, &mut found);
        // Migrations are checksummed and never change.
        found.retain(|path| !path.components().any(|part| part.as_os_str() == "migrations"));
        count += found.len();
        for path in found {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            for (number, comment) in comments(&text, mark) {
                let prose = without(&without(&comment, '`'), '"');
                let word = forbidden(&prose).or_else(|| find(&prose, FORBIDDEN_IN_COMMENTS));
                faults.extend(word.map(|word| format!("{name}:{number}: {word:?}")));
            }
        }
    }
    assert!(count > 600, "{count}");
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
