//! The event triggers that are active or broken, by the types that they want: read again whenever the store's
//! roster has changed, which each publish asks about. So an event reaches a trigger that was deployed before it
//! was published, through any instance.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::trigger::{EventTrigger, Trigger, TriggerKind, TriggerKindName, Window};
use waypost_engine::triggers::{FireError, Firing};
use waypost_ports::store::StoreError;
use waypost_ports::triggers::rules::has_topic;
use waypost_ports::triggers::{TriggerRow, TriggerState, Triggers, TriggersRequest};

/// Triggers that are read at once.
const PAGE: usize = 500;

/// An event trigger with its row.
pub(crate) struct EventTriggerEntry {
    pub(crate) row: TriggerRow,
    pub(crate) trigger: Arc<Trigger>,
}

impl EventTriggerEntry {
    fn event(&self) -> Option<&EventTrigger> {
        match &self.trigger.kind {
            TriggerKind::Event(event) => Some(event),
            _ => None,
        }
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.row.state == TriggerState::Broken
    }

    /// Its window, if it has one.
    pub(crate) fn window(&self) -> Option<&Window> {
        self.event()?.window.as_ref()
    }
}

/// All event triggers that are active or broken at one revision of the roster.
#[derive(Default)]
pub(crate) struct EventTriggers {
    revision: u64,
    entries: Vec<Arc<EventTriggerEntry>>,
    by_type: HashMap<String, Vec<usize>>,
    /// By the beginning of a type.
    by_prefix: HashMap<String, Vec<usize>>,
    /// Those whose definitions this build cannot read.
    unreadable: Vec<TriggerRow>,
}

impl EventTriggers {
    fn new(revision: u64, entries: Vec<EventTriggerEntry>, unreadable: Vec<TriggerRow>) -> Self {
        let entries = entries.into_iter().map(Arc::new).collect();
        let mut all = Self { revision, entries, unreadable, ..Self::default() };
        for (at, entry) in all.entries.iter().enumerate() {
            for pattern in entry.event().into_iter().flat_map(|event| &event.types) {
                match pattern.strip_suffix('*') {
                    Some(prefix) => all.by_prefix.entry(prefix.to_owned()).or_default().push(at),
                    None => all.by_type.entry(pattern.to_string()).or_default().push(at),
                }
            }
        }
        all
    }

    /// A trigger that may want events of this type, and that this build cannot read: it would miss them.
    pub(crate) fn unreadable(&self, kind: &str) -> Option<&TriggerRow> {
        self.unreadable.iter().find(|row| has_topic(&row.topics, kind))
    }

    /// The triggers for an event of this type and source.
    pub(crate) fn of(&self, kind: &str, source: &str) -> Vec<Arc<EventTriggerEntry>> {
        let mut found: BTreeSet<usize> =
            self.by_type.get(kind).into_iter().flatten().copied().collect();
        let ends = kind.char_indices().map(|(at, _)| at).chain([kind.len()]);
        for prefix in ends.filter_map(|end| kind.get(..end)) {
            found.extend(self.by_prefix.get(prefix).into_iter().flatten());
        }
        let entries = found.into_iter().filter_map(|at| self.entries.get(at));
        let wants = |entry: &&Arc<EventTriggerEntry>| {
            entry.event().is_some_and(|event| event.matches(kind, source))
        };
        entries.filter(wants).map(Arc::clone).collect()
    }
}

/// The event triggers as they were read last.
#[derive(Default)]
pub(crate) struct KnownEventTriggers(Mutex<Arc<EventTriggers>>);

impl KnownEventTriggers {
    /// The event triggers as they are now.
    pub(crate) async fn current(&self, firing: &Firing) -> Result<Arc<EventTriggers>, FireError> {
        let known = Arc::clone(&*self.0.lock());
        let triggers = Arc::clone(&firing.triggers);
        let before = known.revision;
        let read = tokio::task::spawn_blocking(move || read(&*triggers, before)).await;
        let read = read.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        let Some((revision, rows)) = read else { return Ok(known) };
        let (mut entries, mut unreadable) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let trigger = match firing.planned(&row).await {
                Ok(planned) => planned.trigger,
                Err(FireError::Store(error)) => return Err(error.into()),
                Err(FireError::Definition(reason)) => {
                    tracing::error!(workflow = %row.workflow, trigger = %row.name, reason, "event trigger");
                    unreadable.push(row);
                    continue;
                }
            };
            entries.push(EventTriggerEntry { row, trigger });
        }
        let read = Arc::new(EventTriggers::new(revision, entries, unreadable));
        let mut known = self.0.lock();
        if known.revision <= revision {
            *known = Arc::clone(&read);
        }
        Ok(read)
    }
}

/// The rows of those that are active, or broken, unless the roster is as it was. Rows of every state are read, so
/// that none is passed over whose state changes meanwhile. The revision is read before them: what changes
/// meanwhile is read again by the next publish.
fn read(triggers: &dyn Triggers, known: u64) -> Result<Option<(u64, Vec<TriggerRow>)>, StoreError> {
    let revision = triggers.roster_revision()?;
    if revision == known {
        return Ok(None);
    }
    let mut request = TriggersRequest {
        kind: Some(TriggerKindName::Event),
        limit: PAGE,
        ..TriggersRequest::default()
    };
    let mut rows: Vec<TriggerRow> = Vec::new();
    loop {
        let page = triggers.triggers(&request)?;
        rows.extend(page.rows);
        let Some(last) = rows.last().filter(|_| page.more) else {
            rows.retain(|row| matches!(row.state, TriggerState::Active | TriggerState::Broken));
            return Ok(Some((revision, rows)));
        };
        request.after = Some((Arc::clone(&last.workflow), Arc::clone(&last.name)));
    }
}
