//! Executions that nodes start: what they are is found by the shell, their numbers and ids are given here,
//! and they begin with the frame that records them.
//!
//! ```text
//!   Effect::Launch ─▶ StoreWork::Launch ─▶ Input::Launched ─▶ Command::Launch ─▶ frame + birth
//!                     which definition,     a number, an id
//!                     does the input fit?
//! ```

use waypost_core::child::{Callee, ChildEnd, ChildState, Launch, NewChild, SentSignal};
use waypost_core::command::Command;
use waypost_core::decide::reopen;
use waypost_core::event::Event;
use waypost_core::failure::{Failure, kind};
use waypost_core::frame::{FrameHeader, encode};
use waypost_core::id::{AppendId, ExecutionId, ExecutionNo};
use waypost_core::json::Json;
use waypost_core::kind::Behaviour;
use waypost_core::outbox::announce;
use waypost_core::path::At;
use waypost_core::planted::{Bug, is_planted};
use waypost_ports::store::Append;

use super::Driver;
use super::io::{Loaded, Output, StoreWork};
use super::live::{Letter, Live};
use crate::config::Scope;

/// A question about what a node starts.
#[derive(Clone, Debug)]
pub struct LaunchOrder {
    pub execution: ExecutionNo,
    /// The id of the execution at the top of its tree.
    pub root: ExecutionId,
    pub node: At,
    pub attempt: u32,
    /// The config of the node, rendered.
    pub config: Json,
    /// Whom it sends a signal to, where it starts no execution.
    pub emits: Option<Emits>,
    /// The child of an earlier attempt.
    pub child: Option<ChildState>,
}

/// Whom a node sends a signal to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emits {
    ToExecution,
    ByKey,
}

/// What a node starts.
#[derive(Debug)]
pub enum FoundChild {
    New(Callee),
    /// The child of an earlier attempt, which has ended.
    Ended(Box<Loaded>),
    /// The child of an earlier attempt is under way.
    UnderWay,
    /// The receiver of a signal.
    Signal(SentSignal),
}

/// A start that waits for a number.
pub(super) struct PendingLaunch {
    execution: ExecutionNo,
    at: (At, u32),
    callee: Callee,
}

