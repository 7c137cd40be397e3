//! Reading a log page by page, so that no more than one page of it is in memory.

use waypost_core::frame::FrameHeader;
use waypost_core::id::ExecutionNo;

use super::{History, Store, StoreError, StoredFrame};

/// The frames of one execution, in order. Reads the next page when one is used up.
pub struct LogReader<'a> {
    store: &'a dyn Store,
    execution: ExecutionNo,
    page: std::vec::IntoIter<StoredFrame>,
    /// The last seq that was returned.
    read: u64,
    /// The last seq to return.
    end: u64,
}

impl<'a> LogReader<'a> {
    /// The whole log, up to its end when it is reached.
    pub fn whole(store: &'a dyn Store, execution: ExecutionNo) -> Self {
        let page = Vec::new().into_iter();
        Self { store, execution, page, read: 0, end: u64::MAX }
    }

    fn next_page(&mut self) -> Result<(), StoreError> {
        let mut page = self.store.load_after(self.execution, self.read)?;
        page.retain(|frame| frame.header.first_seq <= self.end);
        let advances = page.last().is_some_and(|last| last.header.last_seq > self.read);
        if !advances {
            // The log became shorter, or its rows cannot be read: this page is the last one.
            self.end = self.read;
        }
        self.page = page.into_iter();
        Ok(())
    }
}

impl Iterator for LogReader<'_> {
    type Item = Result<StoredFrame, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.page.as_slice().is_empty()
            && self.read < self.end
            && let Err(error) = self.next_page()
        {
            self.end = self.read;
            return Some(Err(error));
        }
        let frame = self.page.next()?;
        self.read = self.read.max(frame.header.last_seq);
        Some(Ok(frame))
    }
}

impl History {
    /// The header of the log's last frame.
    pub fn last_header(&self) -> Option<&FrameHeader> {
        self.last.as_ref().or(self.frames.last().map(|frame| &frame.header))
    }

    /// Takes its frames, and reads those after them, up to the end of the log at the time of this
    /// history: its control row, permit and mail are of that time.
    pub fn take_log<'a>(&mut self, store: &'a dyn Store) -> LogReader<'a> {
        let page = std::mem::take(&mut self.frames).into_iter();
        let end = self.last.map_or(0, |last| last.last_seq);
        LogReader { store, execution: self.execution, page, read: 0, end }
    }

    /// The log from its first frame on, up to the same end.
    pub fn whole_log<'a>(&self, store: &'a dyn Store) -> LogReader<'a> {
        let end = self.last_header().map_or(0, |last| last.last_seq);
        LogReader { end, ..LogReader::whole(store, self.execution) }
    }
}
