//! Many sleepers: each wakes once, none early, and how late.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use parking_lot::Mutex;
use waypost_core::event::{Event, NodeEvent, Wait};
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Timestamp;
use waypost_engine::Observer;
use waypost_engine::driver::Committed;
use waypost_ports::clock::{Clock, SystemClock};

use crate::backend::MeasuredBackend;
use crate::load::for_each;
use crate::report::{Printout, percentiles};
use crate::{Common, Host, disk, flows};

/// Default for due waits per second.
const DUES_PER_SECOND: u64 = 1_000;
/// Submissions a second that are assumed when the first due time is chosen.
const STARTS_PER_SECOND: u64 = 8_000;

pub(super) async fn run(
    executions: u64,
    seconds: Option<u64>,
    common: &Common,
    host: &dyn Host,
) -> Result<Printout> {
    let seconds = seconds.unwrap_or(executions.div_ceil(DUES_PER_SECOND)).max(1);
    let fires = Arc::new(Fires::default());
    let observer: Observer = {
        let fires = Arc::clone(&fires);
        Arc::new(move |committed| fires.note(committed))
    };
    let backend = MeasuredBackend::open(common, host, Some(observer))?;
    let flow = backend.define(flows::TIMER)?;
    let begin = Instant::now();
    let lead = Duration::from_secs(3 + executions / STARTS_PER_SECOND);
    let first_due = SystemClock.now().0 + i64::try_from(lead.as_millis())?;
    let engine = backend.engine();
    let start = move |n: u64| {
        let offset = n.wrapping_mul(seconds * 1000) / executions.max(1);
        let due = first_due + i64::try_from(offset).unwrap_or(0);
        let request = flow.request(Json::from_value(&serde_json::json!({ "until": due })));
        let engine = Arc::clone(&engine);
        async move { Ok(engine.start(request).await?) }
    };
    let ends = for_each(executions, common.concurrency, start).await?;
    let started = begin.elapsed();
    if SystemClock.now().0 > first_due {
        bail!("starting took longer than {lead:?}: the first dues had passed; lower --executions");
    }
    for end in ends {
        if end.ended().await.is_none() {
            bail!("an execution did not end");
        }
    }
    let started_per_second = executions as f64 / started.as_secs_f64();
    let mut report = Printout::of("timers");
    report.plain("executions", "executions", executions);
    report.span("seconds", "dues spread over", seconds, "s");
    report.rounded("started_per_second", "started per second", started_per_second, (0, ""));
    report.extend(fires.figures());
    report.memory("peak_rss_bytes", "peak RSS", disk::peak_rss("self"));
    backend.close().await?;
    Ok(report)
}

/// When each sleeper should wake and when it did.
#[derive(Default)]
struct Fires {
    due: Mutex<HashMap<ExecutionNo, Timestamp>>,
    lateness: Mutex<Vec<i64>>,
    early: AtomicU64,
    twice: AtomicU64,
}

impl Fires {
    fn note(&self, committed: &Committed) {
        for event in committed.events.iter() {
            match event {
                Event::Node(NodeEvent::Waiting { wait: Wait::Delay { due }, .. }) => {
                    self.due.lock().insert(committed.execution, *due);
                }
                Event::Node(NodeEvent::Resumed { .. }) => {
                    match self.due.lock().remove(&committed.execution) {
                        Some(due) => {
                            let late = committed.at.0 - due.0;
                            self.early.fetch_add(u64::from(late < 0), Ordering::Relaxed);
                            self.lateness.lock().push(late);
                        }
                        None => {
                            self.twice.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn figures(&self) -> Printout {
        let mut lateness = self.lateness.lock().clone();
        let [p50, p99, max] = percentiles(&mut lateness, [50, 99, 100]);
        let mut report = Printout::default();
        report.plain("fired", "fired", lateness.len());
        report.plain("fired_early", "fired early", self.early.load(Ordering::Relaxed));
        report.plain("fired_twice", "fired twice", self.twice.load(Ordering::Relaxed));
        report.span("lateness_p50_ms", "lateness p50", p50, "ms");
        report.span("lateness_p99_ms", "lateness p99", p99, "ms");
        report.span("lateness_max_ms", "lateness max", max, "ms");
        report
    }
}
