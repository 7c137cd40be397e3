//! Error responses as people read them in a terminal: the problem, the single faults with their
//! places, and what to do about it, in terms of this program.

use std::error::Error;
use std::fmt::{self, Write as _};

use waypost_server::problem::{FaultAt, Problem, WireProblem};

use super::Address;

/// A request was rejected, by a server or by the folder itself.
#[derive(Debug)]
pub(crate) struct Refused {
    problem: WireProblem,
    hint: Option<String>,
}

impl Refused {
    /// A server's answer.
    pub(super) fn by_server(problem: WireProblem, has_key: bool) -> Self {
        let hint = match (problem.code.as_str(), has_key) {
            ("unauthenticated", false) => {
                Some("set WAYPOST_KEY to a key of this server; `waypost keys create` makes one")
            }
            ("unauthenticated", true) => Some("the key is taken from WAYPOST_KEY; is it current?"),
            ("forbidden", _) => Some("WAYPOST_KEY must hold a key of another role"),
            _ => None,
        };
        match hint {
            Some(hint) => Self { problem, hint: Some(hint.to_owned()) },
            None => Self::new(problem),
        }
    }

    fn new(problem: WireProblem) -> Self {
        let hint = match problem.code.as_str() {
            "unknown_execution" => "`waypost list` shows those that exist",
            "unknown_definition" => {
                "`waypost definitions` lists those that exist, `deploy` adds one"
            }
            "concurrency_limit" => "start it when one of them has ended; `waypost list` shows them",
            "cluster_too_old" => "upgrade the older instances; nothing was done",
            "unknown_key" => "`waypost keys list` shows those that exist",
            "unknown_breaker" => "`waypost breakers list` shows those that are not closed",
            "unknown_endpoint" => "`waypost webhooks list` shows those that exist",
            "unknown_trigger" => "`waypost triggers list` shows those that exist",
            "trigger_state" => "`waypost why WORKFLOW/NAME` says what the trigger waits for",
            "unknown_dead_letter" => "`waypost triggers dead WORKFLOW/NAME` lists them",
            "unknown_node" => "`waypost show` lists the nodes, and how many items a map has",
            "unknown_wait" => "`waypost why` names the waits that are open",
            "not_found" => "is the server older than this program?",
            _ => {
                // Written for users of HTTP; people have commands.
                let hint = problem.hint.clone().filter(|hint| !hint.contains("/v1/"));
                return Self { problem, hint };
            }
        };
        Self { problem, hint: Some(hint.to_owned()) }
    }

    pub(crate) fn code(&self) -> &str {
        &self.problem.code
    }

    pub(super) fn status(&self) -> u16 {
        self.problem.status
    }

    pub(crate) fn faults(&self) -> &[FaultAt] {
        &self.problem.errors
    }

    /// Was the question itself wrong: a definition, an input, a name that means nothing?
    pub(crate) fn is_wrong(&self) -> bool {
        let code = self.problem.code.as_str();
        let malformed = matches!(self.problem.status, 400 | 413 | 415 | 422);
        let about_others = matches!(code, "idempotency_mismatch" | "unstorable");
        malformed && !about_others || code == "unknown_definition"
    }
}

impl From<Problem> for Refused {
    fn from(problem: Problem) -> Self {
        Self::new(problem.wire())
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.problem.code == "execution_damaged" {
            write!(f, "{}: ", self.problem.title)?;
        }
        f.write_str(&self.problem.detail)?;
        for fault in &self.problem.errors {
            write!(f, "\n  {}", line_of(fault))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl Error for Refused {}

/// A fault in one line, its place first.
pub(crate) fn line_of(fault: &FaultAt) -> String {
    let mut line = String::new();
    let place = match (&fault.span, fault.pointer.as_deref()) {
        (Some(span), _) => Some(format!("{}:{}", span.line, span.column)),
        (None, Some("")) => Some("input".to_owned()),
        (None, pointer) => pointer.map(str::to_owned),
    };
    if let Some(place) = place {
        line.push_str(&place);
        line.push_str(": ");
    }
    if fault.severity.as_deref() == Some("warning") {
        line.push_str("warning: ");
    }
    line.push_str(&fault.message);
    if let Some(hint) = &fault.hint {
        // Writing to a string cannot fail.
        write!(line, " ({hint})").unwrap_or_default();
    }
    line
}

/// There was no answer.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot reach the server at {address} ({}): {cause}\n\
     hint: `waypost serve` starts one; without a server, commands work on --data",
    address.origin()
)]
pub(crate) struct Unreachable {
    address: Address,
    cause: String,
}

impl Unreachable {
    pub(super) fn new(address: Address, error: &reqwest::Error) -> Self {
        let cause = match error.is_timeout() {
            true => "it did not answer in time".to_owned(),
            false => root_cause(error),
        };
        Self { address, cause }
    }
}

/// The innermost cause; the layers around it only report that something failed.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        _ => cause.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waypost_server::problem::{Code, Span};

    #[test]
    fn a_refusal_reads_well() {
        let span = Span { line: 3, column: 5, start: 0, end: 1 };
        let faults = vec![
            FaultAt { message: "unknown kind".into(), span: Some(span), ..FaultAt::default() },
            FaultAt {
                message: "7 is no name".into(),
                pointer: Some("/name".into()),
                ..FaultAt::default()
            },
        ];
        let problem = Problem::new(Code::InvalidDefinition, "the definition has 2 faults")
            .hint("look closer")
            .errors(faults);
        let refused = Refused::from(problem);
        assert!(refused.is_wrong());
        assert_eq!(
            refused.to_string(),
            "the definition has 2 faults\n  3:5: unknown kind\n  /name: 7 is no name\nhint: look closer"
        );
    }

    #[test]
    fn hints_are_commands() {
        let unknown = Refused::from(Problem::unknown_execution("x"));
        assert!(unknown.to_string().contains("waypost list") && !unknown.is_wrong(), "{unknown}");
        let ended = Problem::new(Code::ExecutionRuns, "it runs").hint("GET /v1/executions/{id}");
        assert_eq!(Refused::from(ended).to_string(), "it runs");
        let wire = Problem::new(Code::Unauthenticated, "no key").wire();
        let refused = Refused::by_server(wire, false);
        assert!(refused.to_string().contains("WAYPOST_KEY"), "{refused}");
    }
}
