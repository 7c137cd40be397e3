//! Where executions begin: at the trigger that fired, or by hand.

use std::sync::Arc;

use waypost_core::check::Invariant;
use waypost_core::event::{Event, NodeEvent, RunEvent, TRIGGERS_LOG_FORMAT};
use waypost_core::flow::plan;
use waypost_core::time::Timestamp;

use super::check::Logbook;
use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn executions_begin_at_their_trigger() {
    check(CASES);
}

const CASES: &[Case] = &[
    case(
        "a start by hand completes the node for it and skips the triggers",
        "m = manual; t = trigger; u = trigger; a needs m; b needs t; c needs m, t",
        r#"
        start {"n":1} -> m COMPLETED, t+u+b SKIPPED, a+c RUNNING, runs a c
    "#,
    ),
    case(
        "a trigger that fires completes its node and skips the others",
        "m = manual; t = trigger; u = trigger; a needs m; b needs t; c needs m, t",
        "
        started-by t -> t COMPLETED, m+u+a SKIPPED, b+c RUNNING, runs b c
    ",
    ),
    case(
        "without a node for it, a start by hand completes all triggers",
        "t = trigger; u = trigger; b needs t; c needs t, u",
        "
        start -> t+u COMPLETED, b+c RUNNING
    ",
    ),
    case(
        "a trigger without a node begins as a start by hand does",
        "m = manual; t = trigger; a needs m; b needs t",
        "
        started-by other -> m COMPLETED, t+b SKIPPED, a RUNNING
    ",
    ),
    case(
        "nodes that are no triggers begin however it was started",
        "t = trigger; u = trigger; i = input; a needs i",
        "
        started-by t -> t+i COMPLETED, u SKIPPED, a RUNNING
    ",
    ),
    case(
        "in a body, every trigger is a beginning",
        "t = trigger; g = group { m = manual; a needs m } needs t",
        "
        started-by t -> t COMPLETED, g/m COMPLETED, g/a RUNNING
    ",
    ),
    case(
        "a node completes with the input, and expressions see the trigger",
        "t = trigger; o = output({\"in\": \"${{ nodes.t.output.n }}\", \"by\": \"${{ trigger.kind }}\"}) needs t",
        r#"
        start {"n":1} -> execution COMPLETED, output {"by":"manual","in":1}
    "#,
    ),
    case(
        "a fire is seen with its fields",
        "o = output(\"${{ trigger.name }} ${{ trigger.node | default('-') }} ${{ trigger.at }}\")",
        r#"
        started-by other -> execution COMPLETED, output "other - 2001-09-09T01:46:40.000Z"
    "#,
    ),
    case(
        "a retry begins where the first generation began",
        "m = manual; t = trigger; a needs t; b needs m",
        "
        started-by t -> a RUNNING
        fail a http  -> execution FAILED
        reopen       -> t COMPLETED, m+b SKIPPED, a RUNNING
        complete a   -> execution COMPLETED
    ",
    ),
];

/// What the checker finds in a log after `damage`.
fn findings(flow: &str, by: &str, damage: impl Fn(&mut Event)) -> Vec<Invariant> {
    let plan = Arc::new(plan(flow));
    let run = Run::fired(&plan, by);
    let mut log: Vec<(Timestamp, Event)> = run.log;
    log.iter_mut().for_each(|(_, event)| damage(event));
    let mut logbook = Logbook::new(Arc::clone(&plan));
    logbook.read(&log);
    logbook.check.violations().iter().map(|violation| violation.invariant).collect()
}

#[test]
fn checker_finds_nodes_that_do_not_follow_from_the_trigger() {
    const FLOW: &str = "m = manual; t = trigger; u = trigger; a needs t";
    assert_eq!(findings(FLOW, "t", |_| {}), []);
    let began_elsewhere = findings(FLOW, "t", |event| {
        if let Event::Run(RunEvent::Created(created)) = event {
            let fired = created.trigger.as_mut().unwrap();
            (fired.name, fired.node) = ("u".into(), Some("u".into()));
        }
    });
    assert!(began_elsewhere.contains(&Invariant::Justified), "{began_elsewhere:?}");
    let unknown = findings("a", "gone", |_| {});
    assert_eq!(unknown, [Invariant::Justified]);
    let skipped = findings(FLOW, "t", |event| {
        if let Event::Node(NodeEvent::Skipped { node, .. }) = event
            && &**node == "u"
        {
            *node = "t".into();
        }
    });
    assert!(skipped.contains(&Invariant::Justified), "{skipped:?}");
}

#[test]
fn fire_requires_the_log_format_with_triggers() {
    let plan = plan("t = trigger");
    assert_eq!(plan.requires(), TRIGGERS_LOG_FORMAT);
    let formats = |run: &Run<'_>| run.log.iter().map(|(_, event)| event.requires()).max();
    assert_eq!(formats(&Run::fired(&plan, "t")), Some(TRIGGERS_LOG_FORMAT));
    assert_eq!(formats(&Run::start(&plan, "{}", None, 1)), Some(1));
}
