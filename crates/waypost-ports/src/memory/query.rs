//! Lists and logs of the store in memory, folded anew for each question.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;

use waypost_core::frame;
use waypost_core::id::{ExecutionId, ExecutionNo, InstanceId};
use waypost_core::json::Json;
use waypost_core::projection::{Changes, Stamp};
use waypost_core::time::{Millis, Timestamp};

use super::tables::{KeptDefinition, LeaseRow};
use super::{MemoryStore, Tables};
use crate::inspect::open_waits;
use crate::query::{
    BACKLOG_MAX, Backlog, DefinitionPage, DefinitionRow, DefinitionsRequest, EventRow,
    EventsRequest, ExecutionPage, ExecutionRow, FEED_BYTES_MAX, FeedFrame, FeedPosition,
    FeedRequest, Filter, InstanceRow, ListRequest, Looked, MAIL_ROW_BYTES, PageBudget,
    ProjectionLag, Query, Read, Submitted, WaitCollector, WaitPage, WaitsRequest, read_events,
};
use crate::store::{History, Mail, MailOf, Store, StoreError, StoredFrame};

impl Query for MemoryStore {
    fn find(&self, key: Option<&str>) -> Result<Option<ExecutionNo>, StoreError> {
        self.with(|data, _| {
            Ok(match key {
                Some(key) => data.keys.get(&ExecutionId(key.into())).copied(),
                None => data.frames.keys().next_back().map(|(execution, _)| *execution),
            })
        })
    }

    fn submitted(&self, idempotency: &str) -> Result<Option<Submitted>, StoreError> {
        self.with(|data, _| {
            let known = data.idempotency.get(idempotency).copied();
            Ok(known.map(|(execution, digest)| Submitted { execution, digest }))
        })
    }

    fn look(&self, execution: ExecutionNo) -> Result<Option<History>, StoreError> {
        self.load(execution)
    }

    fn is_unfinished(&self, execution: ExecutionNo) -> Result<bool, StoreError> {
        self.with(|data, _| Ok(data.control.contains_key(&execution)))
    }

    fn list(&self, request: &ListRequest) -> Result<ExecutionPage, StoreError> {
        self.with(|data, _| {
            let ListRequest { statuses, workflow, before, .. } = request;
            let listed = data.listed().into_iter().rev().filter(|Listed { row, .. }| {
                (statuses.is_empty() || statuses.contains(&row.view.status))
                    && workflow.as_deref().is_none_or(|name| *row.workflow == *name)
                    && before.is_none_or(|before| row.execution < before)
            });
            let (rows, next) = page(listed, request, PageBudget::PAGE);
            Ok(ExecutionPage { rows, next, lag: data.lag() })
        })
    }

    fn waits(&self, request: &WaitsRequest) -> Result<WaitPage, StoreError> {
        self.with(|data, _| {
            let mut all = data.waits();
            all.retain(|row| request.kind.is_none_or(|kind| *row.kind == *kind));
            all.sort_by_key(|row| Reverse((row.execution, row.seq)));
            let mut collector = WaitCollector::new(request);
            while let Some((before, wanted)) = collector.wants() {
                let behind = all.iter().filter(|row| (row.execution, row.seq) < before);
                collector.take(behind.take(wanted).cloned().collect(), wanted);
            }
            Ok(collector.page(data.lag()))
        })
    }

    fn events(&self, request: &EventsRequest) -> Result<Vec<EventRow>, StoreError> {
        self.with(|data, _| {
            let frames = data.frames_from(request.execution, 0);
            let mut rows = Vec::new();
            for stored in frames.filter(|stored| stored.header.last_seq > request.after) {
                read_events(stored, request, &mut rows);
            }
            Ok(rows)
        })
    }

    fn feed(&self, request: &FeedRequest) -> Result<Vec<FeedFrame>, StoreError> {
        self.with(|data, _| Ok(data.feed(request)))
    }

    fn weigh(&self, read: Read) -> Result<u64, StoreError> {
        let bytes_of = |frame: &StoredFrame| frame.body.as_ref().map_or(0, Vec::len);
        let mail_bytes = |mail: &Mail| serde_json::to_vec(&mail.body).map_or(0, |body| body.len());
        let bytes = match read {
            Read::State(execution) => self.with(|data, _| {
                let kept = data.snapshots.get(&execution);
                let from = kept.map_or(0, |kept| kept.first_seq);
                let frames: usize = data.frames_from(execution, from).map(bytes_of).sum();
                let mail = data.collect(MailOf::Execution(execution), usize::MAX);
                let mail: usize = mail.iter().map(mail_bytes).sum();
                frames + mail + kept.map_or(0, |kept| kept.snapshot.body.len())
            }),
            Read::Mail(execution) => {
                let row = |mail: &Mail| mail_bytes(mail) + MAIL_ROW_BYTES;
                self.collect(MailOf::Execution(execution), usize::MAX)?.iter().map(row).sum()
            }
            Read::Events { execution, after, limit, bytes } => self.with(|data, _| {
                let frames = data.frames_from(execution, 0);
                let mut sum = 0;
                for frame in frames.filter(|frame| frame.header.last_seq > after).take(limit) {
                    if sum >= bytes {
                        break;
                    }
                    sum += bytes_of(frame);
                }
                sum
            }),
            Read::Feed(request) => self
                .with(|data, _| data.feed(&request).iter().map(|fed| bytes_of(&fed.frame)).sum()),
        };
        Ok(bytes as u64)
    }

