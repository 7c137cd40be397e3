//! Text is data: every text from outside is stored unchanged, found by its exact content, and never
//! part of a statement, a pattern or a path.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::event::{Event, NodeEvent, RunCreated};
use waypost_core::id::{DefinitionHash, ExecutionId, ExecutionNo};
use waypost_core::json::Json;

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, created, mail, signal};
use crate::access::{Access, AuditEntry, AuditRequest, NewKey, Role};
use crate::query::{DefinitionsRequest, EventsRequest, ListRequest, Query};
use crate::store::{
    Append, Appended, Definition, DefinitionRef, Idempotency, MailDelivery, Store, Submission,
    TakenName,
};

/// Texts that break code which builds statements, patterns or paths from them. All differ, also
/// from each other's halves.
pub fn corpus() -> Vec<String> {
    let short = [
        "", " ", "'", "''", "\"", "`", "\\", "\\'", "%", "_", "%%", "a%b", "*", "?", "?1", ":1",
        "@1", "$1", ";", "--", "/*", "*/", "\0", "a\0b", "\u{1}", "\n", "\r\n\t", "$", "$.a",
        "$[0]", "$.\"a\"", "a.b", "[1]", "{}", "[", "-1", "0x10", "1e999", "NaN", "x'00'", "ü",
        "Ü", "u\u{308}", "ß", "İ", "🦀", "\u{202e}", "\u{feff}",
    ];
    let long = [
        "日本語",
        "'; drop table frames; --",
        "\"; drop table audit; --",
        "' or '1'='1",
        "\") or 1=1 --",
        "x' union all select null --",
        "'||(select id)||'",
        "9223372036854775808",
        "\u{10ffff}",
        "${{ secrets.a }}",
        "../../etc",
    ];
    let longest = ["x".repeat(10_000), "'\"%\\".repeat(2_500), "é\0".repeat(3_000)];
    short.into_iter().chain(long).map(str::to_owned).chain(longest).collect()
}

/// One execution for each text.
fn start_all<B: StoreUnderTest>(
    rig: &Rig<B>,
    run: impl Fn(usize, &str) -> RunCreated,
) -> Vec<Hand> {
    let texts = corpus();
    let runs = texts.iter().enumerate().map(|(number, text)| run(number, text)).collect();
    rig.create_all(ONE, runs)
}

fn list<B: StoreUnderTest>(rig: &Rig<B>, request: &ListRequest) -> Vec<ExecutionNo> {
    rig.list(request).rows.iter().map(|row| row.execution).collect()
}

fn everything() -> ListRequest {
    ListRequest { limit: 1_000, ..ListRequest::default() }
}

pub fn keys_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let hands = start_all(rig, |_, text| created(text, "w"));
    for (text, hand) in corpus().iter().zip(&hands) {
        let found = rig.store().find(Some(text)).expect("it is answered");
        assert_eq!(found, Some(hand.execution), "{text:?}");
    }
    rig.settle();
    let shown: Vec<String> =
        rig.list(&everything()).rows.iter().rev().map(|row| row.key.to_string()).collect();
    assert_eq!(shown, corpus());
}

pub fn idempotency_keys_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let texts = corpus();
    let submit = |prefix: &str| -> Vec<Append> {
        let count = u32::try_from(texts.len()).expect("there are a few");
        let numbers = rig.numbers(ONE, count).into_iter().zip(&texts).enumerate();
        let start = numbers.map(|(at, (number, text))| {
            let key = ExecutionId(format!("{prefix}{at}").into());
            let idempotency =
                Some(Box::new(Idempotency { key: text.as_str().into(), digest: [1; 32] }));
            let draft = Hand::new(number, ONE).create(&key.0, "w");
            draft.submission(Submission { key, idempotency, fire: None }).into()
        });
        start.collect()
    };
    let first = submit("first");
    rig.commit_all(&first);
    let again = rig.append_all(&submit("again"));
    for (outcome, first) in again.into_iter().zip(first) {
        let execution = first.header.execution;
        assert_eq!(outcome, Appended::Duplicate { execution, taken: TakenName::SameSubmission });
    }
}

pub fn names_of_workflows_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let hands = start_all(rig, |number, text| created(&number.to_string(), text));
    rig.settle();
    for (text, hand) in corpus().into_iter().zip(hands) {
        let request = ListRequest { workflow: Some(text.clone()), ..everything() };
        assert_eq!(list(rig, &request), [hand.execution], "{text:?}");
    }
}

pub fn names_of_definitions_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let texts = corpus();
    for (number, text) in texts.iter().enumerate() {
        let Definition { version, hash, canonical, .. } =
            rig.define(text, &format!("{number} {text}")).definition;
        assert_eq!(version, 1, "{text:?}");
        let current = rig.store().current(text).expect("it is answered").expect("it is there");
        assert_eq!((&*current.workflow, current.hash), (text.as_str(), hash));
        let which = DefinitionRef::Version(text.as_str().into(), 1);
        let found = rig.store().definition(&which).expect("it is answered");
        assert_eq!(found.expect("it is there").canonical, canonical);
        let request = DefinitionsRequest { workflow: Some(text.clone()), after: None, limit: 9 };
        assert_eq!(rig.store().definitions(&request).expect("it is answered").rows, [current]);
    }
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let request = DefinitionsRequest { workflow: None, after, limit: 7 };
        let page = rig.store().definitions(&request).expect("it is answered");
        names.extend(page.rows.iter().map(|row| row.workflow.to_string()));
        after = page.rows.last().map(|row| (row.workflow.to_string(), row.version));
        if !page.more {
            break;
        }
    }
    let mut sorted = texts;
    sorted.sort();
    assert_eq!(names, sorted);
}

