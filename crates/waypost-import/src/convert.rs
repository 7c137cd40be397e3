//! From sources to definitions that are valid, and a report.

use waypost_core::kind::Catalog;
use waypost_lang::{Code, Diagnostics, Severity};

use crate::detect::{self, ImportFormat};
use crate::read::SourceFile;
use crate::report::{ImportFinding, ImportLevel, ImportReport, Reporter};
use crate::target::TargetDefinition;
use crate::{actions, asl, conductor, serverless};

/// A file to import.
#[derive(Clone, Copy, Debug)]
pub struct ImportSource<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
}

/// A definition of Waypost that was made from a file. It is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Converted {
    /// The name of the workflow.
    pub name: String,
    pub yaml: String,
}

/// What an import made.
#[derive(Clone, Debug)]
pub struct Imported {
    pub definitions: Vec<Converted>,
    pub report: ImportReport,
}

/// Why a file cannot be imported at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// Neither YAML nor JSON, or too large.
    #[error("{file} cannot be read: {diagnostics}")]
    Unreadable { file: String, diagnostics: Diagnostics },
    /// No format, or several, fit.
    #[error("the format of {file} is not clear: {message}")]
    UnknownFormat { file: String, message: String },
    /// The file does not have the format that was named.
    #[error("{file} is not of the format `{format}`: it needs {needs}")]
    WrongFormat { file: String, format: &'static str, needs: &'static str },
}

/// Converts files of one format, or of a format each.
pub fn import(
    sources: &[ImportSource<'_>],
    format: Option<ImportFormat>,
    catalog: &Catalog<'_>,
) -> Result<Imported, ImportError> {
    let mut files = Vec::new();
    for source in sources {
        let file = SourceFile::read(source.name, source.bytes).map_err(|diagnostics| {
            ImportError::Unreadable { file: source.name.to_owned(), diagnostics }
        })?;
        let format = match format {
            Some(format) => {
                if let Some(needs) = detect::missing(format, file.root()) {
                    let (file, format) = (file.name, format.name());
                    return Err(ImportError::WrongFormat { file, format, needs });
                }
                format
            }
            None => detect::detect(file.root()).map_err(|message| ImportError::UnknownFormat {
                file: source.name.to_owned(),
                message,
            })?,
        };
        files.push((file, format));
    }
    let task_definitions = conductor::TaskDefinitions::of(files.iter().map(|(file, _)| file));
    let mut imported = Imported { definitions: Vec::new(), report: ImportReport::default() };
    for (file, format) in &files {
        let mut reporter = Reporter::new(file);
        let name = stem(&file.name);
        let definitions = match format {
            ImportFormat::Asl => vec![asl::convert(name, file.root(), &mut reporter)],
            ImportFormat::Actions => vec![actions::convert(name, file.root(), &mut reporter)],
            ImportFormat::Serverless => vec![serverless::convert(file.root(), &mut reporter)],
            ImportFormat::Conductor => {
                conductor::convert(file.root(), &task_definitions, &mut reporter)
            }
        };
        let mut report = reporter.report;
        for definition in definitions {
            imported.definitions.extend(valid(definition, file, catalog, &mut report));
        }
        report.sort();
        imported.report.append(report);
    }
    Ok(imported)
}

/// The name of a file without its folders and its ending.
fn stem(name: &str) -> &str {
    let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let file = if file == "-" { "imported" } else { file };
    [".asl.json", ".json", ".yaml", ".yml"]
        .iter()
        .find_map(|ending| file.strip_suffix(ending))
        .unwrap_or(file)
}

/// The definition as text, if it is valid. If it is not, that is in the report.
fn valid(
    mut definition: TargetDefinition,
    file: &SourceFile<'_>,
    catalog: &Catalog<'_>,
    report: &mut ImportReport,
) -> Option<Converted> {
    let mut yaml = definition.to_yaml();
    let mut checked = waypost_lang::parse(yaml.as_bytes(), catalog);
    let unordered = |diagnostics: &Diagnostics| {
        let errors = diagnostics.faults.iter().filter(|fault| fault.severity == Severity::Error);
        errors.clone().next().is_some() && errors.clone().all(|e| e.code == Code::UnorderedWriters)
    };
    // Ways that exclude each other, which the check does not see behind several merges. Variables of
    // branches that run side by side have names of their own.
    if checked.as_ref().is_err_and(unordered) {
        definition.merge_last();
        yaml = definition.to_yaml();
        checked = waypost_lang::parse(yaml.as_bytes(), catalog);
    }
    match checked {
        Ok(_) => Some(Converted { name: definition.name, yaml }),
        Err(diagnostics) => {
            for fault in diagnostics.faults.iter().filter(|f| f.severity == Severity::Error) {
                report.add(ImportFinding {
                    level: ImportLevel::NotConverted,
                    file: file.name.clone(),
                    line: 1,
                    column: 1,
                    pointer: String::new(),
                    message: format!("no definition was written: {}", fault.message),
                    advice: Some(invalid_advice(fault.code).to_owned()),
                });
            }
            None
        }
    }
}

fn invalid_advice(code: Code) -> &'static str {
    match code {
        Code::TooDeep => "put inner parts into workflows of their own: bodies nest up to 8 levels",
        Code::TooLarge => "split the workflow",
        _ => "simplify the place that the message names, and write it by hand afterwards",
    }
}

/// A number of the source as a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and the number is not negative"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number.clamp(0.0, 9e15).round() as u64
}

/// A number of milliseconds as a duration.
pub(crate) fn millis(count: f64) -> serde_json::Value {
    if count % 1_000.0 == 0.0 {
        serde_json::Value::from(format!("{}s", whole(count / 1_000.0)))
    } else {
        serde_json::Value::from(whole(count))
    }
}
