//! Did each map open the items that it had to, in order and a few at a time, and end as they did?

use serde_json::{Value as Json, json};
use waypost_core::failure::kind;
use waypost_core::status::NodeStatus;

use super::outcomes::expect;
use super::{Judge, has_failed};
use crate::model::values::{are_sound, plain};
use crate::model::{BodyRan, ItemsRan, NodeRan, Steered};
use crate::program::{Each, ItemSource, Value};

impl Judge<'_> {
    pub(super) fn is_map_allowed(
        &self,
        at: usize,
        each: &Each,
        ran: &NodeRan,
    ) -> Result<(), String> {
        let failure = ran.failure.as_deref();
        let struck = has_failed(ran)
            && failure == Some(kind::TIMEOUT)
            && self.may_strike(&self.scope.nodes[at]);
        expect(ran.tries == 1, "it is tried once")?;
        let Some(items) = &ran.items else {
            expect(ran.bodies.is_empty(), "it opened items that it had not found")?;
            let settled = ran.settled.unwrap_or_default();
            return match self.why_no_items(&each.items, settled) {
                _ if struck => Ok(()),
                Some(kind) => expect(failure == Some(kind), &format!("it fails with {kind}")),
                None => Err("it has items".into()),
            };
        };
        self.are_items_right(each, items)?;
        self.is_tuned_as_asked(at, ran)?;
        self.are_items_in_order(at, each, (ran, items))?;
        let opened = u64::try_from(ran.bodies.len()).unwrap_or(u64::MAX);
        let failed = self.failed_by(at, u64::MAX);
        if struck {
            return Ok(());
        }
        if failed > items.tolerated {
            expect(each.stops || opened == items.count, "not all items have run")?;
            let what = format!("{failed} items failed, and {} are tolerated", items.tolerated);
            return expect(failure == Some(kind::TOO_MANY_FAILURES), &what);
        }
        expect(opened == items.count, "not all items have run")?;
        expect(ran.status == NodeStatus::Completed, &format!("only {failed} items failed"))
    }

    /// Has a map as many items open as it may, or all that are left?
    pub(super) fn is_full(&self, at: usize, each: &Each, ran: &NodeRan) -> bool {
        let Some(items) = &ran.items else { return false };
        let opened = u64::try_from(ran.bodies.len()).unwrap_or(u64::MAX);
        let open = ran.bodies.iter().filter(|body| self.closed_at(at, body).is_none()).count();
        let (held, width) = tuned(each, ran, u64::MAX);
        opened == items.count || held || u64::try_from(open).is_ok_and(|open| open >= width)
    }

    /// Did people ask for each change?
    fn is_tuned_as_asked(&self, at: usize, ran: &NodeRan) -> Result<(), String> {
        for (_, tuning) in &ran.tuned {
            let asked = Steered::Tuned(self.path(at), *tuning);
            expect(self.ran.world.steered.contains(&asked), "no person tuned it")?;
        }
        Ok(())
    }

    /// Why a map finds no items, as of an event: the kind of its failure.
    fn why_no_items(&self, items: &ItemSource, seq: u64) -> Option<&'static str> {
        if !are_sound(items.values()) {
            return Some(kind::EXPRESSION);
        }
        let countable = match items {
            ItemSource::List(_) => true,
            ItemSource::Of(Value::OutputOf(of)) => {
                let ran = &self.nodes[*of];
                let completed = self.settled_by(*of, seq) && ran.status == NodeStatus::Completed;
                completed && ran.output.as_ref().is_some_and(|out| out.is_array() || out.is_u64())
            }
            ItemSource::Of(Value::ResultsOf(of)) => {
                let found = self.results_of(*of, seq).is_some();
                return (!found).then_some(kind::EXPRESSION);
            }
            ItemSource::Of(value) => plain(*value, self.facts).is_some_and(|value| value.is_u64()),
        };
        (!countable).then_some(kind::INVALID_CONFIG)
    }

    /// The results in the output of a map that had completed by an event.
    pub(super) fn results_of(&self, of: usize, seq: u64) -> Option<&Json> {
        let ran = &self.nodes[of];
        let completed = self.settled_by(of, seq) && ran.status == NodeStatus::Completed;
        ran.output.as_ref().filter(|_| completed)?.get("results")
    }

    /// Are the items those of the definition, and is the number of tolerated failures?
    fn are_items_right(&self, each: &Each, items: &ItemsRan) -> Result<(), String> {
        let seq = items.found;
        let right = match (&each.items, &items.list) {
            (ItemSource::List(values), Some(Json::Array(list))) => {
                list.len() == values.len()
                    && list.iter().zip(values).all(|(item, value)| self.shows(item, *value, seq))
            }
            (ItemSource::List(_), _) => false,
            (ItemSource::Of(value), Some(list)) => self.shows(list, *value, seq),
            (ItemSource::Of(value), None) => self.shows(&json!(items.count), *value, seq),
        };
        expect(right, &format!("its items are not {:?}", items.list))?;
        let length = items.list.as_ref().and_then(Json::as_array).map(Vec::len);
        let counted = length.is_none_or(|length| u64::try_from(length) == Ok(items.count));
        expect(counted, &format!("it has {length:?} items, not {}", items.count))?;
        let tolerated = each.tolerated.of(items.count);
        let what = format!("{tolerated} failures are tolerated, not {}", items.tolerated);
        expect(tolerated == items.tolerated, &what)
    }

    /// Was each item opened in its turn, and when there was a place for it?
    fn are_items_in_order(
        &self,
        at: usize,
        each: &Each,
        (ran, items): (&NodeRan, &ItemsRan),
    ) -> Result<(), String> {
        for (index, body) in (0..).zip(&ran.bodies) {
            expect(body.index == Some(index), "its items are not in order")?;
            expect(index < items.count, "it has not so many items")?;
            let seq = body.opened;
            let before = &ran.bodies[..=usize::try_from(index).unwrap_or(usize::MAX)];
            let open = |body: &&BodyRan| self.closed_at(at, body).is_none_or(|closed| closed > seq);
            let open = before.iter().filter(open).count();
            let (held, width) = tuned(each, ran, seq);
            expect(!held, "it is held")?;
            let fits = u64::try_from(open).is_ok_and(|open| open <= width);
            expect(fits, &format!("{open} items are open, {width} allowed"))?;
            let stopped = self.is_stopped(at, seq);
            expect(!stopped, "it has stopped")?;
        }
        Ok(())
    }

    /// Had a map stopped by an event, since more items had failed than are tolerated?
    pub(super) fn is_stopped(&self, at: usize, seq: u64) -> bool {
        let tolerated = self.nodes[at].items.as_ref().map(|items| items.tolerated);
        let stops = self.scope.nodes[at].is_stoppable();
        stops && tolerated.is_some_and(|tolerated| self.failed_by(at, seq) > tolerated)
    }

    /// How many items had failed by an event.
    fn failed_by(&self, at: usize, seq: u64) -> u64 {
        let failed = |body: &&BodyRan| {
            self.closed_at(at, body).is_some_and(|closed| closed < seq) && self.has_failed(at, body)
        };
        let count = self.nodes[at].bodies.iter().filter(failed).count();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// The event that closed an item: the last one that settled a node of it.
    fn closed_at(&self, at: usize, body: &BodyRan) -> Option<u64> {
        let inside = self.inside(at, body, self.scope.nodes[at].body().unwrap_or_default());
        let settled: Option<Vec<u64>> = inside.nodes.iter().map(|node| node.settled).collect();
        settled?.into_iter().max()
    }

    fn has_failed(&self, at: usize, body: &BodyRan) -> bool {
        let inside = self.inside(at, body, self.scope.nodes[at].body().unwrap_or_default());
        body.ending.is_some() || (0..inside.nodes.len()).any(|at| inside.is_unhandled(at))
    }

    /// The output of a map that completed. Of the failures it has the kinds, not the messages.
    pub(super) fn map_output(&self, at: usize, each: &Each) -> Json {
        let ran = &self.nodes[at];
        let (mut results, mut indexes, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (index, body) in ran.bodies.iter().enumerate() {
            if !self.has_failed(at, body) {
                results.push(self.value_of(at, body));
                continue;
            }
            results.push(Json::Null);
            indexes.push(index);
            let kind = self.failure_of(at, body).map(|failure| failure.kind);
            failures.push(json!({ "index": index, "kind": kind }));
        }
        let (count, failed) = (results.len(), indexes.len());
        let mut output = json!({ "count": count, "succeeded": count - failed, "failed": failed });
        if each.collects && !results.iter().all(Json::is_null) {
            output["results"] = Json::Array(results);
        }
        if failed > 0 {
            output["failedIndexes"] = json!(indexes);
            output["failures"] = Json::Array(failures);
        }
        output
    }
}

/// Is a map held, and how many items may be open at once, as of an event?
fn tuned(each: &Each, ran: &NodeRan, seq: u64) -> (bool, u64) {
    let before = || ran.tuned.iter().filter(|(at, _)| *at < seq).map(|(_, tuning)| tuning);
    let held = before().filter_map(|tuning| tuning.held).next_back();
    let width = before().filter_map(|tuning| tuning.concurrency).next_back();
    (held.unwrap_or(false), width.map_or(each.width, u64::from))
}

/// Is an output the expected one, each failure with a message besides?
pub(super) fn is_map_output(mut output: Json, expected: &Json) -> bool {
    let failures = output.get_mut("failures").and_then(Json::as_array_mut);
    for failure in failures.into_iter().flatten().filter_map(Json::as_object_mut) {
        if !failure.remove("message").is_some_and(|message| message.is_string()) {
            return false;
        }
    }
    output == *expected
}
