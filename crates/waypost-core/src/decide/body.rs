//! Containers: `group`, `loop` and `map` open their bodies, and go on when a scope has closed.
//!
//! ```text
//!   RUNNING ─ evaluate ─▶ BodyOpened ─▶ WAITING, while the nodes of the scope work
//!                             ▲                       │ the last of them settles: the scope closes
//!                             └── next iteration ──── go_on_with_bodies ─▶ NodeCompleted, NodeFailed
//! ```
//!
//! A failure in a body that is not handled ends its scope (`BodyEnding`), as a failure of the
//! definition's own nodes ends the execution: nothing more begins, running attempts are cancelled
//! and awaited, and what they report is recorded. Then the container fails.

use super::Decider;
use super::evaluate::{duration, invalid};
use crate::apply::GRACE;
use crate::blob::BlobRef;
use crate::event::{CancelReason, NodeEvent, Origin, Wait};
use crate::expr::ITEMS_PAGE;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, Collect, Container, Loop, LoopTest, MapSpec};
use crate::limits::{ITEM_FAILURES_MAX, ITEMS_MAX, PAYLOAD_BYTES_MAX};
use crate::path::{At, ScopeNo};
use crate::planted::{Bug, is_planted};
use crate::state::{MapState, State};
use crate::status::{NodeStatus, Status};

