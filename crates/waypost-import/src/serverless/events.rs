//! Events: what is published, what is waited for, and what starts the workflow.

use serde_json::{Map, Value, json};
use waypost_lang::{Tree, TreeValue};

use super::tasks::{Made, output};
use super::{Converter, EXPRESSION, Problem, TaskView, constant_duration};
use crate::expr::{Expr, Shape};
use crate::read::SourceFields;
use crate::target::{TargetDefinition, TargetNode};

impl<'f> Converter<'_, 'f> {
    pub(super) fn emit(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        let with = at.get("event").and_then(|event| event.get("with"));
        let with = with.ok_or_else(|| Problem::new(at, "there is no event", "write its `with`"))?;
        let event = self.value(with, view, input)?;
        let message =
            "the event goes to webhook endpoints, as a message, and not to other workflows";
        let advice = "subscribe an endpoint, or use `emit` for a signal to other workflows";
        self.report.different(at, message, advice);
        let node = TargetNode::new(id, "notify").with("message", event.to_value());
        Ok(Made::of(node, Some(output())))
    }

    pub(super) fn listen(
        &mut self,
        id: &str,
        view: TaskView<'f, '_>,
        at: &'f Tree,
        input: &Shape,
    ) -> Result<Made, Problem<'f>> {
        self.report.leftovers(at, &["to", "read"]);
        if let Some(at) = view.tree.get("foreach") {
            let message = "work on each of a stream of events has no counterpart";
            return Err(Problem::new(at, message, "use an `event` trigger"));
        }
        let to = at.get("to").unwrap_or(at);
        let whole = match at.text("read") {
            None | Some("data") => false,
            Some("envelope" | "raw") => true,
            Some(_) => return Err(Problem::new(at, "`read` is unknown", "correct it")),
        };
        if let Some(until) = to.get("until") {
            let message = "events until a condition have no counterpart";
            return Err(Problem::new(until, message, "use a `loop` around the wait"));
        }
        let node = TargetNode::new(id, "wait-for-events");
        let event = Expr::atom("output");
        if let Some(one) = to.get("one") {
            let fields = self.filter(one, view, input)?;
            let node =
                fields.into_iter().fold(node, |node, (field, value)| node.with(&field, value));
            let read = if whole { event } else { event.field("data") };
            return Ok(Made::of(node, Some(Shape::Expr(Expr::list(&[read])))));
        }
        let (need, list) = match (to.get("all"), to.get("any")) {
            (Some(list), _) => ("all", list),
            (None, Some(list)) => ("any", list),
            (None, None) => return Err(Problem::new(to, "there are no events", "add `one`")),
        };
        let mut events = Vec::new();
        for one in list.items() {
            events.push(Value::Object(self.filter(one, view, input)?.into_iter().collect()));
        }
        if events.is_empty() || events.len() > 64 {
            return Err(Problem::new(list, "a wait has 1 to 64 events", "list the events"));
        }
        let node = node.with("events", events).with("need", need);
        let came = event.filter("reject", &[Expr::atom("'none'")]);
        let data = Expr::atom("attribute='data'");
        let read = if whole { came } else { came.filter("map", &[data]) };
        Ok(Made::of(node, Some(Shape::Expr(read.filter("list", &[])))))
    }

    /// The fields of a wait for one event.
    fn filter(
        &mut self,
        one: &'f Tree,
        view: TaskView<'f, '_>,
        input: &Shape,
    ) -> Result<Vec<(String, Value)>, Problem<'f>> {
        if let Some(at) = one.get("correlate") {
            let message = "`correlate` has no counterpart";
            return Err(Problem::new(at, message, "compare with data of the workflow in `match`"));
        }
        let with = one.get("with").unwrap_or(one);
        let kind = with.text("type").filter(|kind| !kind.contains("${"));
        let kind = kind.ok_or_else(|| {
            Problem::new(with, "the type of the event is not constant", "wait for one type")
        })?;
        let mut fields = vec![("type".to_owned(), json!(kind))];
        let mut matches = Map::new();
        for entry in with.entries().iter().filter(|entry| entry.key != "type") {
            let at = &entry.value;
            match (entry.key.as_str(), &at.value) {
                ("id" | "source" | "subject", TreeValue::Text { .. }) => {
                    matches.insert(entry.key.clone(), self.value(at, view, input)?.to_value());
                }
                ("data", TreeValue::Text { text, .. }) => {
                    let data = Shape::Expr(Expr::atom("event.data"));
                    let condition = self.condition(text, &data, view.scope, view.name);
                    let condition = condition.map_err(|m| Problem::new(at, m, EXPRESSION))?;
                    fields.push(("filter".to_owned(), json!(condition.text())));
                }
                ("data", TreeValue::Map(entries)) => {
                    for entry in entries {
                        let value = self.value(&entry.value, view, input)?.to_value();
                        matches.insert(format!("data.{}", entry.key), value);
                    }
                }
                _ => {
                    let message = format!("the attribute `{}` cannot be compared", entry.key);
                    return Err(Problem::new(at, message, "use `match` or `filter`"));
                }
            }
        }
        if !matches.is_empty() {
            fields.push(("match".to_owned(), Value::Object(matches)));
        }
        Ok(fields)
    }

    /// What starts the workflow.
    pub(super) fn schedule(&mut self, schedule: &Tree, definition: &mut TargetDefinition) {
        self.report.leftovers(schedule, &["every", "cron", "on"]);
        let mut triggers = Vec::new();
        if let Some(at) = schedule.get("every") {
            match constant_duration(at) {
                Some(every) => triggers.push(json!({ "schedule": "every", "every": every })),
                None => self.report.lost(at, "the interval is no constant", "write it by hand"),
            }
        }
        if let Some(cron) = schedule.text("cron") {
            triggers.push(json!({ "schedule": "cron", "cron": cron }));
        }
        if let Some(on) = schedule.get("on") {
            let any = on.get("any").map(SourceFields::items).unwrap_or_default();
            let filters: Vec<&Tree> = on.get("one").into_iter().chain(any).collect();
            if filters.is_empty() || on.has("all") || on.has("until") {
                let message = "executions that begin with several events have no counterpart";
                self.report.lost(on, message, "use an `event` trigger with `batch`");
            }
            for (number, filter) in filters.into_iter().enumerate() {
                let with = filter.get("with").unwrap_or(filter);
                self.report.leftovers(with, &["type", "source"]);
                if let Some(at) = filter.get("correlate") {
                    self.report.lost(
                        at,
                        "`correlate` has no counterpart",
                        "use `if` of the trigger",
                    );
                }
                let Some(kind) = with.text("type") else {
                    self.report.lost(with, "the event has no type", "name its type");
                    continue;
                };
                let mut trigger = json!({
                    "event": format!("event_{}", number + 1), "type": kind,
                    "input": ["${{ event.data }}"],
                });
                if let (Some(source), Some(trigger)) =
                    (with.text("source"), trigger.as_object_mut())
                {
                    trigger.insert("source".to_owned(), json!(source));
                }
                triggers.push(trigger);
            }
        }
        if !triggers.is_empty() {
            definition.fields.push(("on", Value::Array(triggers)));
        }
    }
}
