//! Faults of triggers: the entries of `on`, and nodes that are triggers.

mod streams;

use super::{Case, Code, case, nodes};

/// A definition with one entry of `on`.
fn on(code: Code, message: &'static str, hint: &'static str, entry: &str) -> Case {
    let source = format!("name: test\non:\n  - {entry}\nnodes:\n  - {{ id: a, type: noop }}\n");
    case(code, message, hint, &source)
}

/// A schedule with these fields.
fn schedule(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    on(code, message, hint, &format!("{{ schedule: nightly, {fields} }}"))
}

fn webhook(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    on(code, message, hint, &format!("{{ webhook: hook, {fields} }}"))
}

fn event(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    on(code, message, hint, &format!("{{ event: paid, {fields} }}"))
}

/// A poll of a page, with these fields.
fn poll(code: Code, message: &'static str, hint: &'static str, fields: &str) -> Case {
    let page = "every: 1m, request: { url: /tickets }, items: body.tickets";
    on(code, message, hint, &format!("{{ poll: tickets, {page}, {fields} }}"))
}

pub(super) fn cases() -> Vec<Case> {
    let tables = [
        entries(),
        schedules(),
        webhooks(),
        events(),
        polls(),
        streams::cases(),
        expressions(),
        of_nodes(),
    ];
    tables.into_iter().flatten().collect()
}

fn entries() -> Vec<Case> {
    use Code::*;
    vec![
        case(
            WrongType,
            "`on` must be a list, not a mapping",
            "- schedule: nightly",
            "name: test\non: «{ schedule: x, cron: '* * * * *' }»\nnodes: [{ id: a, type: noop }]\n",
        ),
        on(
            UnknownKind,
            "the trigger has no kind",
            "did you mean `schedule`?",
            "{ «shedule»: x, cron: '* * * * *' }",
        ),
        on(
            UnknownKind,
            "the trigger has no kind",
            "`schedule`, `webhook`",
            "{ «cron»: '* * * * *' }",
        ),
        on(
            DuplicateField,
            "two kinds, `schedule` and `event`",
            "two entries",
            "{ schedule: x, «event»: y }",
        ),
        on(
            BadName,
            "the name of a trigger cannot be `a b`",
            "use up to 64",
            "{ schedule: «a b», every: 1m }",
        ),
        case(
            DuplicateTrigger,
            "there are two triggers `x`",
            "identity in all versions",
            "name: test\non:\n  - { schedule: x, every: 1m }\n  - { event: «x», type: a }\nnodes: [{ id: a, type: noop }]\n",
        ),
        case(
            DuplicateTrigger,
            "there are two triggers `x`",
            "identity in all versions",
            "name: test\non: [{ schedule: x, every: 1m }]\nnodes:\n  - { id: «x», type: event, config: { type: a } }\n",
        ),
        schedule(UnknownField, "has no field `tz`", "did you mean `zone`?", "every: 1m, «tz»: UTC"),
        schedule(
            WrongType,
            "`enabled` must be true or false",
            "write `true`",
            "every: 1m, enabled: «\"no\"»",
        ),
        schedule(
            BadName,
            "the name of a label cannot be `a=b`",
            "without `=`",
            "every: 1m, labels: { «a=b»: c }",
        ),
        schedule(
            WrongType,
            "a label must be a text, not a list",
            "",
            "every: 1m, labels: { a: «[1]» }",
        ),
        on(
            StartsItself,
            "the workflow starts itself whenever it ends",
            "write `self: true`",
            "{ workflow-ended: again, workflow: «test» }",
        ),
        on(
            BadValue,
            "`status` cannot be `RUNNING`: no execution ends so",
            "`COMPLETED`, `FAILED`",
            "{ workflow-ended: after, workflow: import, status: [FAILED, «RUNNING»] }",
        ),
        on(
            MissingField,
            "a `workflow-ended` trigger needs `workflow`",
            "or `*` for all others",
            "{ «workflow-ended»: after }",
        ),
        on(
            BadName,
            "`workflow` cannot be `a b`",
            "use up to 128",
            "{ workflow-ended: after, workflow: «a b» }",
        ),
    ]
}

