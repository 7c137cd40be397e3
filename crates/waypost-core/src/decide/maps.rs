//! Maps: which items there are, when they open, and what becomes of them at the end.

use super::Decider;
use super::evaluate::invalid;
use crate::blob::BlobRef;
use crate::event::{NodeEvent, Origin};
use crate::expr::ITEMS_PAGE;
use crate::failure::{Failure, kind};
use crate::json::Json;
use crate::kind::{Behaviour, MapSpec};
use crate::limits::{ITEM_FAILURES_MAX, ITEMS_MAX, MAP_RESULTS_BYTES_MAX};
use crate::path::{At, ScopeNo};
use crate::planted::{Bug, is_planted};
use crate::state::MapState;

impl Decider<'_> {
    pub(super) fn opens_items(&self, at: At) -> bool {
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
    pub(super) fn fail_map(&mut self, at: At, failure: Failure) {
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

    /// Evaluates the items of a map.
    pub(super) fn open_map(&mut self, at: At, spec: &MapSpec) -> Result<(), Failure> {
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
        let results_max =
            Some(self.env.map_results_bytes_max).filter(|max| *max < MAP_RESULTS_BYTES_MAX);
        let opened = NodeEvent::MapOpened { node, attempt, count, items, tolerated, results_max };
        self.emit_at(at, opened);
        Ok(())
    }

    /// All items of a map are done, or those that were open when it stopped.
    pub(super) fn end_map(&mut self, at: At, spec: &MapSpec) -> Result<(), Failure> {
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
    pub(super) fn stop_map(&mut self, at: At) {
        let Some(body) = &self.node(at).body else { return };
        let open = body.open.values().copied();
        let open = open.filter(|scope| !self.state.is_scope_ending(*scope));
        for scope in open.collect::<Vec<_>>() {
            let message = "the map was stopped because too many items failed";
            let failure = Failure::permanent(kind::TOO_MANY_FAILURES, message);
            self.end_scope(scope, failure, false, Origin::default());
        }
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
