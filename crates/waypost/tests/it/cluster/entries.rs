//! Sources that polls read: HTTP servers whose entries come in bursts and late, whose pages repeat and reorder,
//! and which fail now and then.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use waypost_core::time::Timestamp;
use waypost_testbed::{Received, Sink};

use super::numbers::Random;

/// Entries of a page.
const PAGE: usize = 100;
/// How much later an entry is than the one before it, in milliseconds.
const STEP: i64 = 10;
/// How much earlier than now a late entry is. Less than the `lookback` of the polls.
const LATE: i64 = 3_000;
/// Of so many requests, one fails.
const FAILS: u64 = 25;

/// What a source has, by its own clock, which moves with each entry.
struct SourceState {
    clock: i64,
    /// When an entry is dated, in the order in which they became visible.
    entries: Vec<i64>,
    random: Random,
    reads: u64,
    failed: u64,
    /// The greatest cursor that was asked with.
    newest: i64,
    /// Requests with an older cursor than one before.
    back: Vec<String>,
}

/// An HTTP server with a list of entries.
pub(crate) struct EntrySource {
    state: Arc<Mutex<SourceState>>,
    sink: Sink,
}

impl EntrySource {
    pub(crate) fn start(seed: u64) -> Self {
        let state = SourceState {
            clock: 1_000_000_000_000,
            entries: Vec::new(),
            random: Random(seed),
            reads: 0,
            failed: 0,
            newest: 0,
            back: Vec::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let serving = Arc::clone(&state);
        let sink = Sink::start_with(move |request| Some(serving.lock().answer(request)));
        Self { state, sink }
    }

    /// So many more entries at once, every tenth of them with a date before the others.
    pub(crate) fn burst(&self, count: usize) {
        let mut state = self.state.lock();
        for n in 0..count {
            state.clock += STEP;
            let late = if n % 10 == 9 { LATE } else { 0 };
            let date = state.clock - late;
            state.entries.push(date);
        }
    }

    /// How many requests failed, and those whose cursor went back.
    pub(crate) fn trouble(&self) -> (u64, Vec<String>) {
        let state = self.state.lock();
        (state.failed, state.back.clone())
    }

    /// The poll that reads it.
    pub(crate) fn definition(&self) -> String {
        let url = self.sink.url("/entries");
        format!(
            r#"
name: entries
on:
  - poll: all
    every: 1s
    request: {{ url: "{url}?since=${{{{ cursor.since }}}}&cursor=${{{{ cursor.number }}}}&page=${{{{ cursor.page }}}}" }}
    start: {{ since: "1970-01-01T00:01:00Z", number: 0, page: 0 }}
    items: body.entries
    key: item.id
    next: {{ since: "${{{{ body.now if body.done else cursor.since }}}}", number: "${{{{ body.number if body.done else cursor.number }}}}", page: "${{{{ body.next }}}}" }}
    more: not body.done
    lookback: 5s
nodes:
  - {{ id: done, type: output, config: {{ value: "${{{{ input.id }}}}" }} }}
"#
        )
    }
}

impl SourceState {
    fn answer(&mut self, request: &Received) -> (u16, String) {
        self.reads += 1;
        // The second one in any case.
        if self.reads == 2 || self.random.below(FAILS) == 0 {
            self.failed += 1;
            let status = [429, 500, 503][usize::try_from(self.failed % 3).unwrap()];
            return (status, "{}".to_owned());
        }
        let query = query(&request.path);
        let number = |name: &str| query.get(name).and_then(|text| text.parse::<i64>().ok());
        let since = query.get("since").and_then(|text| Timestamp::parse(text));
        let (Some(since), Some(cursor), Some(page)) = (since, number("cursor"), number("page"))
        else {
            return (400, json!({ "error": request.path }).to_string());
        };
        if cursor < self.newest {
            self.back.push(request.path.clone());
        }
        self.newest = self.newest.max(cursor);
        let page = usize::try_from(page).unwrap();
        let entries = self.entries.iter().enumerate().filter(|(_, date)| **date > since.0);
        let entries: Vec<usize> = entries.map(|(id, _)| id).collect();
        let from = (page * PAGE).min(entries.len());
        // Some pages begin again with the entries of the one before.
        let repeats = if self.random.below(5) == 0 { PAGE } else { 0 };
        let to = (from + PAGE).min(entries.len());
        let mut shown = entries[from.saturating_sub(repeats)..to].to_vec();
        if self.random.below(2) == 0 {
            shown.reverse();
        }
        // And some have an entry twice.
        shown.extend(shown.first().copied());
        let done = to == entries.len();
        let next = if done { 0 } else { page + 1 };
        let shown: Vec<Value> = shown.into_iter().map(|id| json!({ "id": id })).collect();
        let now = Timestamp(self.clock).to_string();
        (
            200,
            json!({ "entries": shown, "next": next, "done": done, "now": now, "number": self.clock }).to_string(),
        )
    }
}

/// The parameters of a request.
fn query(path: &str) -> BTreeMap<String, String> {
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((name.to_owned(), value.replace("%3A", ":").replace("%3a", ":")))
    };
    query.split('&').filter_map(pair).collect()
}

/// A server that has one list of numbered items, in pages of 500. Some items have no number: nothing can be started with
/// them.
pub(super) fn start_list(count: usize, is_poison: fn(usize) -> bool) -> Sink {
    const LIST_PAGE: usize = 500;
    Sink::start_with(move |request| {
        let after =
            query(&request.path).get("after").and_then(|text| text.parse::<usize>().ok())?;
        let to = (after + LIST_PAGE).min(count);
        let item = |id: usize| match is_poison(id) {
            true => json!({ "id": id }),
            false => json!({ "id": id, "n": id }),
        };
        let items: Vec<Value> = (after.min(count)..to).map(item).collect();
        let body = json!({ "items": items, "after": to, "more": to < count });
        Some((200, body.to_string()))
    })
}

/// The poll that reads such a list.
pub(super) fn list_definition(workflow: &str, sink: &Sink) -> String {
    let url = sink.url("/items");
    format!(
        r#"
name: {workflow}
on:
  - poll: all
    every: 1s
    request: {{ url: "{url}?after=${{{{ cursor.after }}}}" }}
    start: {{ after: 0 }}
    items: body.items
    key: item.id
    next: {{ after: "${{{{ body.after }}}}" }}
    more: body.more
    if: item.n >= 0
nodes:
  - {{ id: done, type: output, config: {{ value: "${{{{ input.n }}}}" }} }}
"#
    )
}
