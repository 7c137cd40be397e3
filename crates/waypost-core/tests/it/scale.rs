//! Ten thousand nodes: no recursion, and no step whose work grows with the execution.
//!
//! Work is bounded by time only in the roughest way: each of these takes well under a second per
//! core, and minutes if any step on the way looked at all nodes.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use uuid::Uuid;
use waypost_core::command::{Command, Effect, Env, Outcome, Report};
use waypost_core::decide::{create, decide};
use waypost_core::event::{Origin, RunCreated};
use waypost_core::flow::{draft, expression, node, task, template};
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId, NodeIx};
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_core::limits::NODES_MAX;
use waypost_core::path::ScopeNo;
use waypost_core::plan::{Condition, FailurePolicy, Join, OnError, Plan, PlanNode};
use waypost_core::slot::SlotCounts;
use waypost_core::state::State;
use waypost_core::status::{NodeStatus, Status};

use super::run::EPOCH;

fn position(at: usize) -> NodeIx {
    NodeIx(u32::try_from(at).expect("a few thousand"))
}

fn edge(source: usize, branch: Option<&str>) -> Condition {
    Condition {
        source: position(source),
        unlabelled: branch.is_none(),
        branches: branch.into_iter().map(Into::into).collect(),
    }
}

fn build(nodes: Vec<PlanNode>, policy: FailurePolicy) -> Plan {
    Plan::build(draft(nodes, policy)).expect("the test's plan is sound")
}

fn env() -> Env {
    Env {
        now: EPOCH,
        now_max: EPOCH,
        instance: InstanceId(Uuid::nil()),
        slots: SlotCounts::each(u32::MAX),
        entropy: 1,
        contents: waypost_core::expr::Contents::default(),
        items_opened_max: waypost_core::limits::ITEMS_OPENED_MAX,
        takers_max: Some(waypost_core::limits::TAKERS_MAX),
        map_results_bytes_max: waypost_core::limits::MAP_RESULTS_BYTES_MAX,
    }
}

/// Runs an execution to its end: evaluates what is to be evaluated, completes what runs.
fn run(plan: &Plan) -> (State, usize) {
    let created = RunCreated {
        key: ExecutionId("exe_test".into()),
        workflow: "test".into(),
        version: 1,
        definition: plan.hash,
        input: Json::null(),
        labels: BTreeMap::new(),
        deadline: None,
        origin: Origin::default(),
        parent: None,
        trigger: None,
    };
    let (mut state, first) = create(plan, ExecutionNo(1), created, None, &env());
    let mut effects = VecDeque::from(first.effects);
    let mut events = first.events.len();
    while let Some(effect) = effects.pop_front() {
        let command = match effect {
            Effect::Evaluate { node, attempt } => Command::Evaluate { node, attempt },
            Effect::Run { node, attempt, token } => {
                let node = state.path(plan, node);
                let outcome = Outcome::Completed(Json::null());
                Command::Report(Report { node, attempt, token, worker: None, outcome })
            }
            Effect::Launch { .. } | Effect::Offer { .. } | Effect::Cancel { .. } => continue,
        };
        let decision = decide(plan, &mut state, command, &env()).expect("nothing is stale here");
        events += decision.events.len();
        effects.extend(decision.effects);
    }
    (state, events)
}

fn chain(make: impl Fn(usize, Vec<Condition>) -> PlanNode) -> Vec<PlanNode> {
    (0..NODES_MAX)
        .map(|at| {
            let needs = at.checked_sub(1).map(|before| edge(before, None));
            make(at, needs.into_iter().collect())
        })
        .collect()
}

#[test]
fn a_chain() {
    let plan = build(
        chain(|at, needs| {
            let behaviour = if at % 2 == 0 { task("") } else { Behaviour::Pass };
            node(&format!("n{at}"), behaviour, needs)
        }),
        FailurePolicy::FailFast,
    );
    let (state, events) = run(&plan);
    assert_eq!(state.status, Status::Completed);
    assert_eq!(events, 3 + 3 * NODES_MAX, "created, owned, completed, and three a node");
}

