//! The flow language of tests: plans from text. Only there with the feature `flow`, which the tests of
//! the core and of the engine turn on. A text that is wrong panics.
//!
//! One statement a node, separated by `;` or line ends:
//!
//! ```text
//!   a                                   a task, without conditions
//!   b = if(input.n > 1)                 another behaviour, see `behaviour`
//!   c needs a, b:true, b:false          edges, some on a branch
//!   d needs a, b join any               any | <n>, and `cancel-rest`
//!   e retry 3 wait 1s on=timeout        three tries, no jitter, the wait doubles
//!   f error continue                    fail | continue | <branch>
//!   g timeout 5s deadline 1m once       once: at most once
//!   h heartbeat 2s                      no longer silent than that
//!   h set total = output.n              a variable, from the node's own output
//!   i handler hold                      another handler than `work`
//!   k meter 100 50                      at most 100 tokens of input and 50 of output an attempt
//!   j = group {a; b needs a}            a container, with the nodes of its body
//! ```
//!
//! Statements about the definition: `partial` sets the failure policy, `within 5s` its timeout,
//! `keyed <template> [limit [policy]]` its concurrency key, `budget <tokens> [money <money>] [pause]` its
//! budget, where a million tokens of a node with a meter cost 1 of input and 2 of output.

mod behaviour;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::breaker::{BreakerPolicy, BreakerSpec};
use crate::expr::{Expression, Template};
use crate::id::{DefinitionHash, NodeIx};
use crate::kind::{Behaviour, Family};
use crate::plan::{
    Concurrency, ConcurrencyPolicy, Condition, Delivery, FailurePolicy, Join, OnError, Plan,
    PlanDraft, PlanFault, PlanNode,
};
use crate::retry::{Matcher, RetryPolicy};
use crate::slot::SlotClass;
use crate::time::Millis;