fn schedules() -> Vec<Case> {
    use Code::*;
    vec![
        schedule(
            BadCron,
            "the field hour cannot be `25`",
            "hours are 0 to 23",
            "cron: \"0 «25» * * *\"",
        ),
        schedule(
            BadCron,
            "the field minute cannot be `61`",
            "minutes are 0 to 59",
            "cron: [\"0 2 * * *\", \"«61» * * * *\"]",
        ),
        schedule(
            UnknownZone,
            "there is no time zone `Europe/Berln`",
            "did you mean `Europe/Berlin`",
            "every: 1m, zone: «Europe/Berln»",
        ),
        schedule(
            NeverFires,
            "no month has such a day",
            "`L` is the last",
            "cron: \"«0 0 30 2 *»\"",
        ),
        schedule(
            NeverFires,
            "`until` is not after `from`",
            "",
            "every: 1m, from: 2026-02-01T00:00:00Z, until: «2026-01-01T00:00:00Z»",
        ),
        schedule(
            BadJitter,
            "`jitter` of 2h is not below the interval of 1h",
            "must be shorter",
            "cron: \"0 * * * *\", jitter: «2h»",
        ),
        schedule(BadInterval, "`every` must be at least 1s, not 10ms", "", "every: «10ms»"),
        schedule(
            BadInterval,
            "`offset` of 2m is not below `every` of 1m",
            "multiples of `every`",
            "every: 1m, offset: «2m»",
        ),
        schedule(
            BadTime,
            "`soon` is not a time",
            "2026-12-24T18:00:00",
            "at: [2026-12-24T18:00:00Z, «soon»]",
        ),
        schedule(
            BadCatchUp,
            "`catchUp.max` must be from 1 to 1000, not 0",
            "backfill",
            "every: 1m, catchUp: { max: «0» }",
        ),
        schedule(
            BadCatchUp,
            "`missed` must be `none`, `last` or `all`, not `some`",
            "",
            "every: 1m, catchUp: { missed: «some» }",
        ),
        schedule(
            BadSchedule,
            "exclude each other",
            "write one of",
            "every: 1m, cron: \"* * * * *\"",
        )
        .at("schedule"),
        on(
            BadSchedule,
            "a schedule needs `cron`, `every` or `at`",
            "write one of",
            "{ «schedule»: nightly }",
        ),
        schedule(
            BadOverlap,
            "`overlap` must be `allow`, `skip`, `queue` or `cancel-running`, not `skp`",
            "did you mean `skip`?",
            "every: 1m, overlap: «skp»",
        ),
        schedule(BadDuration, "`every` must be a duration", "write `30s`", "every: «often»"),
        schedule(BadValue, "`cron` is empty", "", "cron: «[]»"),
    ]
}

fn webhooks() -> Vec<Case> {
    use Code::*;
    let hmac = "scheme: hmac, secret: s, header: X-Sig";
    vec![
        on(
            MissingField,
            "a `webhook` trigger needs `verify`",
            "`verify: none`",
            "{ «webhook»: hook }",
        ),
        webhook(UnsignedHook, "anybody who can reach the server", "use a scheme", "verify: «none»"),
        webhook(
            UnsignedHook,
            "anybody who can reach the server",
            "use a scheme",
            "verify: «{ scheme: none }»",
        ),
        webhook(
            WrongType,
            "`verify` must be a mapping or `none`, not `github`",
            "scheme: github",
            "verify: «github»",
        ),
        webhook(
            BadValue,
            "`scheme` must be",
            "did you mean `github`?",
            "verify: { scheme: «gihub», secret: s }",
        ),
        webhook(
            MissingField,
            "`verify` needs `secret`",
            "the name of a secret",
            "«verify»: { scheme: github }",
        ),
        webhook(
            BadName,
            "is not the name of a secret",
            "without `${{ }}`",
            "verify: { scheme: github, secret: «\"${{ secrets.a }}\"» }",
        ),
        webhook(
            BadValue,
            "the scheme `none` has no `secret`",
            "",
            "verify: { scheme: none, «secret»: s }",
        )
        .also(&[UnsignedHook]),
        webhook(
            BadValue,
            "`header` belongs to the scheme `hmac`, not `github`",
            "",
            "verify: { scheme: github, secret: s, «header»: X }",
        ),
        webhook(
            MissingField,
            "`verify` needs `header`",
            "X-Signature",
            "«verify»: { scheme: hmac, secret: s }",
        ),
        webhook(
            BadValue,
            "a time that is not signed proves nothing",
            "{timestamp}.{body}",
            &format!("verify: {{ {hmac}, timestamp: «X-Time» }}"),
        ),
        webhook(
            BadValue,
            "`signed` must contain `{body}`",
            "{timestamp}.{body}",
            &format!("verify: {{ {hmac}, signed: «\"x\"» }}"),
        ),
        webhook(
            BadValue,
            "there is no `timestamp`",
            "X-Timestamp",
            &format!("verify: {{ {hmac}, signed: «\"{{timestamp}}.{{body}}\"» }}"),
        ),
        webhook(
            BadValue,
            "`allowGet` is only allowed with the scheme `token`",
            "any page can",
            "verify: { scheme: github, secret: s }, «allowGet»: true",
        ),
        webhook(
            BadValue,
            "`headers`: `a b` is not the name of a header",
            "",
            "verify: { scheme: token, secret: s }, headers: [X-Shop, «a b»]",
        ),
        webhook(
            BadValue,
            "`maxBodyBytes` must be a whole number from 1 to 5242880, not 0",
            "",
            "verify: { scheme: token, secret: s }, maxBodyBytes: «0»",
        ),
        webhook(
            MissingField,
            "`challenge` needs `value`",
            "body.challenge",
            "verify: { scheme: token, secret: s }, «challenge»: { if: 'true' }",
        ),
    ]
}

