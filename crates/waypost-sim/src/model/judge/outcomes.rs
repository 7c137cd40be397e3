//! Did each node that ran end as its kind, its script and its limits require?

use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::{Judge, has_failed, is_unmet};
use crate::model::foretell::{Fault, has_ample_time, retries};
use crate::model::values::{are_sound, choose, is_unsound};
use crate::model::{CONTRADICTION, NodeRan, SLACK_MS};
use crate::program::{FAILURE, Kind, Node, Script, Signals};

impl Judge<'_> {
    pub(super) fn outcome(&mut self, at: usize) {
        let (node, ran) = self.node(at);
        let id = &self.path(at);
        let world = &self.ran.world;
        self.expect(ran.abandoned == 0 || world.attempts_lost || world.paused, || {
            format!("{id}: {} attempts abandoned, but nothing was lost", ran.abandoned)
        });
        for wait in &ran.resumed {
            let asked = world.was_to_end(*wait, None);
            self.expect(asked, || format!("{id}: no request ended its wait {wait}"));
        }
        self.expect(ran.tries <= node.tries_max(), || {
            format!("{id}: {} tries of {}", ran.tries, node.tries_max())
        });
        let begins = ran.scheduled.is_some() && !is_unmet(&ran);
        let begun = ran.starts + ran.tries + ran.abandoned;
        self.expect(begins || begun == 0, || format!("{id}: begun without its turn"));
        let ended = ran.status == NodeStatus::Completed || has_failed(&ran);
        if !ended {
            return;
        }
        if is_unmet(&ran) {
            let failed = ran.status == NodeStatus::Failed;
            self.expect(failed, || format!("{id}: a join that cannot be met only fails"));
            return;
        }
        if let Err(why) = self.is_allowed(at, node, &ran) {
            let failure = ran.failure.as_deref().unwrap_or("no failure");
            let (status, tries) = (ran.status, ran.tries);
            self.complaints.push(format!("{id}: {status} ({failure}, {tries} tries), but {why}"));
        }
    }

    fn is_allowed(&self, at: usize, node: &Node, ran: &NodeRan) -> Result<(), String> {
        match node.kind {
            Kind::Task(script) => return self.is_task_allowed(node, script, ran),
            Kind::Child(call) => return self.is_child_allowed(node, call, ran),
            Kind::Approval(approval) => return self.is_approval_allowed(node, approval, ran),
            _ if node.body().is_some() => return self.is_container_allowed(at, node, ran),
            _ => {}
        }
        let late = self.ran.world.is_disturbed();
        let timed_out = ran.status == NodeStatus::TimedOut;
        if timed_out {
            expect(ran.failure.as_deref() == Some(kind::TIMEOUT), "it did not time out")?;
        }
        let expected = match &node.kind {
            Kind::Delay(span) => {
                let span = span.ms(self.facts.n);
                let deadline = node.deadline_ms.unwrap_or(u64::MAX);
                // A deadline counts from the latest time that it may have been. An owner with a bad
                // estimate of the time moves it behind a delay that the next owner opens.
                let put_off =
                    ran.deadline.zip(ran.due).is_some_and(|(deadline, due)| due <= deadline);
                let in_time = span <= deadline || !ran.resumed.is_empty() || put_off;
                expect(timed_out || in_time, "its deadline comes before its end")?;
                let allowed = node.deadline_ms.is_some() && (late || span + SLACK_MS > deadline);
                expect(!timed_out || allowed, "it ends before its deadline")?;
                Ok(())
            }
            Kind::Wait { .. } => {
                expect(!timed_out || node.span_ms_max().is_some(), "it may wait for ever")?;
                Ok(())
            }
            Kind::Signals(signals) => is_wait_allowed(node, signals, ran).map(Ok)?,
            Kind::Notify(notify) if notify.wait && are_sound(&notify.values) => {
                expect(!timed_out || node.span_ms_max().is_some(), "it has no limit")?;
                Ok(())
            }
            _ if timed_out => {
                return expect(late && node.deadline_ms.is_some(), "it takes no time");
            }
            _ if is_unsound(&node.kind) => Err(kind::EXPRESSION),
            Kind::Fail => Err(FAILURE),
            Kind::Condition(_) | Kind::Switch { .. } => {
                let seq = ran.settled.unwrap_or_default();
                let holds = |test| self.facts.holds(test, &|test| self.held(test, seq));
                match choose(&node.kind, &holds) {
                    Ok(branch) if ran.branch.as_deref() == Some(&branch) => Ok(()),
                    Ok(branch) if ran.status == NodeStatus::Completed => {
                        return Err(format!("it selects {branch}, not {:?}", ran.branch));
                    }
                    Ok(_) => Ok(()),
                    Err(failure) => Err(failure),
                }
            }
            _ => Ok(()),
        };
        let chooses =
            matches!(node.kind, Kind::Condition(_) | Kind::Switch { .. } | Kind::Signals(_));
        expect(chooses || ran.branch.is_none(), "it has no branches")?;
        expect(ran.tries == 1, "it is tried once")?;
        match expected {
            Ok(()) if ran.status == NodeStatus::Failed => Err("nothing fails it".into()),
            Ok(()) => Ok(()),
            Err(failure) if ran.failure.as_deref() == Some(failure) => {
                expect(ran.status == NodeStatus::Failed, "it fails")
            }
            Err(failure) => Err(format!("it fails with {failure} at {}", self.path(at))),
        }
    }

    fn is_task_allowed(&self, node: &Node, script: Script, ran: &NodeRan) -> Result<(), String> {
        let world = &self.ran.world;
        expect(ran.branch.is_none(), "it has no branches")?;
        let output = ran.output.as_ref().and_then(|output| output.as_str());
        let contradicts = output.or(ran.failure.as_deref()) == Some(CONTRADICTION);
        if world.contradicted && contradicts {
            return Ok(());
        }
        let failure = match ran.status {
            NodeStatus::Completed => return self.is_completion_allowed(node, script, ran),
            _ => ran.failure.as_deref().unwrap_or_default(),
        };
        match (failure, script) {
            (kind::HTTP, script) if script.fails() => {
                expect(ran.status == NodeStatus::Failed, "a refused call is a failure")?;
                if let Script::Flaky(refusals) | Script::Poll { refusals, .. } = script {
                    // A try whose worker forgot it, or whose reply was lost, timed out instead.
                    let silent = world.replies_lost && retries(node, Fault::Timeout);
                    let refused = silent || ran.tries <= refusals;
                    expect(refused, "not so many calls are refused")?;
                }
                let status = if script == Script::Bad { 400 } else { 503 };
                self.had_its_tries(node, Fault::Status(status), ran)
            }
            (kind::TIMEOUT, _) => {
                expect(ran.status == NodeStatus::TimedOut, "a timeout is no other failure")?;
                let struck =
                    node.deadline_ms.is_some() && (world.is_disturbed() || !has_ample_time(node));
                match script {
                    _ if struck => Ok(()),
                    Script::Hang if node.at_most_once => Err("its outcome is unknown".into()),
                    Script::Hang => self.had_its_tries(node, Fault::Timeout, ran),
                    _ => expect(world.late || world.replies_lost, "the sink answers in time"),
                }
            }
            (kind::OUTCOME_UNKNOWN, _) => {
                expect(ran.status == NodeStatus::Failed, "it is a failure")?;
                expect(node.at_most_once, "it may be tried again")?;
                let doubt = world.is_disturbed() || script == Script::Hang;
                expect(doubt, "its outcome is known")
            }
            (kind::BUDGET_EXHAUSTED, Script::Model) => {
                expect(ran.status == NodeStatus::Failed, "it is a failure")
            }
            (kind::CONNECTION, _) => expect(world.replies_lost, "the sink can be reached"),
            _ => Err(format!("its script is {script}")),
        }
    }

    fn is_completion_allowed(
        &self,
        node: &Node,
        script: Script,
        ran: &NodeRan,
    ) -> Result<(), String> {
        let world = &self.ran.world;
        let Some(refusals) = script.refusals() else {
            return Err(format!("its script is {script}"));
        };
        let may_fail = world.replies_lost || script.is_stormy();
        let timeouts = if world.away { ran.timeouts } else { 0 };
        let most = if may_fail { node.tries_max() } else { refusals + 1 + timeouts };
        expect(ran.tries <= most, "an earlier try would have completed it")?;
        if script != Script::Storm
            && !world.attempts_lost
            && !world.replies_lost
            && !world.paused
            && !world.late
        {
            expect(ran.tries == refusals + 1, "its first calls are refused")?;
        }
        let again = ran.tries == 1
            || retries(node, Fault::Status(503))
            || (world.replies_lost || timeouts > 0) && retries(node, Fault::Timeout);
        expect(again, "it is not tried again after a refusal")
    }

    /// Had a task all the tries that its policy allows for this fault? Fewer are right if the end
    /// was fixed meanwhile, or if the next one would have begun after its deadline.
    fn had_its_tries(&self, node: &Node, fault: Fault, ran: &NodeRan) -> Result<(), String> {
        let full = if retries(node, fault) { node.tries_max() } else { 1 };
        let world = &self.ran.world;
        let hurried = retries(node, fault) && !has_ample_time(node)
            || node.deadline_ms.is_some() && world.is_disturbed();
        let right = if self.is_cut_short(ran) || hurried || world.replies_lost {
            (1..=node.tries_max()).contains(&ran.tries)
        } else {
            ran.tries == full
        };
        if right { Ok(()) } else { Err(format!("it has {full} tries")) }
    }
}

/// Did a wait for several signals end as it may?
fn is_wait_allowed(node: &Node, signals: &Signals, ran: &NodeRan) -> Result<(), String> {
    let timed_out = ran.status == NodeStatus::TimedOut;
    let by_deadline = signals.late && node.deadline_ms.is_none();
    expect(!timed_out || node.span_ms_max().is_some(), "it may wait for ever")?;
    expect(!timed_out || !by_deadline, "its timeout is a branch")?;
    let branch = ran.branch.as_deref();
    expect(branch.is_none() || signals.late, "it has no branch for a timeout")?;
    let enough = ran.came.len() >= signals.need || !ran.resumed.is_empty();
    let completed = ran.status == NodeStatus::Completed;
    expect(!completed || enough != branch.is_some(), "its branch is the wrong one")
}

pub(super) fn expect(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise.into()) }
}
