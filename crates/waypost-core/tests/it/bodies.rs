//! Containers: groups and loops, their scopes, and how they end.

use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_core::command::{Command, Outcome};
use waypost_core::decide::{idempotency_key, render_task};
use waypost_core::event::{Event, NodeEvent};
use waypost_core::expr::{Contents, FetchedContent, Wanted};
use waypost_core::flow::plan;
use waypost_core::json::Json;
use waypost_core::limits::MAP_RESULTS_BYTES_MAX;
use waypost_core::path::ScopeNo;

use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn bodies_run_in_order_and_end_as_their_nodes_do() {
    check(CASES);
}

pub(super) const CASES: &[Case] = &[
    case(
        "a group completes with its body, and what follows begins",
        "g = group {a; b needs a}; c needs g",
        "start        -> g WAITING, g/a RUNNING, g/b PENDING, c PENDING, runs g/a
         complete g/a 1 -> g/b RUNNING, runs g/b
         complete g/b 2 -> g COMPLETED, g gives 2, c RUNNING, logs NodeCompleted NodeCompleted NodeScheduled NodeStarted
         complete c   -> execution COMPLETED",
    ),
    case(
        "the value of a body is that of its output nodes",
        "g = group {a; o = output(${{ nodes.a.output }}) needs a; z needs o}; w = output(${{ nodes.g.output }}) needs g",
        "start          -> runs g/a
         complete g/a 7 -> g/z RUNNING
         complete g/z 1 -> output 7",
    ),
    case(
        "a body with several exits has a map of those that completed",
        "g = group {a; b; c = if(false); d needs c:true}; o = output(${{ nodes.g.output }}) needs g",
        "start          -> g/d SKIPPED
         complete g/a 1 -> g WAITING
         complete g/b 2 -> execution COMPLETED, output {\"a\":1,\"b\":2}",
    ),
    case(
        "nodes of a body see what is before their container",
        "a; g = group {b = value(${{ nodes.a.output + 1 }})} needs a; o = output(${{ nodes.g.output }}) needs g",
        "start        -> runs a
         complete a 4 -> execution COMPLETED, output 5",
    ),
    case(
        "variables of a group are those of the definition",
        "a set n = 1; g = group {b set n = variables.n + output} needs a; c set m = variables.n needs g",
        "start          -> runs a
         complete a     -> runs g/b
         complete g/b 5 -> runs c, variables {\"n\":6}
         complete c     -> variables {\"m\":6,\"n\":6}",
    ),
    case(
        "a failure in a group that nothing handles is the group's, after what runs has ended",
        "g = group {a; b; c needs a} error continue; d needs g",
        "start          -> runs g/a g/b
         fail g/a broken -> g WAITING, g/c CANCELLED, g/b RUNNING, stops g/b, logs NodeFailed BodyEnding, due 10s
         stopped g/b    -> g FAILED, d RUNNING, logs NodeCancelled NodeFailed NodeScheduled NodeStarted
         complete d     -> execution COMPLETED",
    ),
    case(
        "a completion in a body that is ending is a fact",
        "g = group {a; b set v = output} error continue; d needs g",
        "start          -> runs g/a g/b
         fail g/a broken -> stops g/b
         complete g/b 3 -> g FAILED, variables {\"v\":3}, d RUNNING",
    ),
    case(
        "a cancelled attempt of a body is given up after a while",
        "g = group {a; b} error other; d needs g:other",
        "start          -> runs g/a g/b
         fail g/a broken -> stops g/b
         wait 9s        -> g WAITING
         wait 1s        -> g FAILED, d RUNNING, logs NodeCancelled NodeFailed NodeScheduled NodeStarted
         complete g/b   -> refused not open",
    ),
    case(
        "a failure in a body that is handled there stays there",
        "g = group {a error continue; b needs a}; d needs g",
        "start          -> runs g/a
         fail g/a broken -> g/b RUNNING
         complete g/b 1 -> g COMPLETED, d RUNNING",
    ),
    case(
        "a failure of a group ends the execution if nothing handles it",
        "g = group {a}; b",
        "start          -> runs b g/a
         fail g/a broken -> execution ENDING, g FAILED, stops b
         stopped b      -> execution FAILED, failure broken",
    ),
    case(
        "a group is tried again as a whole",
        "g = group {a; b needs a} retry 2 wait 1s",
        "start          -> runs g/a
         complete g/a 1 -> runs g/b
         fail g/b http retry -> g WAITING, due 1s
         wait 1s        -> g/a RUNNING, g/a attempt 1, g attempt 2, runs g/a
         complete g/a 1 -> runs g/b
         complete g/b 2 -> execution COMPLETED",
    ),
    case(
        "a report for an earlier try of a group is refused",
        "g = group {a} retry 2 wait 1s",
        "start          -> runs g/a
         fail g/a http retry -> g WAITING
         complete g/a   -> refused not open
         wait 1s        -> runs g/a
         forge g/a      -> refused another worker
         complete g/a   -> execution COMPLETED",
    ),
    case(
        "a deadline of a container ends its body first",
        "g = group {a} deadline 5s error continue; d needs g",
        "start       -> runs g/a, due 5s
         wait 5s     -> g WAITING, stops g/a, due 10s
         stopped g/a -> g TIMED_OUT, d RUNNING",
    ),
    case(
        "bug: a deadline struck a body that was ending already",
        "g = group {a; b} deadline 5s error continue; d needs g",
        "start           -> runs g/a g/b
         fail g/a broken -> stops g/b
         wait 5s         -> g WAITING, nothing
         stopped g/b     -> g FAILED, d RUNNING",
    ),
    case(
        "bug: a deadline struck a map while one of its items was ending",
        "m = map(3, at 2, tolerate 3) {a; b} deadline 5s error continue; d needs m",
        "start              -> runs m[0]/a m[0]/b m[1]/a m[1]/b
         fail m[0]/a broken -> stops m[0]/b
         wait 5s            -> stops m[1]/a m[1]/b
         stopped m[0]/b
         stopped m[1]/a
         stopped m[1]/b     -> m TIMED_OUT, d RUNNING",
    ),
    case(
        "a group in a group",
        "g = group {h = group {a; b}; c needs h}; d needs g",
        "start            -> g+g/h WAITING, runs g/h/a g/h/b
         complete g/h/a 1 -> g/h WAITING
         complete g/h/b 2 -> g/h COMPLETED, g/c RUNNING
         complete g/c 3   -> g gives 3, d RUNNING",
    ),
    case(
        "an end reaches the bodies within bodies",
        "g = group {h = group {a; b}; c} error continue; d needs g",
        "start            -> runs g/c g/h/a g/h/b
         fail g/c broken   -> stops g/h/a g/h/b, g+g/h WAITING
         stopped g/h/a    -> g/h WAITING
         complete g/h/b 1 -> g FAILED, d RUNNING",
    ),
    case(
        "cancel awaits what runs in a body",
        "g = group {a; b needs a}",
        "start     -> runs g/a
         cancel    -> execution ENDING, g WAITING, g/b CANCELLED, stops g/a
         stopped g/a -> execution CANCELLED, g CANCELLED, logs NodeCancelled NodeCancelled RunCancelled",
    ),
    case(
        "cancel ends a body that only waits",
        "g = group {a = delay(1h)}",
        "start  -> g/a WAITING, due 1h
         cancel -> execution CANCELLED, g CANCELLED",
    ),
    case(
        "a join that fired stops the bodies of what leads only there",
        "g = group {a}; b; j needs g, b join any cancel-rest",
        "start        -> runs b g/a
         complete b   -> g CANCELLED, stops a, j RUNNING
         complete g/a -> refused not open
         complete j   -> execution COMPLETED",
    ),
    case(
        "an execution whose bodies all wait parks, and goes on",
        "g = group {a = delay(1h)}; d needs g",
        "start     -> due 1h
         park      -> execution WAITING
         later 1h
         take-over -> g COMPLETED, d RUNNING",
    ),
    case(
        "a body that ends in a pause goes on after it",
        "g = group {a}; d needs g",
        "start        -> runs g/a
         pause        -> execution PAUSING
         complete g/a 1 -> execution PAUSED, g WAITING
         resume       -> g COMPLETED, d RUNNING",
    ),
    case(
        "a take-over runs again what its owner ran in a body",
        "g = group {a}",
        "start        -> runs g/a
         take-over    -> g/a attempt 2, runs g/a
         complete g/a -> execution COMPLETED",
    ),
    case(
        "quarantine and resume count losses in bodies",
        "g = group {a}",
        "start        -> runs g/a
         lose-4 g/a   -> g/a lost 4
         lose g/a     -> execution QUARANTINED, g/a WAITING
         own
         recover
         resume       -> g/a lost 0
         wait 5m      -> runs g/a
         complete g/a -> execution COMPLETED",
    ),
    case(
        "bug: a pause at once had an attempt of a body that was ending tried again",
        "g = group {a; b} error continue; c needs g",
        "start            -> runs g/a g/b
         fail g/a broken  -> stops g/b
         pause-now        -> execution PAUSING, g/b RUNNING
         complete g/b     -> execution PAUSED
         resume           -> g FAILED, runs c",
    ),
    case(
        "bug: a quarantine had an attempt of a body that was ending tried again",
        "g = group {a; b}; c",
        "start            -> runs c g/a g/b
         lose-4 c
         fail g/a broken  -> stops g/b
         lose c           -> execution QUARANTINED, g WAITING
         own
         recover
         resume           -> execution FAILED, g FAILED",
    ),
    case(
        "bug: the end of a body within a body, by a report to a paused execution, was a panic",
        "g = group {h = group {a; b}; c}",
        "start slots 0        -> offers g/c g/h/a g/h/b
         pause                -> execution PAUSED
         far 1 fail g/c broken -> execution PAUSED, g WAITING
         resume               -> execution FAILED, g FAILED",
    ),
    case(
        "bug: the end of a body within a body, by a quarantine, was a panic",
        "g = group {h = group {a; b}; c}; d",
        "start           -> runs d g/c g/h/a g/h/b
         lose-4 d
         fail g/c broken -> stops g/h/a g/h/b
         lose d          -> execution QUARANTINED, g WAITING",
    ),
    case(
        "a signal reaches a wait in a body",
        "g = group {w = signal(go)}; o = output(${{ nodes.g.output }}) needs g",
        "start       -> g/w WAITING
         signal go 5 -> execution COMPLETED, output 5",
    ),
    case(
        "a loop until a condition holds",
        "l = loop(until previous >= 3) {a}; o = output(${{ nodes.l.output }}) needs l",
        "start             -> l WAITING, runs l[1]/a
         complete l[1]/a 1 -> runs l[2]/a, logs NodeCompleted BodyOpened NodeScheduled NodeStarted
         complete l[1]/a 9 -> refused not open
         complete l[2]/a 3 -> execution COMPLETED, output 3",
    ),
    case(
        "a loop while a condition holds may not begin at all",
        "l = loop(while input.n > iteration) {a = pass}; o = output(${{ nodes.l.status }}) needs l",
        "start {\"n\":0} -> execution COMPLETED, output \"COMPLETED\"",
    ),
    case(
        "iteration and previous in a body, and outputs that are collected",
        "l = loop(while iteration < 3, all) {a = value(${{ [iteration, previous] }})}; o = output(${{ nodes.l.output }}) needs l",
        "start -> execution COMPLETED, output [[1,null],[2,[1,null]],[3,[2,[1,null]]]]",
    ),
    case(
        "variables go from iteration to iteration, and out of the loop",
        "s set n = 0; l = loop(until variables.n >= 2) {a set n = variables.n + 1} needs s",
        "start           -> runs s
         complete s      -> runs l[1]/a
         complete l[1]/a -> variables {\"n\":1}
         complete l[2]/a -> execution COMPLETED, variables {\"n\":2}",
    ),
    case(
        "a loop that does not end fails",
        "l = loop(until false, max 2) {a = pass} error continue; d needs l",
        "start -> l FAILED, l failed loop_limit, d RUNNING",
    ),
    case(
        "a loop waits between two iterations",
        "l = loop(until iteration == 2, delay 1m) {a}",
        "start             -> runs l[1]/a
         complete l[1]/a 1 -> l WAITING, due 1m, logs NodeCompleted NodeWaiting
         park              -> execution WAITING
         later 1m
         take-over         -> runs l[2]/a
         complete l[2]/a 2 -> execution COMPLETED",
    ),
    case(
        "the wait between two iterations ends by hand",
        "l = loop(until iteration == 2, delay 1m) {a}",
        "start             -> runs l[1]/a
         complete l[1]/a 1 -> l WAITING
         end-wait l #m     -> runs l[2]/a",
    ),
    case(
        "a wait for a body cannot be ended by hand",
        "g = group {a}",
        "start        -> runs g/a
         end-wait g   -> refused no wait",
    ),
    case(
        "a test of a loop that cannot be evaluated fails the loop",
        "l = loop(until previous.x.y > 1) {a} error continue",
        "start             -> runs l[1]/a
         complete l[1]/a 1 -> l FAILED, execution FAILED",
    ),
    case(
        "a deadline of a loop in its delay",
        "l = loop(until false, delay 1h) {a} deadline 10m error continue; d needs l",
        "start           -> runs l[1]/a
         complete l[1]/a -> due 10m
         wait 10m        -> l TIMED_OUT, d RUNNING",
    ),
    case(
        "bug: an end cancels the last open node of a body before one that has settled",
        "g = group {a = delay(1h); b = pass}",
        "start  -> g/a WAITING, g/b COMPLETED
         cancel -> execution CANCELLED, g CANCELLED",
    ),
    case(
        "bug: the last node of a body to settle leads to one that has settled",
        "g = group {a; b; j = pass needs a, b join any}; d needs g",
        "start        -> runs g/a g/b
         complete g/b -> g/j COMPLETED
         complete g/a -> g COMPLETED, d RUNNING",
    ),
    case(
        "bug: the last attempt of a body is given up before a node that has settled",
        "g = group {a; b}",
        "start       -> runs g/a g/b
         cancel      -> stops g/a g/b
         stopped g/b -> execution ENDING
         wait 10s    -> execution CANCELLED",
    ),
    case(
        "bug: a take-over fails the last node of a body before one that has settled",
        "g = group {a once; b = pass} error continue; d needs g",
        "start     -> runs g/a
         take-over -> g FAILED, d RUNNING",
    ),
    case(
        "bug: a container opens its body in a pause, and its nodes begin after it",
        "a; g = group {b} needs a",
        "start      -> runs a
         hold
         complete a -> g RUNNING
         pause      -> execution PAUSING
         evaluate g -> execution PAUSED, g WAITING, g/b PENDING
         resume     -> g/b RUNNING",
    ),
    case(
        "bug: attempts of a body within a body that ends are given up once",
        "g = group {h = group {a}; c} error continue; d needs g",
        "start           -> runs g/c g/h/a
         fail g/c broken -> stops g/h/a
         wait 10s        -> g FAILED, d RUNNING",
    ),
    case(
        "a reopened execution runs a failed group anew",
        "g = group {a; b needs a}",
        "start          -> runs g/a
         complete g/a 1 -> runs g/b
         fail g/b broken -> execution FAILED
         reopen         -> runs g/a, generation 2
         complete g/a 1 -> runs g/b
         complete g/b 2 -> execution COMPLETED",
    ),
    case(
        "a map runs its body for each item, a few at a time, and collects the results in order",
        "m = map([\"a\",\"b\",\"c\"], at 2) {t}; o = output(${{ nodes.m.output }}) needs m",
        "start               -> m WAITING, runs m[0]/t m[1]/t
         complete m[1]/t 11  -> runs m[2]/t, logs NodeCompleted ItemsOpened NodeScheduled NodeStarted
         complete m[2]/t 12  -> runs, m WAITING
         complete m[0]/t 10  -> execution COMPLETED, output {\"count\":3,\"succeeded\":3,\"failed\":0,\"results\":[10,11,12]}",
    ),
    case(
        "item and index in a body",
        "m = map(${{ input.list }}) {v = value(${{ [index, item.n] }})}; o = output(${{ nodes.m.output.results }}) needs m",
        "start {\"list\":[{\"n\":7},{\"n\":8}]} -> execution COMPLETED, output [[0,7],[1,8]]",
    ),
    case(
        "a number of items, without outputs",
        "m = map(${{ input.n }}, at 2) {p = pass}; o = output(${{ nodes.m.output }}) needs m",
        "start {\"n\":5} -> execution COMPLETED, output {\"count\":5,\"succeeded\":5,\"failed\":0}",
    ),
    case(
        "a map without items completes at once",
        "m = map([]) {t}; d needs m",
        "start -> m COMPLETED, m gives {\"count\":0,\"succeeded\":0,\"failed\":0}, d RUNNING",
    ),
    case(
        "items that are no list and no number",
        "m = map(${{ input.x }}) {t} error other always; d needs m:other",
        "start {\"x\":-1} -> m FAILED, m failed invalid_config, d RUNNING",
    ),
    case(
        "a map fails after all its items have run",
        "m = map(3, at 1) {t} error continue",
        "start             -> runs m[0]/t
         fail m[0]/t oops  -> m WAITING, runs m[1]/t
         complete m[1]/t   -> runs m[2]/t
         complete m[2]/t   -> m FAILED, m failed too_many_failures",
    ),
    case(
        "failures that are tolerated are listed",
        "m = map(3, at 3, tolerate 1) {t}",
        "start             -> runs m[0]/t m[1]/t m[2]/t
         fail m[1]/t oops  -> m WAITING
         complete m[0]/t 5 -> m WAITING
         complete m[2]/t 6 -> m COMPLETED, m gives {\"count\":3,\"succeeded\":2,\"failed\":1,\"results\":[5,null,6],\"failedIndexes\":[1],\"failures\":[{\"index\":1,\"kind\":\"oops\",\"message\":\"node m[1]/t failed: it failed\"}]}",
    ),
    case(
        "a share of failures that is tolerated, and one more",
        "m = map(4, at 4, percent 50) {t} error continue",
        "start            -> runs m[0]/t m[1]/t m[2]/t m[3]/t
         fail m[0]/t oops
         fail m[1]/t oops -> m WAITING
         fail m[2]/t oops -> m WAITING
         complete m[3]/t  -> m FAILED, m failed too_many_failures",
    ),
    case(
        "a map that stops at too many failures ends what is open",
        "m = map(10, at 3, stop) {t} error continue; d needs m",
        "start            -> runs m[0]/t m[1]/t m[2]/t
         fail m[1]/t oops -> m WAITING, stops m[0]/t m[2]/t, due 10s
         complete m[0]/t  -> m WAITING
         stopped m[2]/t   -> m FAILED, d RUNNING",
    ),
    case(
        "an item fails alone, and what runs in it is awaited",
        "m = map(2, at 2, tolerate 2) {a; b}",
        "start               -> runs m[0]/a m[0]/b m[1]/a m[1]/b
         fail m[0]/a oops    -> stops m[0]/b, m[1]/a RUNNING
         complete m[1]/a     -> m WAITING
         complete m[1]/b     -> m WAITING
         complete m[0]/b     -> m COMPLETED",
    ),
    case(
        "variables of an item stay in it",
        "s set n = 1; m = map(2, at 1) {t set n = variables.n + 1; u = value(${{ variables.n }}) needs t} needs s; o = output(${{ nodes.m.output.results }}) needs m",
        "start           -> runs s
         complete s      -> runs m[0]/t
         complete m[0]/t -> runs m[1]/t
         complete m[1]/t -> execution COMPLETED, output [2,2], variables {\"n\":1}",
    ),
    case(
        "a map in a map, and in a loop",
        "l = loop(until iteration == 2) {m = map(2) {n = map(${{ index + 1 }}) {v = value(${{ [iteration, index] }})}}}; o = output(${{ nodes.l.output.count }}) needs l",
        "start -> execution COMPLETED, output 2",
    ),
    case(
        "cancel ends a map and opens nothing more",
        "m = map(5, at 2) {t}",
        "start          -> runs m[0]/t m[1]/t
         cancel         -> execution ENDING, stops m[0]/t m[1]/t
         complete m[0]/t -> execution ENDING, runs
         stopped m[1]/t -> execution CANCELLED, m CANCELLED",
    ),
    case(
        "bug: a cancellation left the open items of a map that had more to open",
        "m = map(5, at 2) {t}",
        "start           -> runs m[0]/t m[1]/t
         hold
         complete m[0]/t -> m WAITING
         cancel          -> execution ENDING, m WAITING, stops m[1]/t
         complete m[1]/t -> execution CANCELLED, m CANCELLED",
    ),
    case(
        "bug: the end of a group left the open items of a map that had more to open",
        "g = group {m = map(5, at 2) {t}; x} error continue; d needs g",
        "start             -> runs g/x g/m[0]/t g/m[1]/t
         hold
         complete g/m[0]/t -> g/m WAITING
         fail g/x oops     -> g+g/m WAITING, stops g/m[1]/t
         stopped g/m[1]/t  -> g FAILED, d RUNNING",
    ),
    case(
        "a pause opens no items, and a resumption does",
        "m = map(3, at 1) {t}",
        "start           -> runs m[0]/t
         pause           -> execution PAUSING
         complete m[0]/t -> execution PAUSED
         resume          -> runs m[1]/t
         complete m[1]/t
         complete m[2]/t -> execution COMPLETED",
    ),
    case(
        "a take-over in the middle of a map",
        "m = map(3, at 2) {t}",
        "start           -> runs m[0]/t m[1]/t
         complete m[0]/t -> runs m[2]/t
         take-over       -> runs m[1]/t m[2]/t, m[1]/t attempt 2
         complete m[1]/t
         complete m[2]/t -> execution COMPLETED",
    ),
    case(
        "the deadline of a map ends its open items, and the map",
        "m = map(9, at 2) {t} deadline 5s error continue; d needs m",
        "start          -> runs m[0]/t m[1]/t
         wait 5s        -> stops m[0]/t m[1]/t, m WAITING
         stopped m[0]/t -> m WAITING
         stopped m[1]/t -> m TIMED_OUT, d RUNNING",
    ),
    case(
        "items wait for slots",
        "m = map(3, at 3) {t}",
        "start slots 1        -> runs m[0]/t, offers m[1]/t m[2]/t
         complete m[0]/t      -> m WAITING
         start-queued m[1]/t  -> runs m[1]/t",
    ),
    case(
        "a map whose items all wait parks",
        "m = map(2) {w = delay(1h)}",
        "start     -> m[0]/w+m[1]/w WAITING
         park      -> execution WAITING
         later 1h
         take-over -> execution COMPLETED",
    ),
];

#[test]
fn keys_and_configs_name_the_iteration_and_the_try_of_a_group() {
    let plan = plan(
        "l = loop(until iteration == 2) {g = group {a = task({\"i\":\"${{ iteration }}\"})} retry 2 wait 1s}",
    );
    let mut run = Run::start(&plan, "{}", None, 10);
    let key = |run: &Run<'_>, path: &str| idempotency_key(&plan, &run.state, run.at(path));
    let config = |run: &Run<'_>, path: &str| {
        render_task(&plan, &run.state, run.at(path), &Contents::default())
            .unwrap()
            .config
            .text()
            .to_owned()
    };
    let execution = run.state.created.key.to_string();
    assert_eq!(key(&run, "l[1]/g/a"), format!("{execution}/l[1]/g/a/1"));
    assert_eq!(config(&run, "l[1]/g/a"), r#"{"i":1}"#);
    let failed = waypost_core::failure::Failure::transient("http", "not now");
    let report = run.report("l[1]/g/a", None, waypost_core::command::Outcome::Failed(failed));
    run.command(waypost_core::command::Command::Report(report)).unwrap();
    run.now = run.now.plus(waypost_core::time::Millis::from_secs(1));
    run.command(waypost_core::command::Command::Tick).unwrap();
    assert_eq!(key(&run, "l[1]/g/a"), format!("{execution}/l[1]/g@2/a/1"));
    let done = waypost_core::command::Outcome::Completed(Json::null());
    let report = run.report("l[1]/g/a", None, done);
    run.command(waypost_core::command::Command::Report(report)).unwrap();
    assert_eq!(key(&run, "l[2]/g/a"), format!("{execution}/l[2]/g/a/1"));
    assert_eq!(config(&run, "l[2]/g/a"), r#"{"i":2}"#);
    assert_eq!(run.state.scopes().map(|(number, _)| number).next(), Some(ScopeNo::ROOT));
}

#[test]
fn loop_whose_outputs_are_too_large_together_fails_before_it_collects_more() {
    let plan = plan("l = loop(while true, all) {a = value(${{ input.text }})} error continue");
    let input = serde_json::json!({ "text": "x".repeat(300_000) }).to_string();
    let run = Run::start(&plan, &input, None, 1);
    let node = run.node("l");
    assert_eq!(node.failure.as_ref().map(|failure| &*failure.kind), Some("too_large"));
    let opened = |event: &&(_, Event)| event.1.name() == "BodyOpened";
    assert_eq!(run.log.iter().filter(opened).count(), 4);
}

#[test]
fn results_above_the_border_that_opened_the_map_are_a_blob() {
    let plan = plan("t; m = map(3) {a = value(${{ item }})} needs t");
    // Three results of one byte, each with a comma.
    let cases = [(MAP_RESULTS_BYTES_MAX, None, false), (6, Some(6), false), (5, Some(5), true)];
    for (border, recorded, is_blob) in cases {
        let mut run = Run::start(&plan, "null", None, 1);
        run.map_results_bytes_max = border;
        run.contents = Contents::without_references();
        let report = run.report("t", None, Outcome::Completed(Json::null()));
        run.command(Command::Report(report)).unwrap();
        let opened = run.log.iter().find_map(|(_, event)| match event {
            Event::Node(NodeEvent::MapOpened { results_max, .. }) => Some(*results_max),
            _ => None,
        });
        assert_eq!(opened, Some(recorded));
        // Whatever the setting of a later decision is.
        run.map_results_bytes_max = MAP_RESULTS_BYTES_MAX;
        let blob = BlobRef { digest: BlobDigest::of(b"[0,1,2]"), bytes: 7 };
        let results = if is_blob { Json::reference(blob) } else { Json::parse("[0,1,2]").unwrap() };
        if is_blob {
            let map = run.state.find(&plan, "m").unwrap();
            let wanted = Wanted::Results { map, attempt: 1, count: 3 };
            assert_eq!(run.contents.missed(), [wanted]);
            let known = [(wanted, FetchedContent::results(blob))].into();
            run.contents = Contents::of(known);
            run.command(Command::GoOn).unwrap();
        }
        let output = run.node("m").output.clone().unwrap();
        let text =
            format!(r#"{{"count":3,"succeeded":3,"failed":0,"results":{}}}"#, results.text());
        assert_eq!(output.text(), text);
    }
}