impl Driver {
    /// Asks what a node starts.
    pub(super) fn launch(&mut self, execution: ExecutionNo, (node, attempt): (At, u32)) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        match live.launch_order(node, attempt) {
            Ok(order) => self.outputs.push(Output::Store(StoreWork::Launch(Box::new(order)))),
            Err((_, missed)) if !missed.is_empty() => {
                live.fetches.put_off_launch((node, attempt), missed);
            }
            Err((failure, _)) => self.post_launch(execution, (node, attempt), Err(failure)),
        }
    }

    fn post_launch(
        &mut self,
        execution: ExecutionNo,
        (node, attempt): (At, u32),
        launch: Result<Launch, Failure>,
    ) {
        self.post(execution, Letter::command(Command::Launch { node, attempt, launch }));
    }

    /// What a node starts was found.
    pub(super) fn launched(
        &mut self,
        execution: ExecutionNo,
        at: (At, u32),
        found: Result<FoundChild, Failure>,
    ) {
        if self.draining || !self.live.contains_key(&execution) {
            return; // the next owner asks again
        }
        match found {
            Ok(FoundChild::New(callee)) if callee.requires > self.readable => {
                let message = format!(
                    "workflow {:?} needs log format {}, and an instance of the cluster reads only {}",
                    callee.workflow, callee.requires, self.readable
                );
                let failure = Failure::transient(kind::CLUSTER_TOO_OLD, message);
                self.post_launch(execution, at, Err(failure));
            }
            Ok(FoundChild::New(callee)) => {
                self.launches.push_back(PendingLaunch { execution, at, callee });
            }
            Ok(FoundChild::Signal(signal)) => {
                self.post_launch(execution, at, Ok(Launch::Signal(Box::new(signal))));
            }
            Ok(FoundChild::UnderWay) => self.post_launch(execution, at, Ok(Launch::Again)),
            Ok(FoundChild::Ended(loaded)) => self.found_ended(execution, at, *loaded),
            Err(failure) => self.post_launch(execution, at, Err(failure)),
        }
    }

    /// Gives the executions to be started their numbers and ids, as long as there are numbers.
    pub(super) fn number_launches(&mut self) {
        while let Some(PendingLaunch { execution, .. }) = self.launches.front() {
            if !self.live.contains_key(execution) {
                self.launches.pop_front();
                continue;
            }
            let share = self.sibling.share;
            let live = &self.live;
            let may_use = |number| share.has(number) && !live.contains_key(&number);
            let Some(number) = self.admission.number(may_use) else { return };
            let Some(PendingLaunch { execution, at, callee }) = self.launches.pop_front() else {
                return;
            };
            let new = NewChild { execution: number, key: self.ids.key(self.now), callee };
            self.post_launch(execution, at, Ok(Launch::New(Box::new(new))));
        }
    }

    /// The child of an earlier attempt has ended: with an end that its parent does not know, or it is opened
    /// again.
    fn found_ended(&mut self, execution: ExecutionNo, at: (At, u32), mut loaded: Loaded) {
        let child = loaded.state.execution;
        let known = self.live.get(&execution).and_then(|live| live.state.get(at.0)?.child.clone());
        let Some(known) = known.filter(|known| known.execution == child) else { return };
        let unknown =
            |end: &ChildEnd| end.generation > known.ended || is_planted(Bug::EndTakenTwice);
        if let Some(end) = loaded.state.end_for_parent().filter(unknown) {
            return self.post_launch(execution, at, Ok(Launch::Ended(Box::new(end))));
        }
        let env = self.env();
        let append_id = AppendId(self.ids.uuid());
        let decided_at = env.now.max(loaded.stored_at);
        let before = loaded.state.phase();
        let decision = match reopen(&loaded.plan, &mut loaded.state, &env) {
            Ok(decision) => decision,
            Err(refusal) => {
                let message = format!("execution {} cannot be opened again: {refusal}", known.key);
                let failure = Failure::permanent(kind::CHILD_FAILED, message);
                return self.post_launch(execution, at, Err(failure));
            }
        };
        let needed = decision.events.iter().map(Event::requires).max().unwrap_or(1);
        let last_seq = loaded.state.seq;
        let header = FrameHeader {
            execution: child,
            first_seq: last_seq,
            last_seq,
            append_id,
            parent: Some(loaded.parent),
            instance: env.instance,
            epoch: loaded.state.epoch,
            decided_at,
            requires: loaded.requires.max(needed),
        };
        let mut frame = Append::reopening(header, encode(&decision.events));
        frame.side.messages = announce(Some(before), &decision.events, &loaded.state);
        if let Some(live) = self.live.get_mut(&execution) {
            live.reopenings.insert(child, frame);
        }
        self.post_launch(execution, at, Ok(Launch::Again));
    }

    /// A frame with births, or with messages to others, is durable.
    pub(super) fn others_concerned(&mut self, born: &[ExecutionNo], sent: bool) {
        if self.config.scope == Scope::Adopted {
            self.adopted.extend(born);
        }
        if !born.is_empty() || sent {
            // Addressees may be parked, here or in the share of another driver.
            self.claims.nudge(self.now);
            self.sibling.may_claim();
        }
        if sent {
            self.claims.look_for_mail(self.now);
            self.sibling.has_mail();
        }
    }

    /// Drives the executions that this one waits for, too.
    pub(super) fn adopt_children(&mut self, execution: ExecutionNo) {
        if self.config.scope == Scope::Adopted
            && let Some(live) = self.live.get(&execution)
        {
            let children = live.state.nodes().filter_map(|(_, node)| node.child.as_ref());
            self.adopted.extend(children.map(|child| child.execution));
        }
    }
}

impl Live {
    fn launch_order(
        &self,
        node: At,
        attempt: u32,
    ) -> Result<LaunchOrder, (Failure, Vec<waypost_core::expr::Wanted>)> {
        let rendered = self.render(node)?;
        if !rendered.secrets.is_empty() {
            let message = "a secret cannot be given to another execution";
            return Err((Failure::permanent(kind::SECRET, message), Vec::new()));
        }
        let execution = self.state.execution;
        let child = self.state.get(node).and_then(|node| node.child.as_deref().cloned());
        let behaviour = &self.plan.node(node.node).behaviour;
        let spec = if let Behaviour::Emit(spec) = behaviour { Some(spec) } else { None };
        let emits = spec.map(|spec| match spec.published {
            true => Emits::ByKey,
            false => Emits::ToExecution,
        });
        let (created, config) = (&self.state.created, rendered.config);
        let root = created.parent.as_ref().map_or(&created.key, |parent| &parent.root).clone();
        Ok(LaunchOrder { execution, root, node, attempt, config, emits, child })
    }
}
