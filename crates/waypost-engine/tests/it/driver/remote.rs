//! Attempts that remote workers make, as the driver sees them: offers, lost and repeated; reports,
//! from the workers that may make them; workers that die.

use uuid::Uuid;
use waypost_core::command::{Outcome, Refusal, Request};
use waypost_core::event::{Event, NodeEvent, REMOTE_LOG_FORMAT};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionNo, Token, WorkerId};
use waypost_core::json::Json;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Millis;
use waypost_engine::driver::{Answer, Input, Look, StoreWork, TaskReport};
use waypost_ports::store::{Appended, LEASE, LogReader, MailDelivery, Share, Store};
use waypost_ports::tasks::OfferId;

use crate::support::rig::token_of;
use crate::support::{Rig, World};

fn done() -> Outcome {
    Outcome::Completed(Json::parse("5").unwrap())
}

pub(super) fn worker(number: u128) -> WorkerId {
    WorkerId(Uuid::from_u128(number))
}

fn id(execution: ExecutionNo, node: &str, attempt: u32) -> OfferId {
    OfferId { execution, path: node.into(), attempt }
}

/// Lets time pass, keeps the lease, and does what follows.
pub(super) fn pass(rig: &mut Rig<'_>, ms: u64) {
    rig.world.clock.advance(Millis(ms));
    rig.renew();
    rig.settle_store();
}

fn offered(rig: &mut Rig<'_>) -> Vec<(String, u32)> {
    let offers = std::mem::take(&mut rig.offers).into_iter();
    offers.map(|order| (order.id.path.to_string(), order.id.attempt)).collect()
}

pub(super) fn is_done(rig: &Rig<'_>, ticket: waypost_engine::driver::Ticket) -> bool {
    matches!(rig.answer(ticket), Some(Answer::Done { .. }))
}

#[track_caller]
fn refused(rig: &Rig<'_>, ticket: waypost_engine::driver::Ticket) -> Refusal {
    match rig.answer(ticket) {
        Some(Answer::Refused(refusal)) => refusal.clone(),
        other => panic!("not refused: {other:?}"),
    }
}

/// An instance that cannot read remote attempts could never take them over: while one lives, none
/// begins, and those that have begun go on.
#[test]
fn remote_attempts_wait_until_every_instance_reads_their_events() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let plan = world.flow("a = worker; b = worker needs a");
    let ticket = rig.submit(&plan);
    rig.settle_store();
    let execution = rig.started(ticket);
    assert_eq!(offered(&mut rig), [("a".to_owned(), 1)]);
    rig.inputs.push(Input::Readable(REMOTE_LOG_FORMAT - 1));
    let ended = rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert!(is_done(&rig, ended), "it was offered before");
    pass(&mut rig, 60_000);
    assert_eq!(offered(&mut rig), []);
    rig.inputs.push(Input::Readable(REMOTE_LOG_FORMAT));
    rig.settle_store();
    assert_eq!(offered(&mut rig), [("b".to_owned(), 1)]);
}

/// A handler without workers keeps no other execution out.
#[test]
fn executions_waiting_for_remote_workers_have_their_own_places() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| {
        (config.active_max, config.remote_max) = (2, 3);
    });
    let (far, near) = (world.flow("a = worker"), world.flow("a"));
    let waiting: Vec<_> = (0..3).map(|_| rig.submit(&far)).collect();
    rig.settle_store();
    assert!(waiting.iter().all(|ticket| rig.answer(*ticket).is_some()));
    let running: Vec<_> = (0..3).map(|_| rig.submit(&near)).collect();
    rig.settle_store();
    let accepted = running.iter().filter(|ticket| rig.answer(**ticket).is_some()).count();
    assert_eq!(accepted, 2, "the third waits for one of the two to end");
}

