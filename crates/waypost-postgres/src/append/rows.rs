//! A batch as arrays, one for each column, for one statement of any length.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use waypost_core::frame::FrameHeader;
use waypost_core::outbox::Outgoing;
use waypost_ports::outbox::frame_mark;
use waypost_ports::store::{Append, ControlChange, Settled, Side, Urgency};

use crate::error::{DbError, Result};
use crate::text::{checksum, to_stored};

/// The fold that every control row can be assumed to need.
const FIRST_LOG_FORMAT: u16 = 1;

/// The largest body or snapshot: a message to the server has at most 1 GiB, and a value in it less.
const BYTES_MAX: usize = 256 << 20;

type Params<'a> = Vec<&'a (dyn ToSql + Sync)>;

/// Arrays, one for each column, in the order of a statement's parameters.
macro_rules! columns {
    ($($visible:vis struct $name:ident<$bytes:lifetime> { $($column:ident: $type:ty,)* })*) => {$(
        #[derive(Default)]
        $visible struct $name<$bytes> {
            $($column: Vec<$type>,)*
        }

        impl $name<'_> {
            $visible fn params(&self) -> Params<'_> {
                vec![$(&self.$column),*]
            }
        }
    )*};
}

columns! {
    pub(super) struct Frames<'a> {
        execution: i64,
        first_seq: i64,
        last_seq: i64,
        parent_seq: Option<i64>,
        parent_id: Option<Uuid>,
        append_id: Uuid,
        instance: Uuid,
        epoch: i64,
        decided_at: i64,
        requires: i32,
        checksum: i64,
        body: &'a [u8],
    }

    struct Names<'a> {
        execution: i64,
        key: &'a [u8],
        idempotency: Option<&'a [u8]>,
        digest: Option<&'a [u8]>,
    }

    struct Controls<'a> {
        execution: i64,
        owner: Option<Uuid>,
        epoch: i64,
        next_due: Option<i64>,
        held: Option<&'a [u8]>,
        wakes_from: i16,
        requires: i32,
        state_seq: Option<i64>,
        state_digest: Option<&'a [u8]>,
    }

    struct Kept<'a> {
        execution: i64,
        first_seq: i64,
        seq: i64,
        checksum: i64,
        body: &'a [u8],
    }

    struct Enqueued<'a> {
        execution: i64,
        seq: i64,
        mark: i64,
        kind: i16,
        frame_seq: i64,
        data: Vec<u8>,
        workflow: &'a [u8],
    }
}

