//! Approvals: one decision, by those who may, in time or not.

use super::script::{Case, case, check};

#[test]
fn approvals_are_decided_once_by_those_who_may() {
    check(CASES);
}

pub(crate) const CASES: &[Case] = &[
    case(
        "an approval is approved: what follows without a branch follows, too",
        "a = approval(ship); y needs a:approved; z needs a; n needs a:rejected; e needs a:expired",
        r#"
        start                        -> a WAITING, due never
        decide a approve ann {"n":1} -> a COMPLETED, a gives {"decision":"approved","by":"ann","at":"2001-09-09T01:46:40.000Z","comment":null,"form":{"n":1}}, runs y z, n+e SKIPPED
    "#,
    ),
    case(
        "an approval is rejected: only its branch follows",
        "a = approval(ship); y needs a:approved; z needs a; n needs a:rejected",
        "
        start
        decide a reject ann -> logs NodeResumed NodeCompleted NodeSkipped NodeSkipped NodeScheduled NodeStarted, y+z SKIPPED, runs n
    ",
    ),
    case(
        "an approval expires: only its branch follows",
        "a = approval(ship, within 5s); y needs a; n needs a:expired",
        r#"
        start               -> due 5s
        wait 5s             -> logs NodeResumed NodeCompleted NodeSkipped NodeScheduled NodeStarted, a COMPLETED, a gives {"decision":"expired","by":null,"at":"2001-09-09T01:46:45.000Z","comment":null,"form":null}, y SKIPPED, runs n
        decide 5 approve ann -> refused no wait 5
    "#,
    ),
    case(
        "the first decision stands",
        "a = approval(ship); y needs a; n needs a:rejected",
        "
        start
        decide 5 approve ann #m -> a COMPLETED, runs y
        decide 5 reject bob     -> refused no wait 5
        decide 5 reject bob #k  -> logs MessageIgnored
        decide 5 approve ann #m -> refused already received
    ",
    ),
    case(
        "only approvers decide, also by a link",
        "a = approval(ship, by ann+bob); y needs a",
        "
        start
        decide a approve eve     -> refused eve may not decide
        decide a approve eve!    -> refused eve may not decide
        decide a approve eve #m  -> logs MessageIgnored, a WAITING
        decide a approve bob!    -> a COMPLETED, runs y
    ",
    ),
    case(
        "a link says whose it was",
        "a = approval(ship, by ann); o = output(${{ nodes.a.output.by }}) needs a",
        r#"
        start
        decide a approve ann! -> output "link for ann"
    "#,
    ),
    case(
        "an approval is not completed by hand, and other waits are not decided",
        "a = approval(ship); w = signal(go)",
        "
        start
        end-wait a           -> refused only a decision ends it
        decide w approve ann -> refused not an approval
        decide 99 approve ann -> refused no wait 99
        decide a approve ann -> a COMPLETED
    ",
    ),
    case(
        "a reminder and an escalation come once, in their time",
        "a = approval(ship, by ann, remind 2s, escalate 4s eve, within 10s)",
        "
        start                -> due 2s
        decide a approve eve -> refused eve may not decide
        wait 2s              -> logs NodeReminded, a WAITING, due 2s
        wait 2s              -> logs NodeReminded, a WAITING, due 6s
        decide a approve eve -> a COMPLETED, due never
    ",
    ),
    case(
        "a reminder and an escalation in one moment",
        "a = approval(ship, by ann, remind 2s, escalate 2s eve)",
        "
        start
        wait 2s -> logs NodeReminded NodeReminded, due never
        decide a approve eve -> a COMPLETED
    ",
    ),
    case(
        "a decision ends the reminders",
        "a = approval(ship, remind 2s, escalate 4s eve, within 10s); b needs a",
        "
        start
        decide a approve ann -> due never
        wait 10s             -> nothing
    ",
    ),
    case(
        "a reminder wakes a parked execution",
        "a = approval(ship, remind 2s)",
        "
        start
        park      -> execution WAITING, due 2s
        later 2s
        take-over -> logs RunOwned RunResumed NodeReminded, a WAITING, execution RUNNING
    ",
    ),
    case(
        "bug: an escalation that was due before the reminder comes first, also after a while",
        "a = approval(ship, by ann, remind 4s, escalate 2s eve)",
        "
        start
        park      -> due 2s
        later 10s
        take-over -> reminds escalation reminder, due never
        decide a approve eve -> a COMPLETED
    ",
    ),
    case(
        "bug: a body that ends takes the reminders of its approvals with it",
        "g = group {a = approval(ship, remind 2s, escalate 4s eve, within 10s)}; b; j = pass needs g, b join any cancel-rest; w = delay(60s) needs j",
        "
        start       -> due 2s
        complete b  -> g CANCELLED, due 60s
        wait 10s    -> nothing
    ",
    ),
    case(
        "nothing is decided while paused or ending",
        "a = approval(ship, within 5s); b",
        "
        start
        pause
        decide a approve ann -> refused paused
        wait 5s              -> a WAITING
        complete b           -> execution PAUSED
        decide a approve ann -> refused paused
        cancel
        decide a approve ann -> refused ended
    ",
    ),
    case(
        "names that are none are a failure",
        "a = approval(ship, by ${{ input.who }})",
        r#"
        start {"who":""} -> a FAILED, a failed invalid_config
    "#,
    ),
];