#[test]
fn an_attempt_is_offered_after_its_commit_and_made_remote() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let plan = world.flow("a = worker timeout 9s; b = output(${{ nodes.a.output }}) needs a");
    let ticket = rig.submit(&plan);
    rig.step();
    assert!(rig.offers.is_empty(), "nothing leaves before its commit");
    rig.settle_store();
    let execution = rig.started(ticket);
    let order = rig.offers.pop().unwrap();
    assert!(rig.offers.is_empty() && rig.tasks.is_empty());
    assert_eq!((order.id, &*order.handler), (id(execution, "a", 1), "far"));
    assert_eq!(order.task.input.text(), r#"{"node":"a"}"#);
    assert_eq!((order.task.timeout, order.task.at_most_once), (Some(Millis(9_000)), false));
    assert!(order.task.idempotency_key.ends_with("/a/1"));
    let started = rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.step();
    assert!(rig.answer(started).is_none(), "no answer before the commit");
    rig.settle_store();
    assert!(is_done(&rig, started));
    assert_eq!(rig.driver.running_remote(), 1);
    let ended = rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert!(is_done(&rig, ended));
    assert_eq!(world.status(execution), Status::Completed);
    assert_eq!((rig.driver.running_remote(), rig.withdrawn.len()), (0, 0));
    world.check();
}

#[test]
fn offer_without_a_start_is_repeated_with_growing_intervals() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    rig.start("a = worker");
    assert_eq!(offered(&mut rig), [("a".to_owned(), 1)]);
    for wait in [10, 20, 40, 80, 160, 300, 300] {
        pass(&mut rig, wait * 1_000 - 1);
        assert_eq!(offered(&mut rig), [], "before {wait} s");
        pass(&mut rig, 1);
        assert_eq!(offered(&mut rig), [("a".to_owned(), 1)], "after {wait} s");
        assert_eq!(rig.driver.measures().map(|step| step.offers_repeated).sum::<u64>(), 1);
    }
    let queue = rig.driver.queue();
    assert_eq!((queue.depth, queue.too_long, queue.oldest), (1, 1, Millis(910_000)));
    world.check();
}

#[test]
fn end_without_a_start_withdraws_the_offer() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b = worker needs a");
    pass(&mut rig, 10_000);
    assert_eq!(offered(&mut rig).len(), 2);
    let ended = rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert!(is_done(&rig, ended));
    assert_eq!(rig.withdrawn, [id(execution, "a", 1)], "it was out twice, and taken once");
    assert_eq!(offered(&mut rig), [("b".to_owned(), 1)]);
    let names = world.names(execution);
    let tail = ["NodeStarted", "NodeCompleted", "NodeScheduled"];
    assert_eq!(names[names.len() - 3..], tail, "one frame: {names:?}");
}

/// A token of a body is not known any more when its scope has closed; the frame that closes it may still
/// be on its way to the store, and the scope is open again if that does not get there.
#[test]
fn bug_report_was_refused_because_of_a_frame_that_was_not_durable() {
    for committed in [true, false] {
        let world = World::new();
        let mut rig = Rig::new(&world);
        let execution = rig.start("a = worker");
        rig.request(execution, Request::Cancel { reason: None });
        rig.step();
        let of_another = token_of(&world, 1, (execution, "z", 1));
        let late = rig.say_as(TaskReport {
            execution,
            key: None,
            node: "a".into(),
            attempt: 1,
            token: of_another,
            worker: worker(1),
            outcome: Outcome::Started,
        });
        rig.step();
        assert!(rig.answer(late).is_none(), "nothing is durable yet");
        if committed {
            rig.settle_store();
            assert_eq!(refused(&rig, late), Refusal::Ended(Status::Cancelled));
        } else {
            let append = rig.take_append();
            rig.answer_append(&append, Appended::Fenced);
            rig.settle_store();
            assert!(matches!(rig.answer(late), Some(Answer::Moved)), "the worker reports again");
        }
    }
}

#[test]
fn a_cancel_before_a_start_takes_the_offer_back() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    rig.request(execution, Request::Cancel { reason: None });
    rig.settle_store();
    assert_eq!(rig.withdrawn, [id(execution, "a", 1)]);
    assert!(rig.cancelled_remote.is_empty());
    assert_eq!(offered(&mut rig).len(), 1);
    pass(&mut rig, 60_000);
    assert_eq!(offered(&mut rig), [], "no dispatch after a cancel");
    let late = rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    assert_eq!(refused(&rig, late), Refusal::Ended(Status::Cancelled));
}