fn events() -> Vec<Case> {
    use Code::*;
    vec![
        on(MissingField, "an `event` trigger needs `type`", "order.*", "{ «event»: paid }"),
        event(
            BadValue,
            "`type` cannot be `order.*.paid`",
            "only at the end",
            "type: «order.*.paid»",
        ),
        event(
            BadWindow,
            "`debounce` and `batch` exclude each other",
            "the last of several",
            "type: a, debounce: { period: 1s }, «batch»: { size: 2, wait: 1s }",
        ),
        event(
            BadWindow,
            "`period` must be from 100ms to 7d, not 1ms",
            "",
            "type: a, debounce: { period: «1ms» }",
        ),
        event(
            BadWindow,
            "`max` of 1s is below `period` of 2s",
            "at the latest",
            "type: a, debounce: { period: 2s, max: «1s» }",
        ),
        event(
            MissingField,
            "`debounce` needs `period`",
            "period: 30s",
            "type: a, «debounce»: { key: event.id }",
        ),
        event(MissingField, "`batch` needs `wait`", "wait: 30s", "type: a, «batch»: { size: 10 }"),
        event(
            BadValue,
            "`size` must be a whole number from 1 to 1000, not 1001",
            "",
            "type: a, batch: { size: «1001», wait: 1s }",
        ),
        event(
            UnknownField,
            "has no field `throttle`",
            "its fields are",
            "type: a, «throttle»: { limit: 1 }",
        ),
    ]
}

fn polls() -> Vec<Case> {
    use Code::*;
    vec![
        poll(MissingKey, "a poll needs `key`", "cursorOnly: true", "more: body.next").at("poll"),
        poll(BadValue, "there is a `key`", "take one", "key: item.id, «cursorOnly»: true, next: 1"),
        poll(
            MissingField,
            "a poll needs `next`: every page would be new",
            "write `next",
            "«cursorOnly»: true",
        ),
        poll(
            MissingKey,
            "only a `key` tells from new ones",
            "key: item.id",
            "cursorOnly: true, next: { a: 1 }, «lookback»: 5m",
        ),
        poll(BadDuration, "`lookback` must be from 1ms to 7d", "", "key: item.id, lookback: «8d»"),
        on(
            MissingField,
            "a `poll` trigger needs `items`",
            "body.tickets",
            "{ «poll»: p, every: 1m, key: item, request: { url: / } }",
        ),
        on(
            BadInterval,
            "`every` must be from 1s to",
            "",
            "{ poll: p, every: «1ms», key: item, items: body, request: { url: / } }",
        ),
        on(
            UnknownField,
            "has no field `ulr`",
            "did you mean `url`?",
            "{ poll: p, every: 1m, key: item, items: body, request: { «ulr»: / } }",
        ),
        on(
            BadValue,
            "`retry` is not allowed in the `request` of a poll",
            "",
            "{ poll: p, every: 1m, key: item, items: body, request: { url: /, «retry»: {} } }",
        ),
        on(
            WrongType,
            "`request` must be a mapping, not a text",
            "",
            "{ poll: p, every: 1m, key: item, items: body, request: «/tickets» }",
        ),
    ]
}