/// The plan that a text describes.
pub fn plan(text: &str) -> Plan {
    build(text).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// The plan that a text describes, or the fault of its graph.
pub fn build(text: &str) -> Result<Plan, PlanFault> {
    let mut failure_policy = FailurePolicy::FailFast;
    let (mut concurrency, mut timeout, mut budget) = (None, None, None);
    let mut statements = Vec::new();
    for statement in split(text, &[';', '\n']) {
        match statement {
            "" => {}
            "partial" => failure_policy = FailurePolicy::Partial,
            statement => match statement.split_once(' ') {
                Some(("keyed", rest)) => concurrency = Some(keyed(rest)),
                Some(("budget", rest)) => budget = Some(behaviour::budget(rest)),
                Some(("within", span)) => timeout = Some(millis(span)),
                _ => statements.push(Statement::parse(statement)),
            },
        }
    }
    let (nodes, bodies) = scopes(statements);
    let hash = DefinitionHash::of(text.as_bytes());
    let triggers = nodes.iter().filter_map(behaviour::trigger).collect();
    let draft = draft(nodes, failure_policy);
    Plan::build(PlanDraft { hash, bodies, concurrency, timeout, budget, triggers, ..draft })
}

/// The nodes of a definition, scope by scope, and which of them are the body of which container.
fn scopes(own: Vec<Statement<'_>>) -> (Vec<PlanNode>, Vec<(NodeIx, Range<u32>)>) {
    let (mut nodes, mut bodies) = (Vec::new(), Vec::new());
    let mut left = VecDeque::from([(None, own)]);
    while let Some((container, statements)) = left.pop_front() {
        let first = nodes.len();
        let ids: Vec<&str> = statements.iter().map(|statement| statement.id).collect();
        for (place, statement) in statements.iter().enumerate() {
            nodes.push(statement.node(&ids, first));
            if let Some(body) = statement.body {
                let inside = split(body, &[';', '\n']).into_iter().filter(|text| !text.is_empty());
                left.push_back((Some(at(first + place)), inside.map(Statement::parse).collect()));
            }
        }
        if let Some(container) = container {
            bodies.push((container, at(first).0..at(nodes.len()).0));
        }
    }
    (nodes, bodies)
}

fn at(place: usize) -> NodeIx {
    NodeIx(u32::try_from(place).expect("a few nodes"))
}

/// [`build`] with its error as text: the compiler of the engine's tests.
pub fn compile(text: &str) -> Result<Plan, String> {
    build(text).map_err(|fault| fault.to_string())
}

fn keyed(text: &str) -> Concurrency {
    let mut words = split(text, &[' ']).into_iter();
    let key = template(&json!(words.next().unwrap_or_default().trim_matches('\'')));
    let limit = words.next().map_or(1, |limit| limit.parse().expect("a limit"));
    let policy = words.next().map(|word| ConcurrencyPolicy::parse(word).expect("a policy"));
    Concurrency { key, limit, policy: policy.unwrap_or_default() }
}

/// A draft of these nodes.
pub fn draft(nodes: Vec<PlanNode>, failure_policy: FailurePolicy) -> PlanDraft {
    PlanDraft {
        workflow: "flow".into(),
        hash: DefinitionHash::of(b"flow"),
        nodes,
        bodies: Vec::new(),
        failure_policy,
        concurrency: None,
        timeout: None,
        input_schema: None,
        callable: true,
        budget: None,
        triggers: Vec::new(),
    }
}

/// A node with nothing special about it.
pub fn node(id: &str, behaviour: Behaviour, needs: Vec<Condition>) -> PlanNode {
    PlanNode {
        id: id.into(),
        label: None,
        kind: "flow",
        family: Family::Logic,
        registry_id: None,
        behaviour,
        needs,
        join: Join::All,
        retry: None,
        timeout: None,
        heartbeat: None,
        deadline: None,
        breaker: None,
        on_error: OnError::Fail,
        on_definition_errors: false,
        delivery: Delivery::AtLeastOnce,
        meter: None,
        variables: Vec::new(),
        successors: Vec::new(),
        mentions: Vec::new(),
        only_here: Vec::new(),
        scope: 0,
        body: None,
    }
}

/// A retry policy without jitter, so that tables can name times.
pub fn retry(max_attempts: u32, wait: Millis) -> RetryPolicy {
    RetryPolicy { max_attempts, wait, jitter: 0.0, ..RetryPolicy::default() }
}

/// A task for the handler `work`, whose config names the node.
pub fn task(id: &str) -> Behaviour {
    let config = template(&json!({ "node": id }));
    Behaviour::Task { handler: "work".into(), slot: Some(SlotClass::Work), config }
}

/// A compiled template.
pub fn template(value: &Value) -> Template {
    Template::compile(value).expect("the template of a test compiles")
}

/// A compiled expression.
pub fn expression(source: &str) -> Expression {
    Expression::compile(source).expect("the expression of a test compiles")
}

/// Splits at separators that are outside of brackets and quotes; parts come without the space
/// around them.
pub fn split<'a>(text: &'a str, separators: &[char]) -> Vec<&'a str> {
    let (mut parts, mut depth, mut quote, mut start) = (Vec::new(), 0, None, 0);
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, c) if depth == 0 && separators.contains(&c) => {
                parts.push(text[start..at].trim());
                start = at + c.len_utf8();
            }
            (None, _) => {}
        }
    }
    parts.push(text[start..].trim());
    parts
}

/// A word and the text in the brackets behind it: `delay(5s)`.
fn call(text: &str) -> (&str, &str) {
    match text.split_once('(') {
        Some((word, rest)) => (word.trim(), rest.strip_suffix(')').expect("a closing bracket")),
        None => (text.trim(), ""),
    }
}

struct Statement<'a> {
    id: &'a str,
    behaviour: Option<&'a str>,
    body: Option<&'a str>,
    clauses: Vec<(&'a str, String)>,
}

const CLAUSES: &[&str] = &[
    "needs",
    "join",
    "retry",
    "error",
    "timeout",
    "heartbeat",
    "deadline",
    "once",
    "set",
    "handler",
    "breaker",
    "meter",
];

