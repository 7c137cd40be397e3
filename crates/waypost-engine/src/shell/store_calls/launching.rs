//! What a `workflow` node starts: its definition, its input, or the child of an earlier attempt.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use waypost_core::child::{CURRENT_VERSION, Callee, SentSignal, SignalTo};
use waypost_core::failure::{Failure, kind};
use waypost_core::id::ExecutionId;
use waypost_core::json::Json;
use waypost_core::limits::PAYLOAD_BYTES_MAX;
use waypost_core::planted::{Bug, is_planted};
use waypost_core::published::{keep_of, key_of, keyed_name, refuse_long};
use waypost_core::reserved::refuse_reserved;
use waypost_core::status::Status;
use waypost_ports::store::{DefinitionRef, Receiver, StoreError};

use super::{Damage, Performed, StoreCalls, fold_guarded};
use crate::driver::{Emits, FoundChild, Input, LaunchOrder, StoreWork};

/// The config of a `workflow` node, rendered. The input stays text, because it may refer to blobs.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(default)]
    workflow: Value,
    #[serde(default)]
    version: Value,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

/// The config of an `emit` node, rendered.
#[derive(Deserialize)]
struct EmitFields<'a> {
    #[serde(default)]
    to: Value,
    #[serde(default)]
    key: Value,
    #[serde(default)]
    keep: Value,
    #[serde(default)]
    signal: Value,
    #[serde(borrow)]
    body: Option<&'a RawValue>,
}

/// Why nothing was found: the store did not answer, or there is nothing to find.
enum NotFound {
    Unanswered(StoreError),
    Failed(Failure),
}

impl From<StoreError> for NotFound {
    fn from(error: StoreError) -> Self {
        Self::Unanswered(error)
    }
}

impl From<Failure> for NotFound {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl StoreCalls {
    pub(super) fn launch(&self, order: Box<LaunchOrder>) -> Performed {
        let found = match self.find_child(&order) {
            Ok(found) => Ok(found),
            Err(NotFound::Failed(failure)) => Err(failure),
            Err(NotFound::Unanswered(error)) => {
                return Performed::not(StoreWork::Launch(order), error);
            }
        };
        let LaunchOrder { execution, node, attempt, .. } = *order;
        Performed::with(vec![Input::Launched { execution, node, attempt, found }])
    }

    fn find_child(&self, order: &LaunchOrder) -> Result<FoundChild, NotFound> {
        if order.emits.is_some() {
            return self.find_receiver(order).map(FoundChild::Signal);
        }
        if let Some(child) = &order.child
            && !is_planted(Bug::ChildStartedAnew)
            && let Some(history) = self.store.load(child.execution)?
        {
            if history.control.is_some() {
                return Ok(FoundChild::UnderWay);
            }
            let loaded = match fold_guarded(history, &self.plans, &*self.store) {
                Ok(loaded) => loaded,
                Err(Damage::Store(error)) if !matches!(error, StoreError::Corrupt(_)) => {
                    return Err(error.into());
                }
                Err(damage) => {
                    let message = format!("execution {} cannot be read: {damage}", child.key);
                    return Err(Failure::permanent(kind::CHILD_FAILED, message).into());
                }
            };
            let unheard = loaded.state.generation > child.ended;
            if unheard || loaded.state.status != Status::Completed {
                return Ok(FoundChild::Ended(Box::new(loaded)));
            }
        }
        let callee = self.find_definition(&order.config)?;
        let (root, max) = (&order.root, self.config.tree_max);
        if !self.trees.admit(&*self.store, root, max)? {
            let message = format!(
                "workflow {:?} was not started: the tree below execution {root} has {max} executions, \
                 which is the limit",
                callee.workflow
            );
            return Err(Failure::permanent(kind::TREE_TOO_LARGE, message).into());
        }
        Ok(FoundChild::New(callee))
    }

