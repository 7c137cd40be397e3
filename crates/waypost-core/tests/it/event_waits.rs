//! Waits for published events.

use waypost_core::event::TRIGGERS_LOG_FORMAT;
use waypost_core::flow::plan;
use waypost_core::status::NodeStatus;

use super::run::Run;
use super::script::{Case, case, check};
use super::waits::signal;

pub(crate) const CASES: &[Case] = &[
    case(
        "an event ends the wait for its type and is the output",
        "w = signal(order.*, event {}); o = output(${{ nodes.w.output.id }}) needs w",
        r#"
        start                                    -> w WAITING, due never
        signal waypost/event[order.*] {"id":7} #m -> w COMPLETED, execution COMPLETED, output 7
    "#,
    ),
    case(
        "an event that no node waits for is not kept",
        "a = signal(go); w = signal(paid, event {}) needs a",
        r#"
        start
        signal waypost/event[paid] 1 #m -> logs MessageIgnored
        signal go 1                     -> w WAITING
        signal waypost/event[paid] 2 #n -> w COMPLETED, w gives 2
    "#,
    ),
    case(
        "an event that the filter rejects is not kept",
        "w = signal(paid, event {}, where event.n > 5)",
        r#"
        start
        signal waypost/event[paid] {"n":1} #m -> w WAITING, logs MessageIgnored
        signal waypost/event[paid] {"n":9} #n -> w COMPLETED
    "#,
    ),
    case(
        "an event that comes while the execution is paused is kept",
        "w = signal(paid, event {})",
        r#"
        start
        pause
        signal waypost/event[paid] 1 #m -> w WAITING
        resume                          -> w COMPLETED, w gives 1
    "#,
    ),
    case(
        "one event fills one place of each name",
        "w = signals(a event {}, a event {}, b)",
        r#"
        start
        signal waypost/event[a] 1 #m -> w WAITING
        signal waypost/event[a] 2 #n -> w WAITING
        signal b 3                   -> w COMPLETED, w gives [1,2,3]
    "#,
    ),
];

#[test]
fn events_end_waits_for_them() {
    check(CASES);
}

#[test]
fn wait_for_events_is_named_by_its_rendered_match() {
    let plan = plan(
        r#"v = value(7); w = signal(paid, event {"data.order": "${{ nodes.v.output }}"}) needs v"#,
    );
    assert_eq!(plan.requires(), TRIGGERS_LOG_FORMAT);
    let mut run = Run::start(&plan, "{}", None, 1);
    let name = r#"waypost/event[paid {"data.order":7}]"#;
    let wanted: Vec<_> = run.state.subscriptions(run.plan).into_values().collect();
    assert_eq!(wanted, [name.into()]);
    run.command(signal(name, "1")).unwrap();
    assert_eq!(run.node("w").status, NodeStatus::Completed);
}

#[test]
fn wait_whose_match_is_no_scalar_fails() {
    let plan = plan(r#"w = signal(paid, event {"data": "${{ [1] }}"})"#);
    let run = Run::start(&plan, "{}", None, 1);
    let failure = run.node("w").failure.clone().expect("it failed");
    assert_eq!(failure.kind, "invalid_config");
    assert!(failure.message.contains("is [1]"), "{}", failure.message);
}
