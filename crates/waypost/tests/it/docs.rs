//! The documentation against the program: links lead somewhere, definitions are valid, commands
//! exist, nothing that can be configured goes unmentioned, and no promise is made without a test.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use waypost::wiring;

use crate::markdown::{blocks, prose};
use crate::tidy::{File, find, refuse, root};

/// The pages that people read.
fn pages() -> Vec<File> {
    find(&root(), &|name| name.ends_with(".md") && !name.starts_with("target"))
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn links_lead_somewhere() {
    let mut faults = Vec::new();
    for page in pages() {
        let folder = root().join(&page.name);
        for link in links(&page.text) {
            let (target, fragment) = link.split_once('#').unwrap_or((link, ""));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let file = if target.is_empty() {
                folder.clone()
            } else {
                folder.parent().unwrap_or(Path::new("")).join(target)
            };
            let found = match (file.exists(), fragment) {
                (exists, "") => exists,
                (true, fragment) => {
                    anchors(&std::fs::read_to_string(&file).unwrap()).contains(fragment)
                }
                (false, _) => false,
            };
            if !found {
                faults.push(format!("{}: {link} leads nowhere", page.name));
            }
        }
    }
    refuse(&faults);
}

/// The targets of `[text](target)`, code left out.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in prose(text) {
        for span in line.split('`').step_by(2) {
            let targets = span.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets);
        }
    }
    found
}

/// The fragments that a page's headings can be reached by.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).into_iter().filter(|line| line.starts_with('#'));
    let anchor = |heading: &str| -> String {
        let heading = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn definitions_in_the_documentation_are_valid() {
    let mut faults = Vec::new();
    let mut checked = 0;
    for block in pages().iter().flat_map(blocks) {
        let definition = match block.language.as_str() {
            "yaml" | "json" if block.text.contains("nodes") => Some(block.text.as_str()),
            "sh" => heredoc(&block.text),
            _ => None,
        };
        let Some(definition) = definition else { continue };
        checked += 1;
        let place = &block.place;
        match wiring::compile(definition.as_bytes()) {
            Ok(compiled) => {
                let warnings = compiled.warnings.render(definition.as_bytes(), place, false);
                if !warnings.is_empty() {
                    faults.push(warnings);
                }
            }
            Err(found) => faults.push(found.render(definition.as_bytes(), place, false)),
        }
    }
    refuse(&faults);
    assert!(checked > 20, "only {checked} definitions were found: are blocks still recognised?");
}

/// What `cat > file.yaml <<'EOF'` writes.
fn heredoc(script: &str) -> Option<&str> {
    let (_, rest) = script.split_once("<<'EOF'\n")?;
    rest.split_once("\nEOF").map(|(definition, _)| definition)
}

#[test]
fn commands_in_the_documentation_exist() {
    let known: BTreeSet<String> = subcommands().into_iter().collect();
    let mut faults = Vec::new();
    for block in pages().iter().flat_map(blocks).filter(|block| block.language == "sh") {
        for line in block.text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let mut words = line.split_whitespace();
            while words.any(|word| word == "waypost" || word.ends_with("/waypost")) {
                let Some(next) = words.next() else { break };
                if !known.contains(next) && !next.starts_with('-') {
                    faults.push(format!("{}: there is no `waypost {next}`", block.place));
                }
            }
        }
    }
    refuse(&faults);
}

#[test]
fn the_reference_names_every_command_and_flag() {
    let reference = page("docs/reference/cli.md");
    let mut faults = Vec::new();
    for command in subcommands().into_iter().filter(|command| command != "help") {
        if !reference.contains(&format!("## waypost {command}\n")) {
            faults.push(format!("`waypost {command}` has no section"));
        }
        for flag in flags(&help(&[&command, "--help"])) {
            if !reference.contains(&format!("`{flag}")) {
                faults.push(format!("`waypost {command} {flag}` is not mentioned"));
            }
        }
    }
    let global = flags(&help(&["--help"]));
    assert!(global.contains("--data"), "global flags are no longer recognised");
    let unmentioned = global.iter().filter(|flag| !reference.contains(&format!("`{flag}")));
    faults.extend(unmentioned.map(|flag| format!("`waypost {flag}` is not mentioned")));
    refuse(&faults);
}

fn subcommands() -> Vec<String> {
    let help = help(&["--help"]);
    let (_, rest) = help.split_once("Commands:\n").expect("the help lists commands");
    let lines = rest.lines().take_while(|line| !line.is_empty());
    let indented = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    indented.filter_map(|line| line.split_whitespace().next()).map(ToOwned::to_owned).collect()
}