    fn feed_end(&self) -> Result<FeedPosition, StoreError> {
        self.with(|data, _| Ok(FeedPosition(data.commits.len() as u64)))
    }

    fn definitions(&self, request: &DefinitionsRequest) -> Result<DefinitionPage, StoreError> {
        self.with(|data, _| Ok(data.list_definitions(request)))
    }

    fn current(&self, workflow: &str) -> Result<Option<DefinitionRow>, StoreError> {
        self.with(|data, _| {
            let is_current = |row: &DefinitionRow| row.version == row.current;
            let mut versions = data.definition_rows().into_iter();
            Ok(versions.find(|row| *row.workflow == *workflow && is_current(row)))
        })
    }

    fn instances(&self) -> Result<Vec<InstanceRow>, StoreError> {
        self.with(|data, now| Ok(data.instances(now)))
    }

    fn backlog(&self) -> Result<Backlog, StoreError> {
        self.with(|data, now| Ok(data.backlog(now)))
    }

    fn lag(&self) -> Result<ProjectionLag, StoreError> {
        self.with(|data, _| Ok(data.lag()))
    }

    fn rebuild(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<u64, StoreError> {
        let frames = self.with(|data, _| data.frames.len() as u64);
        progress(frames, frames);
        Ok(frames)
    }
}

/// A row, with the other fields that a filter tests.
struct Listed {
    row: ExecutionRow,
    input: Json,
    output: Option<Json>,
}

impl Tables {
    /// Rows of all executions, by number.
    fn listed(&self) -> Vec<Listed> {
        let mut changes: BTreeMap<ExecutionNo, Changes> = BTreeMap::new();
        for ((execution, _), stored) in &self.frames {
            fold(changes.entry(*execution).or_default(), stored);
        }
        changes.iter().filter_map(|(execution, changes)| listed(*execution, changes)).collect()
    }

    fn backlog(&self, now: Timestamp) -> Backlog {
        let unowned = || {
            let controls = self.control.values().map(|row| &row.control);
            controls.filter(|control| control.owner.is_none())
        };
        let due = || {
            let waiting = unowned().filter(|control| !control.ready);
            waiting.filter_map(|control| control.next_due).filter(|due| *due <= now)
        };
        let bounded = |count: usize| (count as u64).min(BACKLOG_MAX);
        let ready = unowned().filter(|control| control.ready).count();
        Backlog {
            executions: bounded(ready) + bounded(due().count()),
            oldest: due().min().map_or(Millis(0), |due| now.since(due)),
        }
    }

    /// Rows are folded on demand, and so are never behind.
    fn lag(&self) -> ProjectionLag {
        let newest = self.commits.last().and_then(|place| self.frames.get(place));
        ProjectionLag { frames: 0, as_of: newest.map(|frame| frame.at) }
    }

    fn feed(&self, request: &FeedRequest) -> Vec<FeedFrame> {
        let after = usize::try_from(request.after.0).unwrap_or(usize::MAX);
        let mut page = Vec::new();
        let mut bytes = 0;
        for (position, place) in (1..).zip(&self.commits).skip(after) {
            if page.len() >= request.limit || bytes >= FEED_BYTES_MAX {
                break;
            }
            let Some(frame) = self.frames.get(place) else { continue };
            bytes += frame.body.as_ref().map_or(0, Vec::len);
            let position = FeedPosition(position);
            page.push(FeedFrame { position, key: self.key_of(place.0), frame: frame.clone() });
        }
        page
    }

    fn key_of(&self, execution: ExecutionNo) -> Arc<str> {
        let key = self.keys.iter().find(|(_, holder)| **holder == execution);
        key.map_or_else(|| "".into(), |(key, _)| Arc::clone(&key.0))
    }

    fn definition_rows(&self) -> Vec<DefinitionRow> {
        let row = |kept: &KeptDefinition| DefinitionRow {
            workflow: Arc::clone(&kept.definition.name),
            version: kept.definition.version,
            hash: kept.definition.hash,
            created_at: Some(kept.created_at),
            current: self.current_versions.get(&kept.definition.name).copied().unwrap_or_default(),
        };
        self.definitions.iter().map(row).collect()
    }

