//! Streams: pages, gaps, marks, sources that went back, and watches.

use std::sync::atomic::Ordering;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_core::trigger::{StreamCursor, TriggerCursor};
use waypost_engine::triggers::{ControlError, READ_BACKOFF, RewindTo};
use waypost_ports::source::{StreamEntry, StreamFault, StreamPage};
use waypost_ports::triggers::{FireOutcome, TriggerState};

use super::fired;
use crate::support::lab::Lab;
use crate::support::triggers::{TRIGGER, WORKFLOW, until};
use crate::support::world::START;

fn entry(id: u64) -> StreamEntry {
    let key = format!("{id}-0");
    let item = Json::from_value(&json!({ "id": key, "n": id }));
    StreamEntry { key, item: Ok(item) }
}

/// A page of these entries of a stream of Redis.
fn page(ids: std::ops::Range<u64>, more: bool) -> StreamPage {
    let last = ids.end.saturating_sub(1);
    let cursor = StreamCursor {
        place: Some(format!("{last}-0")),
        position: Some(last),
        ..StreamCursor::default()
    };
    StreamPage { entries: ids.map(entry).collect(), cursor, more, removed: 0 }
}

fn cursor(lab: &Lab) -> StreamCursor {
    match lab.trigger().cursor {
        TriggerCursor::Stream(cursor) => cursor,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn stream_fires_each_entry_once_and_goes_on_from_its_place() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {}, "if": "item.n != 3" }), "a");
    let instance = lab.instance();
    let pages = [Ok(page(1..4, true)), Ok(page(4..6, false))];
    instance.streams.pages.lock().extend(pages);
    instance.run_due().await;
    assert_eq!(lab.started().len(), 4);
    assert_eq!(cursor(&lab).place.as_deref(), Some("5-0"));
    let first = fired(&lab, lab.started()[0]);
    assert_eq!((&*first.key, &*first.kind), ("1-0", "stream"));
    assert_eq!(first.details.unwrap().text(), r#"{"source":"shop"}"#);
    // The same entries again, as after a crash before the cursor moved.
    instance.streams.pages.lock().push_back(Ok(page(2..7, false)));
    lab.clock.advance(Millis(10_000));
    instance.run_due().await;
    assert_eq!(lab.started().len(), 5);
}

#[tokio::test]
async fn empty_read_writes_no_item_and_leaves_the_place() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {} }), "a");
    let instance = lab.instance();
    instance.streams.pages.lock().push_back(Ok(page(1..2, false)));
    for _ in 0..5 {
        instance.run_due().await;
        lab.clock.advance(Millis(10_000));
    }
    assert_eq!(lab.outcomes(), [(FireOutcome::Started, 1)]);
    assert_eq!(cursor(&lab).place.as_deref(), Some("1-0"));
}

#[tokio::test]
async fn removed_entries_are_one_gap_and_are_counted() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {} }), "a");
    let instance = lab.instance();
    let trimmed = || StreamPage { removed: 5, ..page(8..10, false) };
    instance.streams.pages.lock().extend([Ok(page(1..3, true)), Ok(trimmed())]);
    instance.run_due().await;
    let fires = lab.fires();
    let gaps: Vec<_> = fires.iter().filter(|fire| fire.outcome == FireOutcome::Gap).collect();
    let [gap] = gaps[..] else { panic!("{fires:?}") };
    assert_eq!(&*gap.label, "gap after 2-0, up to entry 9");
    assert!(gap.reason.as_deref().unwrap().starts_with("5 entries were removed"));
    assert_eq!((lab.started().len(), cursor(&lab).removed), (4, 5));
    assert_eq!(lab.trigger().state, TriggerState::Active);
}

#[tokio::test]
async fn source_that_went_back_breaks_the_trigger_until_it_is_rewound() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {} }), "a");
    let instance = lab.instance();
    let back = StreamFault::WentBack("the source went back: it is new".to_owned());
    instance.streams.pages.lock().extend([Ok(page(1..3, true)), Err(back)]);
    instance.run_due().await;
    let row = lab.trigger();
    assert_eq!(row.state, TriggerState::Broken);
    let reason = row.reason.unwrap();
    assert!(reason.starts_with("the source went back") && reason.contains("rewind"), "{reason}");
    let to = |place: &str| RewindTo::Cursor(Json::from_value(&json!(place)));
    let rewind = async |to: RewindTo| instance.control.rewind(WORKFLOW, TRIGGER, &to, true).await;
    let wrong = rewind(to("yesterday")).await.unwrap_err();
    assert!(matches!(wrong, ControlError::Invalid(_)), "{wrong}");
    let wrong = rewind(RewindTo::Time(START)).await.unwrap_err();
    assert!(matches!(wrong, ControlError::Invalid(_)), "{wrong}");
    rewind(to("beginning")).await.unwrap();
    assert_eq!((cursor(&lab).place, cursor(&lab).from.as_deref()), (None, Some("beginning")));
    instance.control.resume(WORKFLOW, TRIGGER, false).await.unwrap();
    instance.streams.pages.lock().push_back(Ok(page(1..3, false)));
    instance.run_due().await;
    assert_eq!(lab.started().len(), 4, "the entries of the new stream fire");
}

