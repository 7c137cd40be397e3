//! Signals by key: what executions publish, and who waits for it ([`waypost_core::published`]).

use std::sync::Arc;

use waypost_core::command::Request;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::published::{PublishedSignal, WaitRef};

use super::{Mail, MailBody};

/// What a frame changes about signals by key.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    /// Waits that began.
    pub opened: Vec<Subscription>,
    /// Waits that are over, or have got what they were for.
    pub closed: Vec<WaitRef>,
    /// The names of what the execution still waits for, where the frame consumes mail: what has got one
    /// signal and did not take it may get the next.
    pub open: Vec<Arc<str>>,
    pub published: Vec<PublishedSignal>,
}

impl Topics {
    /// These changes, if there are any.
    pub fn if_any(self) -> Option<Box<Self>> {
        let Self { opened, closed, open, published } = &self;
        let none =
            opened.is_empty() && closed.is_empty() && open.is_empty() && published.is_empty();
        (!none).then(|| Box::new(self))
    }

    /// The names of signals that may have somewhere to go now.
    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        let opened = self.opened.iter().map(|subscription| &subscription.name);
        let published = self.published.iter().map(|signal| &signal.name);
        opened.chain(&self.open).chain(published)
    }
}

/// An open wait for a signal by its key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Subscription {
    pub wait: WaitRef,
    /// The name of the signal, with its key.
    pub name: Arc<str>,
}

/// A signal that is published from outside of executions.
#[derive(Clone, PartialEq, Debug)]
pub struct Publication {
    pub signal: PublishedSignal,
    pub actor: Option<Arc<str>>,
}

/// The outcome of a publication.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Published {
    /// It is durable. These executions have it in their inboxes, each with its owner; if there is none, it
    /// is kept for the first that waits for it.
    Accepted { receivers: Vec<(ExecutionNo, Option<InstanceId>)> },
    /// A signal of this name with this message id was published before.
    Duplicate,
    /// As many as may wait to be taken already do.
    Full,
}

/// As mail of an execution.
pub fn signal_mail(
    execution: ExecutionNo,
    signal: &PublishedSignal,
    actor: Option<Arc<str>>,
) -> Mail {
    let PublishedSignal { name, message, body, .. } = signal.clone();
    let body = MailBody::Request(Request::Signal { name, body });
    let blobs = body.blobs();
    Mail { execution, message, actor, body, blobs }
}