impl Decider<'_> {
    /// Gives the containers their turn that have something to do. That may give others something to
    /// do: a loop in a group.
    pub(super) fn go_on_with_bodies(&mut self) {
        while let Some(at) = self.next_body() {
            match self.go_on_with(at) {
                Err(_) if self.env.contents.has_missed() => self.put_off.push(at),
                Err(failure) => self.attempt_failed(at, failure),
                Ok(()) => {}
            }
        }
    }

    /// Settles the containers in bodies that end, if nothing is left in them: before the execution is
    /// parked, since no node moves after that.
    pub(super) fn settle_in_ending_bodies(&mut self) {
        let next = |state: &State| {
            let settles = |at: &&At| {
                let body = state.node(**at).body.as_ref();
                state.is_ending(**at) && body.is_none_or(|body| body.open.is_empty())
            };
            state.due_bodies.iter().find(settles).copied()
        };
        while let Some(at) = next(self.state) {
            self.cancel_node(at, CancelReason::Body);
        }
    }

    /// A container that has something to do, and may. Maps that only have items to open are left to
    /// `Command::OpenItems`: it comes once a frame, so that one event opens all that fit.
    fn next_body(&self) -> Option<At> {
        let may = |at: &At| self.state.acts() || self.state.is_ending(*at);
        let mut due = self.state.due_bodies.iter().copied();
        let waits = |at: &At| self.put_off.contains(at) || self.awaits_scopes(*at);
        due.find(|at| may(at) && !self.opens_items(*at) && !waits(at))
    }

    /// Does a container that ends still have open scopes? A map that had items to open when its end was
    /// fixed is still listed as due.
    fn awaits_scopes(&self, at: At) -> bool {
        let body = self.node(at).body.as_ref();
        body.is_some_and(|body| {
            !body.open.is_empty() && (self.state.is_ending(at) || body.failure.is_some())
        })
    }

    fn opens_items(&self, at: At) -> bool {
        let Some(body) = &self.node(at).body else { return false };
        !self.state.is_ending(at)
            && body.failure.is_none()
            && body.map.as_ref().is_some_and(|map| map.has_items_left())
    }

    /// Opens the next items of all maps that have some.
    pub(super) fn open_items_of_maps(&mut self) {
        for at in self.state.due_bodies.iter().copied().collect::<Vec<_>>() {
            if self.state.acts() && self.state.due_bodies.contains(&at) && self.opens_items(at) {
                self.open_items(at);
            }
        }
    }

    fn open_items(&mut self, at: At) {
        let (Behaviour::Map(spec), Some(body)) =
            (&self.plan_node(at).behaviour, &self.node(at).body)
        else {
            return;
        };
        let Some(map) = &body.map else { return };
        let open = if is_planted(Bug::WindowIgnored) { 0 } else { body.open.len() as u64 };
        let free = map.places(spec).saturating_sub(open);
        let count = free.min(map.count - map.next).min(self.env.items_opened_max);
        let (items, count) = match map.source {
            None => (None, count),
            Some(blob) => match self.items_in(blob, map.next, count) {
                Ok((items, count)) => (Some(items), count),
                Err(_) if self.env.contents.has_missed() => return,
                Err(failure) => return self.fail_map(at, failure),
            },
        };
        let (from, failed, first) = (map.next, map.failed, self.state.scopes_opened + 1);
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let opened = NodeEvent::ItemsOpened { node, attempt, from, count, items, failed };
        self.emit_at(at, opened);
        for scope in first..first + count {
            self.open_scope(ScopeNo(scope));
        }
    }

    /// The next items of a list in a blob: at most so many, and none of the next page.
    fn items_in(&self, blob: BlobRef, from: u64, count: u64) -> Result<(Json, u64), Failure> {
        let page = self.env.contents.items(blob, from / ITEMS_PAGE)?;
        let first = usize::try_from(from % ITEMS_PAGE).unwrap_or(usize::MAX);
        let most = usize::try_from(count).unwrap_or(usize::MAX);
        let items = page.iter().skip(first).take(most);
        let count = items.len() as u64;
        if count == 0 {
            let message = format!("blob {} has no item {from}", blob.digest);
            return Err(Failure::permanent(kind::BLOB, message));
        }
        Ok((Json::list(items)?, count))
    }

    /// A map cannot go on: its open items end first.
    fn fail_map(&mut self, at: At, failure: Failure) {
        let body = self.node(at).body.as_ref();
        let open: Vec<ScopeNo> = body.map_or_else(Vec::new, |b| b.open.values().copied().collect());
        if open.is_empty() {
            return self.attempt_failed(at, failure);
        }
        for scope in open {
            if !self.state.is_scope_ending(scope) {
                self.end_scope(scope, failure.clone(), true, Origin::default());
            }
        }
    }

    /// Evaluates a container that is RUNNING.
    pub(super) fn open_container(&mut self, at: At) -> Result<(), Failure> {
        match self.plan_node(at).behaviour.container() {
            Some(Container::Loop(spec)) => self.next_iteration(at, spec),
            Some(Container::Map(spec)) => self.open_map(at, spec),
            Some(Container::Group) | None => {
                self.open_body(at);
                Ok(())
            }
        }
    }

    /// Evaluates the items of a map.
    fn open_map(&mut self, at: At, spec: &MapSpec) -> Result<(), Failure> {
        let value = spec.items.render(&self.scope(at))?;
        let (count, items) = match value.as_reference() {
            Some(blob) => (self.env.contents.count(blob)?, Some(value)),
            None => items_of(&value)?,
        };
        if count > ITEMS_MAX {
            let message = format!("the map has {count} items; at most {ITEMS_MAX} are allowed");
            return Err(Failure::permanent(kind::TOO_MANY_ITEMS, message));
        }
        let (node, attempt, tolerated) =
            (self.path(at), self.node(at).attempt, spec.tolerate.of(count));
        self.emit_at(at, NodeEvent::MapOpened { node, attempt, count, items, tolerated });
        Ok(())
    }

    /// All items of a map are done, or those that were open when it stopped.
    fn end_map(&mut self, at: At, spec: &MapSpec) -> Result<(), Failure> {
        let Some(map) = self.node(at).body.as_ref().and_then(|body| body.map.as_ref()) else {
            return Ok(());
        };
        let too_few = is_planted(Bug::ToleranceOffByOne) && map.failed > 0;
        if map.failed > map.tolerated || too_few && map.failed == map.tolerated {
            return Err(too_many_failures(map));
        }
        let attempt = self.node(at).attempt;
        let results = match spec.collect && map.is_too_large() {
            true => Some(Json::reference(self.env.contents.results(at, attempt, map.count)?)),
            false => None,
        };
        let output = output_of_map(map, results)?;
        self.complete(at, Some(output), None)
    }

    /// Too many items failed: those that are open end, too.
    fn stop_map(&mut self, at: At) {
        let Some(body) = &self.node(at).body else { return };
        let open = body.open.values().copied();
        let open = open.filter(|scope| !self.state.is_scope_ending(*scope));
        for scope in open.collect::<Vec<_>>() {
            let message = "the map was stopped because too many items failed";
            let failure = Failure::permanent(kind::TOO_MANY_FAILURES, message);
            self.end_scope(scope, failure, false, Origin::default());
        }
    }

    fn go_on_with(&mut self, at: At) -> Result<(), Failure> {
        if self.state.is_ending(at) {
            let whole = self.state.status == Status::Ending;
            self.cancel_node(at, if whole { CancelReason::Ending } else { CancelReason::Body });
            return Ok(());
        }
        let body = self.node(at).body.as_deref();
        if let Some(failure) = body.and_then(|body| body.failure.clone()) {
            return Err(*failure);
        }
        match self.plan_node(at).behaviour.container() {
            Some(Container::Loop(spec)) => self.next_iteration(at, spec),
            Some(Container::Map(_)) if body.is_some_and(|body| !body.open.is_empty()) => {
                self.stop_map(at);
                Ok(())
            }
            Some(Container::Map(spec)) => self.end_map(at, spec),
            Some(Container::Group) | None => {
                let output = body.and_then(|body| body.output.clone());
                self.complete(at, output, None)
            }
        }
    }

    /// Ends the loop, or begins its next iteration, after its delay.
    fn next_iteration(&mut self, at: At, spec: &Loop) -> Result<(), Failure> {
        let done = self.iterations(at);
        let bytes = self.node(at).body.as_ref().map_or(0, |body| body.collected_bytes);
        if bytes > PAYLOAD_BYTES_MAX {
            let message = format!(
                "the outputs of {done} iterations have {bytes} bytes; at most {PAYLOAD_BYTES_MAX} \
                 are kept (`collect: last` keeps the last one only)"
            );
            return Err(Failure::permanent(kind::TOO_LARGE, message));
        }
        let scope = self.scope(at);
        let ends = match &spec.test {
            LoopTest::While(holds) => !holds.eval_bool(&scope)?,
            LoopTest::Until(holds) => done > 0 && holds.eval_bool(&scope)?,
        };
        if ends {
            let output = self.loop_output(at, spec.collect)?;
            return self.complete(at, output, None);
        }
        let more = u64::from(is_planted(Bug::LoopOffByOne));
        if done >= spec.iterations_max + more {
            let message =
                format!("the loop has not ended after {done} iterations, `maxIterations`");
            return Err(Failure::permanent(kind::LOOP_LIMIT, message));
        }
        let delay = spec.delay.as_ref().filter(|_| done > 0);
        let delay = delay.map(|delay| duration(delay, &scope)).transpose()?;
        match delay.filter(|span| span.0 > 0) {
            Some(span) => {
                let wait = Wait::Delay { due: self.env.now_max.plus(span) };
                self.wait(at, wait, Some(span));
            }
            None => self.open_body(at),
        }
        Ok(())
    }

    fn iterations(&self, at: At) -> u64 {
        self.node(at).body.as_ref().map_or(0, |body| body.opened)
    }

    fn loop_output(&self, at: At, collect: Collect) -> Result<Option<Json>, Failure> {
        let Some(body) = &self.node(at).body else {
            return Ok(match collect {
                Collect::Last => None,
                Collect::All => Some(Json::list([].iter())?),
            });
        };
        match collect {
            Collect::Last => Ok(body.output.clone()),
            Collect::All => Ok(Some(Json::list(body.collected.iter())?)),
        }
    }

    /// Opens the next scope of a container, and its first nodes.
    pub(super) fn open_body(&mut self, at: At) {
        let is_loop = matches!(self.plan_node(at).behaviour, Behaviour::Loop(_));
        let index = is_loop.then(|| self.iterations(at) + 1);
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        self.emit_at(at, NodeEvent::BodyOpened { node, attempt, index });
        let scope = ScopeNo(self.state.scopes_opened);
        self.open_scope(scope);
    }

    /// A failure in a body that nothing handles, or the request of `origin`: its scope ends.
    pub(super) fn end_scope(
        &mut self,
        scope: ScopeNo,
        failure: Failure,
        whole: bool,
        origin: Origin,
    ) {
        let Some((at, index)) = self.state.scope(scope).and_then(|s| Some((s.container?, s.index)))
        else {
            return;
        };
        let (node, attempt) = (self.path(at), self.node(at).attempt);
        let grace = self.env.now_max.plus(GRACE);
        let ending = NodeEvent::BodyEnding { node, attempt, index, failure, whole, grace, origin };
        self.emit_at(at, ending);
        let ending = self.state.scopes_in(scope);
        let not_handed_off = self.withdraw(|at| ending.contains(&at.scope));
        for number in ending {
            let Some(scope) = self.state.scope(number) else { continue };
            let open = scope.iter().filter(|(_, node)| !node.status.is_settled());
            let open: Vec<At> = open.map(|(node, _)| At { scope: number, node }).collect();
            for at in open {
                self.stop_node(at, not_handed_off.contains(&at), CancelReason::Body);
            }
        }
    }

    /// Stops a node of an end: a running attempt is cancelled and awaited, a container awaits what
    /// is in it, anything else is cancelled at once.
    pub(super) fn stop_node(&mut self, at: At, not_handed_off: bool, reason: CancelReason) {
        let node = self.node(at);
        let runs = node.token.is_some() && !not_handed_off;
        let holds = node.body.as_ref().is_some_and(|body| !body.open.is_empty());
        if runs {
            self.tell_to_stop(at);
        } else if !holds || is_planted(Bug::BodyForgotten) {
            self.cancel_node(at, reason);
        }
    }

    /// Stops the attempts in a body that no longer counts, without awaiting them.
    pub(super) fn stop_body(&mut self, container: At) {
        let scopes = self.state.scopes_of(container);
        if scopes.is_empty() {
            return;
        }
        let not_handed_off = self.withdraw(|at| scopes.contains(&at.scope));
        let inside = self.state.positions().into_iter().filter(|at| scopes.contains(&at.scope));
        for at in inside {
            if !not_handed_off.contains(&at) {
                self.tell_to_stop(at);
            }
        }
    }

    /// The patience with the cancelled attempts of a scope is over.
    pub(super) fn give_up_on_body(&mut self, scope: ScopeNo) {
        for number in self.state.scopes_in(scope) {
            let Some(scope) = self.state.scope(number) else { continue };
            let running = scope.iter().filter(|(_, node)| node.status == NodeStatus::Running);
            let running: Vec<At> = running.map(|(node, _)| At { scope: number, node }).collect();
            for at in running {
                self.cancel_node(at, CancelReason::Grace);
            }
        }
    }

    /// A container took longer than its deadline: its scopes end first. False if it has none.
    pub(super) fn deadline_of_body(&mut self, at: At) -> bool {
        let body = self.node(at).body.as_ref();
        let open: Vec<ScopeNo> = body.map_or_else(Vec::new, |b| b.open.values().copied().collect());
        for scope in &open {
            if !self.state.is_scope_ending(*scope) {
                self.end_scope(*scope, deadline_passed(), true, Origin::default());
            }
        }
        !open.is_empty()
    }
}

