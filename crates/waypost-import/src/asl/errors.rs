//! `Retry` and `Catch`: which failures are tried again, and where the others lead.

use serde_json::{Map, Value, json};
use waypost_lang::Tree;

use super::data::StateView;
use super::{Converter, Problem, next_of};
use crate::expr::{Expr, quoted};
use crate::machine::MachineStep;
use crate::names;
use crate::read::SourceFields;
use crate::report::Reporter;
use crate::target::{NeedEdge, TargetNode};

/// The branch that a caught failure takes.
const CAUGHT: &str = "caught";
/// The longest wait between two attempts, in seconds, unless `maxWait` says otherwise.
const MAX_WAIT_DEFAULT: f64 = 300.0;
const ATTEMPTS_MAX: f64 = 1_000.0;

/// Which failures an error name means here.
enum Meant {
    All,
    /// All but a timeout.
    TaskFailed,
    Kind(String),
}

fn meant(name: &str) -> Meant {
    match name {
        "States.ALL" | "States.BranchFailed" => Meant::All,
        "States.TaskFailed" => Meant::TaskFailed,
        "States.Timeout" | "States.HeartbeatTimeout" => Meant::Kind("timeout".to_owned()),
        "States.NoChoiceMatched" => Meant::Kind("no_case".to_owned()),
        "States.ExceedToleratedFailureThreshold" => Meant::Kind("too_many_failures".to_owned()),
        other => Meant::Kind(names::failure_kind(other)),
    }
}

/// `retry` of a node, from the retriers of a state.
pub(super) fn retry(state: &Tree, report: &mut Reporter<'_>) -> Option<Value> {
    let retriers = state.get("Retry")?.items();
    let first = retriers.first()?;
    let mut attempts = 0.0_f64;
    let mut kinds: Vec<String> = Vec::new();
    let (mut all, mut no_timeout) = (false, false);
    for retrier in retriers {
        report.leftovers(retrier, RETRIER);
        attempts = attempts.max(retrier.number("MaxAttempts").unwrap_or(3.0));
        for name in retrier.get("ErrorEquals").map(SourceFields::items).unwrap_or_default() {
            match meant(name.as_text().unwrap_or_default()) {
                Meant::All => (all, no_timeout) = (true, false),
                Meant::TaskFailed => (all, no_timeout) = (true, !all),
                Meant::Kind(kind) if !kinds.contains(&kind) => kinds.push(kind),
                Meant::Kind(_) => {}
            }
        }
    }
    if retriers.len() > 1 {
        let message = "all retriers become one `retry`, with the waits of the first one";
        report.different(first, message, "check the waits, and how often each failure is tried");
    }
    if all {
        let message = "`States.ALL` and `States.TaskFailed` retry what is marked as retryable: a \
                       worker says so of each failure";
        report.different(
            first,
            message,
            "report failures as retryable, or list kinds in `retryOn`",
        );
    } else if kinds.iter().any(|kind| kind != "timeout") {
        let own: Vec<String> = kinds.iter().filter(|kind| *kind != "timeout").cloned().collect();
        report_kinds(first, &own, report);
    }
    if attempts < 1.0 {
        return None;
    }
    let mut block = timing(first, attempts.min(ATTEMPTS_MAX - 1.0), report);
    if !all {
        block.insert("retryOn".to_owned(), json!(kinds));
    } else if no_timeout {
        block.insert("ignoreExceptions".to_owned(), json!(["timeout"]));
    }
    Some(Value::Object(block))
}

const RETRIER: &[&str] = &[
    "ErrorEquals",
    "IntervalSeconds",
    "MaxAttempts",
    "BackoffRate",
    "MaxDelaySeconds",
    "JitterStrategy",
    "Comment",
];

fn timing(retrier: &Tree, attempts: f64, report: &mut Reporter<'_>) -> Map<String, Value> {
    let interval = retrier.number("IntervalSeconds").unwrap_or(1.0);
    let rate = retrier.number("BackoffRate").unwrap_or(2.0);
    let mut block = Map::new();
    block.insert("maxAttempts".to_owned(), json!(crate::convert::whole(attempts + 1.0)));
    block.insert("waitDuration".to_owned(), super::data::seconds(interval));
    if rate == 1.0 {
        block.insert("exponentialBackoff".to_owned(), json!(false));
    } else if rate != 2.0 {
        block.insert("multiplier".to_owned(), json!(rate));
    }
    let longest = interval * rate.powf(attempts - 1.0);
    match retrier.number("MaxDelaySeconds") {
        Some(limit) => block.insert("maxWait".to_owned(), super::data::seconds(limit)),
        None if longest > MAX_WAIT_DEFAULT => {
            let longest = longest.min(31_622_400.0).ceil();
            block.insert("maxWait".to_owned(), super::data::seconds(longest))
        }
        None => None,
    };
    if retrier.text("JitterStrategy") == Some("FULL") {
        let at = retrier.get("JitterStrategy").unwrap_or(retrier);
        let message = "full jitter shortens waits at random, `jitter` makes them longer";
        report.different(at, message, "choose the waits accordingly");
        block.insert("jitter".to_owned(), json!(1));
    } else {
        block.insert("jitter".to_owned(), json!(0));
    }
    block
}

fn report_kinds(at: &Tree, kinds: &[String], report: &mut Reporter<'_>) {
    let message = format!("errors have names in lower case here: {}", kinds.join(", "));
    report.different(at, message, "report failures with these kinds from the worker");
}

