//! The house rules that a compiler does not check: which crate may see which, how long files and
//! functions may be, where SQL may stand, which words may not be used.
//!
//! Everything is read off the manifests and the sources as text; no rule needs a parser.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Lines that a file outside of tests may have.
const LINES_MAX: usize = 700;
/// Lines above which a file must be named in [`LONG_FILES`].
const LINES_SOFT_MAX: usize = 400;
/// Lines that a function's body may have, outside of tests: a test may be one long table.
const FUNCTION_LINES_MAX: usize = 70;

/// Files above the soft limit, each a single table, state machine or loop that would be harder to
/// follow in pieces.
const LONG_FILES: &[&str] =
    &["crates/waypost-core/src/projection.rs", "crates/waypost-sim/src/simulation/auditing.rs"];

/// Which workspace crates each crate may depend on. The edge crate may see all of them.
const EDGES: &[(&str, &[&str])] = &[
    ("waypost-core", &[]),
    ("waypost-lang", &["waypost-core"]),
    ("waypost-import", &["waypost-core", "waypost-lang"]),
    ("waypost-ports", &["waypost-core"]),
    ("waypost-sqlite", &["waypost-core", "waypost-ports"]),
    ("waypost-postgres", &["waypost-core", "waypost-ports"]),
    ("waypost-redis", &["waypost-core", "waypost-ports"]),
    ("waypost-blobs", &["waypost-core", "waypost-ports"]),
    ("waypost-testbed", &[]),
    ("waypost-nodes", &["waypost-core", "waypost-ports"]),
    ("waypost-engine", &["waypost-core", "waypost-ports"]),
    ("waypost-server", &["waypost-core", "waypost-engine", "waypost-lang", "waypost-ports"]),
    (
        "waypost-sim",
        &["waypost-core", "waypost-engine", "waypost-lang", "waypost-nodes", "waypost-ports"],
    ),
    ("waypost-bench", &["waypost-core", "waypost-engine", "waypost-nodes", "waypost-ports"]),
    (
        "waypost",
        &[
            "waypost-bench",
            "waypost-blobs",
            "waypost-core",
            "waypost-engine",
            "waypost-import",
            "waypost-lang",
            "waypost-nodes",
            "waypost-ports",
            "waypost-postgres",
            "waypost-redis",
            "waypost-server",
            "waypost-sqlite",
        ],
    ),
];

/// What a crate may see besides, for its tests alone.
const TEST_EDGES: &[(&str, &str)] = &[
    ("waypost", "waypost-sim"),
    ("waypost", "waypost-testbed"),
    ("waypost-blobs", "waypost-testbed"),
    ("waypost-postgres", "waypost-testbed"),
    ("waypost-redis", "waypost-testbed"),
    ("waypost-import", "waypost-nodes"),
    ("waypost-lang", "waypost-nodes"),
    ("waypost-server", "waypost-nodes"),
];

/// Crates that do I/O, tell the time or draw lots: nothing for a pure core.
const IMPURE: &[&str] =
    &["tokio", "tokio-util", "rusqlite", "reqwest", "clap", "tracing", "rand", "parking_lot"];

/// Words for things that have another name here (see the glossary in ARCHITECTURE.md): two words for
/// one thing are two things to every new reader.
const FOREIGN_WORDS: &[(&str, &str)] = &[
    ("activity", "node"),
    ("dag", "definition"),
    ("executor", "worker or driver"),
    ("job_id", "task"),
    ("orchestrator", "engine"),
    ("work_item", "task"),
];

/// Names that say little by themselves: only one type of the workspace may have each.
const NAMES_OF_ONE_TYPE: &[&str] =
    &["Answer", "Delivery", "Home", "Known", "Line", "Order", "Place", "Report", "Said"];

/// Crates in which types of one name may be declared.
const CRATES_OF_ONE_NAME_MAX: usize = 2;

/// What must not be left lying about.
const LEFTOVERS: &[&str] =
    &["FIXME", "todo!(", "unimplemented!(", "dbg!(", "#[ignore", "#[should_panic"];

