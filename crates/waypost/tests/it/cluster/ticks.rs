//! What the tests of triggers look at, on the database itself: times and items, and what became of them.

use std::collections::BTreeSet;

use serde_json::json;
use waypost_testbed::wait_until;

use super::rig::{Cluster, LONG};

/// A schedule of every second that fires late rather than never.
pub(super) const EACH_SECOND: &str = r#"
name: tick
on:
  - { schedule: often, every: 1s, input: { at: "${{ trigger.at }}" } }
nodes:
  - { id: done, type: output, config: { value: "${{ input.at }}" } }
"#;

/// What a schedule has done, all times in milliseconds.
#[derive(Debug)]
pub(super) struct TimesFired {
    /// When it was registered, on the database.
    pub(super) registered: i64,
    /// The nominal times, in order.
    pub(super) times: Vec<i64>,
    /// Items that were no fire, that fired before their time, or that share an execution with another one.
    pub(super) wrong: String,
}

impl Cluster {
    /// The store's time.
    pub(super) fn now(&self) -> i64 {
        self.number("SELECT waypost_now()")
    }

    /// One number from the database.
    pub(super) fn number(&self, sql: &str) -> i64 {
        let text = self.sql(sql);
        text.parse().unwrap_or_else(|_| panic!("{sql}: {text}"))
    }

    /// What a schedule has done.
    pub(super) fn times_fired(&self, workflow: &str) -> TimesFired {
        let of = format!(
            "FROM trigger_fires AS f JOIN triggers AS t ON t.number = f.trigger \
             WHERE t.workflow = '{workflow}'"
        );
        let registered =
            format!("SELECT registered_at FROM triggers WHERE workflow = '{workflow}'");
        let times = self.sql(&format!("SELECT f.nominal {of} ORDER BY f.nominal"));
        let wrong = format!(
            "SELECT string_agg(concat_ws(' ', f.nominal, f.at, f.outcome, f.execution), E'\\n') {of} \
             AND (f.outcome <> 0 OR f.at < f.nominal OR f.execution IN \
                  (SELECT execution FROM trigger_fires GROUP BY execution HAVING count(*) > 1))"
        );
        TimesFired {
            registered: self.number(&registered),
            times: times.lines().map(|line| line.parse().unwrap()).collect(),
            wrong: self.sql(&wrong),
        }
    }

    /// Waits until a schedule has fired the times up to this one.
    pub(super) fn fires_until(&self, workflow: &str, time: i64) {
        let newest = format!(
            "SELECT coalesce(max(f.nominal), 0) FROM trigger_fires AS f \
             JOIN triggers AS t ON t.number = f.trigger WHERE t.workflow = '{workflow}'"
        );
        wait_until("the times have fired", LONG, || self.number(&newest) >= time);
    }

    /// Nothing fires by this trigger once this has returned.
    pub(super) fn pause_trigger(&self, workflow: &str, trigger: &str) {
        let path = format!("/v1/triggers/{workflow}/{trigger}/pause");
        let paused = self.block_on(self.api.post(0, &path, &json!({})));
        assert!(paused.is_ok(), "{paused:?}");
    }

    /// Waits until nothing is unfinished, and compares how many executions of a workflow have been completed.
    pub(super) fn all_have_completed(&self, workflow: &str, count: usize) {
        wait_until("all executions have ended", LONG, || {
            self.sql("SELECT count(*) FROM control") == "0"
        });
        let completed = format!(
            "SELECT count(*) FROM executions WHERE workflow_id = '{workflow}' AND status = 'COMPLETED'"
        );
        wait_until("the executions are shown as completed", LONG, || {
            self.number(&completed) >= i64::try_from(count).unwrap()
        });
        assert_eq!(self.sql(&completed), count.to_string());
    }
}

impl TimesFired {
    /// Each second since a deploy that began at this time fired once: one execution for each time, none early, none
    /// left out.
    pub(super) fn are_each_second(&self, deployed: i64) {
        assert_eq!(self.wrong, "", "nothing but fires, none early, an execution for each");
        let (Some(first), Some(last)) = (self.times.first(), self.times.last()) else {
            panic!("nothing has fired");
        };
        // A time that came while the deploy was under way may fire.
        assert!(*first > deployed && first - self.registered <= 1_000, "{deployed} {self:?}");
        let expected: Vec<i64> = (*first..=*last).step_by(1_000).collect();
        let fired: BTreeSet<i64> = self.times.iter().copied().collect();
        let missed: Vec<&i64> = expected.iter().filter(|time| !fired.contains(time)).collect();
        assert!(missed.is_empty(), "missed: {missed:?}");
        assert_eq!(self.times, expected, "no time twice");
    }
}
