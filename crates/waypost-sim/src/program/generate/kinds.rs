//! The kinds of random nodes, and their options.

use super::{AMPLE_MS, Builder, TIGHT_MS};
use crate::program::{
    Case, DelaySpan, Kind, Node, OnError, RetryOn, RetryRule, Script, Signal, Signals, Test, Value,
};

impl Builder<'_> {
    /// A kind for a node after these.
    pub(super) fn kind(&mut self, from: &[usize]) -> Kind {
        match self.random.below(100) {
            0..=7 => Kind::Noop,
            8..=21 => Kind::Transform(self.values(from)),
            22..=61 => Kind::Task(self.script()),
            62..=73 => Kind::Delay(self.span()),
            74..=83 if self.appetite.waits => self.wait(),
            74..=89 => Kind::Output(self.values(from)),
            90 | 91 => Kind::Join,
            92 => Kind::Fail,
            _ => from.first().map_or(Kind::Noop, |from| self.choice(*from)),
        }
    }

    pub(super) fn choice(&mut self, from: usize) -> Kind {
        if self.random.percent(60) {
            return Kind::Condition(self.test(from));
        }
        let mut cases = Vec::new();
        for branch in ["low", "middle", "high"] {
            if cases.is_empty() || self.random.percent(60) {
                cases.push(Case { test: self.test(from), branch: branch.into() });
            }
        }
        let default = self.random.percent(70).then(|| "other".into());
        Kind::Switch { cases, default }
    }

    /// A test for a node that needs this one, whatever else it needs: by then it has settled.
    fn test(&mut self, from: usize) -> Test {
        match self.random.below(100) {
            0..=69 => Test::AtLeast(self.random.between(0, 10)),
            70..=95 => Test::Completed(from),
            _ => Test::Broken,
        }
    }

    fn values(&mut self, from: &[usize]) -> Vec<Value> {
        let count = self.random.between(0, 3);
        (0..count).map(|_| self.value(from)).collect()
    }

    /// A value; a node that it depends on may still be open if a join has not waited for it.
    fn value(&mut self, from: &[usize]) -> Value {
        let known = |builder: &mut Self| {
            let mut known: Vec<usize> = from.to_vec();
            for source in from {
                known.extend(builder.program.nodes[*source].sources());
            }
            (!known.is_empty()).then(|| *builder.random.pick(&known))
        };
        match self.random.below(100) {
            0..=9 => Value::Constant(self.random.below(1_000)),
            10..=29 => Value::Plus(self.random.below(100)),
            30..=39 => Value::Text,
            40..=69 => known(self).map_or(Value::Text, Value::OutputOf),
            70..=95 => known(self).map_or(Value::Text, Value::StatusOf),
            _ => Value::Broken,
        }
    }

    fn span(&mut self) -> DelaySpan {
        let most = self.appetite.delay_ms_max;
        match self.random.below(10) {
            0 => DelaySpan::Fixed(0),
            1..=4 => DelaySpan::Fixed(self.random.between(1, (most / 10).max(1))),
            5 => DelaySpan::Fixed(most),
            6 | 7 => DelaySpan::Computed { times: self.random.below(most / 10 + 1), minus: 0 },
            _ => {
                let times = self.random.below(most / 10 + 1);
                DelaySpan::Computed { times, minus: times * self.random.between(1, 9) }
            }
        }
    }

    fn wait(&mut self) -> Kind {
        let signal = *self.random.pick(&Signal::PLAIN);
        let timeout_ms = self.random.percent(50).then(|| self.spell());
        // Apart, so that all else stays as it was before there were these.
        let mut random = self.random.split(&format!("signals {}", self.program.nodes.len()));
        let mut pings = random.split("pings");
        let mut or_ping = |signal| if pings.percent(20) { Signal::Ping } else { signal };
        if random.percent(60) {
            return Kind::Wait { signal: or_ping(signal), timeout_ms };
        }
        let mut wanted = vec![or_ping(signal)];
        for _ in 0..random.between(0, 2) {
            wanted.push(or_ping(*random.pick(&Signal::PLAIN)));
        }
        let need = 1 + random.index(wanted.len());
        let late = timeout_ms.is_some() && random.percent(50);
        Kind::Signals(Signals { wanted, need, timeout_ms, late })
    }

    /// How long something that need not come is waited for.
    pub(super) fn spell(&mut self) -> u64 {
        self.random.between(100, self.appetite.delay_ms_max.max(200))
    }

    fn script(&mut self) -> Script {
        if self.random.percent(self.appetite.failures_percent) {
            return self.failing();
        }
        Script::Good
    }

    pub(super) fn failing(&mut self) -> Script {
        match self.random.below(10) {
            0..=3 => Script::Flaky(u32::try_from(self.random.between(1, 3)).unwrap_or(1)),
            4 | 5 => Script::Bad,
            8 | 9 if self.appetite.hang => Script::Hang,
            _ => Script::Down,
        }
    }

    pub(super) fn decorate(&mut self, node: &mut Node) {
        match node.kind {
            Kind::Task(script) => {
                let retries = if matches!(script, Script::Good) { 20 } else { 75 };
                node.remote = self.appetite.remote && self.random.percent(30);
                node.at_most_once = self.appetite.at_most_once && self.random.percent(15);
                if self.random.percent(if node.at_most_once { 20 } else { retries }) {
                    node.retry = Some(self.retry());
                }
                if script == Script::Hang {
                    node.timeout_ms = Some(self.random.between(50, self.appetite.hang_ms_max));
                } else if self.random.percent(15) {
                    node.timeout_ms = Some(AMPLE_MS);
                }
            }
            Kind::Join | Kind::Noop => return,
            _ => {}
        }
        if self.appetite.limits && self.random.percent(12) {
            node.deadline_ms = Some(self.deadline(node));
        }
        if self.random.percent(25) {
            node.on_error = match self.random.below(3) {
                0 => OnError::Branch("error".into()),
                1 => OnError::Branch("oops".into()),
                _ => OnError::Continue,
            };
            // From a stream of its own, so that the programs do not change.
            let mut random = self.random.split(&format!("definition errors of {}", node.id));
            node.definition_errors = random.percent(30);
        }
    }

    pub(super) fn retry(&mut self) -> RetryRule {
        RetryRule {
            max_attempts: u32::try_from(self.random.between(1, 4)).unwrap_or(1),
            wait_ms: self.random.between(0, self.appetite.retry_wait_ms_max),
            backoff: self.random.percent(50),
            on: match self.random.below(10) {
                0 => RetryOn::ServerErrors,
                1 => RetryOn::ClientErrors,
                2 => RetryOn::Timeouts,
                _ => RetryOn::Transient,
            },
        }
    }

    /// A deadline that the node surely meets, or one that it may miss.
    pub(super) fn deadline(&mut self, node: &Node) -> u64 {
        let span = node.span_ms_max().unwrap_or(self.appetite.delay_ms_max);
        match self.random.percent(50) {
            true => span * 2 + AMPLE_MS,
            false => self.random.between(TIGHT_MS, (span / 2).max(TIGHT_MS)),
        }
    }
}
