//! Pages as the tests of the documentation read them: prose, and blocks of code.

use crate::tidy::File;

/// A block of code in a page.
pub(crate) struct Block {
    pub(crate) language: String,
    pub(crate) text: String,
    /// Where it begins: page and line.
    pub(crate) place: String,
    /// The line of its opening fence, from 1.
    pub(crate) line: usize,
    /// The file that readers are told to save it as: "Save this as `hello.yaml`:" stands before it.
    pub(crate) saved_as: Option<String>,
}

/// Every block of a page, in order.
pub(crate) fn blocks(page: &File) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut inside, mut last_said) = (false, "");
    for (line, text) in (1..).zip(page.text.lines()) {
        let fence = text.trim_start().strip_prefix("```");
        match (fence, inside) {
            (Some(language), false) => blocks.push(Block {
                language: language.trim().to_owned(),
                text: String::new(),
                place: format!("{}:{line}", page.name),
                line,
                saved_as: file_to_save(last_said),
            }),
            (None, true) => {
                let block = blocks.last_mut().unwrap();
                block.text.push_str(text);
                block.text.push('\n');
            }
            (None, false) if !text.trim().is_empty() => last_said = text,
            (Some(_), true) => last_said = "",
            (None, false) => {}
        }
        inside ^= fence.is_some();
    }
    blocks
}

/// `hello.yaml` in a sentence like "Save this as `hello.yaml`:".
fn file_to_save(sentence: &str) -> Option<String> {
    let (_, rest) = sentence.split_once("ave this as `")?;
    let (name, rest) = rest.split_once('`')?;
    rest.ends_with(':').then(|| name.to_owned())
}

/// Every line outside of code blocks.
pub(crate) fn prose(text: &str) -> Vec<&str> {
    let mut code = false;
    let mut prose = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            code = !code;
        } else if !code {
            prose.push(line);
        }
    }
    prose
}

#[test]
fn blocks_are_found_with_their_files() {
    let text = "# A\n\nSave this as `a.yaml`:\n\n```yaml\nx: 1\n```\n\n```sh\nls\n```\n";
    let page = File { name: "a.md".to_owned(), text: text.to_owned() };
    let found = blocks(&page);
    let seen: Vec<_> =
        found.iter().map(|b| (&*b.language, b.line, b.saved_as.as_deref())).collect();
    assert_eq!(seen, [("yaml", 5, Some("a.yaml")), ("sh", 9, None)]);
    assert_eq!((found[0].text.as_str(), found[1].place.as_str()), ("x: 1\n", "a.md:9"));
}
