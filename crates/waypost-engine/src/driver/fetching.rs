//! Contents of blobs that decisions need: asked for, awaited, and forgotten when they were used.
//!
//! What misses a content waits aside, and everything else of the execution goes on: a blob store that
//! is away stops no cancel.

use std::collections::{BTreeMap, BTreeSet};

use waypost_core::command::{Command, Outcome, Report};
use waypost_core::event::MessageId;
use waypost_core::expr::{Contents, FetchedContent, Wanted};
use waypost_core::id::{ExecutionNo, Token};
use waypost_core::path::At;
use waypost_core::time::Timestamp;

use super::Driver;
use super::io::{Output, TaskOrder, Ticket};
use super::live::{Letter, Live};
use super::slots::SlotGrant;

/// The contents of one execution, and what waits for them.
#[derive(Default)]
pub(super) struct Fetches {
    asked: BTreeSet<Wanted>,
    at_hand: BTreeMap<Wanted, FetchedContent>,
    letters: Vec<Letter>,
    /// Does something in the state wait: a container, a wait that is due, a signal?
    goes_on: bool,
    runs: Vec<Unrendered>,
    launches: Vec<(At, u32)>,
    offers: Vec<At>,
    /// Missed, and not asked for yet.
    wanted: Vec<Wanted>,
}

/// An attempt that is recorded as started, and whose config cannot be rendered yet.
pub(super) struct Unrendered {
    pub(super) node: At,
    pub(super) attempt: u32,
    pub(super) token: Token,
    pub(super) since: Timestamp,
    pub(super) slot: SlotGrant,
}

impl Fetches {
    pub(super) fn contents(&self) -> Contents {
        Contents::of(self.at_hand.clone())
    }

    /// Does anything wait for a content?
    pub(super) fn is_waiting(&self) -> bool {
        !self.asked.is_empty() || !self.wanted.is_empty()
    }

    pub(super) fn set_aside(&mut self, letter: Letter, missed: Vec<Wanted>) {
        self.letters.push(letter);
        self.wanted.extend(missed);
    }

    /// Drops letters that came as mail with these messages.
    pub(super) fn drop_mail(&mut self, messages: &[MessageId]) {
        let of = |mail: &MessageId| messages.contains(mail);
        self.letters.retain(|letter| !letter.mail.as_ref().is_some_and(of));
    }

    pub(super) fn put_off(&mut self, missed: Vec<Wanted>) {
        self.goes_on |= !missed.is_empty();
        self.wanted.extend(missed);
    }

    pub(super) fn put_off_run(&mut self, run: Unrendered, missed: Vec<Wanted>) {
        self.runs.push(run);
        self.wanted.extend(missed);
    }

    pub(super) fn put_off_launch(&mut self, launch: (At, u32), missed: Vec<Wanted>) {
        self.launches.push(launch);
        self.wanted.extend(missed);
    }

    pub(super) fn put_off_offer(&mut self, node: At, missed: Vec<Wanted>) {
        self.offers.push(node);
        self.wanted.extend(missed);
    }

    /// What to ask for.
    fn ask(&mut self) -> Vec<Wanted> {
        let mut wanted = std::mem::take(&mut self.wanted);
        wanted.retain(|wanted| self.asked.insert(*wanted));
        wanted
    }

    fn take(&mut self, wanted: Wanted, content: FetchedContent) {
        if let Wanted::Items { blob, .. } = wanted {
            let is_other =
                |known: &Wanted| matches!(known, Wanted::Items { blob: of, .. } if *of == blob);
            self.at_hand.retain(|known, _| !is_other(known));
        }
        self.at_hand.insert(wanted, content);
    }

    /// The tickets of letters that wait.
    pub(super) fn tickets(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        std::mem::take(&mut self.letters).into_iter().filter_map(|letter| letter.ticket)
    }
}

