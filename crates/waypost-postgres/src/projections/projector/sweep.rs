//! The sweeper: compares the log of all processes with the rows, from one place in the log on, and has the
//! projector write what is behind.
//!
//! One process of a cluster holds the sweeper's lease. The lease only saves work: a place is passed because
//! the rows before it were compared, so a second sweeper does no harm. A process in which a caller waits for
//! the projections sweeps without the lease.
//!
//! The sweeper leaves their owners time to write. It compares frames that were there one tick ago, and
//! projects what it finds behind only after that has stayed behind for [`GRACE`].

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::Projector;
use crate::error::Result;
use crate::projections::queries::sql;
use crate::text::{get, limit};

/// How often to sweep, and to try again after an error.
pub(in crate::projections) const TICK: Duration = Duration::from_secs(1);

/// How long the process that committed a frame has to project it. Under a load at which processes project
/// later than that, the sweeper projects in their place, which costs a second reading of the log.
const GRACE: Duration = Duration::from_secs(5);

/// How often the lease is renewed, or claimed by another process; and how often to sweep while nothing is
/// committed.
const RENEW: Duration = Duration::from_secs(3);

/// The lease of the sweeper, in milliseconds: three renewals, and a little.
const LEASE_MS: i64 = 10_000;

/// The sweep's state in this process.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    id: Uuid,
    is_holder: bool,
    claimed: Option<Instant>,
    due: Option<Instant>,
    /// As of the last look, no frame could appear before this place any more.
    end: Option<i64>,
    /// Since when rows after `sweeper.place` are behind.
    behind_since: Option<Instant>,
    has_more: bool,
}

/// A part of the log, compared with the rows.
#[derive(Debug, Default)]
pub(super) struct SweepPage {
    /// Executions whose rows do not show it.
    pub(super) behind: BTreeSet<i64>,
    /// Is there more to compare after it?
    pub(super) is_full: bool,
    /// The place after it.
    next: Option<i64>,
}

impl Sweep {
    pub(super) fn new() -> Self {
        Self { id: Uuid::new_v4(), ..Self::default() }
    }

    /// Forgets what a lost connection had read.
    pub(super) fn forget(&mut self) {
        *self = Self { id: self.id, is_holder: self.is_holder, ..Self::default() };
    }

    fn is_due(&self) -> bool {
        self.has_more || self.due.is_none_or(|due| due <= Instant::now())
    }
}

impl Projector {
    pub(in crate::projections) fn has_more_to_sweep(&self) -> bool {
        self.sweep.has_more
    }

    /// The next part of the log to compare; empty where this process does not sweep, or not yet. Where a
    /// caller waits, it sweeps at once, up to the end of the log.
    pub(super) async fn next_page(&mut self, awaited: bool) -> Result<SweepPage> {
        let turn = awaited || (self.claim().await? && self.sweep.is_due());
        let Some(db) = self.connection.as_mut().filter(|_| turn) else {
            return Ok(SweepPage::default());
        };
        let row = db.query_one(sql!("sweep_look"), &[]).await?;
        let (place, end, is_any): (i64, i64, bool) = (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let now = Instant::now();
        self.sweep.due = Some(now + if is_any { TICK } else { RENEW });
        self.sweep.has_more = false;
        let behind_since = self.sweep.behind_since.take();
        let earlier = self.sweep.end.replace(end);
        let end = if awaited { Some(end) } else { earlier };
        let Some(end) = end.filter(|_| is_any) else { return Ok(SweepPage::default()) };
        let frames_max = limit(self.rows.portion.frames);
        // A statement of its own: it sees everything before `end`.
        let row = db.query_one(sql!("sweep_page"), &[&place, &end, &frames_max]).await?;
        let (last, count): (Option<i64>, i64) = (get(&row, 0)?, get(&row, 1)?);
        let mut behind: BTreeSet<i64> = get::<Vec<i64>>(&row, 2)?.into_iter().collect();
        behind.retain(|execution| !self.refused.contains(execution));
        if !behind.is_empty() && !awaited {
            let since = *self.sweep.behind_since.insert(behind_since.unwrap_or(now));
            if since.elapsed() < GRACE {
                return Ok(SweepPage::default());
            }
            tracing::info!(executions = behind.len(), "projecting what other processes left");
        }
        let next = last.map(|last| last + 1);
        Ok(SweepPage { behind, is_full: count == frames_max, next })
    }

    /// The rows show all of a page, or never will. Not on another connection than the one that read it: the
    /// server may have lost rows in between.
    pub(super) async fn pass(&mut self, page: &SweepPage) -> Result<()> {
        let next = page.next.filter(|_| self.sweep.end.is_some());
        if let (Some(next), Some(db)) = (next, &mut self.connection) {
            db.execute(sql!("sweep_pass"), &[&next]).await?;
            (self.sweep.behind_since, self.sweep.has_more) = (None, page.is_full);
        }
        Ok(())
    }

    /// Takes or renews the lease from time to time. Returns whether this process holds it.
    async fn claim(&mut self) -> Result<bool> {
        let is_fresh = self.sweep.claimed.is_some_and(|claimed| claimed.elapsed() < RENEW);
        if let (Some(db), false) = (&mut self.connection, is_fresh) {
            self.sweep.claimed = Some(Instant::now());
            let row = db.query_one(sql!("sweep_claim"), &[&self.sweep.id, &LEASE_MS]).await?;
            self.sweep.is_holder = get(&row, 0)?;
        }
        Ok(self.sweep.is_holder)
    }

    pub(super) async fn release(&mut self) -> Result<()> {
        if self.sweep.is_holder {
            self.connect().await?;
            if let Some(db) = &mut self.connection {
                db.execute(sql!("sweep_release"), &[&self.sweep.id]).await?;
            }
        }
        Ok(())
    }
}
