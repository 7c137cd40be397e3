//! Contents of blobs: what misses one waits for it, and everything else goes on.

use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::command::{Outcome, Request};
use waypost_core::expr::{FetchedContent, Wanted};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Input};

use crate::support::{Rig, World};

const CONTENT: &[u8] = br#"{"go":true,"n":7}"#;

fn blob() -> BlobRef {
    BlobRef { digest: BlobDigest::of(CONTENT), bytes: CONTENT.len() as u64 }
}

fn wanted() -> Wanted {
    Wanted::Content(blob())
}

fn fetched(rig: &mut Rig<'_>, execution: ExecutionNo, content: FetchedContent) {
    assert_eq!(rig.fetches, [(execution, wanted())], "asked for once");
    rig.fetches.clear();
    rig.inputs.push(Input::Fetched { execution, wanted: wanted(), content });
    rig.settle();
}

fn at_hand() -> FetchedContent {
    FetchedContent::read(blob(), CONTENT)
}

/// An execution whose first node has completed with a reference.
fn with_output<'w>(world: &'w World, flow: &str) -> (Rig<'w>, ExecutionNo) {
    let mut rig = Rig::new(world);
    let execution = rig.start(flow);
    let first = rig.take_task("a");
    rig.report(&first, Outcome::Completed(Json::reference(blob())));
    rig.settle();
    (rig, execution)
}

#[test]
fn condition_over_a_blob_is_decided_when_its_content_is_there() {
    let world = World::new();
    let (mut rig, execution) =
        with_output(&world, "a; b = if(nodes.a.output.go) needs a; c needs b:true");
    assert!(rig.tasks.is_empty() && rig.driver.live() == 1, "it waits in memory");
    fetched(&mut rig, execution, at_hand());
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn blob_that_is_not_looked_into_is_not_fetched() {
    let world = World::new();
    let (mut rig, execution) =
        with_output(&world, "a; b = value(\"${{ nodes.a.output }}\") needs a; c needs b");
    rig.run_to_end();
    assert_eq!((rig.fetches.len(), world.status(execution)), (0, Status::Completed));
    world.check();
}

#[test]
fn variables_wait_for_the_content_and_their_report_is_kept_until_then() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution =
        rig.start("a set n = output.n; b = if(variables.n == 7) needs a; c needs b:true");
    let first = rig.take_task("a");
    rig.report(&first, Outcome::Completed(Json::reference(blob())));
    rig.settle();
    fetched(&mut rig, execution, at_hand());
    rig.run_to_end();
    assert_eq!((rig.fetches.len(), world.status(execution)), (0, Status::Completed));
    world.check();
}

#[test]
fn report_after_the_first_reference_of_its_frame_waits_for_the_content() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let flow = "a; x set n = nodes.a.output.n; b = if(variables.n == 7) needs a, x; c needs b:true";
    let execution = rig.start(flow);
    let [a, x] = ["a", "x"].map(|node| rig.take_task(node));
    rig.report(&a, Outcome::Completed(Json::reference(blob())));
    rig.finish(&x);
    rig.settle();
    fetched(&mut rig, execution, at_hand());
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn execution_whose_blob_is_away_can_be_cancelled() {
    let world = World::new();
    let (mut rig, execution) =
        with_output(&world, "a; b = if(nodes.a.output.go) needs a; c needs b:true");
    let ticket = rig.request(execution, Request::Cancel { reason: None });
    rig.settle();
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { .. } | Answer::Ended(_))));
    assert_eq!((world.status(execution), rig.driver.live()), (Status::Cancelled, 0));
    // It comes too late, for nothing.
    rig.inputs.push(Input::Fetched { execution, wanted: wanted(), content: at_hand() });
    rig.settle();
    world.check();
}

#[test]
fn blob_that_cannot_be_had_fails_its_node() {
    let world = World::new();
    let (mut rig, execution) =
        with_output(&world, "a; b = if(nodes.a.output.go) needs a; c needs b:true");
    let failure = Failure::permanent(kind::BLOB, format!("blob {} is damaged", blob().digest));
    fetched(&mut rig, execution, FetchedContent::failed(failure));
    let failure = world.state(execution).end.and_then(|end| end.failure).expect("it failed");
    assert_eq!(&*failure.kind, kind::BLOB);
    assert!(failure.message.contains(&blob().digest.to_string()), "{}", failure.message);
    world.check();
}

#[test]
fn signal_whose_filter_looks_into_its_body_is_acknowledged_when_it_was_decided() {
    let world = World::new();
    let mut rig = Rig::new(&world);
    let execution = rig.start("a; s = signal(go, where signal.go); c needs s, a");
    let body = Json::reference(blob());
    let ticket = rig.send(execution, Request::Signal { name: "go".into(), body }, "m1");
    rig.settle();
    assert!(rig.answer(ticket).is_none());
    fetched(&mut rig, execution, at_hand());
    assert!(matches!(rig.answer(ticket), Some(Answer::Done { .. })));
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn nothing_is_asked_for_while_a_frame_is_in_flight() {
    let world = World::new();
    let flow = "a; b = if(nodes.a.output.go) needs a; x set n = output.n; c needs b:true, x";
    let mut rig = Rig::new(&world);
    let execution = rig.start(flow);
    let [a, x] = ["a", "x"].map(|node| rig.take_task(node));
    rig.report(&a, Outcome::Completed(Json::reference(blob())));
    rig.settle();
    assert_eq!(rig.fetches, [(execution, wanted())]);
    // A frame that needs another content is not committed when the first one comes.
    let other = BlobRef { digest: BlobDigest::of(b"other"), bytes: 5 };
    rig.report(&x, Outcome::Completed(Json::reference(other)));
    let signal = Request::Signal { name: "early".into(), body: Json::null() };
    rig.request(execution, signal);
    rig.step();
    let append = rig.take_append();
    rig.inputs.push(Input::Fetched { execution, wanted: wanted(), content: at_hand() });
    rig.step();
    assert_eq!(rig.fetches.len(), 1, "not before the commit");
    let appended = world.append(&append);
    rig.answer_append(&append, appended);
    rig.step();
    assert_eq!(rig.fetches.last(), Some(&(execution, Wanted::Content(other))));
    let content = FetchedContent::read(other, br#"{"n":1}"#);
    rig.inputs.push(Input::Fetched { execution, wanted: Wanted::Content(other), content });
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}

#[test]
fn next_owner_fetches_what_the_last_one_missed() {
    let world = World::new();
    let (rig, execution) =
        with_output(&world, "a; b = if(nodes.a.output.go) needs a; c needs b:true");
    drop(rig);
    world.outlive_leases();
    let mut rig = Rig::new(&world);
    rig.settle();
    fetched(&mut rig, execution, at_hand());
    rig.run_to_end();
    assert_eq!(world.status(execution), Status::Completed);
    world.check();
}
