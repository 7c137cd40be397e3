//! Requests to an execution in a folder: pause, resume, cancel, signals.
//!
//! A request is mail: durable in the execution's inbox, whichever process runs the engine. If an engine
//! is running in the folder, it takes the mail within a second, and the command waits for that.
//! Otherwise the command itself carries out pauses and cancellations, and a signal stays in the inbox
//! until the execution is resumed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use waypost_core::command::{Refusal, Request};
use waypost_core::event::{Event, RunEvent};
use waypost_core::id::ExecutionNo;
use waypost_core::state::State;
use waypost_core::status::Status;
use waypost_engine::Receipt;
use waypost_ports::store::{Delivery, Mail, MailBody, StoreError};
use waypost_server::problem::Problem;
use waypost_server::reader::Found;
use waypost_server::wire;
use waypost_server::wire::payload::ExecutionStatus;

use super::{Folder, Outcome, answered, engine};
use crate::backend;
use crate::settings::Settings;

/// How long the engine in another process is awaited.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often its progress is polled.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What came of waiting for an engine in another process.
enum Awaited {
    Taken(Box<State>),
    /// It ended without the message.
    Ended(Status),
    /// The execution is quarantined; it takes the message first when it is released.
    Held(Box<Found>),
    TooLong,
    /// There is none, or it ended while it was awaited.
    NoEngine,
}

impl Folder {
    /// Sends a request and returns its outcome.
    pub(super) async fn control(
        self,
        id: &str,
        request: Request,
        message: Option<String>,
    ) -> Result<Outcome> {
        let execution = self.find(id)?;
        let found = answered(self.reader.load(execution))?;
        let state = &found.state;
        if let Some(message) = message.as_deref().filter(|id| state.messages.contains(id)) {
            self.refuse_ignored(execution, message)?;
            return Ok(outcome(state, message, true));
        }
        if state.status.is_end() {
            return answered(Err(Problem::from(Refusal::Ended(state.status))));
        }
        let refusal = match request {
            // The execution would not wake for this, and the command would get no answer.
            Request::Pause { .. } => found.refuses_pause(),
            Request::Resume { .. } => found.refuses_resume(),
            _ => None,
        };
        if let Some(refusal) = refusal {
            return answered(Err(refusal.into()));
        }
        if let Request::Signal { body, .. } = &request {
            answered(self.reader.refuse_full(execution, body.bytes()))?;
        }
        let message = message.unwrap_or_else(|| format!("msg_{}", uuid::Uuid::now_v7().simple()));
        // What only an engine that goes on with the execution can make use of.
        let waits = matches!(request, Request::Signal { .. } | Request::Resume { .. });
        let actor = std::env::var("USER").ok().map(Into::into);
        let body = request.into();
        let mail = Mail { execution, message: message.as_str().into(), actor, body };
        let duplicate = match self.store.deliver(std::slice::from_ref(&mail))?.first() {
            Some(Delivery::Accepted { .. }) => false,
            // The first one is there, or was when the execution ended: the log says which.
            Some(Delivery::Duplicate | Delivery::Ended) => true,
            Some(Delivery::Unknown) | None => bail!("there is no such execution"),
        };
        match self.until_settled(&mail)? {
            Awaited::Taken(state) => {
                self.refuse_ignored(execution, &message)?;
                return Ok(outcome(&state, &message, duplicate));
            }
            Awaited::Ended(status) => return answered(Err(Refusal::Ended(status).into())),
            Awaited::Held(found) => {
                let when = if found.is_queued() { "has its slot" } else { "is resumed" };
                let note = format!("kept; it is taken when the execution {when}");
                return Ok(kept(&found.state, &mail, &note, duplicate));
            }
            Awaited::TooLong => {
                let note = "kept; the engine has not taken it yet, and does unless the execution \
                            ends first";
                return Ok(kept(state, &mail, note, duplicate));
            }
            Awaited::NoEngine => {}
        }
        if waits {
            let note = format!("kept; no engine is running, go on with: waypost resume {id}");
            return Ok(kept(state, &mail, &note, duplicate));
        }
        let Self { store, reader, settings } = self;
        // An engine wants the folder to itself.
        drop((store, reader));
        carry_out(&mail, state, &settings).await
    }

