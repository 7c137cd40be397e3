//! Control requests to an execution in a folder.
//!
//! A request is mail: durable in the execution's inbox, whichever process runs the engine. If an engine
//! is running in the folder, it takes the mail within a second, and the command waits for that.
//! Otherwise the command itself carries out pauses and cancellations, and a signal stays in the inbox
//! until the execution is resumed. A retry needs an engine of this process: see `cli/retry`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use waypost_core::budget::SpendingLimits;
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{Event, MessageId, Origin, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::status::Status;
use waypost_engine::{ControlRequest, Receipt};
use waypost_ports::store::{Mail, MailDelivery, StoreError};
use waypost_server::control::{self, Channel, Sent};
use waypost_server::problem::{Code, Problem};
use waypost_server::reader::{Found, Reader};
use waypost_server::wire;

use super::{Folder, RequestOutcome, answered, engine};
use crate::backend;
use crate::settings::Settings;

/// How long the engine in another process is awaited.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often its progress is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Folder {
    /// Sends a request and returns its outcome.
    pub(super) async fn control(
        self,
        id: &str,
        request: Request,
        message: Option<String>,
    ) -> Result<RequestOutcome> {
        let execution = self.find(id)?;
        let message: MessageId = message.map_or_else(new_message, Into::into);
        let origin = Origin { message: Some(Arc::clone(&message)), actor: actor() };
        let is_signal = matches!(request, Request::Signal { .. });
        let is_pause = matches!(request, Request::Pause { .. });
        let carried_out =
            is_pause || matches!(request, Request::Cancel { .. } | Request::ForceCancel { .. });
        let sent = control::control(&self, (id, execution), request, origin).await;
        let control::ControlOutcome { result, receipt } = answered(sent)?;
        let note = match receipt {
            Receipt::Taken | Receipt::Ended(_) => return Ok(done(result)),
            Receipt::Kept if is_signal => {
                let queued = answered(self.reader.load(execution))?.is_queued();
                let when = if queued { "has its slot" } else { "is resumed" };
                format!("kept; it is taken when the execution {when}")
            }
            _ if self.store.engine().is_some() => {
                "kept; the engine has not taken it yet, and does unless the execution ends first"
                    .to_owned()
            }
            _ if !carried_out => {
                format!("kept; no engine is running, go on with: waypost resume {id}")
            }
            _ => {
                let Self { store, reader, settings } = self;
                // An engine wants the folder to itself.
                drop((store, reader));
                return carry_out((execution, message, is_pause), result, &settings).await;
            }
        };
        Ok(RequestOutcome { controlled: result, note: Some(note) })
    }

    pub(super) async fn dry_retry(
        &self,
        id: &str,
        budget: Option<SpendingLimits>,
    ) -> Result<RequestOutcome> {
        let execution = self.find(id)?;
        Ok(done(answered(control::dry_retry(self, execution, budget).await)?))
    }

    /// The answer to a request that an engine of this process need not get: see [`control::early`].
    pub(crate) async fn early(
        &self,
        execution: ExecutionNo,
        request: &Request,
        message: Option<&MessageId>,
    ) -> Result<Option<RequestOutcome>> {
        let first = answered(control::early(self, execution, request, message).await)?;
        Ok(first.map(|first| done(first.result)))
    }
}