fn expressions() -> Vec<Case> {
    use Code::*;
    vec![
        schedule(
            NameNotAvailable,
            "`input` is not available",
            "it sees `trigger`",
            "every: 1m, input: { a: \"${{ «input».b }}\" }",
        ),
        schedule(
            NameNotAvailable,
            "`nodes` is not available",
            "it sees `trigger`",
            "every: 1m, if: «nodes».a.output == 1",
        ),
        schedule(
            NameNotAvailable,
            "`event` is not available",
            "it sees `trigger`",
            "every: 1m, if: «event».id == 1",
        ),
        schedule(
            UnknownName,
            "unknown name `triger`",
            "did you mean `trigger`?",
            "every: 1m, labels: { a: \"${{ «triger».at }}\" }",
        ),
        schedule(BadExpression, "not a valid expression", "", "every: 1m, if: \"trigger.at «==»\""),
        schedule(
            HoleNotAllowed,
            "write it without",
            "trigger.at",
            "every: 1m, if: «\"${{ trigger.at }}\"»",
        ),
        schedule(
            SecretNotAllowed,
            "`secrets` cannot be used in a field of a trigger",
            "the `request` of a poll",
            "every: 1m, input: { a: \"${{ «secrets».b }}\" }",
        ),
        event(
            NameNotAvailable,
            "`event` is not available",
            "`trigger` and `events`",
            "type: a, batch: { size: 2, wait: 1s }, id: \"x-${{ «event».id }}\"",
        ),
        event(
            NameNotAvailable,
            "`trigger` is not available",
            "it sees `event`",
            "type: a, debounce: { period: 1s, key: «trigger».at }",
        ),
        webhook(
            NameNotAvailable,
            "`trigger` is not available",
            "`body`, `headers` and `query`",
            "verify: { scheme: token, secret: s }, dedupe: «trigger».at",
        ),
        on(
            NameNotAvailable,
            "`item` is not available",
            "it sees `body`",
            "{ poll: p, every: 1m, key: item, items: «item».a, request: { url: / } }",
        ),
        on(
            SecretNotAlone,
            "a secret must stand alone",
            "with text before",
            "{ poll: p, every: 1m, key: item, items: body, request: { url: \"${{ «secrets.a» | upper }}\" } }",
        ),
        on(
            NameNotAvailable,
            "`input` is not available",
            "`cursor` and `secrets`",
            "{ poll: p, every: 1m, key: item, items: body, request: { url: \"${{ «input».a }}\" } }",
        ),
    ]
}

fn of_nodes() -> Vec<Case> {
    use Code::*;
    vec![
        nodes(
            BadCron,
            "the field hour cannot be `25`",
            "hours are 0 to 23",
            "  - { id: nightly, type: schedule, config: { cron: \"0 «25» * * *\" } }",
        ),
        nodes(
            MissingField,
            "the config of `webhook` needs `verify`",
            "`verify: none`",
            "  - { id: hook, type: «webhook» }",
        ),
        nodes(
            BadValue,
            "`needs` is not allowed on a `schedule`",
            "need this one",
            "  - { id: a, type: noop }\n  - { id: n, type: trigger, subType: schedule, config: { every: 1m }, «needs»: a }",
        ),
        nodes(
            BadValue,
            "`n` cannot be in a body",
            "move it out",
            "  - { id: g, type: group, nodes: [{ id: «n», type: schedule, config: { every: 1m } }] }",
        ),
        nodes(
            NameNotAvailable,
            "`body` is not available",
            "it sees `trigger`",
            "  - { id: n, type: schedule, config: { every: 1m, if: «body».a } }",
        ),
        nodes(
            StartsItself,
            "the workflow starts itself",
            "write `self: true`",
            "  - { id: «again», type: workflow-ended, config: { workflow: test } }",
        ),
        nodes(
            MayBeSkipped,
            "`n` is not on every path to `x`",
            "test its `status`",
            "  - { id: m, type: manual }\n  - { id: n, type: schedule, config: { every: 1m } }\n  - { id: x, type: transform, needs: [m, n], config: { value: \"${{ «nodes.n».output }}\" } }",
        ),
    ]
}
