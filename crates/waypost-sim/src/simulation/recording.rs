//! The results of a world: its report and, if requested, its logs.

use waypost_core::event::{Event, RunEvent};
use waypost_core::frame::decode;
use waypost_core::id::ExecutionNo;
use waypost_ports::store::DefinitionRef;

use super::{Simulation, WorldReport};
use crate::record::Log;

impl Simulation {
    /// The log of each execution.
    fn logs(&self) -> Vec<Log> {
        self.store.with(|tables, _| {
            let log = |execution: ExecutionNo| {
                let frames: Vec<_> = tables.frames_from(execution, 0).cloned().collect();
                let first = decode(frames.first()?.body.as_ref().ok()?).ok()?;
                let Some(Event::Run(RunEvent::Created(created))) = first.first() else {
                    return None;
                };
                let definition = tables.definition(&DefinitionRef::Hash(created.definition))?;
                Some(Log { canonical: definition.canonical, frames })
            };
            tables.executions().into_iter().filter_map(log).collect()
        })
    }

    pub(super) fn into_report(self) -> WorldReport {
        let logs = if self.options.record { self.logs() } else { Vec::new() };
        let mut coverage = self.coverage;
        let inner = self.store.inner();
        coverage.add_faults(inner.weather.struck());
        WorldReport {
            finding: self.finding,
            coverage,
            hash: self.trace.hash(),
            events: self.events,
            ms: self.truth.ms(),
            programs: self.people.programs(),
            flows: self.triggers.count(),
            weather: inner.weather.describe(),
            trace: self.trace.into_lines(),
            logs,
        }
    }
}
