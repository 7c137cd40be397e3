//! Parameters: what a route reads from path, query and headers. Their forms are data, so that what
//! is checked and what is documented are the same thing.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::HeaderMap;
use serde_json::{Value, json};
use waypost_core::limits::WORKFLOW_NAME_CHARS_MAX;
use waypost_core::status::Status;
use waypost_core::time::Timestamp;

use crate::problem::{Code, FaultAt, Problem};

/// Most characters of a query.
const QUERY_CHARS_MAX: usize = 8 * 1024;
/// Most names in a query.
const QUERY_NAMES_MAX: usize = 64;
/// How often a parameter may be repeated.
pub const REPEATED_MAX: usize = 20;

/// A parameter.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Where it stands.
    pub place: Place,
    /// What it may be.
    pub form: Form,
    /// May it be given more than once?
    pub many: bool,
    /// What it is for.
    pub about: &'static str,
}

/// Where a parameter stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In the path; always required.
    Path,
    /// In the query; never required.
    Query,
    /// In a header; never required.
    Header,
}

/// What a parameter may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// Text of 1 to so many characters, without control characters.
    Text(usize),
    /// 1 to so many visible ASCII characters: all that survives in a header.
    Token(usize),
    /// A workflow's name.
    Workflow,
    /// An execution's id: letters, digits, `_`, `-`, `:`, and `.` after the first.
    Id,
    /// The id of a wait: an execution's id, `~`, a number.
    Wait,
    /// A whole number in this range, both ends included.
    Integer(u64, u64),
    /// `true` or `false`.
    Flag,
    /// How long to wait: whole seconds or milliseconds, at most a minute.
    Patience,
    /// A time by RFC 3339.
    Time,
    /// The status of an execution.
    Status,
    /// `name=value`.
    Label,
    /// A place in the stream of everything: the id of one of its events.
    Place,
    /// Exactly one of these.
    OneOf(&'static [&'static str]),
}

/// Longest id of an execution.
pub const ID_CHARS_MAX: usize = 128;
/// Longest name and value of a label.
pub const LABEL_CHARS_MAX: usize = 256;
/// The pattern of ids, as documented and as checked. None begins with a dot: `.` and `..` have a
/// meaning of their own in paths, so that nobody could ever ask for such an execution.
pub const ID_PATTERN: &str = "^[A-Za-z0-9_:-][A-Za-z0-9_.:-]{0,127}$";

/// A parameter in the path.
pub const fn in_path(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, form, many: false, about }
}

/// A parameter in the query.
pub const fn in_query(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, form, many: false, about }
}

/// A parameter in the query that may be repeated.
pub const fn repeated(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, form, many: true, about }
}

/// A header.
pub const fn in_header(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: Place::Header, form, many: false, about }
}

impl Form {
    /// Is this a value of the form? If not, what is?
    pub fn check(self, value: &str) -> Result<(), String> {
        let fits = match self {
            Self::Text(max) => {
                (1..=max).contains(&value.chars().count()) && !value.chars().any(char::is_control)
            }
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
                let plain = value.bytes().all(|byte| byte.is_ascii_digit());
                plain && value.parse().is_ok_and(|number| (min..=max).contains(&number))
            }
            Self::Flag => value == "true" || value == "false",
            Self::Patience => patience(value).is_some(),
            Self::Time => Timestamp::parse(value).is_some(),
            Self::Status => Status::parse(value).is_some_and(|status| status.name() == value),
            Self::Label => value
                .split_once('=')
                .is_some_and(|(name, value)| is_label_part(name, 1) && is_label_part(value, 0)),
            Self::Place => crate::stream::is_place(value),
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
            Self::Integer(min, max) => format!("a whole number from {min} to {max}"),
            Self::Flag => "true or false".to_owned(),
            Self::Patience => "a time like 30s or 500ms, at most 60s".to_owned(),
            Self::Time => "a time like 2030-01-31T12:00:00Z".to_owned(),
            Self::Status => format!("one of {}", Status::ALL.map(Status::name).join(", ")),
            Self::Label => format!("name=value, each at most {LABEL_CHARS_MAX} characters"),
            Self::Place => "the id of an event of this stream, or 0".to_owned(),
            Self::OneOf(values) => format!("one of {}", values.join(", ")),
        }
    }

    /// Its JSON Schema.
    pub fn schema(self) -> Value {
        match self {
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
            Self::Status => json!({ "type": "string", "enum": Status::ALL.map(Status::name) }),
            Self::Label => {
                json!({ "type": "string", "pattern": "^[^=\\x00-\\x1f\\x7f-\\x9f]{1,256}=[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$" })
            }
            Self::Place => {
                json!({ "type": "string", "pattern": "^[0-9]{1,18}(\\.[0-9]{1,9})?$" })
            }
            Self::OneOf(values) => json!({ "type": "string", "enum": values }),
        }
    }
}