/// SQL that is not in a `.sql` file, and why.
const SQL_IN_RUST: &[&str] = &[
    // The table of applied migrations must be there before the first migration is.
    "crates/waypost-sqlite/src/migrate.rs",
];

#[test]
fn crates_see_only_what_they_may() {
    let mut faults = Vec::new();
    for manifest in find(&root().join("crates"), &|path| path.ends_with("Cargo.toml")) {
        let manifest = manifest.text.parse::<toml::Table>().unwrap();
        let name = manifest["package"]["name"].as_str().unwrap().to_owned();
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("{name} is not in the table of edges"));
            continue;
        };
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dependency in names(&manifest, section) {
                let ours = dependency == "waypost" || dependency.starts_with("waypost-");
                let for_tests = section == "dev-dependencies"
                    && TEST_EDGES.contains(&(name.as_str(), dependency.as_str()));
                // Its own tests turn a feature on.
                let itself = section == "dev-dependencies" && dependency == name;
                if ours && !for_tests && !itself && !allowed.contains(&dependency.as_str()) {
                    faults.push(format!("{name} may not depend on {dependency} ({section})"));
                }
                if name == "waypost-core" && IMPURE.contains(&dependency.as_str()) {
                    faults.push(format!("the core may not depend on {dependency} ({section})"));
                }
            }
        }
    }
    refuse(&faults);
}

fn names(manifest: &toml::Table, section: &str) -> Vec<String> {
    let table = manifest.get(section).and_then(toml::Value::as_table);
    table.into_iter().flat_map(|table| table.keys().cloned()).collect()
}

#[test]
fn one_place_names_a_backend() {
    let faults: Vec<_> = sources()
        .filter(|file| !file.name.starts_with("crates/waypost/") && !file.is_in("waypost-sqlite"))
        .filter(|file| file.code().any(|(_, line)| line.contains("waypost_sqlite")))
        .map(|file| format!("{} names the store's crate", file.name))
        .collect();
    refuse(&faults);
}

#[test]
fn every_file_says_what_it_owns() {
    let faults: Vec<_> = sources()
        .filter(|file| !file.name.ends_with("/tests.rs") && !file.text.starts_with("//! "))
        .map(|file| format!("{} does not begin with `//!`", file.name))
        .collect();
    refuse(&faults);
}

/// The compiler's `missing_docs` asks for fields and variants as well, whose names mostly say enough.
#[test]
fn public_items_have_a_doc_comment() {
    let mut faults = Vec::new();
    // The cases of the conformance suite have sentences as names.
    let documented = |file: &File| !file.is_test() && !file.name.contains("/src/conformance/");
    for file in sources().filter(|file| file.name.contains("/src/") && documented(file)) {
        let own = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines: Vec<&str> = own.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_public_item(line)) {
            let ends_another = |line: &&&str| ["", "}"].contains(*line) || line.ends_with(';');
            let mut above = lines[..at].iter().rev().take_while(|line| !ends_another(line));
            let docs = ["///", "#[doc", "$(#[$doc"];
            if !above.any(|line| docs.iter().any(|doc| line.starts_with(doc))) {
                faults.push(format!("{}:{}: no doc comment: {line}", file.name, at + 1));
            }
        }
    }
    refuse(&faults);
}

fn is_public_item(line: &str) -> bool {
    const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "type", "const", "static"];
    let mut words = line.split_whitespace();
    words.next() == Some("pub")
        && words.find(|word| *word != "async").is_some_and(|word| ITEMS.contains(&word))
}

#[test]
fn files_and_functions_can_be_taken_in() {
    let mut faults = Vec::new();
    for file in sources().filter(|file| !file.is_test()) {
        let (name, lines) = (&file.name, file.text.lines().count());
        if lines > LINES_MAX {
            faults.push(format!("{name} has {lines} lines, more than {LINES_MAX}"));
        } else if lines > LINES_SOFT_MAX && !LONG_FILES.contains(&name.as_str()) {
            faults.push(format!("{name} has {lines} lines: split it, or name it in LONG_FILES"));
        }
        for (name, lines) in functions(&file.text) {
            if lines > FUNCTION_LINES_MAX {
                faults.push(format!("{}: {name} has {lines} lines", file.name));
            }
        }
    }
    let is_long = |name: &str| {
        sources().any(|file| file.name == name && file.text.lines().count() > LINES_SOFT_MAX)
    };
    let stale = LONG_FILES.iter().filter(|name| !is_long(name));
    faults.extend(stale.map(|name| format!("{name} is not long: take it out of LONG_FILES")));
    refuse(&faults);
}