/// How many items a map has, and which; a number stands for the numbers below it.
fn items_of(value: &Json) -> Result<(u64, Option<Json>), Failure> {
    let wrong = || {
        let what = "`items` must be a list, or a whole number that is not negative";
        invalid(format!("{what}; it is {}", shortened(value.text())))
    };
    if value.text().starts_with('[') {
        let items: Vec<&serde_json::value::RawValue> =
            serde_json::from_str(value.text()).map_err(|_| wrong())?;
        return Ok((items.len() as u64, Some(value.clone())));
    }
    let number = value.to_value()?;
    let whole = number.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0);
    let count = number.as_u64().or(whole.and_then(|number| format!("{number:.0}").parse().ok()));
    count.map(|count| (count, None)).ok_or_else(wrong)
}

fn shortened(text: &str) -> String {
    let start: String = text.chars().take(80).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}

fn too_many_failures(map: &MapState) -> Failure {
    let MapState { count, failed, tolerated, .. } = map;
    let first = map.failures.iter().next();
    let first = first.map_or_else(String::new, |(index, failure)| {
        format!("; item {index}: {}", failure.message)
    });
    let message = format!("{failed} of {count} items failed, and {tolerated} are tolerated{first}");
    let details = serde_json::json!({
        "count": count,
        "failed": failed,
        "failedIndexes": map.failed_indexes().take(ITEM_FAILURES_MAX).collect::<Vec<_>>(),
    });
    let details = Some(Json::from_value(&details));
    Failure { details, ..Failure::permanent(kind::TOO_MANY_FAILURES, message) }
}

fn output_of_map(map: &MapState, results: Option<Json>) -> Result<Json, Failure> {
    let number = |number: u64| Json::from_value(&number.into());
    let mut fields = vec![
        ("count", number(map.count)),
        ("succeeded", number(map.done - map.failed)),
        ("failed", number(map.failed)),
    ];
    if let Some(results) = results {
        fields.push(("results", results));
    } else if !map.outputs.is_empty() {
        let null = Json::null();
        let results = (0..map.count).map(|index| map.outputs.get(&index).unwrap_or(&null));
        fields.push(("results", Json::list(results)?));
    }
    if map.failed > 0 {
        let indexes: Vec<u64> = map.failed_indexes().collect();
        fields.push(("failedIndexes", Json::from_value(&indexes.into())));
        let failures = map.failures.iter().map(|(index, failure)| {
            serde_json::json!({ "index": index, "kind": failure.kind, "message": failure.message })
        });
        fields.push(("failures", Json::from_value(&failures.collect())));
    }
    Ok(Json::object(fields.into_iter())?)
}

pub(super) fn deadline_passed() -> Failure {
    Failure::permanent(kind::TIMEOUT, "the node's deadline has passed")
}