#[test]
fn a_fan_out_and_in() {
    let width = NODES_MAX - 2;
    let mut nodes = vec![node("first", task(""), vec![])];
    nodes.extend((1..=width).map(|at| node(&format!("n{at}"), task(""), vec![edge(0, None)])));
    nodes.push(node("last", Behaviour::Gather, (1..=width).map(|at| edge(at, None)).collect()));
    let (state, _) = run(&build(nodes, FailurePolicy::FailFast));
    assert_eq!(state.status, Status::Completed);
}

#[test]
fn a_chain_of_skips_in_one_step() {
    let nodes = chain(|at, mut needs| {
        let behaviour = if at == 0 { Behaviour::Condition(expression("false")) } else { task("") };
        if at == 1 {
            needs = vec![edge(0, Some("true"))];
        }
        node(&format!("n{at}"), behaviour, needs)
    });
    let (state, _) = run(&build(nodes, FailurePolicy::FailFast));
    assert_eq!(state.status, Status::Completed);
    let skipped = state.root.nodes.iter().filter(|node| node.status == NodeStatus::Skipped).count();
    assert_eq!(skipped, NODES_MAX - 1);
}

#[test]
fn bug_a_chain_of_joins_that_cannot_be_met_overflowed_the_stack() {
    // Each join needs the one before and a branch that is never taken.
    let mut nodes = vec![
        node("yes", Behaviour::Pass, vec![]),
        node("no", Behaviour::Condition(expression("false")), vec![]),
    ];
    nodes.extend((2..NODES_MAX).map(|at| {
        let before = if at == 2 { 0 } else { at - 1 };
        let needs = vec![edge(1, Some("true")), edge(before, None)];
        let mut join = node(&format!("n{at}"), task(""), needs);
        join.join = Join::Count { count: 2, cancel_rest: false };
        join.on_error = OnError::Continue;
        join
    }));
    let (state, _) = run(&build(nodes, FailurePolicy::FailFast));
    assert_eq!(state.status, Status::Completed);
    assert_eq!(state.root.nodes.last().map(|node| node.status), Some(NodeStatus::Failed));
}

#[test]
fn bug_each_node_that_set_a_variable_copied_all_of_them() {
    let plan = build(
        chain(|at, needs| {
            let mut node = node(&format!("n{at}"), Behaviour::Pass, needs);
            let before = match at {
                0 => "${{ 0 }}".to_owned(),
                _ => format!("${{{{ variables.v{} + 1 }}}}", at - 1),
            };
            node.variables = vec![(format!("v{at}").into(), template(&serde_json::json!(before)))];
            node
        }),
        FailurePolicy::FailFast,
    );
    let (state, _) = run(&plan);
    assert_eq!(state.status, Status::Completed);
    let last =
        state.variables(ScopeNo::ROOT).get(format!("v{}", NODES_MAX - 1).as_str()).map(Json::text);
    assert_eq!(last, Some((NODES_MAX - 1).to_string().as_str()));
}

#[test]
fn ten_thousand_delays_that_end_at_once() {
    use waypost_core::kind::{Delay, DurationTemplate};
    use waypost_core::time::Millis;
    let delay = || Behaviour::Delay(Delay::For(DurationTemplate::Fixed(Millis(1000))));
    let nodes = (0..NODES_MAX).map(|at| node(&format!("n{at}"), delay(), vec![])).collect();
    let plan = build(nodes, FailurePolicy::FailFast);
    let (mut state, _) = run(&plan);
    assert_eq!(state.timers.len(), NODES_MAX);
    let now = EPOCH.plus(Millis(1000));
    let later = Env { now, now_max: now, ..env() };
    decide(&plan, &mut state, Command::Tick, &later).expect("time is never refused");
    assert_eq!(state.status, Status::Completed);
}