impl<'a> Statement<'a> {
    fn parse(text: &'a str) -> Self {
        let words: Vec<&str> =
            split(text, &[' ']).into_iter().filter(|word| !word.is_empty()).collect();
        let (id, mut rest) = words.split_first().expect("a statement names its node");
        let mut behaviour = None;
        if let ["=", what, more @ ..] = rest {
            behaviour = Some(*what);
            rest = more;
        }
        let mut body = None;
        if let [word, more @ ..] = rest
            && let Some(inside) = word.strip_prefix('{')
        {
            body = Some(inside.strip_suffix('}').expect("a closing brace"));
            rest = more;
        }
        let mut clauses: Vec<(&str, String)> = Vec::new();
        for word in rest {
            match clauses.last_mut() {
                _ if CLAUSES.contains(word) => clauses.push((word, String::new())),
                Some((_, text)) if text.is_empty() => text.push_str(word),
                Some((_, text)) => *text = format!("{text} {word}"),
                None => panic!("{text}: {word:?} is not a clause"),
            }
        }
        Self { id, behaviour, body, clauses }
    }

    fn node(&self, ids: &[&str], first: usize) -> PlanNode {
        let behaviour = self
            .behaviour
            .map_or_else(|| task(self.id), |text| behaviour::behaviour(self.id, text));
        let mut node = node(self.id, behaviour, Vec::new());
        for (clause, text) in &self.clauses {
            let words: Vec<&str> = text.split(' ').collect();
            match *clause {
                "needs" => node.needs = needs(text, ids, first),
                "join" => {
                    let count = match words[0] {
                        "any" => 1,
                        number => number.parse().expect("join any or a number"),
                    };
                    let cancel_rest = words.get(1) == Some(&"cancel-rest");
                    node.join = Join::Count { count, cancel_rest };
                }
                "retry" => {
                    let wait = words.get(2).map_or(Millis(1000), |text| millis(text));
                    let mut policy = retry(words[0].parse().expect("a number of tries"), wait);
                    let on = words.get(3).and_then(|word| word.strip_prefix("on="));
                    policy.retry_on = on.and_then(Matcher::parse).into_iter().collect();
                    node.retry = Some(policy);
                }
                "error" => {
                    node.on_definition_errors = words.get(1) == Some(&"always");
                    node.on_error = match words[0] {
                        "fail" => OnError::Fail,
                        "continue" => OnError::Continue,
                        branch => OnError::Branch(branch.into()),
                    }
                }
                "timeout" => node.timeout = Some(millis(text)),
                "heartbeat" => node.heartbeat = Some(millis(text)),
                "deadline" => node.deadline = Some(millis(text)),
                "meter" => node.meter = Some(behaviour::meter(&words)),
                "once" => node.delivery = Delivery::AtMostOnce,
                "breaker" => {
                    let key = template(&json!(words[0].trim_matches('\'')));
                    let policy = BreakerPolicy {
                        failures: words.get(1).map_or(3, |text| text.parse().expect("a number")),
                        cooldown: words.get(2).map_or(Millis(1000), |text| millis(text)),
                        ..BreakerPolicy::default()
                    };
                    node.breaker = Some(Box::new(BreakerSpec { key, policy }));
                }
                "handler" => {
                    let Behaviour::Task { handler, .. } = &mut node.behaviour else {
                        panic!("{:?} has no handler", node.behaviour)
                    };
                    *handler = text.as_str().into();
                }
                "set" => {
                    let (name, source) = text.split_once('=').expect("set name = expression");
                    let hole = template(&json!(format!("${{{{ {} }}}}", source.trim())));
                    node.variables.push((name.trim().into(), hole));
                }
                other => unreachable!("{other} is not a clause"),
            }
        }
        node
    }
}

fn needs(text: &str, ids: &[&str], first: usize) -> Vec<Condition> {
    let mut needs: Vec<Condition> = Vec::new();
    for edge in text.split(',').map(str::trim) {
        let (source, branch) = match edge.split_once(':') {
            Some((source, branch)) => (source, Some(Arc::<str>::from(branch))),
            None => (edge, None),
        };
        let place = ids.iter().position(|id| *id == source);
        let at = place.map_or(NodeIx(u32::MAX), |place| at(first + place));
        if !needs.iter().any(|condition| condition.source == at) {
            needs.push(Condition { source: at, unlabelled: false, branches: Vec::new() });
        }
        let condition = needs.iter_mut().find(|condition| condition.source == at);
        let condition = condition.expect("it was put there if it was missing");
        match branch {
            Some(branch) => condition.branches.push(branch),
            None => condition.unlabelled = true,
        }
    }
    needs
}

/// A span, as people write it.
pub fn millis(text: &str) -> Millis {
    Millis::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}
