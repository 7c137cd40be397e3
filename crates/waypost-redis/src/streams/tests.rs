//! Cursors over streams that were trimmed, emptied, deleted and created again.

use super::*;

/// A stream with entries of the ids `1-0`, `2-0` and so on, of which `there` are left.
fn state(there: &[u64], added: u64, after: u64, limit: usize) -> StreamState {
    let mut entries = there.iter().filter(|id| **id > after);
    let page: Vec<u64> = entries.by_ref().take(limit).copied().collect();
    StreamState {
        length: there.len() as u64,
        newest: format!("{added}-0"),
        added,
        oldest: there.first().map(|id| format!("{id}-0")),
        more: entries.next().is_some(),
        entries: page.iter().map(|id| entry(*id)).collect(),
    }
}

fn entry(id: u64) -> StreamEntry {
    let key = format!("{id}-0");
    StreamEntry { item: Ok(item(&key, &Map::new())), key }
}

fn at(place: u64) -> StreamCursor {
    let place_text = Some(format!("{place}-0"));
    StreamCursor { place: place_text, position: Some(place), ..StreamCursor::default() }
}

/// How many entries, removed entries, the position and how many are behind.
fn read(cursor: StreamCursor, state: StreamState) -> (usize, u64, Option<u64>, Option<u64>) {
    let page = next_page(cursor, &StreamStart::Now, state).unwrap();
    (page.entries.len(), page.removed, page.cursor.position, page.cursor.behind)
}

fn ids(range: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    range.collect()
}

#[test]
fn page_moves_the_position_and_counts_what_is_behind() {
    assert_eq!(read(at(0), state(&ids(1..=10), 10, 0, 4)), (4, 0, Some(4), Some(6)));
    assert_eq!(read(at(4), state(&ids(1..=10), 10, 4, 100)), (6, 0, Some(10), Some(0)));
    assert_eq!(read(at(10), state(&ids(1..=10), 10, 10, 100)), (0, 0, Some(10), Some(0)));
}

#[test]
fn trim_is_a_gap_only_where_it_removed_unread_entries() {
    // MAXLEN 3 of ten entries, two of which were read: 3 to 7 are gone.
    assert_eq!(read(at(2), state(&ids(8..=10), 10, 2, 100)), (3, 5, Some(10), Some(0)));
    assert_eq!(read(at(7), state(&ids(8..=10), 10, 7, 100)), (3, 0, Some(10), Some(0)));
    // All of it.
    assert_eq!(read(at(2), state(&[], 10, 2, 100)), (0, 8, Some(10), Some(0)));
    // A page at a time: the gap is counted once.
    assert_eq!(read(at(2), state(&ids(5..=300), 300, 2, 100)), (100, 2, Some(104), Some(196)));
    assert_eq!(read(at(104), state(&ids(5..=300), 300, 104, 100)), (100, 0, Some(204), Some(96)));
}

#[test]
fn deleted_entry_is_a_gap_when_it_was_not_read() {
    let left: Vec<u64> = ids(1..=10).into_iter().filter(|id| *id != 6).collect();
    assert_eq!(read(at(5), state(&left, 10, 5, 100)), (4, 1, Some(10), Some(0)));
    assert_eq!(read(at(6), state(&left, 10, 6, 100)), (4, 0, Some(10), Some(0)));
    // It is known at the end of the stream where older entries are left.
    assert_eq!(read(at(5), state(&left, 10, 5, 2)).1, 0);
}

#[test]
fn stream_that_was_deleted_and_created_again_went_back() {
    let back = |cursor, state| {
        let fault = next_page(cursor, &StreamStart::Now, state).unwrap_err();
        assert!(
            matches!(&fault, StreamFault::WentBack(why) if why.starts_with("the source went back"))
        );
    };
    // The ids begin anew.
    back(at(10), state(&ids(1..=3), 3, 10, 100));
    // The ids go on, as those made of the time do; three entries, and five.
    let mut anew = state(&ids(11..=13), 13, 10, 100);
    anew.added = 3;
    back(at(10), anew);
    let mut anew = state(&ids(4..=8), 8, 3, 100);
    anew.added = 5;
    back(at(3), anew);
}

#[test]
fn stream_begins_where_the_definition_says() {
    let begin = |start: StreamStart, state| {
        let page = next_page(StreamCursor::default(), &start, state).unwrap();
        (page.cursor.place.unwrap(), page.cursor.position, page.entries.len(), page.removed)
    };
    let none = |added| StreamState { entries: Vec::new(), ..state(&ids(4..=10), added, 10, 0) };
    assert_eq!(begin(StreamStart::Now, none(10)), ("10-0".to_owned(), Some(10), 0, 0));
    let from = |after| state(&ids(4..=10), 10, after, 100);
    assert_eq!(begin(StreamStart::Beginning, from(0)), ("10-0".to_owned(), Some(10), 7, 0));
    let after = StreamStart::After("6-0".into());
    assert_eq!(begin(after.clone(), from(6)), ("10-0".to_owned(), Some(10), 4, 0));
    let missing = before_all(StreamCursor::default(), &StreamStart::Now);
    assert_eq!((missing.place.as_deref(), missing.position), (Some("0-0"), Some(0)));
    let missing = before_all(StreamCursor::default(), &after);
    assert_eq!((missing.place.as_deref(), missing.position), (Some("6-0"), None));
}

#[test]
fn answer_of_another_shape_is_a_failure_and_no_panic() {
    let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
    for answer in [
        Value::Okay,
        Value::Array(Vec::new()),
        Value::Array(vec![Value::Int(1); 6]),
        Value::Array(vec![
            Value::Int(-1),
            bulk("1-0"),
            Value::Int(1),
            bulk(""),
            Value::Int(0),
            Value::Array(Vec::new()),
        ]),
        Value::Array(vec![
            Value::Int(1),
            bulk("1-0"),
            Value::Int(-1),
            bulk("1-0"),
            Value::Int(0),
            Value::Array(Vec::new()),
        ]),
    ] {
        assert!(read_answer(answer.clone()).is_err(), "{answer:?}");
    }
    assert_eq!(read_answer(Value::Nil).unwrap(), None);
    let page = |place: &str| {
        next_page(
            StreamCursor { place: Some(place.to_owned()), ..StreamCursor::default() },
            &StreamStart::Now,
            state(&ids(1..=2), 2, 0, 9),
        )
    };
    assert!(page("nowhere").is_err());
}

#[test]
fn entry_that_is_too_large_or_not_text_is_unreadable_alone() {
    let bulk = |text: &[u8]| Value::BulkString(text.to_vec());
    let entry = |fields| read_entry(Value::Array(vec![bulk(b"1-0"), fields])).unwrap();
    let good = entry(Value::Array(vec![bulk(b"a"), bulk(b"1"), bulk(b"a"), bulk(b"2")]));
    assert_eq!(good.item.unwrap().text(), r#"{"fields":{"a":"2"},"id":"1-0"}"#);
    assert!(entry(Value::Int(2_000_000)).item.unwrap_err().contains("2000000 bytes"));
    let binary = entry(Value::Array(vec![bulk(b"a"), bulk(&[0xff])]));
    assert_eq!(binary.item.unwrap_err(), "a field is not UTF-8");
}
