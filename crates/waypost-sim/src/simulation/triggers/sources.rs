//! Sources of polls in the outside world: lists that grow, tell items late and twice, and go back.

use serde_json::{Value, json};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::source::{PageRequest, SourcePage};

use super::flows::TRIGGER;
use crate::clock::START;
use crate::fault::{Fault, Weather};
use crate::random::Random;

/// The cursor of a source that nothing was read of.
pub(super) const BEGINNING: Timestamp = Timestamp(START.0 - 3_600_000);
/// How far back a source goes that goes back.
const BACK_MS: u64 = 10_000;

/// A source.
pub(super) struct SimSource {
    /// In the order of their times, no two of which are equal.
    pub(super) items: Vec<SourceItem>,
    every_s: u64,
    /// Does it tell items late? Then it is read from a time before the cursor, and in whole.
    lookback: Option<Millis>,
    page: usize,
}

pub(super) struct SourceItem {
    pub(super) key: String,
    at_ms: u64,
    /// When it can be read.
    pub(super) appears_ms: u64,
    /// Can it start nothing?
    pub(super) is_poison: bool,
}

impl SimSource {
    pub(super) fn draw(random: &mut Random) -> Self {
        let mut at_ms = 0;
        let items = (0..random.between(3, 25)).map(|at| {
            at_ms += random.between(1, 2_500);
            let (key, is_poison) = (format!("item-{at}"), random.percent(8));
            SourceItem { key, at_ms, appears_ms: at_ms, is_poison }
        });
        let items = items.collect();
        let every_s = random.between(1, 3);
        let lookback = random.percent(60).then(|| Millis(random.between(2_000, 9_000)));
        Self { items, every_s, lookback, page: 2 + random.index(4) }
    }

    /// Some items appear late, within the lookback.
    pub(super) fn delay_items(&mut self, weather: &mut Weather, random: &mut Random) {
        let Some(lookback) = self.lookback else { return };
        for item in &mut self.items {
            if weather.strikes_apart(Fault::SourceLate, random) {
                item.appears_ms = item.at_ms + random.below(lookback.0 - 500);
            }
        }
    }

    pub(super) fn trigger_json(&self, name: &str) -> Value {
        let mut poll = json!({
            "poll": TRIGGER,
            "every": format!("{}s", self.every_s),
            "request": { "url": format!("http://{name}.example/items?since=${{{{ cursor.since }}}}") },
            "start": { "since": BEGINNING.to_string() },
            "items": "body.items",
            "key": "item.id",
            "next": { "since": "${{ body.next }}" },
            "more": "body.more",
            // A label must be a text, which the tag of poison is not.
            "labels": { "tag": "${{ item.tag }}" },
        });
        if let Some(lookback) = self.lookback {
            poll["lookback"] = json!(lookback.0);
        }
        poll
    }

    /// Answers a read.
    pub(super) fn read(
        &self,
        request: &PageRequest,
        mut now_ms: u64,
        weather: &mut Weather,
        random: &mut Random,
    ) -> Result<SourcePage, Failure> {
        if weather.strikes_apart(Fault::Fails, random) {
            let failed = Failure::transient(kind::HTTP, "the source is down");
            return Err(Failure { status: Some(503), ..failed });
        }
        if weather.strikes_apart(Fault::SourceBack, random) {
            now_ms = now_ms.saturating_sub(random.between(1, BACK_MS));
        }
        let config = request.config.to_value().unwrap_or_default();
        let since = config["url"].as_str().and_then(|url| url.split_once("since="));
        let since = since.and_then(|(_, text)| Timestamp::parse(text));
        let Some(since) = since else {
            return Err(Failure::permanent(kind::HTTP, "the request names no time"));
        };
        let at = |item: &SourceItem| START.plus(Millis(item.at_ms));
        let there: Vec<&SourceItem> =
            self.items.iter().filter(|item| item.appears_ms <= now_ms).collect();
        let mut page: Vec<&SourceItem> =
            there.iter().copied().filter(|item| at(item) > since).collect();
        let most = if self.lookback.is_some() { usize::MAX } else { self.page };
        let more = page.len() > most;
        page.truncate(most);
        let next = match self.lookback {
            Some(_) => START.plus(Millis(now_ms)),
            None => page.last().map_or(since, |last| at(last)),
        };
        if !there.is_empty() && weather.strikes_apart(Fault::SourceRepeats, random) {
            let (first, second) = (*random.pick(&there), *random.pick(&there));
            page.splice(0..0, [first, second, first]);
        }
        let items: Vec<Value> = page.iter().map(|item| item.json()).collect();
        let body = json!({ "items": items, "next": next.to_string(), "more": more });
        let headers = Json::from_value(&json!({}));
        Ok(SourcePage { status: 200, headers, body: Json::from_value(&body) })
    }
}

impl SourceItem {
    fn json(&self) -> Value {
        let tag = if self.is_poison { Value::Null } else { json!("good") };
        json!({ "id": self.key, "tag": tag })
    }
}
