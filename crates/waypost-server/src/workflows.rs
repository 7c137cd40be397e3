//! Definitions: deploying them, and having their plans at hand when executions start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Semaphore;
use waypost_core::json::Json;
use waypost_core::limits::BLOBS_IN_SCHEMA_BYTES_MAX;
use waypost_core::plan::Plan;
use waypost_core::time::Timestamp;
use waypost_core::trigger::{TriggerKind, TriggerKindName};
use waypost_engine::Plans;
use waypost_engine::triggers::registrations;
use waypost_lang::{Diagnostics, InputSchemas, Severity};
use waypost_ports::blobs::{Blobs, NotInlined, inline_up_to};
use waypost_ports::secret::Secrets;
use waypost_ports::store::{DefinitionRef, NewDefinition};
use waypost_ports::triggers::{TriggerState, TriggersRequest};

use crate::problem::{Code, FaultAt, Problem, Span};
use crate::reader::unknown_definition;
use crate::server::{Backend, Compiler};
use crate::wire::payload::Time;
use crate::wire::{Deployed, DeployedTrigger};

/// Triggers of a workflow that the answer to a deploy lists.
const TRIGGERS_MAX: usize = 1_000;
/// Schedules that may be due at one full hour before a deploy of another one warns.
const HERD_MIN: usize = 100;
/// Pages of schedules that are counted for that.
const HERD_PAGES_MAX: usize = 20;
/// Milliseconds.
const HOUR: i64 = 3_600_000;
/// Checks of inputs at once that read blobs.
const READING_CHECKS_MAX: usize = 2;

/// Definitions, compiled.
pub struct Workflows {
    backend: Arc<dyn Backend>,
    plans: Arc<Plans>,
    compiler: Box<Compiler>,
    schemas: InputSchemas,
    /// Places of checks that read blobs, each of which takes the memory of their contents.
    pub(crate) reading_checks: Semaphore,
}

/// A definition that can be started.
pub struct Startable {
    pub plan: Arc<Plan>,
    /// Its version of the workflow.
    pub version: u32,
}

/// How to deploy a definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deploy {
    /// It is stored, and its version becomes the workflow's current one.
    MakeCurrent,
    /// It is stored, and the workflow's current version stays the same, if there is one.
    KeepCurrent,
    /// It is only checked.
    DryRun,
}

/// What a deploy that makes a version current does to its triggers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeployTriggers {
    /// The store's time, from which on schedules count.
    pub now: Timestamp,
    /// Are they paused?
    pub paused: bool,
}

impl Workflows {
    /// Over a store.
    pub fn new(backend: Arc<dyn Backend>, plans: Arc<Plans>, compiler: Box<Compiler>) -> Self {
        let reading_checks = Semaphore::new(READING_CHECKS_MAX);
        Self { backend, plans, compiler, schemas: InputSchemas::default(), reading_checks }
    }

    /// Compiles a definition and keeps it. `secrets` are those with which requests to webhook triggers will be
    /// verified, where that is known.
    pub fn deploy(
        &self,
        source: &[u8],
        how: Deploy,
        triggers: DeployTriggers,
        secrets: Option<&dyn Secrets>,
    ) -> Result<Deployed, Problem> {
        let compiled = (self.compiler)(source).map_err(|faults| invalid(&faults))?;
        let mut warnings = faults(&compiled.warnings);
        warnings.extend(
            secrets.into_iter().flat_map(|secrets| unusable_secrets(&compiled.plan, secrets)),
        );
        let (created, version, current, previous) = match how {
            Deploy::DryRun => {
                let known = self.backend.definition(&DefinitionRef::Hash(compiled.hash))?;
                let version = known.map(|known| known.version);
                let previous = self.backend.current(&compiled.name)?.map(|row| row.version);
                (version.is_none(), version, version, previous)
            }
            Deploy::MakeCurrent | Deploy::KeepCurrent => {
                let kept = self.backend.define(&NewDefinition {
                    name: compiled.name.as_str().into(),
                    hash: compiled.hash,
                    canonical: compiled.canonical.as_str().into(),
                    make_current: how == Deploy::MakeCurrent,
                    // What is not made current fires nothing, also if it is the first version.
                    triggers: match how == Deploy::MakeCurrent {
                        true => registrations(&compiled.plan, &compiled.name, triggers.now),
                        false => Vec::new(),
                    },
                    paused: triggers.paused,
                })?;
                self.plans.keep(Arc::new(compiled.plan));
                (kept.created, Some(kept.definition.version), Some(kept.current), kept.previous)
            }
        };
        let triggers = self.triggers(&compiled.name)?;
        warnings.extend(self.herd(&triggers)?);
        Ok(Deployed {
            workflow: compiled.name,
            version,
            hash: compiled.hash.to_string(),
            created,
            current,
            previous,
            triggers,
            warnings,
        })
    }

    /// The triggers of a workflow, without those that its current version does not have.
    fn triggers(&self, workflow: &str) -> Result<Vec<DeployedTrigger>, Problem> {
        let workflow = Some(workflow.into());
        let limit = TRIGGERS_MAX;
        let request = TriggersRequest { workflow, limit, ..TriggersRequest::default() };
        let rows = self.backend.triggers(&request)?.rows.into_iter();
        let shown =
            rows.filter(|row| row.state != TriggerState::Retired).map(|row| DeployedTrigger {
                name: row.name.to_string(),
                kind: row.kind.name().to_owned(),
                state: row.state.name().to_owned(),
                next_due_at: row.next_due.map(Time),
            });
        Ok(shown.collect())
    }