#[test]
fn a_pause_takes_the_offer_back_and_a_resumption_makes_it_again() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    offered(&mut rig);
    rig.request(execution, Request::Pause { now: false, reason: None });
    rig.settle_store();
    assert_eq!(rig.withdrawn, [id(execution, "a", 1)]);
    assert_eq!(rig.driver.live(), 0, "it is not in memory");
    let early = rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    assert_eq!(refused(&rig, early), Refusal::Paused);
    rig.request(execution, Request::Resume { reason: None });
    rig.settle_store();
    pass(&mut rig, 1_000);
    assert_eq!(offered(&mut rig), [("a".to_owned(), 1)]);
    rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn report_with_a_forged_token_is_refused() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b");
    let say = |rig: &mut Rig<'_>, node: &str, token: Token| {
        let (key, node, worker, outcome) = (None, node.into(), worker(1), done());
        let report = TaskReport { execution, key, node, attempt: 1, token, worker, outcome };
        let ticket = rig.say_as(report);
        rig.settle_store();
        refused(rig, ticket)
    };
    let foreign = |node: &str| Refusal::ForeignToken { node: node.into(), attempt: 1 };
    assert_eq!(say(&mut rig, "a", Token(0)), foreign("a"));
    assert_eq!(say(&mut rig, "a", Token(u128::MAX)), foreign("a"));
    let of_another_node = token_of(&world, 1, (execution, "b", 1));
    assert_eq!(say(&mut rig, "a", of_another_node), foreign("a"));
    let of_another_attempt = token_of(&world, 1, (execution, "a", 2));
    assert_eq!(say(&mut rig, "a", of_another_attempt), foreign("a"));
    let of_a_slot = rig.tasks[0].task.token;
    assert_eq!(say(&mut rig, "b", of_a_slot), foreign("b"), "it stands in the log");
    assert_eq!(say(&mut rig, "b", of_another_node), foreign("b"));
    assert_eq!(say(&mut rig, "z", of_a_slot), Refusal::UnknownNode("z".into()));
    assert_eq!(world.state(execution).queued, 1);
    assert_eq!(rig.driver.measures().map(|step| step.reports_refused).sum::<u64>(), 1);
}

/// The start of one worker is on its way when the offer is repeated, and another takes it.
#[test]
fn two_workers_take_one_attempt_and_one_of_them_has_it() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker");
    let of = (execution, "a", 1);
    let (first, second) = (rig.say(2, of, Outcome::Started), rig.say(1, of, Outcome::Started));
    rig.settle_store();
    assert!(is_done(&rig, first));
    let foreign = Refusal::ForeignToken { node: "a".into(), attempt: 1 };
    assert_eq!(refused(&rig, second), foreign);
    for outcome in [done(), Outcome::Checkpoint(Json::null().into()), Outcome::Cancelled] {
        let late = rig.say(1, of, outcome);
        rig.settle_store();
        assert_eq!(refused(&rig, late), foreign);
    }
    let end = rig.say(2, of, done());
    rig.settle_store();
    assert!(is_done(&rig, end));
    world.check();
}

#[test]
fn the_same_end_twenty_times_is_one_event() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b");
    let mut tickets = Vec::new();
    for round in 0..20 {
        tickets.push(rig.say(1, (execution, "a", 1), done()));
        if round % 3 == 0 {
            rig.settle_store();
        }
    }
    rig.settle();
    let frames = world.frames(execution);
    tickets.push(rig.say(1, (execution, "a", 1), done()));
    rig.settle();
    assert!(tickets.iter().all(|ticket| is_done(&rig, *ticket)), "after the end, too");
    let completed = |event: &&Event| matches!(event, Event::Node(NodeEvent::Completed { node, .. }) if &**node == "a");
    assert_eq!(world.events(execution).iter().filter(completed).count(), 1);
    assert_eq!((world.status(execution), world.frames(execution)), (Status::Completed, frames));
    let other = rig.say(1, (execution, "a", 1), Outcome::Cancelled);
    rig.settle();
    assert_eq!(refused(&rig, other), Refusal::Ended(Status::Completed));
    world.check();
}

