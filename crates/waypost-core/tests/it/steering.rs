//! People steer maps: they cancel items, hold maps, and change how many items may be open.

use waypost_core::command::{Command, Request, Tuning};
use waypost_core::event::{Event, Origin, STEERED_LOG_FORMAT};
use waypost_core::flow::plan;
use waypost_core::why::{UnblockedBy, why};

use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn maps_are_steered_while_they_run() {
    check(CASES);
}

pub(super) const CASES: &[Case] = &[
    case(
        "an item that is cancelled counts as failed, and others go on",
        "m = map(3, at 2, tolerate 1) {a; b needs a}",
        "start              -> runs m[0]/a m[1]/a
         cancel-item m[1] #c -> m[1]/b CANCELLED, stops m[1]/a, logs BodyEnding, due 10s
         stopped m[1]/a     -> runs m[2]/a, logs NodeCancelled ItemsOpened NodeScheduled NodeStarted
         complete m[0]/a
         complete m[0]/b 1
         complete m[2]/a
         complete m[2]/b 3  -> m COMPLETED, m gives {\"count\":3,\"succeeded\":2,\"failed\":1,\"results\":[1,null,3],\"failedIndexes\":[1],\"failures\":[{\"index\":1,\"kind\":\"cancelled\",\"message\":\"the item was cancelled\"}]}",
    ),
    case(
        "an item that only waits is cancelled at once",
        "m = map(2, at 2, tolerate 2) {w = signal(go)}",
        "start            -> m WAITING
         cancel-item m[0] -> logs BodyEnding NodeCancelled
         cancel-item m[1] -> m COMPLETED",
    ),
    case(
        "what a cancelled item still completes is recorded, and the item counts as failed",
        "m = map(1, tolerate 1) {a}",
        "start             -> runs m[0]/a
         cancel-item m[0]  -> stops m[0]/a
         complete m[0]/a 5 -> m COMPLETED, m gives {\"count\":1,\"succeeded\":0,\"failed\":1,\"failedIndexes\":[0],\"failures\":[{\"index\":0,\"kind\":\"cancelled\",\"message\":\"the item was cancelled\"}]}",
    ),
    case(
        "cancelled items count against what is tolerated",
        "m = map(3, at 3, stop) {a} error continue; d needs m",
        "start            -> runs m[0]/a m[1]/a m[2]/a
         cancel-item m[0] -> stops m[0]/a
         stopped m[0]/a   -> stops m[1]/a m[2]/a
         stopped m[1]/a
         stopped m[2]/a   -> m FAILED, m failed too_many_failures, d RUNNING",
    ),
    case(
        "an item of a map in a map, and in a loop",
        "m = map(2, tolerate 2) {n = map(2, tolerate 2) {a}}; l = loop(until true) {k = map(1, tolerate 1) {c}}",
        "start                 -> runs m[0]/n[0]/a m[0]/n[1]/a m[1]/n[0]/a m[1]/n[1]/a l[1]/k[0]/c
         cancel-item m[1]/n[0] -> stops m[1]/n[0]/a
         cancel-item m[0]      -> stops m[0]/n[0]/a m[0]/n[1]/a
         cancel-item m[0]/n[0] -> refused map m[0]/n is not open
         cancel-item l[1]/k[0] -> stops l[1]/k[0]/c
         stopped l[1]/k[0]/c   -> l COMPLETED",
    ),
    case(
        "items that cannot be cancelled",
        "g = group {a}; m = map(5, at 2, tolerate 5) {b} needs g; l = loop(until true) {c}",
        "start            -> runs g/a l[1]/c
         cancel-item m[0] -> refused map m is not open
         cancel-item g    -> refused g is not a map
         cancel-item l[1] -> refused l is not a map
         cancel-item x[0] -> refused the definition has no node \"x[0]\"
         complete g/a     -> runs m[0]/b m[1]/b
         cancel-item m    -> refused m is a node
         cancel-item m[x] -> refused m[x] is a node
         cancel-item m[7] -> refused there is no item 7
         cancel-item m[4] -> refused item m[4] has not begun
         complete m[0]/b  -> runs m[2]/b
         cancel-item m[0] -> refused item m[0] has ended
         cancel-item m[1] -> stops m[1]/b
         cancel-item m[1] -> refused item m[1] is already ending
         cancel           -> execution ENDING
         cancel-item m[2] -> refused the execution is already ending",
    ),
    case(
        "a request is done once, and one that changes nothing is recorded once",
        "m = map(3, at 2, tolerate 3) {a}",
        "start               -> runs m[0]/a m[1]/a
         cancel-item m[0] #c -> logs BodyEnding
         cancel-item m[0] #c -> refused already received
         cancel-item m[2] #d -> logs MessageIgnored
         cancel-item m[2] #d -> refused already received
         tune m hold #t      -> logs NodeTuned
         tune m release #t   -> refused already received",
    ),
    case(
        "a map that is held opens nothing, and its open items finish",
        "m = map(4, at 2) {a}",
        "start           -> runs m[0]/a m[1]/a
         tune m hold     -> logs NodeTuned
         complete m[0]/a -> runs
         complete m[1]/a -> runs, m WAITING
         park            -> execution WAITING
         take-over       -> execution RUNNING, runs
         tune m release  -> runs m[2]/a m[3]/a
         complete m[2]/a
         complete m[3]/a -> execution COMPLETED",
    ),
    case(
        "a hold after the last item has begun changes nothing",
        "m = map(2) {a}",
        "start           -> runs m[0]/a m[1]/a
         tune m hold
         complete m[0]/a
         complete m[1]/a -> execution COMPLETED",
    ),
    case(
        "a lower concurrency lets open items finish, a higher one opens more at once",
        "m = map(8, at 3) {a}",
        "start           -> runs m[0]/a m[1]/a m[2]/a
         tune m 1        -> runs
         complete m[0]/a -> runs
         complete m[1]/a -> runs
         complete m[2]/a -> runs m[3]/a
         tune m 3        -> runs m[4]/a m[5]/a
         tune m hold 1
         tune m release  -> runs",
    ),
    case(
        "a map is held and an item cancelled in a pause, before anything begins",
        "m = map(4, at 2, tolerate 4) {w = delay(1m); a needs w}",
        "start            -> m WAITING
         pause            -> execution PAUSED
         own              -> execution RESUMING(paused)
         tune m hold      -> logs NodeTuned
         park             -> execution PAUSED
         own
         cancel-item m[0] -> logs BodyEnding NodeCancelled
         park             -> execution PAUSED
         own
         resume           -> execution RUNNING, runs
         wait 1m          -> runs m[1]/a
         tune m release   -> m[2]/w WAITING",
    ),
    case(
        "bug: a request in the frame of a pause has no owner to do it",
        "m = map(2) {w = signal(go)}",
        "start
         pause            -> execution PAUSED
         tune m hold      -> refused paused at this moment
         cancel-item m[0] -> refused paused at this moment",
    ),
    case(
        "nodes that cannot be tuned",
        "g = group {a}; m = map(2) {b} needs g",
        "start         -> runs g/a
         tune g hold   -> refused g is not a map
         tune m hold   -> refused map m is not open
         tune x hold   -> refused no node \"x\"
         complete g/a  -> runs m[0]/b m[1]/b
         tune m        -> refused a map is tuned with
         tune m 0      -> refused from 1 to 10000
         tune m 10001  -> refused from 1 to 10000
         tune m 10000  -> logs NodeTuned
         complete m[0]/b
         complete m[1]/b -> execution COMPLETED
         tune m hold   -> refused the execution has ended",
    ),
    case(
        "the end, a deadline and an outer item end a map that is held",
        "m = map(2, at 1) {n = map(3, at 1) {a} } deadline 5m error continue; d needs m",
        "start           -> runs m[0]/n[0]/a
         tune m[0]/n hold
         tune m hold
         complete m[0]/n[0]/a -> runs
         wait 5m         -> m TIMED_OUT, d RUNNING",
    ),
    case(
        "cancel ends a map that is held",
        "m = map(2, at 1) {a}",
        "start           -> runs m[0]/a
         tune m hold
         complete m[0]/a -> m WAITING
         cancel          -> execution CANCELLED",
    ),
];

#[test]
fn events_of_steering_name_the_format_that_can_read_them() {
    let plan = plan("m = map(3, at 1, tolerate 3) {a}");
    let mut run = Run::start(&plan, "{}", None, 100);
    let requests = [
        Request::CancelItem { node: "m[0]".into(), reason: Some("stuck".into()) },
        Request::Tune {
            node: "m".into(),
            tuning: Tuning { held: Some(true), concurrency: Some(2) },
            reason: Some("the API is slow".into()),
        },
    ];
    for request in requests {
        assert_eq!(request.requires(), STEERED_LOG_FORMAT);
        let origin = Origin { message: None, actor: Some("alice".into()) };
        run.command(Command::Request(request, origin)).expect("it is done");
        let first = run.last.events.first().map(Event::requires);
        assert_eq!(first, Some(STEERED_LOG_FORMAT), "{:?}", run.last.events);
    }
}

#[test]
fn why_says_who_holds_a_map() {
    let plan = plan("m = map(3, at 1) {a}");
    let mut run = Run::start(&plan, "{}", None, 100);
    let request = Request::Tune {
        node: "m".into(),
        tuning: Tuning { held: Some(true), concurrency: None },
        reason: Some("the API is slow".into()),
    };
    let origin = Origin { message: None, actor: Some("alice".into()) };
    run.command(Command::Request(request, origin)).expect("it is done");
    let reasons = why(&plan, &run.state, None);
    let map = reasons.iter().find(|reason| reason.node.as_deref() == Some("m")).expect("the map");
    let what =
        "is held by alice (the API is slow) and opens no items; it runs its items: 0 of 3 are done";
    assert_eq!((map.what.as_str(), &map.unblocked_by), (what, &UnblockedBy::Release));
    assert_eq!(map.since, run.now);
}
