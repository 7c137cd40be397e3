//! The calls of a poll: reads pages, fires their items, and moves the cursor when all of a page are dealt with.

use std::ops::ControlFlow;
use std::sync::Arc;

use waypost_core::failure::Failure;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{PollCursor, PollTrigger, TriggerCursor, TriggerKind};
use waypost_ports::source::PageRequest;
use waypost_ports::triggers::{Settlement, TriggerRow};

use super::FireError;
use super::items::{GOES_ON, PageEnd, READ_TIMEOUT, failed, settlement};
use super::polls::{PageItems, page_request, read_page};
use super::work::TriggerWork;

/// How long a source is read page after page before others have their turn.
pub(super) const TURN_MAX: Millis = Millis::from_secs(20);

/// A poll that is worked on.
struct PollTurn<'a> {
    row: TriggerRow,
    poll: &'a PollTrigger,
    now: Timestamp,
}

impl TriggerWork {
    /// Reads the pages of a poll that are there now.
    pub(super) async fn on_poll(
        &self,
        row: TriggerRow,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, FireError> {
        let planned = self.firing.planned(&row).await?;
        let TriggerKind::Poll(poll) = &planned.trigger.kind else { return Ok(None) };
        let mut turn = PollTurn { row, poll, now };
        let until = self.firing.now().plus(TURN_MAX);
        loop {
            let TriggerCursor::Poll(cursor) = turn.row.cursor.clone() else { return Ok(None) };
            let next = match self.read(&turn, &cursor).await {
                Ok(Some(page)) => self.on_page(&turn, page).await?,
                Ok(None) => Some(turn.unchanged(cursor)),
                Err(failure) => Some(turn.failed(cursor, (&failure, self.firing.engine.jitter()))),
            };
            match self.after_page(&mut turn.row, next, until).await? {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(due) => return Ok(due),
            }
        }
    }

    /// The items of the next page; `None` where nothing has changed.
    async fn read(
        &self,
        turn: &PollTurn<'_>,
        cursor: &PollCursor,
    ) -> Result<Option<PageItems>, Failure> {
        let rendered = page_request(turn.poll, cursor)?;
        let request = PageRequest {
            workflow: Arc::clone(&turn.row.workflow),
            trigger: Arc::clone(&turn.row.name),
            config: rendered.config,
            secrets: rendered.secrets,
            etag: cursor.etag.clone(),
            timeout: READ_TIMEOUT,
        };
        let page = self.pages.read(request).await?;
        if cursor.etag.is_some() && page.is_unchanged() {
            return Ok(None);
        }
        read_page(turn.poll, cursor, &page).map(Some)
    }

    /// Fires the items of a page.
    async fn on_page(
        &self,
        turn: &PollTurn<'_>,
        page: PageItems,
    ) -> Result<Option<PageEnd>, FireError> {
        let PageItems { items, mut cursor, more } = page;
        if is_planted(Bug::CursorOutsideCommit) {
            let moved = turn.settlement(cursor.clone(), turn.now.plus(turn.poll.every));
            self.firing.store(moved).await?;
        }
        let Some(fired) = self.fire_page(&turn.row, items, cursor.dead_in_a_row).await? else {
            return Ok(None);
        };
        cursor.dead_in_a_row = fired.dead_in_a_row;
        let wait = if more { GOES_ON } else { turn.poll.every };
        let TriggerCursor::Poll(before) = &turn.row.cursor else { return Ok(None) };
        // A broken trigger reads the page again when it is resumed: not all of it was fired.
        let cursor = match fired.broken {
            Some(_) => PollCursor { etag: None, ..before.clone() },
            None => cursor,
        };
        let settlement = Settlement {
            fires: fired.settled,
            broken: fired.broken,
            ..turn.settlement(cursor, turn.now.max(self.firing.now()).plus(wait))
        };
        Ok(Some((settlement, more)))
    }
}

impl PollTurn<'_> {
    fn unchanged(&self, cursor: PollCursor) -> PageEnd {
        (self.settlement(cursor, self.now.plus(self.poll.every)), false)
    }

    fn failed(&self, cursor: PollCursor, failure: (&Failure, u32)) -> PageEnd {
        // A page that may have been the reason is read in full.
        let cursor = TriggerCursor::Poll(PollCursor { etag: None, ..cursor });
        (failed(&self.row, cursor, self.now, failure), false)
    }

    fn settlement(&self, cursor: PollCursor, next_due: Timestamp) -> Settlement {
        settlement(&self.row, TriggerCursor::Poll(cursor), next_due)
    }
}
