//! The results of a map that are too large for its output: read from the log, and written as one list
//! in the order of the items.
//!
//! The log has them in the order in which the items ended. Results that come early wait in memory, up to
//! a limit; beyond it, those of the last items are dropped and found again in another pass over the log.
//!
//! What looks like a reference in a blob is data. So a result that refers to blobs is written with their
//! contents in place of the references.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use waypost_core::apply::{apply, begin};
use waypost_core::blob::BlobRef;
use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::limits::BLOB_BYTES_MAX;
use waypost_core::path::At;
use waypost_core::plan::Plan;
use waypost_core::state::{ResultsTap, State};
use waypost_ports::blobs::{BlobError, Blobs, NotInlined, inline};
use waypost_ports::store::{LogReader, Store, StoredFrame};

use super::{Damage, Plans};

/// Bytes of results that wait for their turn.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bytes that are read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// Which results are read.
#[derive(Clone, Copy, Debug)]
pub struct ResultsOf {
    pub execution: ExecutionNo,
    pub map: At,
    pub attempt: u32,
    pub count: u64,
}

/// Puts the results of a map as a blob: its reference, or why the log cannot be read. One try.
pub fn put_results(
    blobs: &dyn Blobs,
    store: &dyn Store,
    plans: &Plans,
    of: ResultsOf,
) -> Result<Result<BlobRef, String>, BlobError> {
    let mut reader = ResultsReader::new((blobs, store), plans, of);
    match (blobs.put(&mut reader, BLOB_BYTES_MAX), reader.damage) {
        (Err(_), Some(damage)) => Ok(Err(damage)),
        (put, _) => put.map(Ok),
    }
}

/// Results as the text of a list.
struct ResultsReader<'a> {
    blobs: &'a dyn Blobs,
    store: &'a dyn Store,
    plans: &'a Plans,
    of: ResultsOf,
    log: LogReader<'a>,
    folded: Option<(Arc<Plan>, State)>,
    waiting: BTreeMap<u64, Json>,
    waiting_bytes: usize,
    waiting_bytes_max: usize,
    /// The item whose result is written next, and the one that was when this pass began.
    next: u64,
    pass_began_at: u64,
    text: io::Cursor<Vec<u8>>,
    closed: bool,
    /// Why the log cannot be read, now or ever.
    damage: Option<String>,
}

impl<'a> ResultsReader<'a> {
    fn new(
        (blobs, store): (&'a dyn Blobs, &'a dyn Store),
        plans: &'a Plans,
        of: ResultsOf,
    ) -> Self {
        Self {
            blobs,
            store,
            plans,
            of,
            log: LogReader::whole(store, of.execution),
            folded: None,
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            waiting_bytes_max: WAITING_BYTES_MAX,
            next: 0,
            pass_began_at: 0,
            text: io::Cursor::new(vec![b'[']),
            closed: false,
            damage: None,
        }
    }

    /// Reads on until there is some text, or the end.
    fn fill(&mut self) -> io::Result<()> {
        let mut text = Vec::new();
        while text.len() < CHUNK_BYTES && !self.closed {
            if let Some(result) = self.waiting.remove(&self.next) {
                self.waiting_bytes -= result.bytes();
                if self.next > 0 {
                    text.push(b',');
                }
                text.extend_from_slice(self.inlined(result)?.text().as_bytes());
                self.next += 1;
            } else if self.next == self.of.count {
                text.push(b']');
                self.closed = true;
            } else {
                match self.log.next() {
                    Some(frame) => self.take(&frame.map_err(io::Error::other)?)?,
                    None => self.begin_again()?,
                }
            }
        }
        self.text = io::Cursor::new(text);
        Ok(())
    }

    /// The result with the contents of its blobs. What is no JSON, or too large for a handler, too, stays
    /// as it is: its readers get the digest.
    fn inlined(&mut self, result: Json) -> io::Result<Json> {
        match inline(self.blobs, &result) {
            Ok(inlined) => Ok(inlined),
            Err(NotInlined::Blob(error)) if error.is_passing() => Err(io::Error::other(error)),
            Err(NotInlined::Blob(error)) => Err(self.damaged(error.to_string())),
            Err(NotInlined::TooLarge(_) | NotInlined::NotJson { .. } | NotInlined::Deep(_)) => {
                Ok(result)
            }
        }
    }

    fn begin_again(&mut self) -> io::Result<()> {
        if self.next == self.pass_began_at {
            return Err(self.damaged(format!("the log has no result of item {}", self.next)));
        }
        self.pass_began_at = self.next;
        self.log = LogReader::whole(self.store, self.of.execution);
        self.folded = None;
        self.waiting.clear();
        self.waiting_bytes = 0;
        Ok(())
    }

    fn take(&mut self, frame: &StoredFrame) -> io::Result<()> {
        let body = frame.body.as_ref().map_err(|reason| self.damaged(reason.clone()))?;
        let events = decode(body).map_err(|error| self.damaged(error.to_string()))?;
        for event in &events {
            let at = frame.header.decided_at;
            match &mut self.folded {
                None => self.folded = Some(self.start(event, at)?),
                Some((plan, state)) => {
                    let applied = apply(plan, state, event, at).map_err(|error| error.to_string());
                    applied.map_err(|reason| self.damaged(reason))?;
                }
            }
        }
        let tap = self.folded.as_mut().and_then(|(_, state)| state.tap.as_mut());
        let results = tap.map(|tap| std::mem::take(&mut tap.results)).unwrap_or_default();
        for (index, result) in results {
            self.wait(index, result);
        }
        Ok(())
    }

    fn start(
        &mut self,
        event: &Event,
        at: waypost_core::time::Timestamp,
    ) -> io::Result<(Arc<Plan>, State)> {
        let Event::Run(RunEvent::Created(created)) = event else {
            return Err(self.damaged("the log does not begin with RunCreated".to_owned()));
        };
        let plan = match self.plans.get(created.definition, self.store) {
            Ok(plan) => plan,
            // It is read again.
            Err(Damage::Store(error)) => return Err(io::Error::other(error)),
            Err(damage) => return Err(self.damaged(damage.to_string())),
        };
        let mut state = begin(&plan, self.of.execution, event, at)
            .map_err(|error| self.damaged(error.to_string()))?;
        let ResultsOf { map, attempt, .. } = self.of;
        state.tap = Some(Box::new(ResultsTap { map, attempt, results: Vec::new() }));
        Ok((plan, state))
    }

    fn wait(&mut self, index: u64, result: Json) {
        if index < self.next {
            return;
        }
        self.waiting_bytes += result.bytes();
        if let Some(before) = self.waiting.insert(index, result) {
            self.waiting_bytes -= before.bytes();
        }
        while self.waiting_bytes > self.waiting_bytes_max
            && let Some((index, result)) = self.waiting.pop_last()
        {
            if index == self.next {
                // It is written next, however large it is.
                self.waiting.insert(index, result);
                return;
            }
            self.waiting_bytes -= result.bytes();
        }
    }

    fn damaged(&mut self, reason: String) -> io::Error {
        self.damage = Some(reason.clone());
        io::Error::other(reason)
    }
}

impl Read for ResultsReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.text.read(buffer)?;
        if read > 0 || self.closed || buffer.is_empty() {
            return Ok(read);
        }
        self.fill()?;
        self.text.read(buffer)
    }
}