impl Channel for Folder {
    async fn load(&self, execution: ExecutionNo) -> Result<Found, Problem> {
        self.reader.load(execution)
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Reader) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        work(&self.reader)
    }

    async fn send(&self, request: ControlRequest) -> Result<Sent, Problem> {
        let ControlRequest { execution, request, origin: Origin { message, actor } } = request;
        let message = message.unwrap_or_else(new_message);
        // The inbox forgets what was consumed, the log does not.
        if self.reader.load(execution)?.state.messages.contains(&message) {
            return Ok(Sent::Refused(Refusal::Duplicate));
        }
        let mail = Mail {
            execution,
            message: Arc::clone(&message),
            actor,
            body: request.into(),
            blobs: Vec::new(),
        };
        match self.store.deliver(&[mail])?.first() {
            Some(MailDelivery::Accepted { .. }) => Ok(Sent::Mailed { message, duplicate: false }),
            // The first one is there, or was when the execution ended: the log shows which.
            Some(MailDelivery::Duplicate | MailDelivery::Ended) => {
                Ok(Sent::Mailed { message, duplicate: true })
            }
            Some(MailDelivery::Unknown) | None => {
                Err(Problem::new(Code::UnknownExecution, "there is no such execution"))
            }
        }
    }

    /// Waits for the engine in another process, if there is one.
    async fn until(
        &self,
        execution: ExecutionNo,
        wanted: impl Fn(&Found) -> bool + Send + Sync,
    ) -> Result<Found, Problem> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Checked first: an engine that ends now has written everything by the time of the
            // load.
            let runs = self.store.engine().is_some();
            let found = self.reader.load(execution)?;
            if wanted(&found) || !runs || Instant::now() >= deadline {
                return Ok(found);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Opens an engine here, for as long as the request takes.
async fn carry_out(
    (execution, message, is_pause): (ExecutionNo, MessageId, bool),
    before: wire::ControlResult,
    settings: &Settings,
) -> Result<RequestOutcome> {
    let store = match backend::open_engine(settings) {
        Ok(store) => store,
        // Another process started an engine at this moment: it takes the mail.
        Err(error) if error.downcast_ref::<StoreError>().is_some() => {
            return Ok(RequestOutcome {
                controlled: before,
                note: Some(format!("kept; {error:#}")),
            });
        }
        Err(error) => return Err(error),
    };
    let folder = Folder::over(Arc::clone(&store), settings);
    // An engine that has stopped since may have done everything, or another pause may have come
    // first. Then there is nothing to wait for.
    let found = answered(folder.reader.load(execution))?;
    let state = &found.state;
    let under_way = state.pausing || state.status == Status::Ending;
    let taken = state.messages.contains(&message) && !under_way;
    let is_paused = found.is_held() && is_pause;
    if !taken && !is_paused {
        drive(&store, execution, settings).await?;
    }
    let found = answered(folder.reader.load(execution))?;
    let answer = control::answer(&folder, execution, &found, (message, false)).await;
    let control::ControlOutcome { result, receipt } = answered(answer)?;
    let open = receipt != Receipt::Taken && !is_paused;
    let note = open.then(|| "stored; it takes effect when the execution continues".to_owned());
    Ok(RequestOutcome { controlled: result, note })
}

/// Drives an execution until it is paused, has ignored a message, or has ended.
async fn drive(
    store: &Arc<dyn backend::Backend>,
    execution: ExecutionNo,
    settings: &Settings,
) -> Result<()> {
    let (engine, mut events) = engine::open(store, settings)?;
    let started = engine.adopt(execution);
    let ended = started.ended();
    tokio::pin!(ended);
    loop {
        tokio::select! { // both are cancel-safe
            Some(committed) = events.recv() => {
                let settled = |event: &Event| {
                    matches!(event, Event::Run(RunEvent::Paused { .. } | RunEvent::MessageIgnored { .. }))
                };
                if committed.execution == execution && committed.events.iter().any(settled) {
                    break;
                }
            }
            _ = &mut ended => break,
        }
    }
    engine.stop(PATIENCE).await;
    Ok(())
}

/// A new message id, for a request whose sender chose none.
pub(crate) fn new_message() -> MessageId {
    format!("msg_{}", uuid::Uuid::now_v7().simple()).into()
}

/// The user at this terminal, as the log names them.
pub(crate) fn actor() -> Option<Arc<str>> {
    std::env::var("USER").ok().map(Into::into)
}

fn done(controlled: wire::ControlResult) -> RequestOutcome {
    RequestOutcome { controlled, note: None }
}