/// Rows that must be committed together with frames. Most frames have none.
#[derive(Default)]
pub(super) struct Sides<'a> {
    /// For each frame: does it need names?
    named: Vec<bool>,
    names: Names<'a>,
    control: Controls<'a>,
    /// For each row of `control`.
    settled: Vec<i32>,
    raised: (Vec<i64>, Vec<i32>, Vec<i32>),
    ended: Vec<i64>,
    consumed: (Vec<i64>, Vec<&'a [u8]>),
    relied_on: (Vec<i64>, Vec<&'a [u8]>),
    forgotten: Vec<i64>,
    kept: Kept<'a>,
    enqueued: Enqueued<'a>,
}

/// Rejects values that cannot be sent, before they fail other frames.
pub(super) fn check(append: &Append) -> Result<()> {
    let header = &append.header;
    to_stored(header.first_seq)?;
    to_stored(header.last_seq)?;
    if let Some(parent) = &header.parent {
        to_stored(parent.first_seq)?;
    }
    append.side.births.iter().try_for_each(check)?;
    let bytes = append.body.len().max(append.side.snapshot.as_ref().map_or(0, Vec::len));
    match bytes > BYTES_MAX {
        true => Err(DbError::Data(format!("{bytes} bytes are more than {BYTES_MAX}"))),
        false => Ok(()),
    }
}

/// Does the frame come alone?
pub(super) fn is_plain(append: &Append) -> bool {
    // Blobs, births and mail are written by statements of their own.
    let Side { control, submission, consumed, snapshot, settled, permit, messages, .. } =
        &append.side;
    control.is_none()
        && settled.is_none()
        && submission.is_none()
        && consumed.is_empty()
        && snapshot.is_none()
        && permit.is_none()
        && messages.is_empty()
        && append.header.requires <= FIRST_LOG_FORMAT
}

/// What a frame proves of an execution that was in hand at a death, as the statement's code.
fn settled_code(side: &Side) -> i32 {
    match side.settled {
        None => 0,
        Some(Settled::Decided) => 1,
        Some(Settled::Progress) => 2,
    }
}

/// Checked before ([`check`]).
fn stored(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

impl<'a> Frames<'a> {
    pub(super) fn push(&mut self, append: &'a Append) {
        let header = &append.header;
        self.execution.push(header.execution.0);
        self.first_seq.push(stored(header.first_seq));
        self.last_seq.push(stored(header.last_seq));
        self.parent_seq.push(header.parent.map(|parent| stored(parent.first_seq)));
        self.parent_id.push(header.parent.map(|parent| parent.append_id.0));
        self.append_id.push(header.append_id.0);
        self.instance.push(header.instance.0);
        self.epoch.push(header.epoch.into());
        self.decided_at.push(header.decided_at.0);
        self.requires.push(header.requires.into());
        self.checksum.push(checksum(&append.body));
        self.body.push(&append.body);
    }
}

impl<'a> Sides<'a> {
    pub(super) fn push(&mut self, append: &'a Append) {
        let (header, side) = (&append.header, &append.side);
        let execution = header.execution.0;
        let submission = side.submission.as_ref().filter(|_| header.parent.is_none());
        self.named.push(submission.is_some());
        if let Some(submission) = submission {
            let idempotency = submission.idempotency.as_ref();
            self.names.execution.push(execution);
            self.names.key.push(submission.key.as_str().as_bytes());
            self.names.idempotency.push(idempotency.map(|key| key.key.as_bytes()));
            self.names.digest.push(idempotency.map(|key| key.digest.as_slice()));
        }
        match &side.control {
            Some(ControlChange::Ended) => self.ended.push(execution),
            Some(change) => {
                self.control.push(header, change, side);
                self.settled.push(settled_code(side));
            }
            None if header.requires > FIRST_LOG_FORMAT || side.settled.is_some() => {
                self.raised.0.push(execution);
                self.raised.1.push(header.requires.into());
                self.raised.2.push(settled_code(side));
            }
            None => {}
        }
        let ends = side.control == Some(ControlChange::Ended);
        // An ending execution loses its whole inbox anyway.
        for message in side.consumed.iter().filter(|_| !ends) {
            self.consumed.0.push(execution);
            self.consumed.1.push(message.as_bytes());
        }
        for message in &side.relied_on {
            self.relied_on.0.push(execution);
            self.relied_on.1.push(message.as_bytes());
        }
        match &side.snapshot {
            Some(body) => self.kept.push(header, body),
            None if ends => self.forgotten.push(execution),
            None => {}
        }
        side.messages.iter().for_each(|message| self.enqueued.push(header, message));
    }

    /// In the order of `frames_append_side`.
    pub(super) fn params<'p>(&'p self, frames: &'p Frames<'_>, after: &'p i64) -> Params<'p> {
        let Self { named, names, control, settled, raised, ended, consumed, forgotten, .. } = self;
        let mut params = frames.params();
        params.push(named);
        params.extend(names.params());
        params.extend(control.params());
        params.extend::<Params<'p>>(vec![&raised.0, &raised.1, ended]);
        params.extend::<Params<'p>>(vec![&consumed.0, &consumed.1, forgotten]);
        params.extend(self.kept.params());
        params.extend::<Params<'p>>(vec![settled, &raised.2, after]);
        params.extend(self.enqueued.params());
        params.extend::<Params<'p>>(vec![&self.relied_on.0, &self.relied_on.1]);
        params
    }
}

impl<'a> Controls<'a> {
    fn push(&mut self, header: &FrameHeader, change: &'a ControlChange, side: &'a Side) {
        let (owner, next_due, held, wakes_from) = match change {
            ControlChange::Owned | ControlChange::Ended => {
                (Some(header.instance.0), None, None, Urgency::Ordinary)
            }
            ControlChange::Parked { next_due } => (None, *next_due, None, Urgency::Ordinary),
            ControlChange::Held { reason, next_due } => {
                (None, *next_due, Some(reason.as_bytes()), Urgency::Cancel)
            }
        };
        let digest = side.digest.as_ref().filter(|_| owner.is_none());
        self.execution.push(header.execution.0);
        self.owner.push(owner);
        self.epoch.push(header.epoch.into());
        self.next_due.push(next_due.map(|due| due.0));
        self.held.push(held);
        self.wakes_from.push(wakes_from as i16);
        self.requires.push(header.requires.into());
        self.state_seq.push(digest.map(|_| stored(header.last_seq)));
        self.state_digest.push(digest.map(|digest| digest.as_slice()));
    }
}

impl<'a> Kept<'a> {
    fn push(&mut self, header: &FrameHeader, body: &'a [u8]) {
        self.execution.push(header.execution.0);
        self.first_seq.push(stored(header.first_seq));
        self.seq.push(stored(header.last_seq));
        self.checksum.push(checksum(body));
        self.body.push(body);
    }
}

impl<'a> Enqueued<'a> {
    fn push(&mut self, header: &FrameHeader, message: &'a Outgoing) {
        self.execution.push(header.execution.0);
        self.seq.push(stored(message.seq));
        self.mark.push(frame_mark(header.append_id.0).into());
        self.kind.push(message.kind.code().into());
        self.frame_seq.push(stored(header.first_seq));
        self.data.push(message.data.render().into_owned());
        self.workflow.push(message.workflow.as_bytes());
    }
}