#[test]
fn a_take_over_leaves_the_attempt_to_its_worker() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = first.start("a = worker; b = worker");
    first.say(1, (execution, "a", 1), Outcome::Started);
    first.settle_store();
    drop(first);
    world.clock.advance(LEASE);
    let mut second = Rig::new(&world);
    pass(&mut second, 1_000);
    assert_eq!(offered(&mut second), [("b".to_owned(), 1)], "what was not started, again");
    assert_eq!(second.driver.running_remote(), 1);
    let state = world.state(execution);
    assert_eq!((state.epoch, state.running), (2, 1));
    let end = second.say(1, (execution, "a", 1), done());
    second.settle_store();
    assert!(is_done(&second, end));
    second.say(1, (execution, "b", 1), done());
    second.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn report_for_another_owner_goes_through_the_inbox() {
    let world = World::new();
    let mut owner = Rig::new(&world);
    let execution = owner.start("a = worker; b = worker needs a");
    let mut other = Rig::new(&world);
    let of = (execution, "a", 1);
    let started = other.say(1, of, Outcome::Started);
    other.settle_store();
    assert!(matches!(other.answer(started), Some(Answer::Accepted(_))), "durable, not committed");
    let again = other.say(1, of, Outcome::Started);
    other.settle_store();
    assert!(matches!(other.answer(again), Some(Answer::Accepted(_))), "the same message");
    assert_eq!(world.store.load(execution).unwrap().unwrap().mail.len(), 1);
    let [forged, ahead] = [1, 2].map(|attempt| TaskReport {
        execution,
        key: None,
        node: "a".into(),
        attempt,
        token: Token(1),
        worker: worker(2),
        outcome: done(),
    });
    let (forged, ahead) = (other.say_as(forged), other.say_as(ahead));
    other.settle_store();
    assert!(matches!(refused(&other, forged), Refusal::ForeignToken { .. }));
    assert!(matches!(refused(&other, ahead), Refusal::Stale { .. }));
    assert_eq!(
        world.store.load(execution).unwrap().unwrap().mail.len(),
        1,
        "neither was delivered"
    );
    // The owner reads its mail twice before the first of what follows is committed.
    let mail = || Input::Mail(world.store.load(execution).unwrap().unwrap().mail);
    owner.inputs.extend([mail(), mail()]);
    owner.settle_store();
    assert_eq!(world.state(execution).node(waypost_core::id::NodeIx(0)).remote, Some(worker(1)));
    assert!(world.store.load(execution).unwrap().unwrap().mail.is_empty(), "consumed");
    let known = other.say(1, of, Outcome::Started);
    let end = other.say(1, of, done());
    other.settle_store();
    assert!(is_done(&other, known), "committed by now");
    assert!(matches!(other.answer(end), Some(Answer::Accepted(_))));
    pass(&mut owner, 1_000);
    let end = other.say(1, of, done());
    other.settle_store();
    assert!(is_done(&other, end));
    let none = other.say(1, (ExecutionNo(9_999), "a", 1), done());
    other.settle_store();
    assert!(matches!(other.answer(none), Some(Answer::Unknown)));
    world.check();
}