/// Functions and the lengths of their bodies. In formatted code a body begins at the first line that
/// ends with a brace, and ends at the next lone one, both as far to the left as the signature.
fn functions(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let has_body = !line.ends_with([';', '}']);
        let Some(name) = function_name(line).filter(|_| has_body) else { continue };
        let indent = &line[..line.len() - line.trim_start().len()];
        // Where the signature ends: with a body, or with none, as in a trait.
        let ends = |line: &&str| {
            let rest = line.strip_prefix(indent).unwrap_or(" ");
            !rest.starts_with(' ') && rest.ends_with(['{', ';'])
        };
        let Some(begin) = lines[at..].iter().position(ends) else { continue };
        if lines[at + begin].ends_with(';') {
            continue;
        }
        let mut body = lines[at + begin + 1..].iter();
        let end = body.position(|line| line.strip_prefix(indent) == Some("}"));
        found.push((name.to_owned(), end.unwrap_or(0)));
    }
    found
}

fn function_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().take_while(|word| !word.starts_with("//"));
    let modifiers = ["pub", "pub(crate)", "pub(super)", "const", "async", "extern"];
    words.by_ref().find(|word| !modifiers.contains(word)).filter(|word| *word == "fn")?;
    words.next()?.split(['(', '<']).next()
}

#[test]
fn one_word_a_concept() {
    let mut faults = Vec::new();
    for file in sources().filter(|file| !file.is_this()) {
        for (number, line) in file.code() {
            let line = line.to_lowercase();
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            let words: BTreeSet<&str> = words.collect();
            for (foreign, ours) in FOREIGN_WORDS {
                if words.contains(foreign) {
                    let name = &file.name;
                    faults.push(format!("{name}:{number}: {foreign:?} is called {ours} here"));
                }
            }
        }
    }
    refuse(&faults);
}

#[test]
fn type_names_are_not_used_for_many_types() {
    let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in sources().filter(|file| !file.is_test() && file.name.contains("/src/")) {
        for (number, line) in file.code() {
            let name = type_name(line);
            let at = format!("{}:{number}", file.name);
            name.into_iter()
                .for_each(|name| declared.entry(name.to_owned()).or_default().push(at.clone()));
        }
    }
    let mut faults = Vec::new();
    for (name, places) in declared {
        let crates: BTreeSet<_> =
            places.iter().filter_map(|place| place.split('/').nth(1)).collect();
        let one = NAMES_OF_ONE_TYPE.contains(&name.as_str());
        if crates.len() > CRATES_OF_ONE_NAME_MAX || one && places.len() > 1 {
            faults.push(format!("{name} names several types: {}", places.join(" ")));
        }
    }
    refuse(&faults);
}

/// The type that a line of a module declares.
fn type_name(line: &str) -> Option<&str> {
    // Associated types are declared by their trait.
    let mut words = line.split_whitespace().filter(|word| !word.starts_with("pub"));
    let keyword = words.next()?;
    let is_type = ["struct", "enum", "trait"].contains(&keyword)
        || keyword == "type" && !line.starts_with(' ');
    let name = words.next().filter(|_| is_type)?;
    name.split(|c: char| !c.is_alphanumeric()).next().filter(|name| !name.is_empty())
}

#[test]
fn nothing_is_left_lying_about() {
    let mut faults = Vec::new();
    for file in sources().filter(|file| !file.is_this()) {
        for (number, line) in (1..).zip(file.text.lines()) {
            let leftover = LEFTOVERS.iter().find(|leftover| line.contains(**leftover));
            faults.extend(leftover.map(|what| format!("{}:{number}: {what}", file.name)));
            if line.contains("TODO") && !line.contains("TODO(#") {
                faults.push(format!("{}:{number}: a TODO without an issue's number", file.name));
            }
            let sleeps = line.contains("thread::sleep(") || line.contains("time::sleep(");
            if file.is_test() && sleeps {
                faults
                    .push(format!("{}:{number}: tests wait for signals, not for time", file.name));
            }
        }
    }
    refuse(&faults);
}