impl Converter<'_, '_> {
    /// Adds what follows the failures of the first node of a step.
    pub(super) fn catch<'t>(
        &mut self,
        view: StateView<'t>,
        step: &mut MachineStep,
        at: usize,
    ) -> Result<(), Problem<'t>> {
        let Some(catchers) = view.tree.get("Catch").map(SourceFields::items) else { return Ok(()) };
        if catchers.is_empty() {
            return Ok(());
        }
        let id = step.nodes[at].id.clone();
        step.nodes[at].set("onError", CAUGHT);
        let failure = Expr::atom("nodes").field(&id).field("failure");
        let mut cases: Vec<Value> = Vec::new();
        let mut rest = Some(NeedEdge::on(&id, CAUGHT));
        let chooser = (!catches_all(&catchers[0])).then(|| self.ids.beside(&id, "error"));
        let mut handlers = Vec::new();
        for (number, catcher) in catchers.iter().enumerate() {
            self.report
                .leftovers(catcher, &["ErrorEquals", "Next", "ResultPath", "Comment", "Assign"]);
            let all = catches_all(catcher);
            let branch = format!("case_{}", number + 1);
            let edge = match &chooser {
                None => rest.take(),
                Some(chooser) if all => Some(NeedEdge::on(chooser, "other")),
                Some(chooser) => {
                    let when = self.matches(catcher, &failure);
                    cases.push(json!({ "when": when.text(), "branch": branch }));
                    Some(NeedEdge::on(chooser, &branch))
                }
            };
            let name =
                if number == 0 { CAUGHT.to_owned() } else { format!("{CAUGHT}_{}", number + 1) };
            let caught = self.ids.beside(&id, &name);
            let mut node = TargetNode::new(&caught, "noop").needing(edge.into_iter().collect());
            let error = error_output(&failure);
            if let Some(data) = caught_data(view, catcher, &error)? {
                node.variables.insert(view.scope.data.clone(), data);
            }
            view.assign(catcher, &error, &mut node)?;
            step.outs.extend(next_of(catcher, view.states, NeedEdge::to(&caught)));
            handlers.push(node);
            if all {
                break;
            }
        }
        if let Some(chooser) = chooser {
            step.nodes.push(
                TargetNode::new(&chooser, "switch")
                    .needing(vec![NeedEdge::on(&id, CAUGHT)])
                    .with("cases", cases)
                    .with("default", "other"),
            );
            if !catchers.iter().any(catches_all) {
                step.nodes.push(self.rethrow(&id, &chooser, &failure, view.tree));
            }
        }
        step.nodes.extend(handlers);
        Ok(())
    }

    /// The condition that a catcher takes a failure.
    fn matches(&mut self, catcher: &Tree, failure: &Expr) -> Expr {
        let kind = failure.field("kind");
        let names = catcher.get("ErrorEquals").map(SourceFields::items).unwrap_or_default();
        let mut kinds = Vec::new();
        let mut task_failed = false;
        for name in names {
            match meant(name.as_text().unwrap_or_default()) {
                Meant::All | Meant::TaskFailed => task_failed = true,
                Meant::Kind(word) => kinds.push(word),
            }
        }
        let own: Vec<String> = kinds.iter().filter(|kind| *kind != "timeout").cloned().collect();
        if !own.is_empty() {
            report_kinds(catcher, &own, self.report);
        }
        let is_own = match &kinds[..] {
            [one] => kind.compare("==", &Expr::atom(quoted(one))),
            all => kind.compare("in", &Expr::literal(&json!(all))),
        };
        let no_timeout = kind.compare("!=", &Expr::atom("'timeout'"));
        match (task_failed, kinds.is_empty()) {
            (true, true) => no_timeout,
            (true, false) => is_own.or(&no_timeout),
            (false, _) => is_own,
        }
    }

    /// Fails again with what no catcher takes.
    fn rethrow(&mut self, id: &str, chooser: &str, failure: &Expr, state: &Tree) -> TargetNode {
        let at = state.get("Catch").unwrap_or(state);
        let message = "a failure that no catcher names fails the execution with the kind `failed`";
        self.report.different(at, message, "its kind is in the `details`");
        TargetNode::new(&self.ids.beside(id, "uncaught"), "fail")
            .needing(vec![NeedEdge::on(chooser, "other")])
            .with("message", failure.field("message").template())
            .with("details", failure.template())
    }
}

fn catches_all(catcher: &Tree) -> bool {
    let names = catcher.get("ErrorEquals").map(SourceFields::items).unwrap_or_default();
    names.iter().any(|name| matches!(meant(name.as_text().unwrap_or_default()), Meant::All))
}

/// `{Error, Cause}`, as catchers see it.
fn error_output(failure: &Expr) -> Expr {
    Expr::object(&[("Error", failure.field("kind")), ("Cause", failure.field("message"))])
}

fn caught_data<'t>(
    view: StateView<'t>,
    catcher: &'t Tree,
    error: &Expr,
) -> Result<Option<Value>, Problem<'t>> {
    if catcher.has("ResultPath") && catcher.get("ResultPath").is_none() {
        return Ok(None);
    }
    match catcher.text("ResultPath") {
        None | Some("$") => Ok(Some(error.template())),
        Some(_) => Ok(Some(view.placed("ResultPath", catcher, error)?.template())),
    }
}
