//! Executions that nodes start: when they begin, what their ends mean, and what becomes of them when their parent
//! ends.

use waypost_core::child::SentBody;
use waypost_core::command::{Command, Request};
use waypost_core::event::{CHILDREN_LOG_FORMAT, Event};
use waypost_core::failure::Failure;
use waypost_core::flow::plan;
use waypost_core::id::ExecutionId;
use waypost_core::limits::{CHILD_DEPTH_MAX, CHILDREN_OPEN_MAX};
use waypost_core::status::{NodeStatus, Status};
use waypost_core::why::{UnblockedBy, why};

use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn children_begin_and_end_with_their_parents() {
    check(CASES);
}

pub(super) const CASES: &[Case] = &[
    case(
        "a node waits for the execution that it started, and has its output",
        "c = workflow(other, input {\"n\": 1}); d = value(${{ nodes.c.output.x }}) needs c",
        "start                       -> c RUNNING, launches c
         launch c                    -> births 1, c WAITING, logs ChildStarted, sends 0
         park                        -> execution WAITING
         take-over                   -> execution RUNNING, c WAITING, launches
         child c COMPLETED {\"x\": 5} -> d COMPLETED, d gives 5, execution COMPLETED",
    ),
    case(
        "a failed child fails its node, and a retry waits for the same child",
        "c = workflow(other) retry 2 wait 1s",
        "start                        -> launches c
         launch c                     -> births 1
         child c FAILED               -> c WAITING, c failed child_failed, due 1s
         wait 1s                      -> launches c
         launch-again c               -> reopens 1, births 0, logs ChildReopened
         child c FAILED generation 1  -> refused no node waits
         child c COMPLETED 7 generation 2 -> c gives 7, execution COMPLETED",
    ),
    case(
        "a child that was cancelled or timed out",
        "c = workflow(other) error continue; e = workflow(other) error continue needs c",
        "start             -> launches c
         launch c
         child c CANCELLED -> c FAILED, c failed child_cancelled, launches e
         launch e
         child e TIMED_OUT -> e TIMED_OUT, e failed timeout",
    ),
    case(
        "a signal is sent with the frame that completes its node",
        "e = emit(exe_other, go); d = value(${{ nodes.e.output.delivered }}) needs e",
        "start       -> e RUNNING, launches e
         take-over   -> launches e
         signal-to e -> sends 1, births 0, e COMPLETED, d gives true, execution COMPLETED",
    ),
    case(
        "a signal without a receiver is a failure, unless it is optional",
        "e = emit(exe_gone, go) error continue; o = emit(exe_gone, go, optional) needs e",
        "start                      -> launches e
         launch-fails e no_receiver -> e FAILED, e failed no_receiver, sends 0, launches o
         launch-fails o no_receiver -> o COMPLETED, execution COMPLETED",
    ),
    case(
        "a signal by key is published with the frame that completes its node",
        "e = emit(key 7, paid); d = value(${{ nodes.e.output }}) needs e",
        "start             -> e RUNNING, launches e
         publish e paid[7] -> sends 0, publishes paid[7], e COMPLETED, d gives {\"published\":true,\"signal\":\"paid\",\"key\":\"7\"}, execution COMPLETED",
    ),
    case(
        "a node that was cancelled publishes nothing",
        "e = emit(key 7, paid); a",
        "start             -> launches e
         cancel
         publish e paid[7] -> publishes, e CANCELLED",
    ),
    case(
        "a node that was cancelled sends nothing",
        "e = emit(exe_other, go); a",
        "start       -> launches e
         cancel
         signal-to e -> sends 0, e CANCELLED",
    ),
    case(
        "what cannot be started is a failure",
        "c = workflow(other) error continue",
        "start                           -> launches c
         launch-fails c unknown_workflow -> c FAILED, c failed unknown_workflow, births 0, execution COMPLETED",
    ),
    case(
        "a detached child is not awaited, and hears nothing",
        "c = workflow(other, detached); a needs c",
        "start    -> launches c
         launch c -> births 1, c COMPLETED, runs a, logs ChildStarted NodeCompleted NodeScheduled NodeStarted
         cancel   -> sends 0, stops a",
    ),
    case(
        "an execution that ends cancels its children and waits for them",
        "c = workflow(other); e = workflow(other)",
        "start             -> launches c e
         launch c
         launch e
         cancel            -> sends 2, execution ENDING, c+e WAITING
         park              -> execution ENDING, logs RunPaused
         take-over         -> execution ENDING, launches
         child c CANCELLED -> c CANCELLED, execution ENDING
         child e COMPLETED 1 -> e COMPLETED, execution CANCELLED",
    ),
    case(
        "a child that is left goes on",
        "c = workflow(other, leave); a",
        "start    -> launches c, runs a
         launch c
         fail a   -> sends 0, c CANCELLED, execution FAILED",
    ),
    case(
        "the end of a child that the execution no longer waits for changes nothing",
        "c = workflow(other, leave); a",
        "start             -> launches c
         launch c
         fail a            -> execution FAILED
         child c COMPLETED 1 of 101 -> refused the execution has ended",
    ),
    case(
        "a forced cancel does not wait",
        "c = workflow(other)",
        "start        -> launches c
         launch c
         force-cancel -> sends 1, c CANCELLED, execution CANCELLED",
    ),
    case(
        "a forced cancel of an execution that is ending",
        "c = workflow(other)",
        "start           -> launches c
         launch c
         cancel #a       -> execution ENDING
         force-cancel #b -> sends 0, execution CANCELLED
         ",
    ),
    case(
        "a cancel before the child has begun",
        "c = workflow(other)",
        "start    -> launches c
         cancel   -> sends 0, execution CANCELLED
         launch c -> nothing",
    ),
    case(
        "a join that fires without a node cancels its child at once",
        "c = workflow(other); a; j = pass needs c, a join any cancel-rest",
        "start      -> launches c, runs a
         launch c
         complete a -> c CANCELLED, sends 1, execution COMPLETED",
    ),
    case(
        "a node that takes too long cancels its child",
        "c = workflow(other) deadline 1m error continue; d needs c",
        "start    -> launches c
         launch c -> due 1m
         wait 1m  -> c TIMED_OUT, sends 1, d RUNNING
         child c CANCELLED of 101 -> refused no node waits",
    ),
    case(
        "a body that ends waits for its children",
        "g = group {c = workflow(other); a} error continue; d needs g",
        "start               -> launches g/c, runs g/a
         launch g/c
         fail g/a            -> sends 1, g WAITING, logs NodeFailed BodyEnding
         wait 1m             -> g WAITING
         child g/c CANCELLED -> g FAILED, d RUNNING",
    ),
    case(
        "a child ends while its parent is paused",
        "c = workflow(other); a; d needs c, a",
        "start               -> launches c, runs a
         launch c
         pause
         child c COMPLETED 3 -> c COMPLETED, execution PAUSING
         complete a          -> execution PAUSED
         own
         resume              -> runs d",
    ),
    case(
        "a child ends in the frame that completes a pause",
        "c = workflow(other); d needs c",
        "start               -> launches c
         launch c
         pause               -> execution PAUSED
         child c COMPLETED 3 -> c COMPLETED, d PENDING, execution PAUSED
         own
         resume              -> runs d",
    ),
    case(
        "a take-over before the launch asks again",
        "c = workflow(other)",
        "start     -> launches c
         take-over -> launches c
         launch c  -> births 1
         launch c  -> nothing",
    ),
    case(
        "children of the items of a map",
        "m = map(3, at 2) {c = workflow(other)}",
        "start                    -> launches m[0]/c m[1]/c
         launch m[0]/c            -> births 1
         launch m[1]/c            -> births 1
         child m[1]/c COMPLETED 1 -> launches m[2]/c
         launch m[2]/c
         child m[2]/c COMPLETED 2
         child m[0]/c COMPLETED 0 -> m COMPLETED, execution COMPLETED",
    ),
    case(
        "the wait for a child cannot be completed by hand",
        "c = workflow(other)",
        "start    -> launches c
         launch c
         end-wait c -> refused must end first",
    ),
    case(
        "a retry of the whole execution has the same child",
        "c = workflow(other)",
        "start          -> launches c
         launch c
         child c FAILED -> execution FAILED
         reopen         -> launches c, c RUNNING
         launch-again c -> reopens 1
         child c COMPLETED 1 generation 2 -> execution COMPLETED",
    ),
    case(
        "an execution that another one began is queued for its key when it is first owned",
        "a; keyed 'one'",
        "born      -> a PENDING
         take-over -> execution SCHEDULING, logs RunOwned RunQueued",
    ),
    case(
        "an execution that another one began, and whose place in the queue is rejected",
        "a; keyed 'one' 1 reject",
        "born   -> a PENDING
         own
         reject -> execution FAILED, failure concurrency_rejected",
    ),
];

#[test]
fn child_knows_its_parent_and_the_root_of_the_tree() {
    let plan = plan("c = workflow(other); keyed 'k'");
    let mut run = Run::start(&plan, "{}", None, 1);
    run.command(Command::TakeOver).expect("it is queued");
    run.command(Command::Admit).expect("it holds a permit");
    let at = run.at("c");
    let launch = super::script::launch(1);
    run.command(Command::Launch { node: at, attempt: 1, launch }).expect("it is not refused");
    let [birth] = &run.last.births[..] else { panic!("one is born") };
    let parent = birth.created.parent.as_ref().expect("it has a parent");
    assert_eq!((parent.execution, &*parent.node, parent.depth), (run.state.execution, "c", 1));
    assert_eq!(parent.root, run.state.created.key);
    assert_eq!(parent.keys, ["test/k".into()]);
    let event = run.last.events.first().expect("it is recorded");
    assert_eq!((event.name(), event.requires()), ("ChildStarted", CHILDREN_LOG_FORMAT));
}

#[test]
fn child_tells_its_parent_how_it_ended() {
    let plan = plan("a; b = output({\"x\": 1}) needs a");
    for (command, status) in [("complete", Status::Completed), ("fail", Status::Failed)] {
        let mut run = Run::child(&plan, 3);
        run.command(Command::TakeOver).expect("it is not owned");
        run.command(Command::Recover).expect("it begins");
        let report = super::script::report_on(&run, "a", command);
        run.command(Command::Report(report)).expect("it is not refused");
        let [sent] = &run.last.sent[..] else { panic!("one message: {:?}", run.last.sent) };
        let SentBody::ChildEnded(end) = &sent.body else { panic!("{sent:?}") };
        assert_eq!((end.status, end.generation, &*end.node), (status, 1, "calls"));
        assert_eq!((sent.to.0, &*sent.message), (3, "child-7-1"));
        assert_eq!(end.output.is_some(), status == Status::Completed);
        assert_eq!(end.failure.is_some(), status == Status::Failed);
    }
}

#[test]
fn child_whose_key_is_held_above_fails_instead_of_waiting_for_ever() {
    let plan = plan("a; keyed 'k'");
    let mut run = Run::child(&plan, 3);
    run.command(Command::TakeOver).expect("it is not owned");
    run.command(Command::Recover).expect("it begins");
    let failure = run.state.end.as_ref().and_then(|end| end.failure.as_ref());
    assert_eq!(failure.map(|failure| &*failure.kind), Some("concurrency_deadlock"));
}

#[test]
fn executions_nest_up_to_the_limit() {
    let plan = plan("c = workflow(other)");
    for (depth, starts) in [(CHILD_DEPTH_MAX - 1, true), (CHILD_DEPTH_MAX, false)] {
        let mut run = Run::child_at(&plan, 3, depth);
        run.command(Command::TakeOver).expect("it is not owned");
        run.command(Command::Recover).expect("it begins");
        let at = run.at("c");
        let launch = super::script::launch(1);
        run.command(Command::Launch { node: at, attempt: 1, launch }).expect("it is not refused");
        assert_eq!(run.last.births.len(), usize::from(starts), "depth {depth}");
        let failure = run.node("c").failure.as_ref().map(|failure| failure.kind.to_string());
        assert_eq!(failure.as_deref(), (!starts).then_some("too_deep"));
    }
}

#[test]
fn nodes_wait_while_too_many_children_are_open() {
    let more = CHILDREN_OPEN_MAX + 2;
    let nodes: Vec<String> = (0..more).map(|at| format!("c{at} = workflow(other)")).collect();
    let plan = plan(&nodes.join("; "));
    let mut run = Run::start(&plan, "{}", None, 1);
    assert_eq!((run.state.launching, run.state.queued), (CHILDREN_OPEN_MAX, 2));
    let (first, waiting) = (run.at("c0"), format!("c{}", more - 1));
    let command = Command::Launch { node: first, attempt: 1, launch: super::script::launch(1) };
    run.command(command).expect("it is not refused");
    let reasons = why(&plan, &run.state, None);
    let of = |id: &str| {
        let reason = reasons.iter().find(|reason| reason.node.as_deref() == Some(id));
        reason.unwrap_or_else(|| panic!("no reason for {id}"))
    };
    assert!(of(&waiting).what.contains("fewer than 1000 executions"), "{}", of(&waiting).what);
    let child = ExecutionId("exe_child_1".into());
    assert_eq!(of("c0").unblocked_by, UnblockedBy::Execution(child));
    run.command(super::script::ended(&run, "c0")).expect("it is not refused");
    let next = format!("c{}", CHILDREN_OPEN_MAX);
    assert_eq!(run.node(&next).status, NodeStatus::Running);
    assert_eq!(run.node(&waiting).status, NodeStatus::Queued);
}

#[test]
fn nodes_without_room_start_also_if_others_start_nothing_or_do_not_wait() {
    let more = CHILDREN_OPEN_MAX + 2;
    for kind in ["workflow(other) error continue", "workflow(other, detached)"] {
        let nodes: Vec<String> = (0..more).map(|at| format!("c{at} = {kind}")).collect();
        let plan = plan(&nodes.join("; "));
        let mut run = Run::start(&plan, "{}", None, 1);
        for at in 0..2 {
            let node = run.at(&format!("c{at}"));
            let launch = match kind.contains("detached") {
                true => super::script::launch(at.into()),
                false => Err(Failure::permanent("unknown_workflow", "it is not there")),
            };
            run.command(Command::Launch { node, attempt: 1, launch }).expect("it is not refused");
            let next = run.at(&format!("c{}", CHILDREN_OPEN_MAX + at));
            assert_eq!(run.state.node(next).status, NodeStatus::Running, "{kind}");
        }
    }
}

#[test]
fn cancel_of_a_child_comes_with_the_end_of_its_parent() {
    let plan = plan("c = workflow(other)");
    let mut run = Run::start(&plan, "{}", None, 1);
    let at = run.at("c");
    let launch = super::script::launch(1);
    run.command(Command::Launch { node: at, attempt: 1, launch }).expect("it is not refused");
    let cancel = Request::Cancel { reason: None };
    run.command(Command::Request(cancel, Default::default())).expect("it is not refused");
    let [sent] = &run.last.sent[..] else { panic!("one message: {:?}", run.last.sent) };
    let SentBody::Request(Request::Cancel { reason: Some(reason) }) = &sent.body else {
        panic!("{sent:?}");
    };
    assert!(reason.contains("exe_test no longer needs it"), "{reason}");
    assert_eq!(run.last.events.iter().map(Event::name).collect::<Vec<_>>(), ["RunEnding"]);
}
