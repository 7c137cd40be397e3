//! Mail sent straight to the owner, past the inbox: for speed, where instances have a fast connection.
//!
//! ```text
//!   sender ── send ──▶ [ the owner's mail ] ── on_mail ──▶ engine ── COMMIT ──▶ Answer::committed
//!      ▲                                                                            │
//!      └──────────────────────── Relayed::Committed ◀───────────────────────────────┘
//! ```
//!
//! The sender keeps its mail until the owner confirms the commit. Without a confirmation in time it puts
//! the same mail, with the same message id, into the inbox; an owner that receives both rejects the
//! second as a duplicate. Everything on the way may therefore be lost.

use std::fmt;
use std::sync::Arc;

use waypost_core::id::InstanceId;

use crate::store::{Mail, StoreError};

/// How mail gets from one instance to another. Calls block.
pub trait Relay: Send + Sync {
    /// Sends mail to the instance that owns its execution, and waits until that has committed or
    /// rejected it: a few seconds at the longest. An error means what [`Relayed::Unknown`] does.
    fn send(&self, to: InstanceId, mail: Mail) -> Result<Relayed, StoreError>;

    /// From now on `on_mail` is called with the mail that others send to this instance.
    fn listen(&self, instance: InstanceId, on_mail: OnMail);
}

/// The outcome of mail that was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Relayed {
    /// The owner has committed its effect.
    Committed,
    /// The owner will not: it does not own it any more, it has ended, the token is not the right
    /// one, or the like.
    Refused(String),
    /// The owner did not answer. It may have committed it or not: the inbox takes it either way.
    Unknown,
}

/// Called with mail for this instance, and with the way to answer. Must be quick: the commit comes
/// later.
pub type OnMail = Arc<dyn Fn(Mail, RelayAnswer) + Send + Sync>;

/// How the owner answers one piece of mail. Dropping it gives no answer.
pub struct RelayAnswer(Box<dyn FnOnce(Relayed) + Send>);

impl RelayAnswer {
    /// An answer that is given to `tell`.
    pub fn new(tell: impl FnOnce(Relayed) + Send + 'static) -> Self {
        Self(Box::new(tell))
    }

    /// The effect of the mail is committed. Called after the commit and never before.
    pub fn committed(self) {
        (self.0)(Relayed::Committed);
    }

    /// The mail changes nothing, for this reason.
    pub fn refused(self, reason: impl Into<String>) {
        (self.0)(Relayed::Refused(reason.into()));
    }
}

impl fmt::Debug for RelayAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}