/// A failover lost the frame that queued an attempt, and its owner still offers it. The log has no
/// such attempt: a worker that said to another instance that it starts was refused, again and again, and
/// the owner, which had nothing else to append, never found out.
#[test]
fn bug_an_owner_that_was_ahead_of_the_log_waited_for_workers_for_ever() {
    let world = World::new();
    let mut owner = Rig::new(&world);
    let execution = owner.start("a; b = worker needs a");
    owner.settle_store();
    let before = world.store.with(|tables, _| tables.clone());
    let a = owner.take_task("a");
    owner.finish(&a);
    owner.settle_store();
    assert_eq!(offered(&mut owner), [("b".to_owned(), 1)]);
    world.store.with(|tables, _| *tables = before);
    let mut other = Rig::new(&world);
    let started = other.say(1, (execution, "b", 1), Outcome::Started);
    other.settle_store();
    assert!(matches!(other.answer(started), Some(Answer::Accepted(_))));
    pass(&mut owner, 1_000);
    assert!(world.names(execution).contains(&"MessageIgnored"), "{:?}", world.names(execution));
    let a = owner.take_task("a");
    owner.finish(&a);
    owner.settle_store();
    owner.say(1, (execution, "b", 1), done());
    owner.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// A report lies in the inbox, the attempt is given up, and then the owner reads it.
#[test]
fn mail_that_comes_too_late_changes_nothing_and_goes() {
    let world = World::new();
    let mut owner = Rig::new(&world);
    let execution = owner.start("a = worker timeout 1s retry 2; b = worker");
    owner.say(1, (execution, "a", 1), Outcome::Started);
    owner.settle_store();
    let mut other = Rig::new(&world);
    other.say(1, (execution, "a", 1), done());
    other.settle_store();
    let mail = world.store.load(execution).unwrap().unwrap().mail;
    assert_eq!(mail.len(), 1);
    // Time first: the look into the inbox is still on its way.
    world.clock.advance(Millis(6_000));
    owner.renew();
    owner.step();
    owner.perform_appends();
    owner.step();
    owner.inputs.push(Input::Mail(mail));
    owner.settle_store();
    let state = world.state(execution);
    assert_eq!(state.node(waypost_core::id::NodeIx(0)).status, NodeStatus::Waiting);
    assert_eq!(owner.cancelled_remote, [(worker(1), token_of(&world, 1, (execution, "a", 1)))]);
    assert!(
        world.store.load(execution).unwrap().unwrap().mail.is_empty(),
        "it blocks no other mail"
    );
    assert_eq!(world.names(execution).last(), Some(&"MessageIgnored"));
    world.check();
}

/// What a worker said twice lies in the inbox, and what another one says behind it.
#[test]
fn bug_late_mail_kept_out_later_mail() {
    let world = World::new();
    let mut owner = Rig::with(&world, |config| config.claim_batch = 1);
    let execution = owner.start("a = worker");
    let mut other = Rig::new(&world);
    let of = (execution, "a", 1);
    for (number, outcome) in [(1, Outcome::Started), (2, done()), (1, done())] {
        other.say(number, of, outcome);
    }
    other.settle_store();
    assert_eq!(world.store.load(execution).unwrap().unwrap().mail.len(), 3);
    for _ in 0..4 {
        pass(&mut owner, 1_000);
    }
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// Between the look at the log and the delivery the execution ends, by what is being reported.
#[test]
fn bug_repeated_end_report_was_refused_after_the_execution_ended() {
    let world = World::new();
    let mut owner = Rig::new(&world);
    let execution = owner.start("a = worker");
    let mut other = Rig::new(&world);
    let answers = [done(), Outcome::Cancelled].map(|outcome| {
        other.say(1, (execution, "a", 1), outcome);
        other.step();
        let is_delivery = |work: &StoreWork| matches!(work, StoreWork::Deliver(_));
        let at = other.work.iter().position(is_delivery).unwrap();
        let Some(StoreWork::Deliver(outgoing)) = other.work.remove(at) else { panic!("found") };
        outgoing
    });
    owner.say(1, (execution, "a", 1), done());
    owner.settle_store();
    assert_eq!(world.status(execution), Status::Completed);
    let [same, contrary] = answers.map(|outgoing| {
        match other.store_calls().delivered(outgoing, &MailDelivery::Ended).inputs.remove(0) {
            Input::Delivered { answer, .. } => answer,
            input => panic!("{input:?}"),
        }
    });
    assert!(matches!(same, Answer::Done { status: Status::Completed, .. }), "{same:?}");
    assert!(matches!(contrary, Answer::Refused(Refusal::Ended(_))), "{contrary:?}");
}

#[test]
fn a_worker_that_is_missed_twice_loses_its_attempts() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b = worker; c = worker");
    assert!(rig.looks.is_empty(), "no worker holds an attempt");
    for (number, node) in [(1, "a"), (1, "b"), (2, "c")] {
        rig.say(number, (execution, node, 1), Outcome::Started);
    }
    rig.settle_store();
    pass(&mut rig, 4_999);
    assert!(rig.looks.is_empty());
    pass(&mut rig, 1);
    let held = |(number, node)| (worker(number), token_of(&world, number, (execution, node, 1)));
    let all = [(1, "a"), (1, "b"), (2, "c")].map(held).to_vec();
    let all = Look { share: Share::ALL, held: all, serving: false };
    assert_eq!(rig.looks.front(), Some(&all));
    rig.see(Some(&[2]), &[]);
    pass(&mut rig, 5_000);
    rig.see(None, &[]);
    pass(&mut rig, 5_000);
    rig.see(Some(&[1]), &[]);
    pass(&mut rig, 5_000);
    rig.see(Some(&[2]), &[]);
    assert_eq!(world.state(execution).running, 3, "never twice in a row");
    pass(&mut rig, 5_000);
    assert_eq!(rig.looks.front(), Some(&all));
    rig.see(Some(&[2]), &[]);
    rig.settle_store();
    let state = world.state(execution);
    assert_eq!(state.running, 1);
    let lost = state.node(waypost_core::id::NodeIx(0));
    assert_eq!((lost.abandoned, lost.tries), (1, 0));
    assert_eq!(lost.failure.as_ref().unwrap().kind, kind::ABANDONED);
    assert!(lost.failure.as_ref().unwrap().message.contains("lease has expired"));
    offered(&mut rig);
    pass(&mut rig, 1);
    let mut again = offered(&mut rig);
    again.sort();
    assert_eq!(again, [], "they were offered with the frame that lost them");
    let late = rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert!(matches!(refused(&rig, late), Refusal::Stale { attempt: 2, .. }));
    world.check();
}

#[test]
fn new_owner_cancels_the_attempt_and_abandons_it_after_the_grace_time() {
    let world = World::new();
    let mut first = Rig::new(&world);
    let execution = first.start("a = worker");
    first.say(1, (execution, "a", 1), Outcome::Started);
    first.settle_store();
    first.request(execution, Request::Cancel { reason: None });
    first.settle_store();
    first.leave();
    drop(first);
    let mut second = Rig::new(&world);
    pass(&mut second, 1_000);
    pass(&mut second, 5_000);
    assert_eq!(second.cancelled_remote, [(worker(1), token_of(&world, 1, (execution, "a", 1)))]);
    pass(&mut second, 5_000);
    assert_eq!(world.status(execution), Status::Cancelled);
    world.check();
}

#[test]
fn attempt_waiting_too_long_for_a_slot_is_offered_remotely() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b; c handler rare");
    assert_eq!(rig.running(), ["a"]);
    pass(&mut rig, 1_999);
    assert!(rig.looks.is_empty());
    pass(&mut rig, 1);
    assert_eq!(rig.looks, [Look { share: Share::ALL, held: Vec::new(), serving: true }]);
    rig.see(Some(&[]), &["work", "other"]);
    assert_eq!(offered(&mut rig), [("b".to_owned(), 1)], "no worker serves `rare`");
    assert_eq!(rig.driver.queue().depth, 2, "each is counted once");
    rig.say(1, (execution, "b", 1), Outcome::Started);
    rig.settle_store();
    assert_eq!(rig.driver.running_remote(), 1);
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.settle_store();
    assert_eq!(rig.running(), ["c"], "the slot goes to the next that waits for one");
    rig.say(1, (execution, "b", 1), done());
    rig.settle();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

/// A remote worker may begin before its start is in the log. If the node were cancelled by then, what it
/// had reserved would be given back, and what the worker used would be counted nowhere.
#[test]
fn attempt_with_a_reservation_waits_for_a_slot_here() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("budget 1000; a; b meter 100 50; c");
    assert_eq!(rig.running(), ["a"]);
    let reserved = |event: &Event| matches!(event, Event::Node(NodeEvent::Reserved(_)));
    assert!(world.events(execution).iter().any(reserved), "{:?}", world.names(execution));
    pass(&mut rig, 2_000);
    rig.see(Some(&[]), &["work"]);
    assert_eq!(offered(&mut rig), [("c".to_owned(), 1)]);
    rig.say(1, (execution, "c", 1), done());
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.settle_store();
    assert_eq!(rig.running(), ["b"]);
    world.check();
}

