//! What a fire starts: the execution's input, id and labels, or the reason why it starts none. Pure.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Fired, Trigger, TriggerKind};
use crate::expr::{Scope, Template};
use crate::failure::{Failure, kind};
use crate::id::ExecutionId;
use crate::json::{BadJson, Json};
use crate::limits::LABEL_CHARS_MAX;

/// What a fire brings: the names that expressions see besides `trigger`, and the input of the execution
/// where the trigger has no `input`.
#[derive(Clone, Debug)]
pub struct Payload {
    names: Vec<(&'static str, Json)>,
    input: Json,
}

impl Payload {
    /// A schedule brings nothing; the input is `{}`.
    pub fn nothing() -> Self {
        Self { names: Vec::new(), input: empty() }
    }

    /// A request. The input is its body.
    pub fn request(body: &Json, headers: &Json, query: &Json) -> Self {
        let names = [("body", body), ("headers", headers), ("query", query)];
        Self { names: owned(&names), input: body.clone() }
    }

    /// A `CloudEvent` as an object. The input is its `data`, or `{}` where it has none.
    pub fn event(event: &Json) -> Self {
        #[derive(Deserialize)]
        struct DataOf {
            data: Option<Json>,
        }
        let data = serde_json::from_str(event.text()).ok().and_then(|event: DataOf| event.data);
        Self { names: owned(&[("event", event)]), input: data.unwrap_or_else(empty) }
    }

    /// The events of a window that fires them together. The input is `{"events": [...]}`.
    pub fn events(events: &[Json]) -> Result<Self, BadJson> {
        let events = Json::list(events.iter())?;
        let input = Json::object([("events", events.clone())].into_iter())?;
        Ok(Self { names: vec![("events", events)], input })
    }

    /// An item of a source, with the cursor of the page that it is from. The input is the item.
    pub fn item(item: &Json, cursor: &Json) -> Self {
        Self { names: owned(&[("item", item), ("cursor", cursor)]), input: item.clone() }
    }

    /// An execution that has ended. The input is what is known of it.
    pub fn ended(execution: &Json) -> Self {
        Self { names: owned(&[("execution", execution)]), input: execution.clone() }
    }

    /// What is to be kept with a dead letter: the names as an object, which [`kept`](Self::kept) reads.
    pub fn keep(&self) -> Result<Json, BadJson> {
        Json::object(self.names.iter().map(|(name, value)| (*name, value.clone())))
    }

    /// The payload of a dead letter; `None` for a text that [`keep`](Self::keep) did not make.
    pub fn kept(text: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct KeptPayload {
            body: Option<Json>,
            headers: Option<Json>,
            query: Option<Json>,
            event: Option<Json>,
            events: Option<Vec<Json>>,
            item: Option<Json>,
            cursor: Option<Json>,
            execution: Option<Json>,
        }
        let null = |json: Option<Json>| json.unwrap_or_else(Json::null);
        Some(match serde_json::from_str(text).ok()? {
            KeptPayload { events: Some(events), .. } => Self::events(&events).ok()?,
            KeptPayload { event: Some(event), .. } => Self::event(&event),
            KeptPayload { item: Some(item), cursor, .. } => Self::item(&item, &null(cursor)),
            KeptPayload { execution: Some(execution), .. } => Self::ended(&execution),
            KeptPayload { headers: Some(headers), query, body, .. } => {
                Self::request(&null(body), &headers, &null(query))
            }
            _ => Self::nothing(),
        })
    }

