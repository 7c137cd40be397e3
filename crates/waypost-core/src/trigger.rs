//! Triggers: what starts executions without a person asking for it.
//!
//! ```text
//!   definition `on:` ─▶ Trigger (a part of the plan) ─▶ deploy writes a row for each
//!
//!   a time, a request, an event, an item of a source, an end
//!        │  prepare: condition, input, id, labels                     pure
//!        ▼
//!   first frame of the execution + row of the fire + new cursor       one commit
//! ```
//!
//! A **fire** is one thing that happened, identified by its **item**: a nominal time, the id of a delivery,
//! the key of an item of a source. The store keeps the items of a trigger, so that each starts at most one
//! execution; the execution, the item and the trigger's new cursor are one commit, so that none of them can
//! be there without the others.
//!
//! | file | owns |
//! | --- | --- |
//! | `spec` | a trigger as a plan has it, of each kind |
//! | `verify` | how requests to a webhook prove where they come from |
//! | `stream` | streams and tables that are read, and how |
//! | `window` | events that wait before they fire |
//! | `cursor` | how far a trigger is, as its row has it |
//! | `fields` | the fields of each kind, as definitions write them |
//! | `fired` | what an execution knows of the fire that started it; items |
//! | `prepare` | from a fire to the execution that it starts |
//! | `registration` | what a deploy registers |
//! | `decide` | what a schedule does now |

mod cursor;
pub mod decide;
mod fields;
mod fired;
mod prepare;
mod registration;
mod spec;
mod stream;
mod verify;
mod window;

pub use cursor::{Backfill, PollCursor, ScheduleCursor, StreamCursor, TriggerCursor};
pub use fired::{Fired, ItemDigest, ItemKey};
pub use prepare::{Payload, Prepared, PreparedStart};
pub use registration::Registration;
pub use spec::{
    Challenge, EventTrigger, Overlap, PollTrigger, Respond, ScheduleTrigger, Trigger, TriggerKind,
    TriggerKindName, WebhookTrigger, WorkflowEndedTrigger,
};
pub use stream::{
    RowMark, StreamSource, StreamStart, StreamTrigger, TableName, TableSafety, entry_id,
};
pub use verify::{Encoding, HashAlgorithm, HmacScheme, Verify, VerifyScheme};
pub use window::{Over, Throttle, Window, WindowMode};
