//! What an import did: one finding for each construct of the source, at one of three levels.

use serde::Serialize;
use waypost_lang::Tree;

use crate::read::SourceFile;

/// Findings kept of one import; of more, only their number is.
const FINDINGS_MAX: usize = 1_000;

/// How a construct was converted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportLevel {
    /// It means the same.
    Exact,
    /// It works, with the difference that the message names.
    Different,
    /// It has no counterpart: the definition fails where it would run.
    NotConverted,
}

/// One construct of the source, and what became of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ImportFinding {
    pub level: ImportLevel,
    pub file: String,
    pub line: usize,
    pub column: usize,
    /// A JSON pointer to the construct.
    pub pointer: String,
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// All findings of an import, in the order of the sources.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ImportReport {
    pub findings: Vec<ImportFinding>,
    /// How many more findings there are.
    pub left_out: usize,
    not_converted: usize,
}

impl ImportReport {
    /// Has everything a counterpart?
    pub fn is_complete(&self) -> bool {
        self.not_converted == 0
    }

    /// How many findings of this level there are.
    pub fn count(&self, level: ImportLevel) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    /// The report as text: what needs attention, then the numbers.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for finding in self.findings.iter().filter(|finding| finding.level != ImportLevel::Exact) {
            let level = match finding.level {
                ImportLevel::NotConverted => "not converted",
                ImportLevel::Different | ImportLevel::Exact => "different",
            };
            let ImportFinding { file, line, column, pointer, message, .. } = finding;
            text.push_str(&format!("{file}:{line}:{column}: {level}: {message}\n"));
            if !pointer.is_empty() {
                text.push_str(&format!("  at {pointer}\n"));
            }
            if let Some(advice) = &finding.advice {
                text.push_str(&format!("  help: {advice}\n"));
            }
        }
        if self.left_out > 0 {
            text.push_str(&format!("and {} more findings\n", self.left_out));
        }
        text.push_str(&format!(
            "{} converted exactly, {} with a difference, {} not converted\n",
            self.count(ImportLevel::Exact),
            self.count(ImportLevel::Different),
            self.not_converted
        ));
        text
    }

    pub(crate) fn add(&mut self, finding: ImportFinding) {
        if self.has_room(finding.level) {
            self.findings.push(finding);
        }
    }

    /// Counts a finding. Is there room for it?
    fn has_room(&mut self, level: ImportLevel) -> bool {
        self.not_converted += usize::from(level == ImportLevel::NotConverted);
        let has_room = self.findings.len() < FINDINGS_MAX;
        self.left_out += usize::from(!has_room);
        has_room
    }

    pub(crate) fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        self.not_converted += other.not_converted;
        self.findings.extend(other.findings);
    }

    pub(crate) fn sort(&mut self) {
        self.findings
            .sort_by_cached_key(|finding| (finding.line, finding.column, finding.pointer.clone()));
        self.findings.dedup();
    }
}

/// Collects the findings of one file.
#[derive(Debug)]
pub(crate) struct Reporter<'a> {
    pub(crate) file: &'a SourceFile<'a>,
    pub(crate) report: ImportReport,
}

impl<'a> Reporter<'a> {
    pub(crate) fn new(file: &'a SourceFile<'a>) -> Self {
        Self { file, report: ImportReport::default() }
    }

    /// How much has been reported; compare it later to see whether there was more.
    pub(crate) fn mark(&self) -> usize {
        self.report.findings.len() + self.report.left_out
    }

    /// How many constructs were not converted so far.
    pub(crate) fn lost_count(&self) -> usize {
        self.report.not_converted
    }

    pub(crate) fn exact(&mut self, at: &Tree, message: impl Into<String>) {
        self.push(ImportLevel::Exact, at, message.into(), None);
    }

    /// Reports a construct as converted exactly, unless something was reported since the mark.
    pub(crate) fn exact_since(&mut self, mark: usize, at: &Tree, message: impl Into<String>) {
        if self.mark() == mark {
            self.exact(at, message);
        }
    }

    pub(crate) fn different(
        &mut self,
        at: &Tree,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.push(ImportLevel::Different, at, message.into(), Some(advice.into()));
    }

    pub(crate) fn lost(
        &mut self,
        at: &Tree,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.push(ImportLevel::NotConverted, at, message.into(), Some(advice.into()));
    }

    /// Reports the fields of a mapping that no converter reads.
    pub(crate) fn leftovers(&mut self, at: &Tree, known: &[&str]) {
        for entry in at.as_map().unwrap_or_default() {
            if !known.contains(&entry.key.as_str()) {
                let message = format!("the field `{}` has no counterpart", shortened(&entry.key));
                let advice = "check what it does, and write that by hand";
                self.lost(&entry.value, message, advice);
            }
        }
    }

    fn push(&mut self, level: ImportLevel, at: &Tree, message: String, advice: Option<String>) {
        // ImportFinding the position of a value takes a while in a large file.
        if !self.report.has_room(level) {
            return;
        }
        let (line, column) = self.file.position(at);
        let (file, pointer) = (self.file.name.clone(), self.file.pointer(at));
        let finding = ImportFinding { level, file, line, column, pointer, message, advice };
        self.report.findings.push(finding);
    }
}

/// Why a construct cannot be converted.
#[derive(Debug)]
pub(crate) struct Problem<'t> {
    pub(crate) at: &'t Tree,
    pub(crate) message: String,
    pub(crate) advice: String,
}

impl<'t> Problem<'t> {
    pub(crate) fn new(at: &'t Tree, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self { at, message: message.into(), advice: advice.into() }
    }
}

/// A text of the source, cut to what fits into a message.
pub(crate) fn shortened(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    let clean: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CHARS_MAX).collect();
    if text.chars().count() > CHARS_MAX { format!("{clean}…") } else { clean }
}