fn flags(help: &str) -> BTreeSet<String> {
    let words = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
    let words = words.flat_map(|line| line.split([' ', ',', '=', '[']));
    let flags: BTreeSet<_> =
        words.filter(|word| word.starts_with("--")).map(str::to_owned).collect();
    assert!(flags.contains("--help"), "flags are no longer recognised in:\n{help}");
    flags
}

fn help(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_waypost")).args(args).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// A number that people count by hand is wrong one example later.
#[test]
fn the_readme_counts_the_examples() {
    let examples = find(&root(), &|name| name.starts_with("examples/") && name.ends_with(".yaml"));
    let line = format!("- [Examples](examples/): {} definitions", examples.len());
    assert!(page("README.md").contains(&line), "README.md does not say {line:?}");
}

#[test]
fn the_reference_names_every_kind_and_its_fields() {
    let reference = page("docs/reference/nodes.md");
    let mut faults = Vec::new();
    for kind in waypost_nodes::catalog().0 {
        let spec = kind.spec();
        let Some((_, section)) = reference.split_once(&format!("\n## {}\n", spec.name)) else {
            faults.push(format!("{} has no section", spec.name));
            continue;
        };
        let section = section.split("\n## ").next().unwrap_or_default();
        for field in spec.fields {
            if !section.contains(&format!("| `{}` |", field.name)) {
                faults.push(format!("{}: `{}` is not in its table", spec.name, field.name));
            }
        }
        if !section.contains("```yaml") {
            faults.push(format!("{} has no example", spec.name));
        }
    }
    refuse(&faults);
}

#[test]
fn the_reference_names_every_field_of_a_definition() {
    let reference = page("docs/reference/definition.md");
    let schema = waypost_lang::schema(&waypost_nodes::catalog());
    let mut faults = Vec::new();
    for pointer in ["/properties", "/$defs/node/properties", "/$defs/retry/properties"] {
        let fields = schema.pointer(pointer).and_then(|fields| fields.as_object()).unwrap();
        let unmentioned = fields.keys().filter(|name| !reference.contains(&format!("`{name}`")));
        faults.extend(unmentioned.map(|name| format!("{pointer}: {name} is not mentioned")));
    }
    refuse(&faults);
}

#[test]
fn the_reference_names_every_limit_of_the_core() {
    let reference = page("docs/reference/limits.md");
    let limits = page("crates/waypost-core/src/limits.rs");
    let names =
        limits.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next());
    let faults: Vec<_> = names
        .filter(|name| !reference.contains(&format!("`{name}`")))
        .map(|name| format!("{name} is not mentioned"))
        .collect();
    refuse(&faults);
}

/// `core/decide.rs` in the prose stands for `crates/waypost-core/src/decide.rs`.
#[test]
fn files_that_are_named_exist() {
    let mut faults = Vec::new();
    for name in ["ARCHITECTURE.md", "docs/reference/limits.md"] {
        let text = page(name);
        for file in text.split('`').filter(|code| !code.contains(char::is_whitespace)) {
            let Some((crate_name, rest)) = file.split_once('/') else { continue };
            let folder = match crate_name {
                "waypost" => root().join("crates/waypost"),
                _ => root().join(format!("crates/waypost-{crate_name}")),
            };
            let known = folder.exists() && !rest.contains('…');
            if known && !folder.join("src").join(rest).exists() && !folder.join(rest).exists() {
                faults.push(format!("{name}: there is no {file}"));
            }
        }
    }
    refuse(&faults);
}

#[test]
fn the_guide_to_adding_a_kind_shows_a_real_one() {
    let kind = page("crates/waypost-nodes/src/kinds/noop.rs");
    assert!(page("CONTRIBUTING.md").contains(&kind), "CONTRIBUTING.md shows another noop.rs");
}

#[test]
fn the_index_lists_every_page() {
    let index = page("docs/README.md");
    let pages = find(&root().join("docs"), &|name| name.ends_with(".md"));
    let missing = pages.iter().filter_map(|page| {
        let name = page.name.trim_start_matches("docs/");
        (name != "README.md" && !index.contains(&format!("({name}"))).then_some(name)
    });
    refuse(&missing.map(|name| format!("docs/README.md does not list {name}")).collect::<Vec<_>>());
}

#[test]
fn architecture_can_be_read_in_one_sitting() {
    assert!(page("ARCHITECTURE.md").lines().count() <= 300);
}