impl Driver {
    /// Asks for the contents that this execution misses; after the commit of the frame in flight, because
    /// the results of a map are read from the log.
    pub(super) fn fetch(&mut self, execution: ExecutionNo) {
        let Some(live) = self.live.get_mut(&execution).filter(|live| !live.is_in_flight()) else {
            return;
        };
        let wanted = live.fetches.ask();
        if live.mailbox.is_empty() && !live.fetches.is_waiting() {
            // Everything that needed the contents has used them; but one page of items serves for long.
            live.fetches.at_hand.retain(|wanted, _| matches!(wanted, Wanted::Items { .. }));
        }
        self.outputs.extend(wanted.into_iter().map(|wanted| Output::Fetch { execution, wanted }));
    }

    /// A content is at hand, or cannot be had.
    pub(super) fn fetched(
        &mut self,
        execution: ExecutionNo,
        wanted: Wanted,
        content: FetchedContent,
    ) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        if !live.fetches.asked.remove(&wanted) {
            return;
        }
        live.fetches.take(wanted, content);
        if live.fetches.is_waiting() {
            return;
        }
        // What waited for the contents may be over. Then nothing else lets the execution leave memory, and
        // the executions that it waits for may need its place.
        live.lingers_until.get_or_insert(self.now.plus(self.config.park_after));
        let letters = std::mem::take(&mut live.fetches.letters);
        letters.into_iter().for_each(|letter| live.receive(letter));
        if std::mem::take(&mut live.fetches.goes_on) {
            live.receive(Letter::command(Command::GoOn));
        }
        let runs = std::mem::take(&mut live.fetches.runs);
        let offers = std::mem::take(&mut live.fetches.offers);
        let launches = std::mem::take(&mut live.fetches.launches);
        runs.into_iter().for_each(|run| self.render_again(execution, run));
        offers.into_iter().for_each(|node| self.offer_again_now(execution, node));
        launches.into_iter().for_each(|launch| self.launch(execution, launch));
        self.fetch(execution);
        if self.live.get(&execution).is_some_and(|live| !live.is_in_flight()) {
            self.await_next(execution);
        }
    }

    fn render_again(&mut self, execution: ExecutionNo, run: Unrendered) {
        let Some(live) = self.live.get_mut(&execution) else { return };
        let runs = live.state.get(run.node).is_some_and(|node| node.token == Some(run.token));
        if !runs {
            return;
        }
        let Unrendered { node, attempt, token, since, slot } = run;
        match live.task(node, attempt, token) {
            Ok(task) => self.run(TaskOrder { execution, task, since }, slot),
            Err(NotRendered::Missed(missed)) => {
                let run = Unrendered { node, attempt, token, since, slot };
                live.fetches.put_off_run(run, missed);
            }
            Err(NotRendered::Failed(report)) => self.report(execution, *report),
        }
    }

    /// Stops an attempt whose config is not rendered yet: it has not begun.
    pub(super) fn stop_unrendered(&mut self, execution: ExecutionNo, token: Token) -> bool {
        let Some(live) = self.live.get_mut(&execution) else { return false };
        let Some(at) = live.fetches.runs.iter().position(|run| run.token == token) else {
            return false;
        };
        let run = live.fetches.runs.swap_remove(at);
        let (node, attempt) = (live.state.path(&live.plan, run.node), run.attempt);
        let (worker, outcome) = (None, Outcome::Cancelled);
        self.report(execution, Report { node, attempt, token, worker, outcome });
        true
    }
}

/// Why the config of a task could not be rendered.
pub(super) enum NotRendered {
    Missed(Vec<Wanted>),
    /// The report on the attempt that follows.
    Failed(Box<Report>),
}

impl Live {
    /// Notes whether the execution refers to blobs once this command is decided. Only then can a letter
    /// miss a content.
    pub(super) fn note_references(&mut self, command: &Command) {
        let payload = match command {
            Command::Report(Report { outcome: Outcome::Completed(output), .. }) => Some(output),
            Command::Request(request, _) => request.payload(),
            Command::ChildEnded(end) => end.output.as_ref(),
            _ => None,
        };
        let comes = payload.is_some_and(|payload| payload.references().next().is_some());
        // The results of a map are the first reference of many executions.
        self.refers |= comes || !self.fetches.at_hand.is_empty();
    }
}