    /// What the expressions of a trigger see: these names, and `trigger` for a fire.
    pub fn scope(&self, fired: Option<&Fired>) -> Scope {
        let mut scope = Scope::new();
        for (name, value) in &self.names {
            scope.json(name, value);
        }
        if let Some(fired) = fired {
            scope.json("trigger", &fired.to_json());
        }
        scope
    }
}

fn owned(names: &[(&'static str, &Json)]) -> Vec<(&'static str, Json)> {
    names.iter().map(|(name, value)| (*name, (*value).clone())).collect()
}

fn empty() -> Json {
    Json::from_value(&serde_json::json!({}))
}

/// What a fire leads to.
#[derive(Clone, PartialEq, Debug)]
pub enum Prepared {
    /// An execution. Its input has not been compared with the input's schema yet.
    Start(Box<PreparedStart>),
    /// The condition does not hold.
    Filtered,
    /// An expression failed, or what it gave cannot be used.
    Failed(Failure),
}

/// The execution that a fire starts.
#[derive(Clone, PartialEq, Debug)]
pub struct PreparedStart {
    pub input: Json,
    /// Made up by the caller where it is absent.
    pub id: Option<ExecutionId>,
    pub labels: BTreeMap<String, String>,
}

impl Trigger {
    /// Does an event that goes into the window of this trigger meet its condition? What fires later is not
    /// asked again: an event that does not count must neither put off a debounce nor fill a batch.
    pub fn admits(&self, fired: &Fired, payload: &Payload) -> Result<bool, Failure> {
        match &self.condition {
            Some(condition) => condition.eval_bool(&payload.scope(Some(fired))),
            None => Ok(true),
        }
    }

    /// Has it a window?
    fn collects(&self) -> bool {
        matches!(&self.kind, TriggerKind::Event(event) if event.window.is_some())
    }

    /// Evaluates the condition, unless it was [when events arrived](Self::admits), and the templates of this
    /// trigger for one fire, all of them within one budget of an expression.
    pub fn prepare(&self, fired: &Fired, payload: &Payload) -> Prepared {
        let scope = payload.scope(Some(fired));
        match self.prepare_over(&scope, payload) {
            Ok(Some(start)) => Prepared::Start(Box::new(start)),
            Ok(None) => Prepared::Filtered,
            Err(failure) => Prepared::Failed(failure),
        }
    }

    fn prepare_over(
        &self,
        scope: &Scope,
        payload: &Payload,
    ) -> Result<Option<PreparedStart>, Failure> {
        if let Some(condition) = self.condition.as_ref().filter(|_| !self.collects())
            && !condition.eval_bool(scope)?
        {
            return Ok(None);
        }
        let input = match &self.input {
            Some(template) => template.render(scope)?,
            None => payload.input.clone(),
        };
        let id = self.id.as_ref().map(|template| {
            let text = text("the field `id`", template, scope)?;
            ExecutionId::parse(&text).ok_or_else(|| {
                let shown = crate::spelling::quoted(&text);
                invalid(format!(
                    "the field `id` gave {shown}, which is not the id of an execution: up to {} letters, \
                     digits, `_`, `-`, `.` and `:`, not starting with `.`",
                    ExecutionId::CHARS_MAX
                ))
            })
        });
        let label = |(name, template): &(std::sync::Arc<str>, Template)| {
            let what = format!("the label `{name}`");
            let value = text(&what, template, scope)?;
            if value.chars().count() > LABEL_CHARS_MAX || value.chars().any(char::is_control) {
                return Err(invalid(format!(
                    "{what} must have at most {LABEL_CHARS_MAX} characters and no control characters"
                )));
            }
            Ok((name.to_string(), value))
        };
        let labels = self.labels.iter().map(label).collect::<Result<_, _>>()?;
        Ok(Some(PreparedStart { input, id: id.transpose()?, labels }))
    }
}

/// A template's value as a text: a text itself, a number or a boolean.
fn text(what: &str, template: &Template, scope: &Scope) -> Result<String, Failure> {
    let json = template.render(scope)?;
    match json.to_value()? {
        serde_json::Value::String(text) => Ok(text),
        // As it was written: a float would change large ones.
        serde_json::Value::Number(_) | serde_json::Value::Bool(_) => Ok(json.text().to_owned()),
        serde_json::Value::Null | serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
            Err(invalid(format!("{what} must be a text, a number or a boolean")))
        }
    }
}

fn invalid(message: String) -> Failure {
    Failure::permanent(kind::INVALID_CONFIG, message)
}
