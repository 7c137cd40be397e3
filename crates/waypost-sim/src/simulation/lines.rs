//! The queues of concurrency keys, derived from the logs: which executions were queued, admitted
//! and ended, and when. The store's own rows are not read.

use std::collections::BTreeMap;
use std::sync::Arc;

use waypost_core::event::{Event as LogEvent, RunEvent};
use waypost_core::id::ExecutionNo;

/// See the module.
#[derive(Default)]
pub(super) struct Lines {
    /// Executions that have not ended, in the order in which they were queued.
    lines: BTreeMap<Arc<str>, Vec<Stands>>,
}

struct Stands {
    execution: ExecutionNo,
    limit: u32,
    admitted: bool,
}

impl Lines {
    /// Reads the frames of all logs, in the order of their commits; returns the first violation.
    ///
    /// An admitted execution has fewer running executions before it than its limit: so never more
    /// run than the limit, and none overtakes another.
    pub(super) fn read(&mut self, execution: ExecutionNo, events: &[LogEvent]) -> Option<String> {
        let mut wrong = None;
        for event in events {
            match event {
                LogEvent::Run(RunEvent::Queued { key, limit, .. }) => {
                    self.queue(execution, key, *limit)
                }
                LogEvent::Run(RunEvent::Admitted {}) => wrong = wrong.or(self.admit(execution)),
                event if event.is_end() => self.leave(execution),
                _ => {}
            }
        }
        wrong
    }

    fn queue(&mut self, execution: ExecutionNo, key: &Arc<str>, limit: u32) {
        let line = self.lines.entry(Arc::clone(key)).or_default();
        if !line.iter().any(|stands| stands.execution == execution) {
            line.push(Stands { execution, limit, admitted: false });
        }
    }

    fn admit(&mut self, execution: ExecutionNo) -> Option<String> {
        let name = format!("x{}", execution.0);
        let found = self.lines.iter_mut().find_map(|(key, line)| {
            let before = line.iter().position(|stands| stands.execution == execution)?;
            Some((key, before, line))
        });
        let Some((key, before, line)) = found else {
            return Some(format!("{name} is let in and stands in no line"));
        };
        let stands = line.get_mut(before)?;
        if std::mem::replace(&mut stands.admitted, true) {
            return Some(format!("{name} is let in twice"));
        }
        let limit = stands.limit;
        let under_way = line.iter().filter(|stands| stands.admitted).count();
        let room = usize::try_from(limit).unwrap_or(usize::MAX);
        (before >= room).then(|| {
            format!(
                "{name} is let in with {before} before it in the queue of {key:?}, whose limit is \
                 {limit}; {under_way} are under way"
            )
        })
    }

    fn leave(&mut self, execution: ExecutionNo) {
        for line in self.lines.values_mut() {
            line.retain(|stands| stands.execution != execution);
        }
    }
}
