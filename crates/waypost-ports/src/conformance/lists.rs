//! Lists: filters and pages.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::event::{Event, RunCreated, RunEvent};
use waypost_core::failure::Failure;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::time::{Millis, Timestamp};

use super::StoreUnderTest;
use super::rig::{Hand, ONE, Rig, START, created};
use crate::query::{ListCondition, ListRequest, Query};

fn everything() -> ListRequest {
    ListRequest { limit: 100, ..ListRequest::default() }
}

fn keys<B: StoreUnderTest>(rig: &Rig<B>, request: &ListRequest) -> Vec<String> {
    let page = rig.list(request);
    assert_eq!(page.next, None);
    page.rows.iter().map(|row| row.key.to_string()).collect()
}

fn labelled(key: &str, labels: &[(&str, &str)]) -> RunCreated {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    RunCreated { labels: labels.collect(), ..created(key, "w") }
}

fn with_input(key: &str, input: &str) -> RunCreated {
    RunCreated { input: Json::parse(input).expect("it is JSON"), ..created(key, "w") }
}

/// Every page of a list, one after the other.
fn all_pages<B: StoreUnderTest>(rig: &Rig<B>, request: &ListRequest) -> Vec<Vec<ExecutionNo>> {
    let (mut pages, mut request) = (Vec::new(), request.clone());
    loop {
        let page = rig.list(&request);
        pages.push(page.rows.iter().map(|row| row.execution).collect());
        match page.next {
            Some(next) => {
                assert!(request.before.is_none_or(|before| next < before), "it makes headway");
                request.before = Some(next);
            }
            None => return pages,
        }
    }
}

/// Ends every execution in turn in one of these ways, or not at all.
fn end_in_turn<B: StoreUnderTest>(rig: &Rig<B>, hands: &mut [Hand]) {
    for (number, hand) in hands.iter_mut().enumerate() {
        let end = match number % 3 {
            0 => Event::Run(RunEvent::Completed { output: Json::null() }),
            1 => Event::Run(RunEvent::Cancelled { reason: None }),
            _ => continue,
        };
        rig.commit(hand.write(&[end]));
    }
}

pub fn several_statuses_keep_the_order<B: StoreUnderTest>(rig: &Rig<B>) {
    let runs = (0..12).map(|number| created(&format!("{number}"), ["a", "b"][number % 2]));
    let mut hands = rig.create_all(ONE, runs.collect());
    end_in_turn(rig, &mut hands);
    rig.settle();
    let two = vec![Status::Cancelled, Status::Completed, Status::Cancelled];
    let request = ListRequest { statuses: two, ..everything() };
    assert_eq!(keys(rig, &request), ["10", "9", "7", "6", "4", "3", "1", "0"]);
    let paged = ListRequest { limit: 3, ..request.clone() };
    let sizes: Vec<_> = all_pages(rig, &paged).iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3, 2]);
    let of_a = ListRequest { workflow: Some("a".to_owned()), ..request.clone() };
    assert_eq!(keys(rig, &of_a), ["10", "6", "4", "0"]);
    let every_status = ListRequest { statuses: Status::ALL.to_vec(), ..request };
    assert_eq!(keys(rig, &every_status).len(), 12);
}

pub fn lists_are_filtered_by_time<B: StoreUnderTest>(rig: &Rig<B>) {
    for number in 0..4 {
        rig.create_all(ONE, vec![created(&format!("{number}"), "w")]);
        rig.advance(10);
    }
    rig.settle();
    let at = |after| Some(Timestamp(START.0 + after));
    let between = |since, until| keys(rig, &ListRequest { since, until, ..everything() });
    assert_eq!(between(at(10), None), ["3", "2", "1"]);
    assert_eq!(between(at(11), None), ["3", "2"]);
    assert_eq!(between(None, at(20)), ["1", "0"], "the end is not part of it");
    assert_eq!(between(at(10), at(30)), ["2", "1"]);
    assert!(between(at(30), at(30)).is_empty());
}

