//! Mail: messages to an execution from outside its owner's memory, and how far they get through.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use waypost_core::blob::BlobDigest;
use waypost_core::child::{ChildEnd, SentBody};
use waypost_core::command::{Outcome, Report, Request, Urgency};
use waypost_core::event::MessageId;
use waypost_core::id::{ExecutionNo, InstanceId};
use waypost_core::json::Json;

use super::Share;

/// An execution that a message is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receiver {
    pub execution: ExecutionNo,
    /// Has it ended?
    pub ended: bool,
}

/// A message from outside the owner's memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Mail {
    pub execution: ExecutionNo,
    /// By which duplicates are known.
    pub message: MessageId,
    pub actor: Option<Arc<str>>,
    pub body: MailBody,
    /// The blobs that the body names: referenced by the execution from the delivery on, because the mail
    /// may wait for long. Not read back with the mail. Relayed mail is not stored: there, the frame
    /// that takes it names them.
    pub blobs: Vec<BlobDigest>,
}

/// Whose mail is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MailOf {
    Execution(ExecutionNo),
    /// All executions of this share that this instance owns.
    Owner(InstanceId, Share),
}

/// The content of a message.
///
/// A row has either as JSON with the kind as its only key, as in `{"cancel": …}` or `{"report":
/// …}`. A request to resume without a reason is the string `"resume"`.
#[derive(Clone, PartialEq, Debug)]
pub enum MailBody {
    Request(Request),
    /// A remote worker's report on an attempt.
    Report(Report),
    /// An execution that the addressee had started ended.
    ChildEnded(Box<ChildEnd>),
}

impl From<SentBody> for MailBody {
    fn from(body: SentBody) -> Self {
        match body {
            SentBody::Request(request) => Self::Request(request),
            SentBody::ChildEnded(end) => Self::ChildEnded(end),
        }
    }
}

impl From<Request> for MailBody {
    fn from(request: Request) -> Self {
        Self::Request(request)
    }
}

impl MailBody {
    /// The blobs that it names.
    pub fn blobs(&self) -> Vec<BlobDigest> {
        let payload = match self {
            Self::Request(request) => request.payload(),
            Self::Report(Report { outcome: Outcome::Completed(output), .. }) => Some(output),
            Self::Report(_) => None,
            Self::ChildEnded(end) => end.output.as_ref(),
        };
        let references = payload.into_iter().flat_map(Json::references);
        references.map(|blob| blob.digest).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Which executions it wakes.
    pub fn urgency(&self) -> Urgency {
        match self {
            Self::Request(request) => request.urgency(),
            Self::Report(_) | Self::ChildEnded(_) => Urgency::Ordinary,
        }
    }
}

/// The rows that are not those of a [`Request`].
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Row<R, C> {
    Report(R),
    ChildEnded(C),
    Resume,
}

impl Serialize for MailBody {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Request(Request::Resume { reason: None }) => {
                Row::<&Report, &ChildEnd>::Resume.serialize(serializer)
            }
            Self::Request(request) => request.serialize(serializer),
            Self::Report(report) => Row::<_, &ChildEnd>::Report(report).serialize(serializer),
            Self::ChildEnded(end) => Row::<&Report, _>::ChildEnded(end).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MailBody {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        match serde_json::from_str(text.get()) {
            Ok(Row::Report(report)) => return Ok(Self::Report(report)),
            Ok(Row::ChildEnded(end)) => return Ok(Self::ChildEnded(end)),
            Ok(Row::Resume) => return Ok(Request::Resume { reason: None }.into()),
            Err(_) => {}
        }
        serde_json::from_str(text.get()).map(Self::Request).map_err(D::Error::custom)
    }
}

/// The outcome of a piece of mail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MailDelivery {
    /// It is in the inbox; the owner, if there is one, should be nudged.
    Accepted { owner: Option<InstanceId> },
    /// A message of this id is there already.
    Duplicate,
    /// The execution has ended.
    Ended,
    /// There is no such execution.
    Unknown,
}