#[test]
fn a_slot_that_comes_free_first_takes_the_offer_back() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.slots = 1);
    let execution = rig.start("a; b");
    pass(&mut rig, 2_000);
    rig.see(Some(&[]), &["work"]);
    assert_eq!(offered(&mut rig), [("b".to_owned(), 1)]);
    let a = rig.take_task("a");
    rig.finish(&a);
    rig.settle_store();
    assert_eq!(rig.running(), ["b"]);
    assert_eq!(rig.withdrawn, [id(execution, "b", 1)]);
    let late = rig.say(1, (execution, "b", 1), Outcome::Started);
    rig.settle_store();
    assert!(matches!(refused(&rig, late), Refusal::ForeignToken { .. }));
}

#[test]
fn a_mark_and_the_next_attempt_go_together() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker retry 2");
    assert_eq!(rig.offers[0].task.checkpoint, None);
    let mark = Json::parse(r#"{"page":3}"#).unwrap();
    rig.say(1, (execution, "a", 1), Outcome::Checkpoint(mark.clone().into()));
    let failed = Outcome::Failed(Failure::transient("x", "not yet"));
    rig.say(1, (execution, "a", 1), failed);
    rig.settle_store();
    offered(&mut rig);
    pass(&mut rig, 2_000);
    assert_eq!(rig.offers[0].task.checkpoint, Some(mark));
    assert_eq!(rig.offers[0].id.attempt, 2);
}

