//! The form of a parameter: each is checked and documented here, side by side, so that the
//! published pattern and the check agree.

use std::time::Duration;

use serde_json::{Value, json};
use waypost_core::blob::BlobDigest;
use waypost_core::id::ExecutionId;
pub use waypost_core::limits::LABEL_CHARS_MAX;
use waypost_core::limits::WORKFLOW_NAME_CHARS_MAX;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

/// The form of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Text of 1 to so many characters, without control characters.
    Text(usize),
    /// 1 to so many visible ASCII characters: those that a header can carry.
    Token(usize),
    Workflow,
    /// An execution's id: letters, digits, `_`, `-`, `:`, and `.` after the first.
    Id,
    /// The id of a wait: an execution's id, `~`, a number.
    Wait,
    /// The path of a node: ids with slashes between them. In a URL it may be several segments.
    NodePath,
    /// A whole number in this range, both ends included.
    Integer(u64, u64),
    Flag,
    /// How long to wait: whole seconds or milliseconds, at most a minute.
    Patience,
    /// A time by RFC 3339.
    Time,
    Status,
    /// `name=value`.
    Label,
    /// A place in the stream of everything: the id of one of its events.
    ParameterPlace,
    /// A UUID, with or without dashes.
    Uuid,
    /// A task's token: 32 hexadecimal digits.
    Delivery,
    /// A blob's digest: 64 hexadecimal digits.
    Digest,
    OneOf(&'static [&'static str]),
}

/// Longest id of an execution.
pub const ID_CHARS_MAX: usize = ExecutionId::CHARS_MAX;
/// Longest path of a node: 9 ids with indexes.
const NODE_PATH_CHARS_MAX: usize = 1_024;
/// The pattern of ids, as documented and as checked. None begins with a dot: `.` and `..` have
/// their own meaning in paths, so such an execution could not be requested.
pub const ID_PATTERN: &str = "^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,127}$";

/// The pattern of UUIDs, as documented and as checked.
pub const UUID_PATTERN: &str =
    "^([0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";

/// The pattern of a task's token, as documented and as checked.
pub const DELIVERY_PATTERN: &str = "^[0-9a-f]{32}$";

/// A UUID as [`UUID_PATTERN`] has it.
pub fn is_uuid(value: &str) -> bool {
    let digits = |part: &str| part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let lengths: Vec<_> = value.split('-').map(str::len).collect();
    value.split('-').all(digits) && (lengths == [32] || lengths == [8, 4, 4, 4, 12])
}

impl Form {
    /// Does the value have this form? If not, returns the rule.
    pub fn check(self, value: &str) -> Result<(), String> {
        let fits = match self {
            Self::Text(max) => is_text(value, max),
            Self::NodePath => is_text(value, NODE_PATH_CHARS_MAX),
            Self::Token(max) => {
                (1..=max).contains(&value.len())
                    && value.bytes().all(|byte| byte.is_ascii_graphic())
            }
            Self::Workflow => is_workflow(value),
            Self::Id => is_id(value),
            Self::Wait => {
                let is_seq = |seq: &str| is_digits(seq, 18) && !seq.starts_with('0');
                value.split_once('~').is_some_and(|(id, seq)| is_id(id) && is_seq(seq))
            }
            Self::Integer(min, max) => {
                is_number(value) && value.parse().is_ok_and(|number| (min..=max).contains(&number))
            }
            Self::Flag => value == "true" || value == "false",
            Self::Patience => patience(value).is_some(),
            Self::Time => Timestamp::parse(value).is_some(),
            Self::Status => Status::parse(value).is_some_and(|status| status.name() == value),
            Self::Label => value
                .split_once('=')
                .is_some_and(|(name, value)| is_label_part(name, 1) && is_label_part(value, 0)),
            Self::ParameterPlace => crate::stream::is_place(value),
            Self::Uuid => is_uuid(value),
            Self::Delivery => {
                value.len() == 32 && value.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            }
            Self::Digest => value.parse::<BlobDigest>().is_ok(),
            Self::OneOf(values) => values.contains(&value),
        };
        if fits { Ok(()) } else { Err(self.describe()) }
    }

