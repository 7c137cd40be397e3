//! The events of an execution as they come: from a server's stream, or by looking at the log of a
//! folder where an engine of another process is at work.

use std::time::Duration;

use anyhow::Result;
use waypost_core::transitions::is_end;

use super::{EventsOf, Folder, Target, answered};
use crate::client::{News, Stream};

/// How often the log is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Events read at once.
const PAGE: usize = 200;

/// Follows one execution from its first event.
pub(crate) enum Feed<'a> {
    /// Received from a server.
    Stream(Box<Stream>),
    /// Read from the log.
    Log(Log<'a>),
}

/// A place in a log.
pub(crate) struct Log<'a> {
    folder: &'a Folder,
    execution: String,
    after: u64,
    /// Was the last event an end?
    at_end: bool,
}

impl Target {
    /// Follows an execution from its first event.
    pub(crate) async fn follow(&self, id: &str) -> Result<Feed<'_>> {
        match self {
            Self::Remote(client) => {
                Ok(Feed::Stream(Box::new(Stream::open(client.clone(), id).await?)))
            }
            Self::Folder(folder) => {
                folder.find(id)?;
                Ok(Feed::Log(Log { folder, execution: id.to_owned(), after: 0, at_end: false }))
            }
        }
    }
}

impl Feed<'_> {
    /// What happens next. The feed cannot be used after this future was dropped.
    pub(crate) async fn next(&mut self) -> Result<News> {
        match self {
            Self::Stream(stream) => stream.next().await,
            Self::Log(log) => log.next().await,
        }
    }
}

impl Log<'_> {
    async fn next(&mut self) -> Result<News> {
        loop {
            // In this order: events that are not there after the end, or after the engine has gone,
            // will not come.
            let over = self.at_end && self.has_ended()?;
            let driven = self.folder.store.engine().is_some();
            let wanted = EventsOf { after: self.after, limit: PAGE, ..EventsOf::default() };
            let page = self.folder.events(&self.execution, &wanted)?;
            if let Some(last) = page.events.last() {
                self.after = last.seq;
                self.at_end = is_end(&last.kind);
                return Ok(News::Events(page.events));
            }
            if over {
                return Ok(News::Over);
            }
            if self.at_end {
                continue;
            }
            if !driven {
                return Ok(News::Abandoned);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Called only if the last event looks like an end: it folds the log.
    fn has_ended(&self) -> Result<bool> {
        let execution = answered(self.folder.reader.execution(&self.execution))?;
        Ok(execution.status.0.is_end())
    }
}