pub fn lists_are_filtered_by_labels<B: StoreUnderTest>(rig: &Rig<B>) {
    let runs = vec![
        labelled("none", &[]),
        labelled("a", &[("team", "red"), ("$.team", "x\"y")]),
        labelled("b", &[("team", "Red")]),
        labelled("c", &[("team", "red"), ("region", "eu")]),
        labelled("d", &[("team.red", ""), ("te\"am", "red")]),
    ];
    rig.create_all(ONE, runs.clone());
    rig.settle();
    let with = |labels: &[(&str, &str)]| {
        let labels: BTreeMap<_, _> =
            labels.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        keys(rig, &ListRequest { labels, ..everything() })
    };
    assert_eq!(with(&[("team", "red")]), ["c", "a"]);
    assert_eq!(with(&[("team", "red"), ("region", "eu")]), ["c"]);
    assert_eq!(with(&[("team", "re")]), Vec::<String>::new());
    assert_eq!(with(&[("team", "re%")]), Vec::<String>::new());
    assert_eq!(with(&[("$.team", "x\"y")]), ["a"]);
    assert_eq!(with(&[("team.red", "")]), ["d"]);
    assert_eq!(with(&[("te\"am", "red")]), ["d"]);
    let page = rig.list(&everything());
    let labels: Vec<_> = page.rows.into_iter().rev().map(|row| row.labels).collect();
    assert_eq!(labels, runs.into_iter().map(|run| run.labels).collect::<Vec<_>>());
}

