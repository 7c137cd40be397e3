//! `waypost import`: definitions of other engines as definitions of Waypost.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use waypost_import::{Converted, ImportFormat, ImportReport, ImportSource, Imported, import};

use super::input::Source;
use super::{Context, Exit, Usage};
use crate::output::{complain, escape_control, print_line};

#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  waypost import order.asl.json > order.yaml
  waypost import --from conductor workflow.json tasks.json --into workflows
  waypost import build.yml --report json 2> report.json > build.yaml")]
pub(crate) struct Args {
    /// Files to convert, or `-` for standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the files; by default, each file's content decides
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,
    /// Write a file per workflow into this folder, not to standard output
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
    /// Overwrite files that exist
    #[arg(long, requires = "into")]
    force: bool,
    /// Exit with 0 also if something was not converted
    #[arg(long)]
    partial: bool,
    /// How to print the report, to standard error
    #[arg(long, value_enum, default_value_t = ReportForm::Text, value_name = "FORM")]
    report: ReportForm,
}

#[derive(Clone, Copy, ValueEnum, Debug)]
enum Format {
    /// CNCF Serverless Workflow 1.0
    ServerlessWorkflow,
    /// The Amazon States Language
    Asl,
    /// Workflows and task definitions of Conductor
    Conductor,
    /// Workflows of GitHub Actions
    GithubActions,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
enum ReportForm {
    Text,
    Json,
}

impl From<Format> for ImportFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::ServerlessWorkflow => Self::Serverless,
            Format::Asl => Self::Asl,
            Format::Conductor => Self::Conductor,
            Format::GithubActions => Self::Actions,
        }
    }
}

pub(crate) fn run(args: &Args, _: &Context) -> Result<Exit> {
    let sources = Source::read_all(&args.files)?;
    let files: Vec<ImportSource<'_>> = sources
        .iter()
        .map(|source| ImportSource { name: &source.name, bytes: &source.bytes })
        .collect();
    let format = args.from.map(ImportFormat::from);
    let Imported { definitions, report } = import(&files, format, &waypost_nodes::catalog())
        .map_err(|error| Usage(escape_control(&error.to_string()).into_owned()))?;
    match &args.into {
        Some(folder) => write_all(folder, &definitions, args.force)?,
        None => print(&definitions)?,
    }
    show(&report, args.report)?;
    Ok(if report.is_complete() || args.partial { Exit::Done } else { Exit::Failed })
}

fn print(definitions: &[Converted]) -> Result<()> {
    match definitions {
        [] => Ok(()),
        [one] => {
            print_line(one.yaml.trim_end());
            Ok(())
        }
        several => {
            let message = format!(
                "there are {} workflows, and a file has one: name a folder with --into",
                several.len()
            );
            Err(Usage(message).into())
        }
    }
}

fn write_all(folder: &Path, definitions: &[Converted], force: bool) -> Result<()> {
    let paths: Vec<PathBuf> = definitions
        .iter()
        .map(|definition| folder.join(format!("{}.yaml", definition.name)))
        .collect();
    for (at, path) in paths.iter().enumerate() {
        if paths[..at].contains(path) {
            let message = format!("two workflows have the name {}", definitions[at].name);
            return Err(Usage(message).into());
        }
        if !force && path.symlink_metadata().is_ok() {
            let message = format!("{} exists: overwrite it with --force", path.display());
            return Err(Usage(message).into());
        }
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    for (path, definition) in paths.iter().zip(definitions) {
        let cannot = || format!("cannot write {}", path.display());
        let mut file = std::fs::File::create(path).with_context(cannot)?;
        file.write_all(definition.yaml.as_bytes()).with_context(cannot)?;
        print_line(&format!("wrote {}", path.display()));
    }
    Ok(())
}

fn show(report: &ImportReport, form: ReportForm) -> Result<()> {
    let text = match form {
        ReportForm::Text => report.render(),
        ReportForm::Json => serde_json::to_string_pretty(report)?,
    };
    text.lines().for_each(|line| complain(&escape_control(line)));
    Ok(())
}