pub fn labels_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let labels = |text: &str| BTreeMap::from([(text.to_owned(), format!("{text}={text}"))]);
    let hands = start_all(rig, |number, text| RunCreated {
        labels: labels(text),
        ..created(&number.to_string(), "w")
    });
    rig.settle();
    for (text, hand) in corpus().iter().zip(hands) {
        let request = ListRequest { labels: labels(text), ..everything() };
        assert_eq!(list(rig, &request), [hand.execution], "{text:?}");
        let other = BTreeMap::from([(text.clone(), text.clone())]);
        assert_eq!(list(rig, &ListRequest { labels: other, ..everything() }), [], "{text:?}");
    }
}

pub fn searched_text_is_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let hands = start_all(rig, |number, text| match number % 3 {
        0 => created(&format!("key {text}"), "w"),
        1 => RunCreated {
            labels: BTreeMap::from([("label".to_owned(), text.to_owned())]),
            ..created(&format!("key {number}"), "w")
        },
        _ => RunCreated {
            input: Json::from_value(&serde_json::json!([text])),
            ..created(&format!("key {number}"), "w")
        },
    });
    rig.settle();
    for (text, hand) in corpus().iter().zip(hands).filter(|(text, _)| !text.is_empty()) {
        let request = ListRequest { text: Some(text.clone()), ..everything() };
        let found = list(rig, &request);
        assert!(found.contains(&hand.execution), "{text:?} is found in {found:?}");
        let absent = format!("{text}\u{e000}");
        let request = ListRequest { text: Some(absent), ..everything() };
        assert_eq!(list(rig, &request), [], "{text:?} with more behind it is not");
    }
}

pub fn mail_is_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let hand = rig.start(ONE);
    let bodies = |text: &str| {
        let name: Arc<str> = text.into();
        let body = Json::from_value(&serde_json::json!({ text: text }));
        [Request::Signal { name, body }, Request::Cancel { reason: Some(text.to_owned()) }]
    };
    let mut sent = Vec::new();
    for (number, text) in corpus().iter().enumerate() {
        let mut mail = mail(hand.execution, text, bodies(text)[number % 2].clone());
        mail.actor = Some(text.as_str().into());
        sent.push(mail);
    }
    let deliver = || rig.store().deliver(&sent).expect("the mail is answered");
    assert!(deliver().iter().all(|answer| matches!(answer, MailDelivery::Accepted { .. })));
    assert!(deliver().iter().all(|answer| *answer == MailDelivery::Duplicate));
    assert_eq!(rig.load(hand.execution).mail, sent);
}

pub fn reasons_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    for text in corpus() {
        let hand = rig.start(ONE);
        rig.store().hold(hand.execution, ONE, &text).expect("it is quarantined");
        assert_eq!(rig.control(hand.execution).held, Some(text));
        rig.send(hand.execution, "m", signal());
    }
}

pub fn filters_of_events_are_only_text<B: StoreUnderTest>(rig: &Rig<B>) {
    let mut hand = rig.start(ONE);
    let texts = corpus();
    let scheduled = |text: &String| {
        Event::Node(NodeEvent::Scheduled {
            node: text.as_str().into(),
            attempt: 1,
            cause: Vec::new(),
            deadline: None,
        })
    };
    let events: Vec<_> = texts.iter().map(scheduled).collect();
    rig.commit(hand.write(&events));
    for (seq, text) in (3..).zip(&texts) {
        let of_node =
            EventsRequest { node: Some(text.clone()), ..EventsRequest::all(hand.execution) };
        let seqs = |request: &EventsRequest| -> Vec<u64> {
            let rows = rig.store().events(request).expect("the events are answered");
            rows.iter().map(|row| row.seq).collect()
        };
        assert_eq!(seqs(&of_node), [seq], "{text:?}");
        let of_kind = EventsRequest { node: None, kind: Some(text.clone()), ..of_node };
        assert!(seqs(&of_kind).is_empty(), "{text:?}");
    }
}

pub fn keys_of_the_api_are_only_text<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let key = |text: &String| NewKey {
        id: text.as_str().into(),
        name: text.as_str().into(),
        role: Role::Viewer,
        digest: DefinitionHash::of(text.as_bytes()).0,
    };
    let all: Vec<_> = corpus().iter().map(key).collect();
    for key in &all {
        rig.store().add_key(key).expect("the key is kept");
    }
    rig.reopen();
    let keys = |rig: &Rig<B>| rig.store().keys().expect("the keys are answered");
    assert_eq!(keys(rig).into_iter().map(|row| row.key).collect::<Vec<_>>(), all);
    for (number, key) in all.iter().enumerate() {
        assert!(rig.store().revoke_key(&key.id).expect("it is answered"), "{:?}", key.id);
        let revoked = keys(rig).iter().filter(|row| row.revoked_at.is_some()).count();
        assert_eq!(revoked, number + 1, "one at a time");
    }
}

pub fn the_audit_log_is_only_text<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let entry = |text: &String| AuditEntry {
        at: START,
        actor: text.as_str().into(),
        address: text.as_str().into(),
        action: text.as_str().into(),
        subject: Some(text.as_str().into()),
        status: 200,
    };
    let all: Vec<_> = corpus().iter().map(entry).collect();
    rig.store().record(&all).expect("the audit log is extended");
    rig.reopen();
    for expected in &all {
        let actor = Some(expected.actor.to_string());
        let request = AuditRequest { actor, before: None, limit: 9 };
        let page = rig.store().audit(&request).expect("the audit log is answered");
        let entries: Vec<_> = page.rows.into_iter().map(|(_, entry)| entry).collect();
        assert_eq!(entries, std::slice::from_ref(expected));
    }
}
