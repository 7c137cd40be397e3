//! Periodic work: acknowledges tasks that were passed on, and requeues those that were not.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use waypost_core::time::Millis;

use crate::ask::{ACKNOWLEDGE, Ask, CLAIM, HANDLERS, first_list, number, text};
use crate::outage::jittered;
use crate::wire::Wire;

use super::offers::KEPT_MS;
use super::{Core, GROUP, HANDLERS_MAX};

/// How often it is looked whether there is something to acknowledge.
const TICK: Duration = Duration::from_millis(250);
/// Entries that one call claims: Redis does nothing else meanwhile.
const CLAIM_MAX: u64 = 200;
/// Calls for one handler in one scan: the rest is for the next.
const CLAIMS_MAX: usize = 500;
/// After how long without a sign a taker that has nothing left is forgotten.
const TAKER_GONE: Millis = Millis::from_secs(600);

/// Longest handler name, in bytes, that is published to other instances.
const HANDLER_BYTES_MAX: usize = 256;

pub(super) struct TakenTask {
    pub(super) handler: Arc<str>,
    pub(super) entry: String,
    pub(super) name: String,
    pub(super) at: Millis,
}

/// Runs until the tasks are dropped. The wire is used only for the interval.
pub(super) async fn run(core: Weak<Core>, wire: Weak<Wire>) {
    let Some(every) = wire.upgrade().map(|wire| wire.limits.scan_every.to_std()) else { return };
    let mut scan = tokio::time::Instant::now() + jittered(every);
    loop {
        tokio::time::sleep(TICK.min(every)).await;
        let Some(core) = core.upgrade() else { return };
        let asks = core.acknowledgements(core.due());
        if !asks.is_empty() {
            // An entry that could not be acknowledged is claimed again later; its owner then
            // rejects the start.
            drop(core.wire().run_scripts(asks).await);
        }
        if tokio::time::Instant::now() >= scan {
            scan = tokio::time::Instant::now() + jittered(every) + every / 2;
            core.scan().await;
        }
    }
}

impl Core {
    /// Scans now, and blocks until that is done.
    pub(super) fn sweep(self: &Arc<Self>) -> u64 {
        let (done, wait) = std::sync::mpsc::sync_channel(1);
        let core = Arc::clone(self);
        self.wire().spawn(async move {
            // The caller may have stopped waiting.
            done.send(core.scan().await).unwrap_or_default();
        });
        wait.recv().unwrap_or(0)
    }

    /// Acknowledges, and blocks until that is done.
    pub(super) fn acknowledge(&self, taken: Vec<TakenTask>) {
        let asks = self.acknowledgements(taken);
        if !asks.is_empty() {
            drop(self.wire().ask_scripts(asks));
        }
    }

    /// Tasks that were taken long enough ago to have been passed on.
    fn due(&self) -> Vec<TakenTask> {
        let (now, after) = (self.now(), self.wire().limits.acknowledge_after);
        let mut taken = self.taken.lock();
        taken.extract_if(.., |taken| now.0 >= taken.at.0.saturating_add(after.0)).collect()
    }

    fn acknowledgements(&self, taken: Vec<TakenTask>) -> Vec<Ask> {
        let mut by_handler: BTreeMap<Arc<str>, Vec<TakenTask>> = BTreeMap::new();
        for taken in taken {
            by_handler.entry(Arc::clone(&taken.handler)).or_default().push(taken);
        }
        let keys = &self.wire().keys;
        let ask = |(handler, all): (Arc<str>, Vec<TakenTask>)| {
            let (stream, marks) = (keys.tasks(&handler), keys.offered(&handler));
            let ask = Ask::script(&ACKNOWLEDGE).key(&stream).key(&marks).arg(GROUP);
            all.iter().fold(ask, |ask, taken| ask.arg(&taken.entry).arg(&taken.name))
        };
        by_handler.into_iter().map(ask).collect()
    }

    /// Requeues tasks that any taker took and never acknowledged.
    async fn scan(&self) -> u64 {
        self.learn_handlers().await;
        self.forwarded.lock().retain(|_, last| self.now().0 < last.0.saturating_add(TAKER_GONE.0));
        let mut claimed = 0;
        for handler in self.known_handlers() {
            let Some(of_this) = self.scan_handler(&handler).await else { break };
            claimed += of_this;
        }
        self.wire().counters.stale_claimed.add(claimed);
        claimed
    }

    /// `None` where Redis does not answer.
    async fn scan_handler(&self, handler: &Arc<str>) -> Option<u64> {
        let wire = self.wire();
        let (mut claimed, mut from) = (0, "0-0".to_owned());
        for _ in 0..CLAIMS_MAX {
            let ask = Ask::script(&CLAIM)
                .key(&wire.keys.tasks(handler))
                .key(&wire.keys.offered(handler))
                .arg(GROUP)
                .arg(self.instance.to_string())
                .number(wire.limits.stale_after.0)
                .arg(&from)
                .number(CLAIM_MAX)
                .number(TAKER_GONE.0)
                .number(KEPT_MS);
            let said = wire.run_scripts(vec![ask]).await.ok()?.pop()?;
            let Some(mut said) = said.filter(|said| said.len() == 3) else { break };
            claimed += u64::try_from(number(&said[0]).unwrap_or(0)).unwrap_or(0);
            from = text(said.swap_remove(1)).unwrap_or_default();
            if from.is_empty() || from == "0-0" {
                break;
            }
        }
        Some(claimed)
    }

    /// Reads the handlers that other instances have published, and publishes the ones known here
    /// again, since Redis may have been flushed.
    async fn learn_handlers(&self) {
        let ask = self.tell_handlers(&self.known_handlers(), HANDLERS_MAX);
        let Ok(said) = self.wire().run_scripts(vec![ask]).await else { return };
        let learnt = said.into_iter().flat_map(first_list).filter_map(text);
        let learnt: Vec<Arc<str>> = learnt.map(Arc::from).collect();
        self.remember(&learnt);
    }

    /// A request that publishes handlers and returns at most `learn` of the published ones.
    pub(super) fn tell_handlers(&self, handlers: &[Arc<str>], learn: usize) -> Ask {
        let ask = Ask::script(&HANDLERS).key(&self.wire().keys.handlers());
        let ask = ask.number(learn as u64).number(KEPT_MS);
        // Longer names are not published: readers would drop them.
        let short = handlers.iter().filter(|handler| handler.len() <= HANDLER_BYTES_MAX);
        short.fold(ask, |ask, handler| ask.arg(handler.as_bytes()))
    }
}
