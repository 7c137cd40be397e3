//! Items of sources, for polls and streams: how a page of them is fired, what is stored after it, and how
//! long to wait after a read that failed.

use std::ops::ControlFlow;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use waypost_core::expr::{Expression, Scope};
use waypost_core::failure::{Failure, kind};
use waypost_core::json::Json;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Payload, TriggerCursor};
use waypost_ports::triggers::{
    Advance, FireOutcome, FireRow, SettledFire, Settlement, TriggerRow, TriggerState,
};

use super::scheduling::rejected;
use super::work::TriggerWork;
use super::{FireError, FireResult, Occurrence};

/// Items in a row that could not be started, after which a trigger is broken: what fails is the definition, or
/// the source.
pub const DEAD_IN_A_ROW_MAX: u32 = 20;
/// The wait after a first failed read; each further one doubles it.
pub const READ_BACKOFF: Millis = Millis::from_secs(5);
/// The longest wait after a failed read, unless the source asks for more.
pub const READ_BACKOFF_MAX: Millis = Millis::from_secs(15 * 60);
/// The longest `Retry-After` that is honoured.
const RETRY_AFTER_MAX: Millis = Millis::from_secs(24 * 3_600);
/// How long a read may take: less than a claim.
pub(super) const READ_TIMEOUT: Millis = Millis::from_secs(20);
/// How soon a source is read again that has more.
pub(super) const GOES_ON: Millis = Millis(1);
/// Items that are fired at once.
const ITEMS_AT_ONCE: usize = 16;

/// An item of a page.
#[derive(Debug)]
pub struct PageItem {
    pub occurrence: Occurrence,
    /// Why it cannot be fired, for an item without a key.
    pub fault: Option<String>,
}

impl PageItem {
    /// An item with its key, or why it has none.
    pub(super) fn new(key: Result<String, Failure>, item: &Json, payload: Payload) -> Self {
        let (key, fault) = match key {
            Ok(key) => (key, None),
            Err(failure) => {
                let digest = blake3::hash(item.text().as_bytes());
                (format!("item without a key {digest}"), Some(failure.message))
            }
        };
        Self { occurrence: Occurrence::new(&key, payload), fault }
    }
}

/// The key of an item, by the trigger's `key`.
pub(super) fn key_of(key: &Expression, item: &Json) -> Result<String, Failure> {
    let mut scope = Scope::new();
    scope.json("item", item);
    key.eval(&scope).and_then(|key| key_text(&key))
}

/// A key as text: a text itself, a number, a boolean, or a list or object as JSON.
fn key_text(key: &Json) -> Result<String, Failure> {
    match key.text().as_bytes().first() {
        Some(b'"') => {
            Ok(serde_json::from_str(key.text()).map_err(|error| wrong(error.to_string()))?)
        }
        _ if key.is_null() => Err(wrong("the field `key` gave null".to_owned())),
        _ => Ok(key.text().to_owned()),
    }
}

pub(super) fn wrong(message: String) -> Failure {
    Failure::permanent(kind::INVALID_CONFIG, message)
}

/// How long to wait after a number of failed reads in a row, of which this was the last one. `jitter` is any
/// number.
pub fn read_backoff(failures: u32, failure: &Failure, jitter: u32) -> Millis {
    let is_lasting = matches!(failure.status, Some(401 | 403 | 404)) || failure.is_before_call();
    let doubled = READ_BACKOFF.0.saturating_mul(1 << failures.saturating_sub(1).min(20));
    let wait = if is_lasting { READ_BACKOFF_MAX.0 } else { doubled.min(READ_BACKOFF_MAX.0) };
    // Up to a fifth shorter or longer.
    let part = wait / 5;
    let wait = wait - part + u64::from(jitter) % (2 * part + 1);
    Millis(wait).max(failure.retry_after.unwrap_or_default().min(RETRY_AFTER_MAX))
}

/// What is stored where the cursor of a row moves, or only the time of its next read.
pub(super) fn settlement(
    row: &TriggerRow,
    cursor: TriggerCursor,
    next_due: Timestamp,
) -> Settlement {
    Settlement {
        at: row.at(),
        advance: Some(Advance { seq: row.seq, cursor, next_due: Some(next_due) }),
        group: None,
        fires: Vec::new(),
        failures: 0,
        failure: None,
        broken: None,
        cancel: Vec::new(),
    }
}

/// What is stored after a read that failed. `jitter` is any number.
pub(super) fn failed(
    row: &TriggerRow,
    cursor: TriggerCursor,
    now: Timestamp,
    (failure, jitter): (&Failure, u32),
) -> Settlement {
    let failures = row.failures.saturating_add(1);
    let wait = read_backoff(failures, failure, jitter);
    Settlement {
        failures,
        failure: Some(format!("{}: {}", failure.kind, failure.message).into()),
        ..settlement(row, cursor, now.plus(wait))
    }
}

/// What became of an item.
enum ItemFired {
    Started,
    Known,
    Nothing(FireOutcome, Option<String>),
}

/// What became of the items of a page.
pub(super) struct PageFired {
    pub(super) settled: Vec<SettledFire>,
    /// Items in a row that could not be started, up to the last one.
    pub(super) dead_in_a_row: u32,
    /// Why the trigger is to stop.
    pub(super) broken: Option<Arc<str>>,
}

/// What follows from a page: what is to be stored, and whether there is another page to be read at once.
pub(super) type PageEnd = (Settlement, bool);