#[tokio::test]
async fn rows_are_marked_after_they_have_fired_and_before_the_next_read() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {} }), "a");
    let instance = lab.instance();
    let marked = |ids: std::ops::Range<u64>| {
        let keys = ids.clone().map(|id| format!("{id}-0")).collect();
        let cursor = StreamCursor { unmarked: keys, ..StreamCursor::default() };
        StreamPage { cursor, ..page(ids, false) }
    };
    instance.streams.pages.lock().extend([Ok(marked(1..3)), Ok(marked(3..4))]);
    instance.run_due().await;
    assert_eq!(*instance.streams.marked.lock(), ["1-0", "2-0", "3-0"]);
    assert_eq!((lab.started().len(), cursor(&lab).unmarked.len()), (3, 0));
}

/// A row whose mark was removed is known by its key, until a rewind forgets the keys.
#[tokio::test]
async fn row_without_its_mark_fires_again_after_a_rewind_with_again() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": { "table": "outbox" } }), "a");
    let instance = lab.instance();
    let unmarked = || {
        let unmarked = vec!["1-0".to_owned()];
        StreamPage {
            cursor: StreamCursor { unmarked, ..StreamCursor::default() },
            ..page(1..2, false)
        }
    };
    let read = async || {
        instance.streams.pages.lock().push_back(Ok(unmarked()));
        lab.clock.advance(Millis(10_000));
        instance.run_due().await;
        lab.started().len()
    };
    assert_eq!((read().await, read().await), (1, 1));
    let rewind = async |place: &str, again: bool| {
        let to = RewindTo::Cursor(Json::from_value(&json!(place)));
        instance.control.rewind(WORKFLOW, TRIGGER, &to, again).await
    };
    for (place, again) in [("beginning", false), ("now", true)] {
        let refused = rewind(place, again).await.unwrap_err();
        assert!(refused.to_string().contains("with `again`"), "{refused}");
    }
    rewind("beginning", true).await.unwrap();
    assert_eq!((read().await, read().await), (2, 2));
}

#[tokio::test]
async fn failed_read_waits_and_entries_that_start_nothing_break() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {}, "input": "${{ item.missing }}" }), "a");
    let instance = lab.instance();
    let failure = Failure::transient(kind::CONNECTION, "no route");
    instance.streams.pages.lock().push_back(Err(failure.into()));
    instance.run_due().await;
    let row = lab.trigger();
    assert_eq!((row.failures, row.state), (1, TriggerState::Active));
    assert!(row.failure.unwrap().contains("no route"));
    assert!(row.next_due.unwrap().since(START) >= Millis(READ_BACKOFF.0 / 5 * 4));
    lab.clock.advance(Millis(10_000));
    let mut poison = page(1..50, false);
    poison.entries[0].item = Err("a field is not UTF-8".to_owned());
    instance.streams.pages.lock().push_back(Ok(poison));
    instance.run_due().await;
    assert_eq!(lab.trigger().state, TriggerState::Broken);
    assert_eq!(lab.outcomes(), [(FireOutcome::Dead, 20)]);
    assert_eq!(lab.fires()[0].reason.as_deref(), Some("a field is not UTF-8"));
    assert_eq!(cursor(&lab).place, None, "the page is read again when it is resumed");
}

/// In virtual time: a watch looks every second, and writes nothing.
#[tokio::test(start_paused = true)]
async fn watch_finds_an_entry_before_the_trigger_is_due() {
    let lab = Lab::new();
    lab.deploy(&json!({ "stream": {} }), "a");
    let instance = lab.instance();
    let stop = CancellationToken::new();
    let streams = std::sync::Arc::clone(&instance.streams);
    let running = tokio::spawn(instance.runner.run(stop.clone()));
    // The first read finds nothing; the clock of the store stands still, so that nothing is due again.
    until(|| streams.reads.load(Ordering::Relaxed) >= 1).await;
    let seq = lab.trigger().seq;
    until(|| streams.reads.load(Ordering::Relaxed) >= 4).await;
    assert!(lab.trigger().seq <= seq + 1, "watching writes nothing");
    // Found by the watch, and read again by the turn that follows.
    streams.pages.lock().extend([Ok(page(1..3, false)), Ok(page(1..3, false))]);
    until(|| lab.started().len() == 2).await;
    stop.cancel();
    running.await.unwrap();
}
