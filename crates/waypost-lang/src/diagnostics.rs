//! Faults: what is wrong with a definition, where, and what to do about it.
//!
//! Checks add faults to a [`Faults`] collector in any order and never stop at the first one; the
//! finished [`Diagnostics`] are sorted by position. Codes are stable: scripts may match on them.

mod render;

use serde::Serialize;
pub(crate) use waypost_core::spelling::quoted;

use crate::source::{Source, Span};
use crate::suggest;

/// Faults stored of one definition; a file with more is broken as a whole, and the rest is counted.
pub const FAULTS_MAX: usize = 1_000;
/// Faults that [`Diagnostics::render`] shows.
pub const RENDERED_MAX: usize = 50;
/// Comparisons that one validation may spend on finding "did you mean" names.
const COMPARISONS_MAX: usize = 200_000;

macro_rules! codes {
    ($($(#[doc = $doc:literal])* $variant:ident => $name:literal,)+) => {
        /// The stable names of all faults and warnings.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $doc])* #[serde(rename = $name)] $variant,)+
        }

        impl Code {
            /// Every code, for the docs and for the test that each has a case.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// As it is printed: `unknown_field`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

codes! {
    SourceTooLarge => "source_too_large",
    InvalidUtf8 => "invalid_utf8",
    Syntax => "syntax",
    /// Values or bodies are nested too deep.
    TooDeep => "too_deep",
    /// The source has, or its aliases expand to, more values than allowed.
    TooManyValues => "too_many_values",
    /// A YAML alias is inside the value that it repeats.
    RecursiveAlias => "recursive_alias",
    /// A YAML feature that definitions do not use: tags, merge keys, complex keys.
    UnsupportedYaml => "unsupported_yaml",
    MultipleDocuments => "multiple_documents",
    EmptyDefinition => "empty_definition",
    /// A number that JSON cannot hold, or one that reads differently than it looks.
    BadNumber => "bad_number",
    UnknownField => "unknown_field",
    /// A field that is given twice, also by two spellings of it.
    DuplicateField => "duplicate_field",
    MissingField => "missing_field",
    WrongType => "wrong_type",
    /// A value of the right type that the field does not allow.
    BadValue => "bad_value",
    /// A name or an id with characters that are not allowed, or too many.
    BadName => "bad_name",
    /// Not a duration, or one that cannot be: negative, endless, zero where that makes no sense.
    BadDuration => "bad_duration",
    /// The input's JSON Schema is not one, or refers outside of itself.
    BadInputSchema => "bad_input_schema",
    UnknownKind => "unknown_kind",
    /// The long form's `type` is not the family of its `subType`.
    WrongFamily => "wrong_family",
    /// A rule of the node kind about its config.
    BadConfig => "bad_config",
    DuplicateId => "duplicate_id",
    NoNodes => "no_nodes",
    /// More nodes or edges than allowed.
    TooLarge => "too_large",
    BadExpression => "bad_expression",
    /// A hole where none is allowed.
    HoleNotAllowed => "hole_not_allowed",
    /// A name that does not exist in expressions.
    UnknownName => "unknown_name",
    /// A name that exists in expressions, but not here.
    NameNotAvailable => "name_not_available",
    /// Secrets in an expression that the engine evaluates itself.
    SecretNotAllowed => "secret_not_allowed",
    /// A secret that is a part of an expression instead of standing alone.
    SecretNotAlone => "secret_not_alone",
    UnknownNode => "unknown_node",
    /// `needs` or an expression crosses the border of a body.
    OutsideScope => "outside_scope",
    /// A hyphenated id after a dot, which reads as a subtraction.
    HyphenatedReference => "hyphenated_reference",
    /// An expression refers to a node that is not upstream.
    NotUpstream => "not_upstream",
    /// Warning: an expression refers to a node that may have been skipped.
    MayBeSkipped => "may_be_skipped",
    /// Warning: an expression uses a field of the input that need not be there.
    MayBeMissing => "may_be_missing",
    /// Warning: an expression uses a field of the input that its schema does not have.
    UnknownInputField => "unknown_input_field",
    SelfDependency => "self_dependency",
    /// Warning: an edge is given twice.
    DuplicateNeed => "duplicate_need",
    /// Nodes need each other.
    Cycle => "cycle",
    /// Every node needs another one: nothing can start.
    NoEntry => "no_entry",
    /// Every node is needed by another one: nothing can end.
    NoExit => "no_exit",
    Unreachable => "unreachable",
    /// An edge on a branch that its source cannot select.
    UnknownBranch => "unknown_branch",
    /// An edge on the branch `error` of a node with a different `onError`.
    ErrorBranchConflict => "error_branch_conflict",
    /// Warning: a failure is sent to a branch that no edge takes.
    UnusedErrorBranch => "unused_error_branch",
    /// Warning: `retryWhen` is given, and the node has no `retry` that would try again.
    NothingRetried => "nothing_retried",
    /// Warning: an edge after a node that never completes.
    NeverTaken => "never_taken",
    /// Warning: a join that is skipped although one of its branches was taken.
    MixedMerge => "mixed_merge",
    /// A join that waits for more sources than there are.
    JoinTooLarge => "join_too_large",
    /// A cron line that cannot be read.
    BadCron => "bad_cron",
    UnknownZone => "unknown_zone",
    /// A schedule without a time, such as 30 February.
    NeverFires => "never_fires",
    /// A jitter as long as the interval, or longer.
    BadJitter => "bad_jitter",
    /// An interval that is too short or too long, or an offset beyond it.
    BadInterval => "bad_interval",
    /// Not a time, or two times in the wrong order.
    BadTime => "bad_time",
    BadCatchUp => "bad_catch_up",
    /// Not exactly one of `cron`, `every` and `at`.
    BadSchedule => "bad_schedule",
    BadOverlap => "bad_overlap",
    DuplicateTrigger => "duplicate_trigger",
    /// A poll that cannot tell new items from known ones.
    MissingKey => "missing_key",
    /// A source that cannot be, or a beginning that it cannot have.
    BadSource => "bad_source",
    /// A source that the settings do not name, or not for this workflow or this stream or table.
    UnknownSource => "unknown_source",
    /// Warning: a webhook that does not verify where requests come from.
    UnsignedHook => "unsigned_hook",
    /// A window of events that cannot be.
    BadWindow => "bad_window",
    /// A workflow that is started by its own end.
    StartsItself => "starts_itself",
    /// Two nodes set one variable, and neither comes after the other.
    UnorderedWriters => "unordered_writers",
}

/// How bad a fault is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The definition cannot be used.
    Error,
    /// The definition can be used, but is probably not what was meant.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Fault {
    pub code: Code,
    pub severity: Severity,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The bytes of the source that are meant.
    pub span: Span,
    /// The line where they start, from 1.
    pub line: usize,
    /// The character of that line where they start, from 1.
    pub column: usize,
}

impl Fault {
    pub(crate) fn error(code: Code, span: Span, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, severity: Severity::Error, message, hint: None, span, line: 1, column: 1 }
    }

    pub(crate) fn warning(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    pub(crate) fn hint(&mut self, hint: impl Into<String>) {
        self.hint = Some(hint.into());
    }

    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint(hint);
        self
    }

    /// Adds the likely name as a hint, if there is one.
    pub(crate) fn suggest(&mut self, likely: Option<&str>) {
        self.hint = likely.map(did_you_mean);
    }
}

/// All faults of one definition, sorted by position.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Diagnostics {
    /// At most [`FAULTS_MAX`] of them.
    pub faults: Vec<Fault>,
    /// How many more there are.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

impl Diagnostics {
    pub(crate) fn of(fault: Fault) -> Self {
        Self { faults: vec![fault], left_out: 0 }
    }

    /// Are there neither errors nor warnings?
    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes a reference"
)]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl std::fmt::Display for Diagnostics {
    /// One line per fault: `3:5: unknown field …`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, fault) in self.faults.iter().enumerate() {
            if position > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}: {}", fault.line, fault.column, fault.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

#[derive(Debug)]
pub(crate) struct Faults {
    found: Vec<Fault>,
    left_out: usize,
    errors: usize,
    comparisons_left: usize,
}

impl Faults {
    pub(crate) fn new() -> Self {
        Self { found: Vec::new(), left_out: 0, errors: 0, comparisons_left: COMPARISONS_MAX }
    }

    pub(crate) fn error(&mut self, code: Code, at: &Span, text: impl Into<String>) -> &mut Fault {
        self.add(Fault::error(code, at.clone(), text))
    }

    pub(crate) fn warning(&mut self, code: Code, at: &Span, text: impl Into<String>) -> &mut Fault {
        self.add(Fault::warning(code, at.clone(), text))
    }

    /// Adds a fault and returns it for its hint. One more than [`FAULTS_MAX`] is stored: the last
    /// one, which `finish` leaves out.
    pub(crate) fn add(&mut self, fault: Fault) -> &mut Fault {
        self.errors += usize::from(fault.severity == Severity::Error);
        if self.found.len() >= FAULTS_MAX {
            self.left_out += 1;
            self.found.truncate(FAULTS_MAX);
        }
        self.found.push_mut(fault)
    }

    /// Takes over what another collector found.
    pub(crate) fn append(&mut self, other: Self) {
        self.left_out += other.left_out;
        for fault in other.found.into_iter().take(FAULTS_MAX) {
            self.add(fault);
        }
    }

    /// How many errors there are so far. A check that increases it has failed.
    pub(crate) fn errors(&self) -> usize {
        self.errors
    }

    /// The candidate that a mistyped name most likely means.
    pub(crate) fn likely<'a>(
        &mut self,
        name: &str,
        candidates: impl IntoIterator<Item = &'a str>,
    ) -> Option<&'a str> {
        suggest::likely(name, candidates, &mut self.comparisons_left)
    }

    pub(crate) fn finish(mut self, source: &Source<'_>) -> Diagnostics {
        self.found.truncate(FAULTS_MAX);
        self.found = self.found.into_iter().map(|fault| source.place(fault)).collect();
        self.found.sort_by(|a, b| {
            (a.span.start, a.span.end, a.code).cmp(&(b.span.start, b.span.end, b.code))
        });
        self.found.dedup();
        Diagnostics { faults: self.found, left_out: self.left_out }
    }
}

pub(crate) fn did_you_mean(name: &str) -> String {
    format!("did you mean {}?", quoted(name))
}

/// Several names for messages: `` `a`, `b` or `c` ``. All fields and kinds are listed, since the
/// one that is left out is the one that was wanted; only branches can be more.
pub(crate) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, conjunction: &str) -> String {
    const NAMES_MAX: usize = 64;
    let names: Vec<&str> = names.into_iter().collect();
    let mut shown: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quoted(name)).collect();
    if names.len() > NAMES_MAX {
        shown.push(format!("{} more", names.len() - NAMES_MAX));
    }
    match shown.pop() {
        None => "none".to_owned(),
        Some(last) if shown.is_empty() => last,
        Some(last) => format!("{} {conjunction} {last}", shown.join(", ")),
    }
}
