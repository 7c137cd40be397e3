//! The trigger runner: fires schedules, reads sources, and empties windows that are due. It only transports:
//! what is due and what follows is decided in `waypost_core::trigger`, on the rows of the store.
//!
//! ```text
//!   deploy, change, arrival, end ─▶ TriggerWakeups ┐
//!   time of the next trigger ─────────────────────┼─▶ claim ─▶ one Tokio task for each trigger and group
//!   every POLL ───────────────────────────────────┘
//! ```
//!
//! Every `serve` process runs one. Claims only save double work: a trigger whose runner died is claimed by
//! another one when the claim ends, and of two runners that fire the same item one starts an execution.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::TriggerKindName;
use waypost_ports::source::{PageSource, StreamReader};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::{TRIM_MAX, TriggerNo, TriggerRow, TriggerState};

use super::book::{CLAIM_LEASE, STORE_PAUSE, TriggerBook};
use super::streams::{StreamEnd, StreamNews};
use super::wakeups::TriggerName;
use super::work::TriggerWork;
use super::{EndedTriggers, FireError, FireResult, Firing, TriggerWakeups};

/// The shortest time between two turns.
const PAUSE: Duration = Duration::from_millis(20);
/// How often old items are deleted.
const TRIM_EVERY: Duration = Duration::from_secs(600);
/// How often to look whether triggers of ends have come and gone without their endpoints.
const RECONCILE_EVERY: Duration = Duration::from_secs(60);
/// How long a stop waits for what is being fired.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The trigger runner of one instance.
pub struct TriggerRunner {
    pub firing: Firing,
    /// Reads the pages of polls.
    pub pages: Arc<dyn PageSource>,
    /// Reads the sources of streams.
    pub streams: Arc<dyn StreamReader>,
    /// Whose endpoints it keeps in order.
    pub ends: EndedTriggers,
    pub wakeups: TriggerWakeups,
}

/// What is under way.
struct UnderWay {
    tasks: JoinSet<StreamEnd>,
    /// What each task works on: a trigger, or a group.
    places: HashMap<Id, Option<TriggerNo>>,
    /// Sources of streams that had nothing new. They take no place of the work under way.
    watches: JoinSet<Option<StreamNews>>,
    /// What they have found since the last turn.
    news: Vec<StreamNews>,
    book: TriggerBook,
    /// The store's time, at an instant of this process.
    clock: (Timestamp, Instant),
}

impl UnderWay {
    fn spawn(
        &mut self,
        trigger: Option<TriggerNo>,
        work: impl Future<Output = StreamEnd> + Send + 'static,
    ) {
        let task = self.tasks.spawn(work).id();
        self.places.insert(task, trigger);
    }

    fn take(&mut self, ended: Result<(Id, StreamEnd), JoinError>) {
        let (task, end) = ended.unwrap_or_else(|error| {
            // What it worked on is due again when its claim ends.
            tracing::error!(%error, "the work on a trigger panicked");
            (error.id(), StreamEnd::default())
        });
        match self.places.remove(&task).flatten() {
            Some(trigger) if end.unreadable => self.book.unreadable(trigger, self.now()),
            Some(trigger) => self.book.ended(trigger, end.due),
            None => self.book.group_ended(),
        }
        if let Some(watch) = end.watch {
            self.watches.spawn(watch.run());
        }
    }