    fn list_definitions(&self, request: &DefinitionsRequest) -> DefinitionPage {
        let place = |row: &DefinitionRow| (Arc::clone(&row.workflow), Reverse(row.version));
        let mut rows = self.definition_rows();
        rows.sort_by_key(place);
        match &request.workflow {
            Some(name) => rows.retain(|row| *row.workflow == **name),
            None => rows.dedup_by_key(|row| Arc::clone(&row.workflow)),
        }
        if let Some((name, version)) = &request.after {
            let after = (name.as_str().into(), Reverse(*version));
            rows.retain(|row| place(row) > after);
        }
        let more = rows.len() > request.limit;
        rows.truncate(request.limit);
        DefinitionPage { rows, more }
    }

    fn instances(&self, now: Timestamp) -> Vec<InstanceRow> {
        let mut owned: BTreeMap<InstanceId, u64> = BTreeMap::new();
        for owner in self.control.values().filter_map(|row| row.control.owner) {
            *owned.entry(owner).or_default() += 1;
        }
        let known: BTreeSet<_> = self.leases.keys().chain(owned.keys()).copied().collect();
        let rows = known.into_iter().map(|instance| {
            let never = LeaseRow::default();
            let lease = self.leases.get(&instance).unwrap_or(&never);
            InstanceRow {
                instance,
                alive_until: lease.until,
                alive: self.is_alive(instance, now),
                fold: lease.fold,
                owned: owned.get(&instance).copied().unwrap_or(0),
                about: lease.about.clone(),
                silent: lease.renewed_at.map(|at| now.since(at)),
            }
        });
        rows.filter(|row| row.alive || row.owned > 0).collect()
    }
}

/// The rows of a page, and where the next one starts.
fn page(
    listed: impl Iterator<Item = Listed>,
    request: &ListRequest,
    mut budget: PageBudget,
) -> (Vec<ExecutionRow>, Option<ExecutionNo>) {
    let filter = Filter::of(request);
    let mut rows: Vec<ExecutionRow> = Vec::new();
    let mut seen = None;
    for Listed { row, input, output } in listed {
        if let Some(filter) = &filter {
            if budget.is_spent() {
                return (rows, seen);
            }
            let looked = look(&row, &input, output.as_ref());
            seen = Some(row.execution);
            let Ok(fits) = filter.fits(&looked, &mut budget, || Ok::<_, Infallible>(row.clone()));
            if !fits {
                continue;
            }
        }
        if rows.len() == request.limit {
            let next = rows.last().map(|row| row.execution);
            return (rows, next);
        }
        rows.push(row);
    }
    (rows, None)
}

fn look<'a>(row: &'a ExecutionRow, input: &'a Json, output: Option<&'a Json>) -> Looked<'a> {
    Looked {
        created_at: row.created_at,
        labels: &row.labels,
        key: &row.key,
        error: row.view.error.as_deref(),
        input: input.text(),
        output: output.map_or("", Json::text),
    }
}

/// Adds the events of a frame; returns whether it has any that can be read.
pub(super) fn fold(changes: &mut Changes, stored: &StoredFrame) -> bool {
    let events = stored.body.as_ref().ok().and_then(|body| frame::decode(body).ok());
    let events = events.unwrap_or_default();
    let any = !events.is_empty();
    for (seq, event) in (stored.header.first_seq..).zip(events) {
        changes.apply(Stamp { seq, at: stored.header.decided_at }, event);
    }
    any
}

fn listed(execution: ExecutionNo, changes: &Changes) -> Option<Listed> {
    let created = changes.created.as_ref()?;
    let row = ExecutionRow {
        execution,
        key: Arc::clone(&created.run.key.0),
        workflow: Arc::clone(&created.run.workflow),
        version: created.run.version,
        created_at: created.at,
        labels: created.run.labels.clone(),
        failure: changes.end.as_ref().and_then(|end| end.failure.clone()),
        resume_at: open_waits(&changes.waits).into_iter().filter_map(|wait| wait.due).min(),
        view: changes.view.clone(),
    };
    let output = changes.end.as_ref().and_then(|end| end.output.clone());
    Some(Listed { row, input: created.run.input.clone(), output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::rig::created;

    fn rows(count: i64) -> Vec<Listed> {
        let row = |number: i64| {
            let run = Box::new(created(&format!("key-{number}"), "w"));
            let at = Timestamp(number);
            let created = Some(waypost_core::projection::Created { at, run });
            listed(ExecutionNo(number), &Changes { created, ..Changes::default() })
        };
        (1..=count).rev().filter_map(row).collect()
    }

    #[test]
    fn page_whose_budget_is_spent_ends_and_the_next_continues() {
        let text = Some("key-1".to_owned());
        let mut request = ListRequest { text, limit: 100, ..ListRequest::default() };
        let budget = PageBudget { rows: 4, ..PageBudget::PAGE };
        let (mut found, mut pages) = (Vec::new(), 0);
        loop {
            let older = |listed: &Listed| request.before.is_none_or(|b| listed.row.execution < b);
            let (rows, next) = page(rows(10).into_iter().filter(older), &request, budget);
            found.extend(rows.iter().map(|row| row.execution.0));
            pages += 1;
            match next {
                Some(_) => request.before = next,
                None => break,
            }
        }
        assert_eq!((found, pages), (vec![10, 1], 3));
    }
}
