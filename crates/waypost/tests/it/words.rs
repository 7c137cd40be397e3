//! Texts that users read contain none of the house's old words: the documentation, and the strings and
//! help texts of the program. Names in backquotes and quotes are left out: tests and cases have theirs.

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
    let text = text.to_lowercase();
    FORBIDDEN.iter().copied().find(|word| {
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
