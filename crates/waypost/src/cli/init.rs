//! `waypost init`: a first example, and the schema for editors.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;

use super::{Context, Exit, Usage};
use crate::output::print_line;

/// The example.
const WORKFLOW: &str = include_str!("init/workflow.yaml");
/// The example's file name.
const WORKFLOW_FILE: &str = "workflow.yaml";
/// The schema's file name; the example refers to it.
const SCHEMA_FILE: &str = "waypost.schema.json";

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  waypost init
  waypost init my-workflows")]
pub(crate) struct Args {
    /// Where to write the files; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Overwrite files that exist
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let schema = serde_json::to_string_pretty(&waypost_lang::schema(&waypost_nodes::catalog()))?;
    let (workflow, editor) = (args.folder.join(WORKFLOW_FILE), args.folder.join(SCHEMA_FILE));
    let files = [(&workflow, WORKFLOW.to_owned()), (&editor, format!("{schema}\n"))];
    if !args.force
        && let Some((path, _)) = files.iter().find(|(path, _)| path.symlink_metadata().is_ok())
    {
        return Err(exists(path).into());
    }
    std::fs::create_dir_all(&args.folder)
        .with_context(|| format!("cannot create the folder {}", args.folder.display()))?;
    for (path, content) in &files {
        write(path, content, args.force)?;
    }
    let file = quoted(&workflow);
    let next = [
        format!("waypost validate {file}"),
        format!("waypost run {file} --input '{{\"name\": \"Ada\", \"amount\": 120}}'"),
        "waypost show last".to_owned(),
    ];
    context.show(&json!({ "files": [workflow, editor], "next": next }), || {
        print_line(&format!("wrote {}: a workflow, with comments", workflow.display()));
        print_line(&format!("wrote {}: completes and checks it in editors", editor.display()));
        print_line("next:");
        next.iter().for_each(|command| print_line(&format!("  {command}")));
    })
}

fn exists(path: &Path) -> Usage {
    Usage(format!("{} exists, and nothing was written; --force overwrites it", path.display()))
}

fn write(path: &Path, content: &str, force: bool) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        // Made since we looked: it is not ours to overwrite.
        false => options.write(true).create_new(true),
    };
    let written = options.open(path).and_then(|mut file| file.write_all(content.as_bytes()));
    match written {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path).into()),
        written => written.with_context(|| format!("cannot write {}", path.display())),
    }
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    // A name that begins like a flag is none.
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_is_one_word_of_a_shell() {
        for (path, expected) in [
            ("flows/workflow.yaml", "flows/workflow.yaml"),
            ("my flows/a.yaml", "'my flows/a.yaml'"),
            ("it's/a.yaml", r"'it'\''s/a.yaml'"),
            ("-x/a.yaml", "./-x/a.yaml"),
            ("$HOME/a.yaml", "'$HOME/a.yaml'"),
        ] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }

    #[test]
    fn the_example_is_valid_and_without_warnings() {
        let compiled = crate::wiring::compile(WORKFLOW.as_bytes()).unwrap();
        assert_eq!(compiled.warnings.render(WORKFLOW.as_bytes(), WORKFLOW_FILE, false), "");
        assert!(WORKFLOW.contains(SCHEMA_FILE));
    }
}
