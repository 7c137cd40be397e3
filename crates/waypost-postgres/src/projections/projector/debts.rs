//! What this process owes, and what others owed when they died: marks, and comparing rows with the log from
//! a mark on. Why that is enough is told one level up.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{LEASE_MS, Lease, Mark, Projector};
use crate::error::DbError;
use crate::projections::queries;
use crate::projections::queue::Queue;
use crate::text::{get, limit};

/// How often a process says that it is alive.
const RENEW: Duration = Duration::from_secs(5);

impl Projector {
    /// Takes on what a process owed whose lease has ended, if there is one. Says whether there was.
    pub(in crate::projections) async fn take_over(&mut self) -> Result<bool, DbError> {
        self.connect().await?;
        self.rows.portion = self.pace_of_debts.portion();
        let result = self.show_debts().await;
        // Having found nothing to do says nothing about how much can be done.
        if !matches!(result, Ok(false)) {
            self.pace_of_debts.judge(&result);
        }
        result
    }

    async fn show_debts(&mut self) -> Result<bool, DbError> {
        let Some(connection) = &mut self.connection else { return Ok(false) };
        let taken = connection.query_opt(queries::PROJECTOR_TAKE, &[&self.id, &LEASE_MS]).await?;
        let Some(taken) = taken else { return Ok(false) };
        let (id, mut place): (Uuid, i64) = (get(&taken, 0)?, get(&taken, 1)?);
        let mut version: String = get(&taken, 2)?;
        // A lease lasts longer than a statement may: all that it ever committed can be seen by now, and
        // lies before this, however old a transaction of somebody else is still under way.
        let end = self.log_end().await?;
        tracing::info!(process = %id, "projecting commits that a dead process left behind");
        loop {
            let reached = self.compare(place, end).await?;
            place = reached.unwrap_or(end);
            let Some(connection) = &mut self.connection else { return Ok(false) };
            let params: [&(dyn ToSql + Sync); 5] = [&id, &place, &end, &LEASE_MS, &version];
            match connection.query_opt(queries::PROJECTOR_SETTLED, &params).await? {
                Some(row) => version = get(&row, 0)?,
                // That was all, or the process shows the rest itself.
                None => return Ok(true),
            }
        }
    }

    /// Removes the row of this process, which owes nothing any more.
    pub(in crate::projections) async fn leave(&mut self) -> Result<(), DbError> {
        if self.lease.lock().done.is_some() {
            self.connect().await?;
            if let Some(connection) = &mut self.connection {
                connection.execute(queries::PROJECTOR_END, &[&self.id]).await?;
            }
        }
        Ok(())
    }

    /// Compares everything since the mark with the log: the connection before this one may have ended
    /// because the server lost what it had committed last.
    pub(super) async fn compare_again(&mut self) -> Result<(), DbError> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let row = connection.query_opt(queries::PROJECTOR_DONE, &[&self.id]).await?;
        let stored: Option<i64> = row.map(|row| get(&row, 0)).transpose()?;
        let known = self.lease.lock().done;
        let older = known.into_iter().chain(stored).min();
        if let Some(mut place) = older {
            let end = self.log_end().await?;
            while let Some(reached) = self.compare(place, end).await? {
                place = reached;
            }
        }
        self.compared = true;
        Ok(())
    }

    /// Compares frames from a place on with the rows of their executions, and shows what is missing. Gives
    /// the place to go on from; nothing when that was all before `end`.
    async fn compare(&mut self, place: i64, end: i64) -> Result<Option<i64>, DbError> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let frames_max = limit(self.rows.portion.frames);
        let row = connection.query_one(queries::OWED, &[&place, &end, &frames_max]).await?;
        let (last, count): (Option<i64>, i64) = (get(&row, 0)?, get(&row, 1)?);
        let mut behind: BTreeSet<i64> = get::<Vec<i64>>(&row, 2)?.into_iter().collect();
        // Whoever is faster has shown it; one more look tells.
        while !behind.is_empty() {
            behind = self.catch_up(behind).await?;
        }
        Ok(last.filter(|_| count == frames_max).map(|last| last + 1))
    }

    /// Moves the mark of this process on, where that is called for.
    pub(super) async fn advance(
        &mut self,
        queue: &Queue,
        heard_before: u64,
    ) -> Result<(), DbError> {
        let (done, confirmed) = {
            let lease = self.lease.lock();
            (lease.done, lease.confirmed)
        };
        let Some(done) = done else { return Ok(()) };
        let (end, more) = self.place_end(done).await?;
        let mark = self.mark.filter(|mark| mark.appends_before <= heard_before);
        let late = confirmed.is_none_or(|confirmed| confirmed.elapsed() >= RENEW);
        if let Some(mark) = mark.filter(|mark| (more && mark.place > done) || late)
            && let Some(connection) = &mut self.connection
        {
            let asked = Instant::now();
            let place = mark.place.max(done);
            connection.query_one(queries::PROJECTOR_MARK, &[&self.id, &place, &LEASE_MS]).await?;
            *self.lease.lock() = Lease { done: Some(place), confirmed: Some(asked) };
            self.unsettled = false;
            self.mark = None;
        }
        if self.mark.is_none_or(|mark| mark.place < end) && self.mark_is_spent(heard_before) {
            // Read before the number, so that every append that could be before it counts.
            self.mark = Some(Mark { place: end, appends_before: queue.next_append() });
        }
        Ok(())
    }

    /// A mark that still waits for an append is kept: a newer one would wait for more of them, for ever
    /// where there is always one under way.
    fn mark_is_spent(&self, heard_before: u64) -> bool {
        self.mark.is_none_or(|mark| mark.appends_before <= heard_before)
    }

    /// The place before which stands everything that is committed.
    async fn log_end(&mut self) -> Result<i64, DbError> {
        let Some(connection) = &mut self.connection else { return Ok(0) };
        get(&connection.query_one(queries::LOG_END, &[]).await?, 0)
    }

    /// The place before which nothing new can appear, and whether there are frames from `place` on.
    async fn place_end(&mut self, place: i64) -> Result<(i64, bool), DbError> {
        let Some(connection) = &mut self.connection else { return Ok((place, false)) };
        let row = connection.query_one(queries::FRAMES_SINCE, &[&place]).await?;
        Ok((get(&row, 0)?, get(&row, 1)?))
    }
}