#[test]
fn sql_stands_in_sql_files() {
    const STATEMENTS: &[&str] = &[
        "SELECT ",
        "INSERT INTO ",
        "INSERT OR ",
        "DELETE FROM ",
        "CREATE TABLE ",
        "CREATE INDEX ",
        "ALTER TABLE ",
        "DROP TABLE ",
    ];
    let mut faults = Vec::new();
    let inside = |file: &File| {
        !file.is_test() && !file.name.contains("/examples/") && !SQL_IN_RUST.contains(&&*file.name)
    };
    for file in sources().filter(inside) {
        for (number, line) in file.code() {
            if STATEMENTS.iter().any(|statement| line.contains(statement)) {
                faults.push(format!("{}:{number}: SQL outside of a .sql file", file.name));
            }
        }
    }
    refuse(&faults);
}

#[test]
fn every_query_says_who_uses_it_and_is_used() {
    let mut faults = Vec::new();
    let sources: Vec<File> = sources().collect();
    for file in find(&root().join("crates"), &|path| path.ends_with(".sql")) {
        if !file.text.starts_with("-- ") {
            faults.push(format!("{} does not begin with a comment", file.name));
        }
        let name = file.name.rsplit('/').next().unwrap_or_default();
        let stem = name.trim_end_matches(".sql");
        let backend = file.name.split('/').nth(1).unwrap_or_default();
        let mentioned = |source: &File| {
            source.is_in(backend)
                && (source.text.contains(name) || source.text.contains(&format!("\"{stem}\"")))
        };
        if !sources.iter().any(mentioned) {
            faults.push(format!("{} is not used", file.name));
        }
    }
    refuse(&faults);
}

#[test]
fn the_length_of_functions_is_seen() {
    let text = "impl A {\n    pub(crate) async fn one<T>(a: T)\n    where\n        T: B,\n    {\n        \
                {\n        }\n    }\n\n    fn two();\n}\n\nconst fn three() {}\nfn four() {\n}\n";
    let found: BTreeMap<_, _> = functions(text).into_iter().collect();
    assert_eq!(found, BTreeMap::from([("one".to_owned(), 2), ("four".to_owned(), 0)]));
}

/// A file of the repository, as text.
pub(crate) struct File {
    /// Its path from the repository's root.
    pub(crate) name: String,
    pub(crate) text: String,
}

impl File {
    fn is_in(&self, crate_name: &str) -> bool {
        self.name.starts_with(&format!("crates/{crate_name}/"))
    }

    fn is_test(&self) -> bool {
        self.name.contains("/tests/") || self.name.ends_with("/tests.rs")
    }

    /// This file has to spell out what it forbids.
    fn is_this(&self) -> bool {
        self.name.ends_with("tests/it/tidy.rs")
    }

    /// Its lines without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let without_comment = |line| str::split(line, "//").next().unwrap_or_default();
        (1..).zip(self.text.lines().map(without_comment))
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every Rust file of the workspace.
fn sources() -> impl Iterator<Item = File> {
    find(&root().join("crates"), &|path| path.ends_with(".rs")).into_iter()
}

/// The files below a folder whose paths fit, in order.
pub(crate) fn find(folder: &Path, fits: &dyn Fn(&str) -> bool) -> Vec<File> {
    let mut paths = Vec::new();
    walk(folder, &mut paths);
    paths.sort();
    let root = root();
    let name = |path: &Path| path.strip_prefix(&root).unwrap().display().to_string();
    let named = paths.iter().map(|path| (name(path), path)).filter(|(name, _)| fits(name));
    named.map(|(name, path)| File { name, text: std::fs::read_to_string(path).unwrap() }).collect()
}

fn walk(folder: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if path.is_dir() && !hidden && !path.ends_with("target") {
            walk(&path, paths);
        } else if path.is_file() {
            paths.push(path);
        }
    }
}

/// Fails with all faults at once.
#[track_caller]
pub(crate) fn refuse(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
}