#[test]
fn a_config_that_cannot_be_rendered_is_a_failure_and_no_offer() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker(${{ input.missing.more }})");
    rig.settle_store();
    assert!(rig.offers.is_empty());
    assert_eq!(world.status(execution), Status::Failed);
    world.check();
}

#[test]
fn an_execution_whose_attempt_runs_remote_stays_in_memory() {
    let world = World::new();
    let mut rig = Rig::with(&world, |config| config.park_after = Millis(0));
    let execution = rig.start("a = worker; d = delay(1h)");
    rig.settle_store();
    assert_eq!(rig.driver.live(), 1);
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    assert_eq!(rig.driver.live(), 1);
    rig.say(1, (execution, "a", 1), done());
    rig.settle_store();
    assert_eq!(rig.driver.live(), 0, "only the delay is left");
    world.check();
}

#[test]
fn drain_leaves_remote_attempts_and_offers_nothing() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b = worker");
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    offered(&mut rig);
    rig.inputs.push(Input::Drain);
    pass(&mut rig, 60_000);
    assert!(rig.driver.is_quiet(), "it need not be awaited");
    assert_eq!(offered(&mut rig), []);
    assert!(rig.cancelled_remote.is_empty() && rig.withdrawn.is_empty());
}

#[test]
fn an_owner_that_is_fenced_off_forgets_without_a_word() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b = worker");
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    let moved = rig.say(1, (execution, "a", 1), done());
    rig.step();
    let append = rig.take_append();
    rig.answer_append(&append, Appended::Fenced);
    rig.step();
    assert!(matches!(rig.answer(moved), Some(Answer::Moved)), "ask again");
    assert!(rig.cancelled_remote.is_empty() && rig.withdrawn.is_empty());
    assert_eq!(rig.driver.running_remote(), 0);
}

#[test]
fn frame_names_its_log_format_and_older_builds_write_none_newer() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a = worker; b");
    let requires = |of: ExecutionNo| {
        let log = LogReader::whole(&world.store, of);
        log.map(|frame| frame.unwrap().header.requires).collect::<Vec<_>>()
    };
    assert_eq!(requires(execution), [1]);
    rig.say(1, (execution, "a", 1), Outcome::Started);
    rig.settle_store();
    let b = rig.take_task("b");
    rig.finish(&b);
    rig.settle_store();
    assert_eq!(
        requires(execution),
        [1, REMOTE_LOG_FORMAT, REMOTE_LOG_FORMAT],
        "and what follows it"
    );
    let mut old = Rig::with(&world, |config| config.fold = REMOTE_LOG_FORMAT - 1);
    let execution = old.start("a = worker");
    old.settle_store();
    assert!(old.offers.is_empty(), "a live instance could not read its start");
    let refused_start = old.say(1, (execution, "a", 1), Outcome::Started);
    old.settle_store();
    assert!(matches!(refused(&old, refused_start), Refusal::Stale { .. }));
    assert_eq!(requires(execution), [1]);
}