impl TriggerWork {
    /// Fires the items of a page that have not fired yet, several at once. `None` where some are to be fired
    /// later.
    pub(super) async fn fire_page(
        &self,
        row: &TriggerRow,
        items: Vec<PageItem>,
        dead_before: u32,
    ) -> Result<Option<PageFired>, FireError> {
        let known = self.known(row, &items).await?;
        let (mut settled, mut dead_in_a_row, mut broken) = (Vec::new(), dead_before, None);
        let unknown = items.iter().zip(&known).filter(|(_, known)| known.is_none());
        let firing: Vec<BoxFuture<'_, _>> =
            unknown.map(|(item, _)| self.fire_item(row, item).boxed()).collect();
        let mut fired = stream::iter(firing).buffered(ITEMS_AT_ONCE);
        let (mut any_new, mut fired_between) = (false, false);
        for (item, known) in items.iter().zip(&known) {
            if let Some(known) = known {
                fired_between |= known.outcome != FireOutcome::Dead;
                continue;
            }
            // Between new items are those that an instance fired before it died: they end the row. Others are
            // of pages before.
            if any_new && fired_between {
                dead_in_a_row = 0;
            }
            (any_new, fired_between) = (true, false);
            let Some(outcome) = fired.next().await else { break };
            match outcome? {
                None => return Ok(None),
                // By this instance, or by another one that reads the same page.
                Some(ItemFired::Started) => dead_in_a_row = 0,
                Some(ItemFired::Known) => {}
                Some(ItemFired::Nothing(FireOutcome::Dead, _)) if is_planted(Bug::PoisonBlocks) => {
                    return Ok(None);
                }
                Some(ItemFired::Nothing(outcome, reason)) => {
                    let is_dead = outcome == FireOutcome::Dead;
                    dead_in_a_row = if is_dead { dead_in_a_row + 1 } else { 0 };
                    settled.push(item.occurrence.settled(row, outcome, reason.as_deref()));
                    if dead_in_a_row >= DEAD_IN_A_ROW_MAX {
                        let reason = reason.unwrap_or_default();
                        let text = format!(
                            "{dead_in_a_row} items in a row could not be started; the last one: {reason}"
                        );
                        broken = Some(text.into());
                        break;
                    }
                }
            }
        }
        Ok(Some(PageFired { settled, dead_in_a_row, broken }))
    }

    /// What became of those that have fired before.
    async fn known(
        &self,
        row: &TriggerRow,
        items: &[PageItem],
    ) -> Result<Vec<Option<FireRow>>, FireError> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let digests: Vec<_> = items.iter().map(|item| item.occurrence.item(row)).collect();
        let number = row.number;
        Ok(self.firing.call(move |triggers| triggers.fired(number, &digests)).await?)
    }

    /// Fires an item; `None` where it is to be fired later.
    async fn fire_item(
        &self,
        row: &TriggerRow,
        item: &PageItem,
    ) -> Result<Option<ItemFired>, FireError> {
        if let Some(fault) = &item.fault {
            return Ok(Some(ItemFired::Nothing(FireOutcome::Dead, Some(fault.clone()))));
        }
        Ok(Some(match self.firing.fire(row, &item.occurrence, None, None).await? {
            FireResult::Started(_) | FireResult::Known(Some(_)) => ItemFired::Started,
            FireResult::Known(None) => ItemFired::Known,
            FireResult::Filtered => ItemFired::Nothing(FireOutcome::Filtered, None),
            FireResult::Dead { reason } => ItemFired::Nothing(FireOutcome::Dead, Some(reason)),
            FireResult::Rejected { holding } => {
                ItemFired::Nothing(FireOutcome::Skipped, Some(rejected(holding)))
            }
            FireResult::Stale => return Ok(None),
            FireResult::Retry { why } => {
                tracing::warn!(%why, trigger = %row.name, workflow = %row.workflow, "an item is fired later");
                return Ok(None);
            }
        }))
    }

    /// Stores what follows from a page. Continues with the row as it is after that, where there is another
    /// page and time left; otherwise breaks with when the trigger is due.
    pub(super) async fn after_page(
        &self,
        row: &mut TriggerRow,
        next: Option<PageEnd>,
        until: Timestamp,
    ) -> Result<ControlFlow<Option<Timestamp>>, FireError> {
        // Some items are to be fired later, or the trigger has changed: the page is read again.
        let Some((settlement, more)) = next else { return Ok(ControlFlow::Break(None)) };
        let advance = settlement.advance.clone();
        if settlement.failures > 0 {
            self.firing.engine.metrics().trigger_reads_failed_total.add(1);
        }
        let broken = settlement.broken.is_some();
        if !self.firing.store(settlement).await? || broken {
            return Ok(ControlFlow::Break(None));
        }
        let Some(Advance { cursor, next_due, .. }) = advance else {
            return Ok(ControlFlow::Break(None));
        };
        row.seq += 1;
        row.cursor = cursor;
        row.state = TriggerState::Active;
        Ok(match more && self.firing.now() <= until {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(next_due),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_that_fail_wait_longer_each_time() {
        let transient = |status| Failure { status, ..Failure::transient(kind::HTTP, "no") };
        let least = |failures, failure: &Failure| read_backoff(failures, failure, 0).0 / 1_000;
        for (failures, expected) in [(1, 4), (2, 8), (3, 16), (8, 512), (9, 720), (40, 720)] {
            assert_eq!(least(failures, &transient(Some(500))), expected, "after {failures}");
        }
        for status in [401, 403, 404] {
            assert_eq!(least(1, &transient(Some(status))), 720, "{status}");
        }
        let asked = Failure { retry_after: Some(Millis::from_secs(77)), ..transient(Some(429)) };
        assert_eq!(read_backoff(1, &asked, 0), Millis::from_secs(77));
        for jitter in [0, 1, 999_999, u32::MAX] {
            let wait = read_backoff(1, &transient(None), jitter);
            assert!((4_000..=6_000).contains(&wait.0), "{wait}");
        }
    }
}