pub fn lists_are_searched<B: StoreUnderTest>(rig: &Rig<B>) {
    let runs = vec![
        created("Order-100%", "w"),
        labelled("b", &[("Owner", "Zoë"), ("50_50", "y")]),
        with_input("c", r#"{"City":"Oslo","note":"say \"hi\"","tab":"a\u0009b","n":42}"#),
        created("d", "w"),
    ];
    let mut hands = rig.create_all(ONE, runs);
    let failure = Failure::permanent("http", "Answered 404: it's gone");
    let failed = Event::Run(RunEvent::Failed { failure, nodes: Vec::new(), output: None });
    rig.commit(hands[3].write(&[failed]));
    rig.settle();
    for (text, found) in [
        ("order", &["Order-100%"][..]),
        ("100%", &["Order-100%"]),
        ("0%", &["Order-100%"]),
        ("1%0", &[]),
        ("%", &["Order-100%"]),
        ("_", &["b"]),
        ("OWNER", &["b"]),
        ("ZOË", &["b"]),
        ("50_50", &["b"]),
        ("oslo", &["c"]),
        ("say \"HI\"", &["c"]),
        ("a\tb", &["c"]),
        ("42", &["c"]),
        ("answered 404", &["d"]),
        ("it's", &["d"]),
        ("*", &[]),
        ("o%o", &[]),
    ] {
        let request = ListRequest { text: Some(text.to_owned()), ..everything() };
        assert_eq!(keys(rig, &request), found, "{text:?}");
    }
}

pub fn lists_are_filtered_by_conditions<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let input = |key: &str, total: &str| with_input(key, &format!("{{\"total\":{total}}}"));
    let runs = vec![
        RunCreated { input: input("a", "9007199254740993").input, ..created("a", "v") },
        labelled("b", &[("team", "red")]),
        input("c", "\"many\""),
        input("d", "99.5"),
    ];
    let mut hands = rig.create_all(ONE, runs);
    let failure = Failure::permanent("http", "Answered 404");
    let failed = Event::Run(RunEvent::Failed { failure, nodes: Vec::new(), output: None });
    let output = Json::parse(r#"{"refund":null}"#).expect("it is JSON");
    let completed = Event::Run(RunEvent::Completed { output });
    rig.commit(hands[1].write(&[failed]));
    rig.advance(60_000);
    rig.commit(hands[3].write(&[completed]));
    rig.create_all(ONE, vec![created("e", "v")]);
    rig.settle();
    let now = START.plus(Millis(60_000));
    for (source, found) in [
        ("true", &["e", "d", "c", "b", "a"][..]),
        ("workflow == 'v' and id != 'e'", &["a"]),
        ("status == 'FAILED' or status == 'COMPLETED'", &["d", "b"]),
        ("status in ['FAILED', 'COMPLETED'] and not (id == 'b')", &["d"]),
        ("input.total >= 9007199254740993", &["a"]),
        ("input.total > 9007199254740992 or input.total == 99.5", &["d", "a"]),
        ("input.total == 'many'", &["c"]),
        ("input.total is defined", &["d", "c", "a"]),
        ("input.total > 1 or true", &["e", "d", "c", "b", "a"]),
        ("not (input.total > 100)", &["e", "d", "c", "b"]),
        ("input.order.lines[0].price > 1 or labels.team != 'red'", &["e", "d", "c", "a"]),
        ("input.total + 1 > 100", &["d", "a"]),
        ("labels.team == 'red'", &["b"]),
        ("created < ago('1s')", &["d", "c", "b", "a"]),
        ("created >= '1970'", &["e", "d", "c", "b", "a"]),
        ("ended is none and version == 1", &["e", "c", "a"]),
        ("duration >= 0", &["d", "b"]),
        ("duration is none", &["e", "c", "a"]),
        ("failure.kind == 'http' and '404' in error", &["b"]),
        ("'refund' in output and output.refund is none", &["d"]),
        ("output.refund.reason is defined", &[]),
        ("status", &[]),
    ] {
        let compiled = ListCondition::compile(source, now).expect(source);
        let request = ListRequest { condition: Some(Arc::new(compiled)), ..everything() };
        assert_eq!(keys(rig, &request), found, "{source}");
        let pages = all_pages(rig, &ListRequest { limit: 1, ..request.clone() });
        assert_eq!(pages.concat().len(), found.len(), "{source}");
        let both = ListRequest { statuses: vec![Status::Failed], ..request };
        let of_both: Vec<&str> = found.iter().copied().filter(|key| *key == "b").collect();
        assert_eq!(keys(rig, &both), of_both, "{source}");
    }
}

pub fn filters_add_up_and_are_paged<B: StoreUnderTest>(rig: &Rig<B>) {
    let runs = (0..24).map(|number| {
        let team = ["red", "blue"][number % 2];
        RunCreated { workflow: "w".into(), ..labelled(&format!("n{number}"), &[("team", team)]) }
    });
    let mut hands = rig.create_all(ONE, runs.collect());
    end_in_turn(rig, &mut hands);
    rig.settle();
    let request = ListRequest {
        statuses: vec![Status::Completed, Status::Cancelled],
        workflow: Some("w".to_owned()),
        since: Some(START),
        labels: BTreeMap::from([("team".to_owned(), "red".to_owned())]),
        text: Some("N".to_owned()),
        ..everything()
    };
    let expected: Vec<ExecutionNo> = (0..24)
        .rev()
        .filter(|number| number % 3 != 2 && number % 2 == 0)
        .map(|number: usize| hands[number].execution)
        .collect();
    for limit in 1..=9 {
        let pages = all_pages(rig, &ListRequest { limit, ..request.clone() });
        assert!(pages.iter().all(|page| page.len() <= limit));
        assert_eq!(pages.concat(), expected, "pages of {limit}");
    }
    let unknown = ListRequest { workflow: Some("unknown".to_owned()), ..request };
    assert_eq!(all_pages(rig, &unknown), [[]]);
}

pub fn lists_say_of_when_they_are<B: StoreUnderTest>(rig: &mut Rig<B>) {
    let lag = |rig: &Rig<B>| rig.store().lag().expect("the lag is answered");
    assert_eq!((lag(rig).frames, lag(rig).as_of), (0, None));
    assert_eq!(rig.list(&everything()).lag.as_of, None);
    rig.advance(10);
    let mut hand = rig.create_all(ONE, vec![created("a", "w")]).remove(0);
    rig.advance(10);
    let at = rig.commit(hand.next(1));
    rig.advance(10);
    rig.settle();
    assert_eq!((lag(rig).frames, lag(rig).as_of), (0, Some(at)));
    assert_eq!(rig.list(&everything()).lag.as_of, Some(at));
    rig.reopen();
    rig.settle();
    assert_eq!(lag(rig).as_of, Some(at));
    rig.store().rebuild(&mut |_, _| {}).expect("it is rebuilt");
    assert_eq!(lag(rig).as_of, Some(at));
}
