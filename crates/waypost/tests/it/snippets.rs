//! Every snippet of the README and the docs runs, as a reader would run it.
//!
//! A page is one session. Its `sh` blocks run in order in one Bash, in a home folder and a folder of
//! its own. A block behind a sentence like "Save this as `hello.yaml`:" is saved when its turn comes.
//! A `text` block behind an `sh` block is what that one prints, where `…` stands for what differs
//! from time to time, or is left out; a `terminal` block is what is left of it on a terminal, which the
//! tests of terminals look at. Pages say port 7070; each session gets a free one instead.

pub(crate) mod expected;
mod script;
mod session;

use self::script::How;
use crate::markdown::{Block, blocks};
use crate::tidy::{File, find, refuse, root};

/// Pages whose commands are understood by the program but not run, and why.
const UNDERSTOOD: &[(&str, &str)] = &[
    ("docs/benchmarks.md", "its commands load a machine for minutes"),
    ("docs/reference/cli.md", "shows each command alone, without the executions it would need"),
];

/// One test for each page, so that they run side by side.
macro_rules! pages {
    ($($test:ident $page:literal)*) => {
        const PAGES: &[&str] = &[$($page),*];

        $(#[test]
        fn $test() {
            check($page);
        })*
    };
}

pages! {
    breakers "docs/guides/breakers.md"
    callbacks "docs/guides/callbacks.md"
    child_workflows "docs/guides/child-workflows.md"
    definition "docs/reference/definition.md"
    errors_and_retries "docs/guides/errors-and-retries.md"
    expressions "docs/reference/expressions.md"
    getting_started "docs/guides/getting-started.md"
    http "docs/guides/http.md"
    language_models "docs/guides/language-models.md"
    people "docs/guides/people.md"
    importing "docs/guides/importing.md"
    large_data "docs/guides/large-data.md"
    loops "docs/guides/loops.md"
    maps "docs/guides/maps.md"
    blobs "docs/reference/blobs.md"
    nodes "docs/reference/nodes.md"
    operating "docs/guides/operating.md"
    readme "README.md"
    settings "docs/reference/settings.md"
    streams "docs/guides/streams.md"
    triggers "docs/guides/triggers.md"
    webhooks "docs/guides/webhooks.md"
    writing_workflows "docs/guides/writing-workflows.md"
}

#[test]
fn no_snippet_goes_unrun() {
    let mut faults = Vec::new();
    for page in all_pages() {
        let understood = is_understood(&page);
        let listed = PAGES.contains(&page.name.as_str());
        let has_snippets = blocks(&page).iter().any(|block| block.language == "sh");
        if has_snippets && !listed && !understood {
            faults.push(format!("{} has snippets that no test runs", page.name));
        }
        if !understood {
            faults.extend(
                blocks(&page).iter().filter(|block| is_unused(block)).map(|block| {
                    format!("{}: a definition that nobody is told to save", block.place)
                }),
            );
        }
    }
    refuse(&faults);
}

#[test]
fn commands_that_are_not_run_are_understood() {
    let pages = all_pages().into_iter().filter(is_understood);
    let faults: Vec<_> = pages.filter_map(|page| session::run(&page, How::Ask).err()).collect();
    refuse(&faults);
}

fn is_understood(page: &File) -> bool {
    UNDERSTOOD.iter().any(|(name, _)| page.name == *name)
}

/// Every definition is there to be run, but for those that would call somebody on the internet.
fn is_unused(block: &Block) -> bool {
    let definition = matches!(block.language.as_str(), "yaml" | "json");
    let offline = !block.text.contains("https://");
    definition && offline && block.text.contains("nodes") && block.saved_as.is_none()
}

fn all_pages() -> Vec<File> {
    find(&root(), &|name| {
        name.ends_with(".md") && (name == "README.md" || name.starts_with("docs/"))
    })
}

/// Runs a page and compares what it prints with what it says.
fn check(name: &str) {
    let page = all_pages().into_iter().find(|page| page.name == name).expect("the page exists");
    let printed = match session::run(&page, How::Run) {
        Ok(printed) => printed,
        Err(fault) => return refuse(&[fault]),
    };
    let blocks = blocks(&page);
    let pairs = blocks.iter().zip(blocks.iter().skip(1));
    let shown = pairs.filter(|(block, next)| block.language == "sh" && next.language == "text");
    let faults: Vec<_> = shown
        .filter_map(|(block, expected)| {
            let found = printed.get(&block.line).map_or("", |printed| printed);
            (!expected::fits(&expected.text, found)).then(|| {
                let (place, wanted) = (&block.place, &expected.text);
                format!("{place}: prints\n{found}\nand not, as the page says,\n{wanted}")
            })
        })
        .collect();
    refuse(&faults);
}