/// How long to wait. The grammar is small, so that a pattern can say all of it; and a unit is asked
/// for, because a bare number is milliseconds in definitions and would be taken for seconds here.
fn patience(text: &str) -> Option<Duration> {
    let number = |digits: &str, most: u64| {
        let number = digits.parse().ok().filter(|number| *number <= most);
        number.filter(|_| is_digits(digits, 5) && (digits == "0" || !digits.starts_with('0')))
    };
    match text.strip_suffix("ms") {
        Some(digits) => number(digits, 60_000).map(Duration::from_millis),
        None => number(text.strip_suffix('s')?, 60).map(Duration::from_secs),
    }
}

/// What [`patience`] takes.
const PATIENCE_PATTERN: &str =
    "^((0|[1-9]|[1-5][0-9]|60)s|(0|[1-9][0-9]{0,3}|[1-5][0-9]{4}|60000)ms)$";

fn is_digits(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Is this an execution's id?
pub fn is_id(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
    (1..=ID_CHARS_MAX).contains(&text.len()) && !text.starts_with('.') && text.chars().all(fits)
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

/// The values of a request's parameters, each checked.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<&'static str, Vec<String>>);

impl Values {
    /// Checks everything that a request says against what its route reads.
    pub fn read(
        parameters: &'static [Parameter],
        path: BTreeMap<&'static str, String>,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        let mut values = Self::default();
        let mut faults = Vec::new();
        for (name, value) in path {
            values.0.insert(name, vec![value]);
        }
        for (name, value) in read_query(query.unwrap_or_default())? {
            let known = |known: &&Parameter| known.place == Place::Query && known.name == name;
            match parameters.iter().find(known) {
                Some(known) => {
                    let given = values.0.entry(known.name).or_default();
                    given.push(value);
                    if given.len() > 1 && !known.many {
                        faults.push(fault(&name, "it is given twice".to_owned()));
                    } else if given.len() > REPEATED_MAX {
                        let message = format!("it is given more than {REPEATED_MAX} times");
                        faults.push(fault(&name, message));
                    }
                }
                None => faults.push(fault(&name, unknown(parameters))),
            }
        }
        for parameter in parameters.iter().filter(|one| one.place == Place::Header) {
            let mut given = headers.get_all(parameter.name).iter();
            match (given.next().map(|value| value.to_str()), given.next()) {
                (None, _) => {}
                (Some(Ok(value)), None) => {
                    values.0.insert(parameter.name, vec![value.to_owned()]);
                }
                (Some(Err(_)), _) => {
                    faults.push(fault(parameter.name, "it is not plain text".to_owned()));
                }
                (Some(Ok(_)), Some(_)) => {
                    faults.push(fault(parameter.name, "it is given twice".to_owned()));
                }
            }
        }
        for parameter in parameters {
            for value in values.0.get(parameter.name).into_iter().flatten() {
                if let Err(wanted) = parameter.form.check(value) {
                    faults.push(fault(parameter.name, format!("it must be {wanted}")));
                }
            }
        }
        match faults.first() {
            None => Ok(values),
            Some(first) => {
                let name = first.pointer.as_deref().unwrap_or_default();
                let detail = format!("parameter {name}: {}", first.message);
                Err(Problem::new(Code::BadParameter, detail).errors(faults))
            }
        }
    }

    /// A value that may be absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.first().map(String::as_str)
    }

    /// A value of the path.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// All values of a parameter.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }

    /// A number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// A flag; absent is `false`.
    pub fn flag(&self, name: &str) -> bool {
        self.get(name) == Some("true")
    }

    /// How long to wait.
    pub fn duration(&self, name: &str) -> Option<Duration> {
        patience(self.get(name)?)
    }

    /// A time.
    pub fn time(&self, name: &str) -> Option<Timestamp> {
        Timestamp::parse(self.get(name)?)
    }
}

fn fault(name: &str, message: String) -> FaultAt {
    let name: String = name.chars().take(100).collect();
    FaultAt { message, pointer: Some(name), ..FaultAt::default() }
}

fn unknown(parameters: &[Parameter]) -> String {
    let known = parameters.iter().filter(|one| one.place == Place::Query).map(|one| one.name);
    let known: Vec<_> = known.collect();
    match known.is_empty() {
        true => "there are no query parameters here".to_owned(),
        false => format!("it is not known here; known are {}", known.join(", ")),
    }
}

fn read_query(query: &str) -> Result<Vec<(String, String)>, Problem> {
    let bad = |detail: &'static str| Problem::new(Code::BadParameter, detail);
    if query.len() > QUERY_CHARS_MAX {
        return Err(bad("the query is too long"));
    }
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let mut values = Vec::new();
    for pair in pairs {
        if values.len() == QUERY_NAMES_MAX {
            return Err(bad("the query has too many parameters"));
        }
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = decode(name, Plus::Space).zip(decode(value, Plus::Space));
        values.push(decoded.ok_or_else(|| bad("the query is not properly encoded"))?);
    }
    Ok(values)
}

/// What `+` stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Plus {
    /// Itself, as in paths.
    Literal,
    /// A space, as in queries.
    Space,
}

/// Undoes percent-encoding; `None` where the result would not be text.
pub fn decode(text: &str, plus: Plus) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let (high, low) = (rest.next().and_then(digit)?, rest.next().and_then(digit)?);
                high * 16 + low
            }
            b'+' if plus == Plus::Space => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