    fn find_receiver(&self, order: &LaunchOrder) -> Result<SentSignal, NotFound> {
        let invalid = |message: String| Failure::permanent(kind::INVALID_CONFIG, message);
        let fields: EmitFields<'_> = serde_json::from_str(order.config.text())
            .map_err(|error| invalid(format!("the config cannot be read: {error}")))?;
        let text = |field: &str, value: &Value| match value.as_str() {
            Some(text) if !text.is_empty() => Ok(Arc::<str>::from(text)),
            _ => Err(invalid(format!("`{field}` gave {value}, which is not a text"))),
        };
        let name = text("signal", &fields.signal)?;
        refuse_reserved(&name).map_err(invalid)?;
        let body = payload("body", fields.body)?;
        if order.emits == Some(Emits::ByKey) {
            let key = key_of(&fields.key).map_err(invalid)?;
            let name = keyed_name(&name, &key).map_err(invalid)?;
            let keep = keep_of(&fields.keep).map_err(invalid)?;
            return Ok(SentSignal { to: SignalTo::Waiting { keep }, name, body });
        }
        refuse_long(&name).map_err(invalid)?;
        let to = text("to", &fields.to)?;
        let unreceived = |message: String| Failure::permanent(kind::NO_RECEIVER, message);
        match self.store.receiver(&to)? {
            Some(Receiver { execution, ended: false }) => {
                let to = SignalTo::Execution { number: execution, id: ExecutionId(to) };
                Ok(SentSignal { to, name, body })
            }
            Some(_) => Err(unreceived(format!("execution {to} has ended")).into()),
            None => Err(unreceived(format!("there is no execution {to}")).into()),
        }
    }

    fn find_definition(&self, config: &Json) -> Result<Callee, NotFound> {
        let invalid = |message: String| Failure::permanent(kind::INVALID_CONFIG, message);
        let fields: Fields<'_> = serde_json::from_str(config.text())
            .map_err(|error| invalid(format!("the config cannot be read: {error}")))?;
        let Some(workflow) = fields.workflow.as_str().filter(|name| !name.is_empty()) else {
            let message = format!("`workflow` gave {}, which is not a name", fields.workflow);
            return Err(invalid(message).into());
        };
        let which = match &fields.version {
            Value::Null => DefinitionRef::Current(workflow.into()),
            Value::String(name) if name == CURRENT_VERSION => {
                DefinitionRef::Current(workflow.into())
            }
            version => {
                let number = version.as_u64().or_else(|| version.as_str()?.parse().ok());
                let number = number.and_then(|number| u32::try_from(number).ok());
                let number = number.ok_or_else(|| {
                    invalid(format!(
                        "`version` gave {version}, which is neither the number of a version nor `{CURRENT_VERSION}`"
                    ))
                })?;
                DefinitionRef::Version(workflow.into(), number)
            }
        };
        let Some(definition) = self.store.definition(&which)? else {
            let of = match &which {
                DefinitionRef::Version(_, version) => format!("version {version} of workflow"),
                DefinitionRef::Hash(_) | DefinitionRef::Current(_) => "workflow".to_owned(),
            };
            let message = format!("there is no {of} {workflow:?}; deploy it first");
            return Err(Failure::permanent(kind::UNKNOWN_WORKFLOW, message).into());
        };
        let plan = match self.plans.get(definition.hash, &*self.store) {
            Ok(plan) => plan,
            Err(Damage::Store(error)) => return Err(error.into()),
            Err(damage) => {
                let message = format!("workflow {workflow:?} cannot be used: {damage}");
                return Err(Failure::permanent(kind::UNKNOWN_WORKFLOW, message).into());
            }
        };
        if !plan.callable {
            let message = format!("workflow {workflow:?} has `callable: false`");
            return Err(Failure::permanent(kind::NOT_CALLABLE, message).into());
        }
        let input = payload("input", fields.input)?;
        if let Err(faults) = self.plans.check_input(&plan, &input) {
            let message =
                format!("the input does not fit workflow {workflow:?}: {}", faults.join("; "));
            return Err(Failure::permanent(kind::INVALID_INPUT, message).into());
        }
        Ok(Callee {
            workflow: definition.name,
            version: definition.version,
            definition: definition.hash,
            input,
            timeout: plan.timeout,
            requires: plan.requires(),
        })
    }
}

/// A payload that another execution is given; `null` if there is none.
fn payload(what: &str, raw: Option<&RawValue>) -> Result<Json, Failure> {
    let payload = raw.map_or_else(|| Ok(Json::null()), |raw| Json::parse_own(raw.get()));
    let payload = payload.map_err(Failure::from)?;
    let bytes = payload.bytes();
    if bytes > PAYLOAD_BYTES_MAX {
        let message = format!("the {what} has {bytes} bytes; at most {PAYLOAD_BYTES_MAX} are kept");
        return Err(Failure::permanent(kind::TOO_LARGE, message));
    }
    Ok(payload)
}