#[test]
fn every_guarantee_is_shown_by_tests_that_exist() {
    let files = find(&root().join("crates"), &|name| name.ends_with(".rs"));
    assert!(file_of_test("waypost-core::rules::nobody_wrote_this", &files).is_none());
    let (mut faults, mut rows) = (Vec::new(), 0);
    for (number, line) in (1..).zip(page("docs/guarantees.md").lines()) {
        let Some(row) = line.strip_prefix("| ").and_then(|row| row.strip_suffix(" |")) else {
            continue;
        };
        let Some((promise, shown_by)) = row.split_once(" | ") else { continue };
        if promise == "promise" || promise == "---" {
            continue;
        }
        rows += 1;
        let place = format!("docs/guarantees.md:{number}");
        let tests = tests_and_titles(shown_by);
        if tests.is_empty() {
            faults.push(format!("{place}: no test shows this"));
        }
        for (test, titles) in tests {
            let Some(file) = file_of_test(test, &files) else {
                faults.push(format!("{place}: there is no test {test}"));
                continue;
            };
            let unknown = titles.into_iter().filter(|title| !knows_title(file, title, &files));
            faults.extend(unknown.map(|title| format!("{place}: {test} has no {title:?}")));
        }
    }
    refuse(&faults);
    assert!(rows > 50, "only {rows} promises were found: are tables still recognised?");
}

/// Reads `` `test` ("title", "title"), `test` ``.
fn tests_and_titles(cell: &str) -> Vec<(&str, Vec<&str>)> {
    let spans: Vec<&str> = cell.split('`').skip(1).collect();
    spans
        .chunks(2)
        .map(|pair| {
            let behind = pair.get(1).copied().unwrap_or_default();
            (pair[0], behind.split('"').skip(1).step_by(2).collect())
        })
        .collect()
}

/// The file that holds a test such as `waypost-core::rules::the_graph_follows_its_rules`: in the
/// crate's `tests/it` or in its `src`, with the last modules inside of the file, maybe.
fn file_of_test<'a>(test: &str, files: &'a [File]) -> Option<&'a File> {
    let mut path: Vec<&str> = test.split("::").collect();
    let function = path.pop()?;
    let (crate_name, modules) = path.split_first()?;
    let candidates =
        [("tests/it", "main"), ("src", "lib")].into_iter().flat_map(|(folder, top)| {
            (0..=modules.len()).map(move |depth| {
                let (outside, inside) = modules.split_at(depth);
                let stem = if depth == 0 { top.to_owned() } else { outside.join("/") };
                (format!("crates/{crate_name}/{folder}/{stem}.rs"), inside)
            })
        });
    candidates.into_iter().find_map(|(name, inside)| {
        let file = files.iter().find(|file| file.name == name)?;
        holds_test(&file.text, inside, function).then_some(file)
    })
}

/// Is there such a test in a file, outside of modules or inside of one?
fn holds_test(text: &str, modules: &[&str], function: &str) -> bool {
    if let [module] = modules
        && text.contains("conformance_tests!(")
    {
        return is_conformance_case(module, function);
    }
    let signature = format!("fn {function}(");
    let lines: Vec<&str> = text.lines().collect();
    let mut module = None;
    lines.windows(2).any(|pair| {
        let [before, line] = [pair[0], pair[1]];
        match before.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(" {")) {
            Some(name) => module = Some(name),
            None if before == "}" => module = None,
            None => {}
        }
        let attribute = before.trim_start();
        let is_test = attribute == "#[test]" || attribute.starts_with("#[tokio::test");
        let line = line.trim_start().trim_start_matches("async ");
        is_test && line.starts_with(&signature) && module.as_slice() == modules
    })
}

/// The suite of all stores is a list in a macro.
fn is_conformance_case(module: &str, case: &str) -> bool {
    let suite = page("crates/waypost-ports/src/conformance/cases.rs");
    let list = suite.split_once(&format!("{module}: [")).and_then(|(_, rest)| rest.split_once(']'));
    // Some suites have a list of their own.
    let own = format!("crates/waypost-ports/src/conformance/{module}.rs");
    list.is_some_and(|(cases, _)| cases.split(',').any(|listed| listed.trim() == case))
        || root().join(&own).exists() && page(&own).contains(&format!("            {case},\n"))
}

/// A case stands in its test's file. What the simulator's tests are about, its rules, faults and
/// planted bugs, is spread over the simulator and the core.
fn knows_title(file: &File, title: &str, files: &[File]) -> bool {
    let quoted = format!("\"{title}\"");
    let simulated = file.name.starts_with("crates/waypost-sim/");
    let places = ["crates/waypost-sim/src/", "crates/waypost-core/src/"];
    let is_place = |other: &&File| places.iter().any(|place| other.name.starts_with(place));
    match simulated {
        true => files.iter().filter(is_place).any(|other| other.text.contains(&quoted)),
        false => file.text.contains(&quoted),
    }
}