    /// A warning where one of these schedules is due at a full hour together with many others. What jitter puts
    /// off is due a little later.
    fn herd(&self, deployed: &[DeployedTrigger]) -> Result<Option<FaultAt>, Problem> {
        let schedule = TriggerKindName::Schedule;
        let due = deployed.iter().filter(|trigger| trigger.kind == schedule.name());
        let due = due.filter_map(|trigger| trigger.next_due_at.map(|due| due.0));
        let full: BTreeSet<Timestamp> = due.filter(|due| due.0.rem_euclid(HOUR) == 0).collect();
        let mut request = TriggersRequest {
            kind: Some(schedule),
            state: Some(TriggerState::Active),
            limit: TRIGGERS_MAX,
            ..TriggersRequest::default()
        };
        let mut counts: BTreeMap<Timestamp, usize> = BTreeMap::new();
        for _ in 0..if full.is_empty() { 0 } else { HERD_PAGES_MAX } {
            let page = self.backend.triggers(&request)?;
            for due in page.rows.iter().filter_map(|row| row.next_due) {
                let count = counts.entry(due).or_default();
                *count += 1;
                if *count > HERD_MIN && full.contains(&due) {
                    return Ok(Some(herd_warning(due)));
                }
            }
            let Some(last) = page.rows.last().filter(|_| page.more) else { break };
            request.after = Some((Arc::clone(&last.workflow), Arc::clone(&last.name)));
        }
        Ok(None)
    }

    /// The definition that a submission means.
    pub fn find(&self, name: &str, version: Option<u32>) -> Result<Startable, Problem> {
        let (version, hash) = match version {
            None => self.backend.current(name)?.map(|row| (row.version, row.hash)),
            Some(version) => {
                let which = DefinitionRef::Version(name.into(), version);
                self.backend.definition(&which)?.map(|known| (known.version, known.hash))
            }
        }
        .ok_or_else(|| unknown_definition(name, version))?;
        let plan =
            self.plans.get(hash, &*self.backend).map_err(|damage| Problem::internal(&damage))?;
        Ok(Startable { plan, version })
    }

    /// Checks an input against the workflow's schema: where it names blobs, their contents.
    pub fn check_input(&self, plan: &Plan, input: &Json, blobs: &dyn Blobs) -> Result<(), Problem> {
        let Some(source) = &plan.input_schema else { return Ok(()) };
        let whole = inline_up_to(blobs, input, BLOBS_IN_SCHEMA_BYTES_MAX);
        let whole = whole.map_err(|error| match error {
            NotInlined::Blob(error) => error.into(),
            error => Problem::new(Code::InvalidInput, format!("the input {error}")),
        })?;
        let schema = self.schemas.get(plan.hash, source);
        let schema = schema.map_err(|error| Problem::internal(&error))?;
        schema.check(&whole).map_err(|faults| {
            let errors = faults.into_iter().map(|fault| FaultAt {
                message: fault.message,
                pointer: Some(fault.path),
                ..FaultAt::default()
            });
            let detail = "the input does not fit the schema in the workflow's definition";
            Problem::new(Code::InvalidInput, detail)
                .hint("GET /v1/definitions/{name} shows the schema as `input`")
                .errors(errors.collect())
        })
    }
}

/// Warnings of secrets of webhook triggers that cannot verify requests here: senders with them are refused.
fn unusable_secrets(plan: &Plan, secrets: &dyn Secrets) -> Vec<FaultAt> {
    let mut found = Vec::new();
    for trigger in &plan.triggers {
        let TriggerKind::Webhook(webhook) = &trigger.kind else { continue };
        for name in &webhook.verify.secrets {
            let why = match secrets.resolve(name, &plan.workflow) {
                Ok(grant) if grant.verify => continue,
                Ok(_) => format!("secret `{name}` is without `verify = true` in the settings"),
                Err(refused) => refused.to_string(),
            };
            let message = format!(
                "the webhook trigger `{}` cannot verify with a secret: {why}",
                trigger.name
            );
            found.push(FaultAt {
                message,
                code: Some("unusable_secret".to_owned()),
                severity: Some("warning".to_owned()),
                ..FaultAt::default()
            });
        }
    }
    found
}

fn herd_warning(due: Timestamp) -> FaultAt {
    FaultAt {
        message: format!("more than {HERD_MIN} schedules without jitter are due at {due}"),
        code: Some("many_schedules".to_owned()),
        severity: Some("warning".to_owned()),
        hint: Some("give them `jitter: 5m`, so that they do not start all at once".to_owned()),
        ..FaultAt::default()
    }
}

fn invalid(diagnostics: &Diagnostics) -> Problem {
    let errors = faults(diagnostics);
    let detail =
        match errors.iter().filter(|fault| fault.severity.as_deref() == Some("error")).count() {
            1 => "the definition has a fault".to_owned(),
            count => format!("the definition has {count} faults"),
        };
    Problem::new(Code::InvalidDefinition, detail)
        .hint("`waypost validate FILE` shows them in the source")
        .errors(errors)
}

fn faults(diagnostics: &Diagnostics) -> Vec<FaultAt> {
    diagnostics
        .faults
        .iter()
        .map(|fault| FaultAt {
            message: fault.message.clone(),
            code: Some(fault.code.name().to_owned()),
            severity: Some(match fault.severity {
                Severity::Error => "error".to_owned(),
                Severity::Warning => "warning".to_owned(),
            }),
            pointer: None,
            span: Some(Span {
                line: fault.line,
                column: fault.column,
                start: fault.span.start,
                end: fault.span.end,
            }),
            hint: fault.hint.clone(),
        })
        .collect()
}