    /// Waits for the end of some work, or for news of a watch; takes all work that has ended. Cancel-safe, as
    /// `join_next_with_id` is.
    async fn next(&mut self) {
        tokio::select! {
            Some(ended) = self.tasks.join_next_with_id() => self.take(ended),
            Some(found) = self.watches.join_next() => match found {
                Ok(found) => self.news.extend(found),
                Err(error) => tracing::error!(%error, "the watch of a source panicked"),
            },
            else => std::future::pending().await,
        }
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.take(ended);
        }
    }

    /// The store's time, as far as is known.
    fn now(&self) -> Timestamp {
        let (at, instant) = self.clock;
        at.plus(Millis(u64::try_from(instant.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    fn wake_at(&self) -> Instant {
        Instant::now() + self.book.pause(self.now()).to_std()
    }
}

impl TriggerRunner {
    /// Does what is due now, and returns when it is done.
    pub async fn run_due(&self) -> Result<(), StoreError> {
        let (work, mut under_way) = self.begin();
        loop {
            work.look_at_ended(&mut under_way);
            work.turn(&mut under_way).await?;
            if under_way.tasks.is_empty() {
                return Ok(());
            }
            while let Some(ended) = under_way.tasks.join_next_with_id().await {
                under_way.take(ended);
            }
        }
    }

    fn begin(&self) -> (Arc<TriggerWork>, UnderWay) {
        let Self { firing, pages, streams, ends: _, wakeups } = self;
        let work = TriggerWork::new(
            firing.clone(),
            Arc::clone(pages),
            Arc::clone(streams),
            wakeups.clone(),
        );
        let clock = (work.firing.now(), Instant::now());
        let (tasks, watches, book) = (JoinSet::new(), JoinSet::new(), TriggerBook::default());
        let (places, news) = (HashMap::new(), Vec::new());
        (Arc::new(work), UnderWay { tasks, places, watches, news, book, clock })
    }

    /// Runs until it is stopped.
    pub async fn run(self, stop: CancellationToken) {
        let (work, mut under_way) = self.begin();
        let mut wake_at = Instant::now();
        // Beside the loop, which what takes long must not hold up. Dropped with it.
        let mut care = JoinSet::new();
        care.spawn(keep_endpoints(self.ends));
        care.spawn(trim(self.firing));
        loop {
            let mut claims = true;
            tokio::select! { // all arms may be dropped and polled again
                () = stop.cancelled() => break,
                () = sleep_until(wake_at) => {}
                () = work.wakeups.woken() => {}
                () = under_way.next() => claims = false,
            }
            let turn = Instant::now();
            claims |= turn >= wake_at;
            work.look_at_ended(&mut under_way);
            work.look_at_news(&mut under_way);
            wake_at = match if claims { work.turn(&mut under_way).await } else { Ok(()) } {
                Ok(()) => under_way.wake_at(),
                Err(error) => {
                    tracing::warn!(%error, "triggers cannot be read; trying again");
                    turn + STORE_PAUSE.to_std()
                }
            };
            // The floor between two turns, in which ends gather.
            sleep_until(turn + PAUSE).await;
        }
        let until = Instant::now() + STOP_MAX;
        while !under_way.tasks.is_empty() {
            if timeout_at(until, under_way.next()).await.is_err() {
                break;
            }
        }
    }
}

impl TriggerWork {
    /// Claims what is due, and begins to work on it.
    async fn turn(self: &Arc<Self>, under_way: &mut UnderWay) -> Result<(), StoreError> {
        let Some(request) = under_way.book.claim(under_way.now()) else { return Ok(()) };
        let limit = request.limit;
        let claimed = self.claim(request).await?;
        let at = claimed.at;
        under_way.clock = (at, Instant::now());
        let groups_due = claimed.next_group.is_some_and(|next| next <= at);
        for row in under_way.book.claimed(claimed, limit) {
            self.begin(under_way, row, at);
        }
        if groups_due {
            self.begin_groups(under_way).await?;
        }
        Ok(())
    }

    async fn begin_groups(self: &Arc<Self>, under_way: &mut UnderWay) -> Result<(), StoreError> {
        let limit = under_way.book.room();
        let groups = self.claim_groups(limit, CLAIM_LEASE).await?;
        under_way.book.groups_claimed(groups.len());
        for group in groups {
            let work = Arc::clone(self);
            under_way.spawn(None, async move {
                let name = &group.row.name;
                match work.firing.flush(&group).await {
                    Ok(FireResult::Started(_)) => {}
                    Ok(FireResult::Retry { why }) => {
                        tracing::warn!(%why, trigger = %name, "a window is fired later");
                    }
                    // Where it started nothing, the next event of a throttle may start now.
                    Ok(_) => work.wakeups.wake(),
                    Err(error) => {
                        tracing::warn!(%error, trigger = %name, "a window could not be fired");
                    }
                }
                StreamEnd::default()
            });
        }
        Ok(())
    }

    fn begin(self: &Arc<Self>, under_way: &mut UnderWay, row: TriggerRow, now: Timestamp) {
        let work = Arc::clone(self);
        under_way.spawn(Some(row.number), async move {
            let (workflow, name) = (Arc::clone(&row.workflow), Arc::clone(&row.name));
            let (trigger, seq) = (row.number, row.seq);
            let error = match work.on_row(row, now).await {
                Ok(end) => return end,
                Err(error) => error,
            };
            tracing::warn!(%error, %workflow, trigger = %name, "a trigger could not be fired");
            let unreadable = matches!(error, FireError::Definition(_));
            if unreadable
                && let Err(error) =
                    work.firing.call(move |triggers| triggers.release_trigger(trigger, seq)).await
            {
                tracing::debug!(%error, trigger = %name, "others wait until the claim ends");
            }
            StreamEnd { unreadable, ..StreamEnd::default() }
        });
    }

    /// Sources that had nothing new have something now. What is not taken up here is due soon.
    fn look_at_news(self: &Arc<Self>, under_way: &mut UnderWay) {
        self.firing.engine.metrics().trigger_entries_behind.set(self.streams.behind());
        for StreamNews { trigger, name, seq } in std::mem::take(&mut under_way.news) {
            if !under_way.book.begin(trigger, TriggerKindName::Stream) {
                continue;
            }
            let work = Arc::clone(self);
            under_way.spawn(Some(trigger), async move {
                let looked = async {
                    let row = work.firing.row(&name.workflow, &name.name).await?;
                    match row.filter(|row| row.state == TriggerState::Active && row.seq == seq) {
                        Some(row) => work.on_row(row, work.firing.now()).await,
                        None => Ok(StreamEnd::default()),
                    }
                };
                looked.await.unwrap_or_else(|error| {
                    let TriggerName { workflow, name } = &name;
                    tracing::warn!(%error, %workflow, trigger = %name, "a trigger could not be fired");
                    StreamEnd::default()
                })
            });
        }
    }

    /// Times of these schedules waited for executions that have ended on this instance.
    fn look_at_ended(self: &Arc<Self>, under_way: &mut UnderWay) {
        for TriggerName { workflow, name } in self.wakeups.take_ended() {
            let work = Arc::clone(self);
            // A group, as far as the book is concerned: the row is not read yet.
            under_way.book.groups_begun(1);
            under_way.spawn(None, async move {
                let looked = async {
                    let row = work.firing.row(&workflow, &name).await?;
                    match row.filter(|row| row.state == TriggerState::Active) {
                        Some(row) => work.on_row(row, work.firing.now()).await.map(drop),
                        None => Ok(()),
                    }
                };
                if let Err(error) = looked.await {
                    tracing::warn!(%error, %workflow, trigger = %name, "a trigger could not be fired");
                }
                StreamEnd::default()
            });
        }
    }
}

/// A deploy keeps the endpoints of ends in order. Where its process died in between, this does, once the roster
/// has changed.
async fn keep_endpoints(ends: EndedTriggers) {
    let mut known = None;
    loop {
        match ends.firing.call(|triggers| triggers.roster_revision()).await {
            Ok(revision) if known == Some(revision) => {}
            Ok(revision) => match ends.reconcile().await {
                Ok(()) => known = Some(revision),
                Err(error) => {
                    known = None;
                    tracing::warn!(%error, "the triggers of ends cannot be registered; trying again");
                }
            },
            Err(error) => tracing::debug!(%error, "the roster of triggers cannot be read"),
        }
        sleep(RECONCILE_EVERY).await;
    }
}

/// Deletes what is no longer kept.
async fn trim(firing: Firing) {
    let mut pause = TRIM_EVERY;
    loop {
        sleep(pause).await;
        pause = match firing.call(|triggers| triggers.trim_triggers()).await {
            Ok(deleted) if deleted >= TRIM_MAX as u64 => PAUSE,
            Ok(_) => TRIM_EVERY,
            Err(error) => {
                tracing::warn!(%error, "old items of triggers could not be deleted; trying again later");
                TRIM_EVERY
            }
        };
    }
}