    fn describe(self) -> String {
        match self {
            Self::Text(max) => format!("1 to {max} characters without control characters"),
            Self::Token(max) => format!("1 to {max} visible ASCII characters without spaces"),
            Self::Workflow => {
                let max = WORKFLOW_NAME_CHARS_MAX;
                format!("1 to {max} letters, digits, '_', and after the first '-' or '.'")
            }
            Self::Id => {
                format!(
                    "1 to {ID_CHARS_MAX} letters, digits, '_', '-', ':', and after the first '.'"
                )
            }
            Self::Wait => "a wait's id, as the node shows it".to_owned(),
            Self::NodePath => format!("a node's path of at most {NODE_PATH_CHARS_MAX} characters"),
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Patience => "a time like 30s or 500ms, at most 60s".to_owned(),
            Self::Time => "a time like 2030-01-31T12:00:00Z, from year 0000 to 9999".to_owned(),
            Self::Status => format!("one of {}", Status::SHOWN.map(Status::name).join(", ")),
            Self::Label => format!("name=value, each at most {LABEL_CHARS_MAX} characters"),
            Self::ParameterPlace => "the id of an event of this stream, or 0".to_owned(),
            Self::Uuid => "a UUID".to_owned(),
            Self::Delivery => "32 hexadecimal digits".to_owned(),
            Self::Digest => "64 hexadecimal digits, in lower case".to_owned(),
            Self::OneOf(values) => format!("one of {}", values.join(", ")),
        }
    }

    /// Its JSON Schema.
    pub fn schema(self) -> Value {
        match self {
            Self::NodePath => Self::Text(NODE_PATH_CHARS_MAX).schema(),
            Self::Text(max) => {
                json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$" })
            }
            Self::Token(max) => {
                json!({ "type": "string", "minLength": 1, "maxLength": max, "pattern": "^[!-~]+$" })
            }
            Self::Workflow => json!({ "type": "string", "pattern": WORKFLOW_PATTERN }),
            Self::Id => json!({ "type": "string", "pattern": ID_PATTERN }),
            Self::Wait => {
                let id = ID_PATTERN.trim_end_matches('$');
                json!({ "type": "string", "pattern": format!("{id}~[1-9][0-9]{{0,17}}$") })
            }
            Self::Integer(min, max) => {
                json!({ "type": "integer", "minimum": min, "maximum": max })
            }
            Self::Flag => json!({ "type": "boolean" }),
            Self::Patience => json!({ "type": "string", "pattern": PATIENCE_PATTERN }),
            Self::Time => json!({ "type": "string", "format": "date-time" }),
            Self::Status => json!({ "type": "string", "enum": Status::SHOWN.map(Status::name) }),
            Self::Label => {
                json!({ "type": "string", "pattern": "^[^=\\x00-\\x1f\\x7f-\\x9f]{1,256}=[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$" })
            }
            Self::ParameterPlace => {
                json!({ "type": "string", "pattern": "^[0-9]{1,18}(\\.[0-9]{1,9})?$" })
            }
            Self::Uuid => json!({ "type": "string", "pattern": UUID_PATTERN }),
            Self::Delivery => json!({ "type": "string", "pattern": DELIVERY_PATTERN }),
            Self::Digest => json!({ "type": "string", "pattern": "^[0-9a-f]{64}$" }),
            Self::OneOf(values) => json!({ "type": "string", "enum": values }),
        }
    }
}

/// How long to wait. The grammar is small, so that a pattern can express it; and a unit is
/// required, because a bare number is milliseconds in definitions and would be taken for seconds
/// here.
pub(super) fn patience(text: &str) -> Option<Duration> {
    let number = |digits: &str, most: u64| {
        digits.parse().ok().filter(|number| is_number(digits) && *number <= most)
    };
    match text.strip_suffix("ms") {
        Some(digits) => number(digits, 60_000).map(Duration::from_millis),
        None => number(text.strip_suffix('s')?, 60).map(Duration::from_secs),
    }
}

/// The grammar of [`patience`].
const PATIENCE_PATTERN: &str =
    "^((0|[1-9]|[1-5][0-9]|60)s|(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|60000)ms)$";

/// A whole number as JSON writes it: without a sign, and with no zeros before it.
fn is_number(text: &str) -> bool {
    is_digits(text, 20) && (text == "0" || !text.starts_with('0'))
}

fn is_text(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}

fn is_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Is this an execution's id?
pub fn is_id(text: &str) -> bool {
    ExecutionId::parse(text).is_some()
}

/// The pattern of workflows' names, as the language has it.
const WORKFLOW_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$";

fn is_workflow(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    (1..=WORKFLOW_NAME_CHARS_MAX).contains(&text.len())
        && !text.starts_with(['-', '.'])
        && text.chars().all(fits)
}

/// Is this a label's name (of at least one character) or value?
pub fn is_label_part(text: &str, min: usize) -> bool {
    (min..=LABEL_CHARS_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control)
}