    /// A message that was taken and changed nothing is a request that was refused.
    fn refuse_ignored(&self, execution: ExecutionNo, message: &str) -> Result<()> {
        match answered(self.reader.ignored(execution, message))? {
            Some(problem) => answered(Err(problem)),
            None => Ok(()),
        }
    }

    /// Waits until the engine in another process has taken the message, or the execution has ended.
    fn until_settled(&self, mail: &Mail) -> Result<Awaited> {
        let deadline = Instant::now() + PATIENCE;
        let is_signal = matches!(mail.body, MailBody::Request(Request::Signal { .. }));
        loop {
            // Checked first: an engine that ends now has written everything by the time of the
            // load.
            let runs = self.store.engine().is_some();
            let found = answered(self.reader.load(mail.execution))?;
            match found.receipt(&mail.message) {
                Receipt::Taken => return Ok(Awaited::Taken(Box::new(found.state))),
                Receipt::Ended(status) => return Ok(Awaited::Ended(status)),
                Receipt::Kept if is_signal => return Ok(Awaited::Held(Box::new(found))),
                Receipt::Kept | Receipt::Open => {}
            }
            if !runs {
                return Ok(Awaited::NoEngine);
            }
            if Instant::now() >= deadline {
                return Ok(Awaited::TooLong);
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
    }
}

/// Opens an engine here, for as long as the request takes.
async fn carry_out(mail: &Mail, before: &State, settings: &Settings) -> Result<Outcome> {
    let execution = mail.execution;
    let store = match backend::open_engine(settings) {
        Ok(store) => store,
        // Another process has just started an engine on the folder: that engine takes the mail.
        Err(error) if error.downcast_ref::<StoreError>().is_some() => {
            return Ok(kept(before, mail, &format!("kept; {error:#}"), false));
        }
        Err(error) => return Err(error),
    };
    let folder = Folder::over(Arc::clone(&store), settings);
    // An engine that has stopped since may have done everything, or another pause may have come
    // first. Then there is nothing to wait for.
    let found = answered(folder.reader.load(execution))?;
    let state = &found.state;
    let is_pause = matches!(mail.body, MailBody::Request(Request::Pause { .. }));
    let under_way = state.pausing || state.status == Status::Ending;
    let taken = state.messages.contains(&mail.message) && !under_way;
    if taken || found.is_held() && is_pause {
        return Ok(outcome(state, &mail.message, false));
    }
    let (engine, mut events) = engine::open(&store, settings)?;
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
    let found = answered(folder.reader.load(execution))?;
    let state = &found.state;
    match found.receipt(&mail.message) {
        Receipt::Taken => {
            folder.refuse_ignored(execution, &mail.message)?;
            Ok(outcome(state, &mail.message, false))
        }
        Receipt::Ended(status) => answered(Err(Refusal::Ended(status).into())),
        Receipt::Kept | Receipt::Open => {
            Ok(kept(state, mail, "kept; it is taken when the execution goes on", false))
        }
    }
}

fn outcome(state: &State, message: &str, duplicate: bool) -> Outcome {
    let status = ExecutionStatus(state.shown_status());
    let controlled = wire::ControlResult {
        pausing: state.pausing,
        message_id: Some(message.to_owned()),
        duplicate,
        ..wire::ControlResult::of(state.created.key.as_str(), status)
    };
    Outcome { controlled, note: None }
}

fn kept(state: &State, mail: &Mail, note: &str, duplicate: bool) -> Outcome {
    Outcome { note: Some(note.to_owned()), ..outcome(state, &mail.message, duplicate) }
}
