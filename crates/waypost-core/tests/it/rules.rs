//! The graph's rules: edges, joins, branches, values.

use waypost_core::command::{Command, Outcome};
use waypost_core::flow::plan;
use waypost_core::json::{DEPTH_MAX, Json};
use waypost_core::status::NodeStatus;

use super::run::Run;
use super::script::{Case, case, check};

#[test]
fn the_graph_follows_its_rules() {
    check(CASES);
}

#[test]
fn bug_a_payload_one_level_too_deep_became_null_in_an_input() {
    let plan = plan("a; j = gather needs a");
    let mut run = Run::start(&plan, "{}", None, 1);
    let deepest = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    let outcome = Outcome::Completed(Json::parse(&deepest).unwrap());
    run.command(Command::Report(run.report("a", None, outcome))).unwrap();
    assert_eq!(run.node("a").status, NodeStatus::Completed);
    assert_eq!(run.node("j").status, NodeStatus::Failed);
    assert!(run.node("j").failure.as_ref().unwrap().message.contains("nested deeper"));
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a chain runs one by one",
        "a; b needs a; c = output({\"was\": \"${{ nodes.b.output }}\"}) needs b",
        r#"
        start       -> execution RUNNING, runs a, a RUNNING, b+c PENDING
        complete a  -> logs NodeCompleted NodeScheduled NodeStarted, runs b
        complete b 7 -> c COMPLETED, execution COMPLETED, output {"was":7}
    "#,
    ),
    case(
        "an execution without nodes completes at once",
        "",
        "
        start -> logs RunCreated RunOwned RunCompleted, execution COMPLETED, output null
    ",
    ),
    case(
        "the value of several outputs is a map of those that completed",
        "c = if(false); a = output(1); b = output(2) needs a; z = output(3) needs c:true",
        r#"
        start -> execution COMPLETED, output {"a":1,"b":2}
    "#,
    ),
    // Rule 1: edges.
    case(
        "a branch that was not selected is dead",
        "c = if(input.n > 1); t needs c:true; f needs c:false; u needs c",
        r#"
        start {"n":2} -> c COMPLETED, c gives true, t+u RUNNING, f SKIPPED, runs t u
    "#,
    ),
    case(
        "onError: fail ends the execution",
        "a; b needs a",
        "
        start
        fail a broken -> a FAILED, b CANCELLED, execution FAILED, failure broken
    ",
    ),
    case(
        "onError: continue is like completing, with the failure as output",
        "a error continue; b = gather needs a; c = value({\"was\": \"${{ nodes.a.output.failure.kind }} ${{ nodes.a.status }}\"}) needs a; e needs a:error",
        r#"
        start
        fail a broken -> a FAILED, e SKIPPED, execution COMPLETED, b gives {"a":{"failure":{"kind":"broken","message":"it failed"}}}, c gives {"was":"broken FAILED"}
    "#,
    ),
    case(
        "onError: branch takes that branch and nothing else",
        "a error oops; b needs a; c needs a:oops; d needs a:other; e needs a, a:oops",
        "
        start
        fail a broken -> b+d SKIPPED, c+e RUNNING, runs c e
        complete c
        complete e    -> execution COMPLETED
    ",
    ),
    case(
        "bug: an expression that failed took the error branch, and ran a refund",
        "a = value(${{ input.coupon.code }}) error oops; b needs a:oops; c needs a",
        r#"
        start {} -> a FAILED, a failed expression, b+c CANCELLED, execution FAILED, failure expression
    "#,
    ),
    case(
        "a mistake in the definition is not passed over by continue either",
        "a = if(input.coupon) error continue; b needs a",
        r#"
        start {"coupon": "x"} -> a FAILED, b CANCELLED, execution FAILED, failure expression
    "#,
    ),
    case(
        "a variable that cannot be computed after a task does not take the error branch",
        "a error oops set total = output.total + 1; b needs a:oops",
        r#"
        start
        complete a {"amount": 1} -> a FAILED, b CANCELLED, execution FAILED, failure expression
    "#,
    ),
    case(
        "a config that cannot be rendered does not take the error branch",
        "a = delay(${{ input.wait }}) error oops; b needs a:oops",
        r#"
        start {"wait": "soon"} -> a FAILED, b CANCELLED, execution FAILED, failure invalid_config
    "#,
    ),
    case(
        "onError handles mistakes in the definition where it asks for them",
        "a = value(${{ input.coupon.code }}) error oops always; b = value(${{ nodes.a.failure.kind }}) needs a:oops; c needs a",
        r#"
        start {} -> a FAILED, b COMPLETED, b gives "expression", c SKIPPED, execution COMPLETED
    "#,
    ),
    case(
        "onError: continue, asked to pass over mistakes, has the failure as output",
        "a = value(${{ input.coupon.code }}) error continue always; b = value(${{ nodes.a.output.failure.kind }}) needs a",
        r#"
        start {} -> a FAILED, b COMPLETED, b gives "expression", execution COMPLETED
    "#,
    ),
    case(
        "a repair tries the node again whose onError was not taken",
        "a = value(${{ input.coupon.code }}) error oops; b needs a:oops",
        r#"
        start {} -> execution FAILED
        reopen   -> a FAILED, b CANCELLED, execution FAILED, failure expression
    "#,
    ),
    case(
        "an error branch of a node that completes is dead",
        "a error oops; b needs a; c needs a:oops",
        "
        start
        complete a -> b RUNNING, c SKIPPED
    ",
    ),
    case(
        "a node that timed out counts as failed",
        "a error oops; c needs a:oops",
        "
        start
        fail a timeout -> a TIMED_OUT, c RUNNING
    ",
    ),
    case(
        "a fail node ends the execution with its own kind, and is not tried again",
        "a = fail(no stock of ${{ input.item }}) retry 3 wait 1s on=refused; b needs a",
        r#"
        start {"item":"lamp"} -> a FAILED, a failed refused, a attempt 1, b CANCELLED, execution FAILED, failure refused
    "#,
    ),
    case(
        "the failure of a fail node takes its error branch",
        "a = fail(no) error oops; b needs a; c = value(${{ nodes.a.failure.message }}) needs a:oops",
        r#"
        start -> a FAILED, b SKIPPED, c COMPLETED, c gives "no", execution COMPLETED
    "#,
    ),
    // Rule 2: join all.
    case(
        "edges of one source are alternatives",
        "s = switch(input.n == 1 -> one, input.n == 2 -> two, else -> many); m needs s:one, s:two",
        r#"
        start {"n":2} -> m RUNNING
    "#,
    ),
    case(
        "edges of one source, none selected",
        "s = switch(input.n == 1 -> one, input.n == 2 -> two, else -> many); m needs s:one, s:two",
        r#"
        start {"n":3} -> m SKIPPED, execution COMPLETED
    "#,
    ),
    case(
        "the parcel is not shipped without approval",
        "pack; approved = if(false); ship needs pack, approved:true",
        "
        start         -> pack RUNNING, ship PENDING
        complete pack -> ship SKIPPED, execution COMPLETED
    ",
    ),
    case(
        "a diamond merges after a condition",
        "c = if(input.n > 1); x needs c:true; y needs c:false; m = gather needs x, y",
        r#"
        start {"n":2} -> y SKIPPED, m PENDING
        complete x 5  -> m COMPLETED, m gives {"x":5}
    "#,
    ),
    case(
        "all sources neutral",
        "c = if(false); x needs c:true; y needs c:true; m needs x, y; n needs m",
        "
        start -> x+y+m+n SKIPPED, execution COMPLETED
    ",
    ),
    case(
        "a skip waits for what is open",
        "c = if(false); a; m needs a, c:true; n needs m",
        "
        start      -> m+n PENDING
        complete a -> m+n SKIPPED, execution COMPLETED
    ",
    ),
    // Rule 3: any and n.
    case(
        "any fires once, at the first",
        "a; b; j = gather needs a, b join any",
        r#"
        start
        complete a 1 -> j COMPLETED, j gives {"a":1}, b RUNNING, execution RUNNING
        complete b 2 -> logs NodeCompleted RunCompleted, execution COMPLETED
    "#,
    ),
    case(
        "n fires at the n-th",
        "a; b; c; j = gather needs a, b, c join 2",
        r#"
        start
        complete c 3 -> j PENDING
        complete a 1 -> j COMPLETED, j gives {"a":1,"c":3}
        complete b   -> execution COMPLETED
    "#,
    ),
    case(
        "cancel-rest stops what leads only there",
        "a; b; b2 needs b; c; other needs c; j needs a, b2, c join any cancel-rest",
        "
        start
        complete a -> j RUNNING, b+b2 CANCELLED, c RUNNING, stops b, runs j
        complete b -> refused stale
        complete j
        complete c -> other RUNNING
        complete other -> execution COMPLETED
    ",
    ),
    case(
        "cancel-rest reaches what is queued, waits or is being evaluated",
        "a; q; w = signal(go); d = delay(1h); r retry 2 wait 1h; j needs a, q, w, d, r join any cancel-rest",
        "
        start slots 2   -> q RUNNING, r QUEUED
        slots 1
        start-queued r  -> r RUNNING
        fail r x retry  -> r WAITING
        complete a      -> q+w+d+r CANCELLED, j RUNNING, stops q, due never
    ",
    ),
    case(
        "cancel-rest of a node that is queued: no worker hears of it",
        "a; q; j needs a, q join any cancel-rest",
        "
        start slots 1 -> q QUEUED, offers q
        complete a    -> q CANCELLED, stops
    ",
    ),
    case(
        "any without any taken source is skipped",
        "c = if(false); x needs c:true; y; j needs x, c:true, y:no join any",
        "
        start      -> j PENDING
        complete y -> j SKIPPED, execution COMPLETED
    ",
    ),
    case(
        "n that can no longer be met fails",
        "a error oops; b; j needs a, b join 2; h needs a:oops",
        "
        start
        complete b -> j PENDING
        fail a     -> j FAILED, j failed join_unsatisfiable, h CANCELLED, execution FAILED, stops
    ",
    ),
    case(
        "bug: a join that cannot be met ran its task all the same",
        "a error oops; b; j needs a, b join 2 error continue; after needs j",
        "
        start
        complete b
        fail a     -> j FAILED, j failed join_unsatisfiable, runs after, j attempt 1
    ",
    ),
    case(
        "bug: an unmet join let other tasks of the same decision wait for the grace time",
        "a error oops; b; x needs a:oops; j needs a, b join 2",
        "
        start
        complete b
        fail a     -> x CANCELLED, j FAILED, execution FAILED, runs, stops
    ",
    ),
    case(
        "a join of one source and none",
        "a; j needs a join any; e join any",
        "
        start      -> e RUNNING, j PENDING
        complete a -> j RUNNING
    ",
    ),
    // Rule 4: input.
    case(
        "the input holds the sources that were taken, and no others",
        "i = input; c = if(false); x needs c:true; a; m = gather needs i, x, a",
        r#"
        start {"k":1}
        complete a [2] -> m gives {"i":{"k":1},"a":[2]}
    "#,
    ),
    case(
        "a skipped node's output is null",
        "c = if(false); x needs c:true; v = value({\"x\": \"${{ nodes.x.output }}\", \"s\": \"${{ nodes.x.status }}\"}) needs x, c",
        r#"
        start -> v COMPLETED, v gives {"x":null,"s":"SKIPPED"}
    "#,
    ),
    // Rule 6: variables.
    case(
        "variables are set by completions, in order",
        "a set n = output.n; b set n = output.n + variables.n needs a; c = value(\"${{ variables.n }}\") needs b",
        r#"
        start
        complete a {"n":1} -> variables {"n":1}
        complete b {"n":2} -> variables {"n":3}, c gives 3
    "#,
    ),
    case(
        "a variable that cannot be computed fails the node",
        "a set n = output.n",
        r#"
        start
        complete a {}      -> a FAILED, a failed expression, execution FAILED
    "#,
    ),
    // Rule 9: conditions and switches.
    case(
        "a condition takes booleans only",
        "c = if(input.n)",
        r#"
        start {"n":1} -> c FAILED, c failed expression, execution FAILED
    "#,
    ),
    case(
        "a switch takes the first case that holds",
        "s = switch(input.n > 1 -> many, input.n > 0 -> one); a needs s:many; b needs s:one",
        r#"
        start {"n":2} -> s gives "many", a RUNNING, b SKIPPED
    "#,
    ),
    case(
        "a switch falls back to its default",
        "s = switch(input.n > 1 -> many, else -> none); a needs s:none",
        r#"
        start {"n":0} -> s gives "none", a RUNNING
    "#,
    ),
    case(
        "a switch without a case that holds fails",
        "s = switch(input.n > 1 -> many)",
        r#"
        start {"n":0} -> s FAILED, s failed no_case, execution FAILED
    "#,
    ),
    // The failure policy.
    case(
        "partial finishes what does not depend on the failure",
        "partial; a; b needs a; c; d = output(9) needs c",
        r#"
        start
        fail a broken -> a FAILED, b SKIPPED, execution RUNNING
        complete c    -> execution FAILED, failure broken, output 9
    "#,
    ),
    case(
        "partial with nothing to give",
        "partial; a",
        "
        start
        fail a broken -> execution FAILED, output null
    ",
    ),
    case(
        "a handled failure is none under partial either",
        "partial; a error continue",
        "
        start
        fail a broken -> execution COMPLETED
    ",
    ),
];
