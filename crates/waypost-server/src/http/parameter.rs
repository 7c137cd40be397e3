//! Parameters of a route, from path, query and headers. Their forms are data, so that the checks
//! and the documentation agree.

mod form;

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::HeaderMap;
use waypost_core::time::Timestamp;

use self::form::patience;
pub use self::form::{
    DELIVERY_PATTERN, Form, ID_CHARS_MAX, ID_PATTERN, LABEL_CHARS_MAX, UUID_PATTERN, is_id,
    is_label_part, is_uuid,
};
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
    pub name: &'static str,
    /// Where it is in a request.
    pub place: ParameterPlace,
    pub form: Form,
    /// May it be given more than once?
    pub many: bool,
    pub about: &'static str,
}

/// Where a parameter is in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParameterPlace {
    /// In the path; always required.
    Path,
    /// In the query; never required.
    Query,
    /// In a header; never required.
    Header,
}

/// A parameter in the path.
pub const fn in_path(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Path, form, many: false, about }
}

/// A parameter in the query.
pub const fn in_query(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Query, form, many: false, about }
}

/// A parameter in the query that may be repeated.
pub const fn repeated(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Query, form, many: true, about }
}

/// A header.
pub const fn in_header(name: &'static str, form: Form, about: &'static str) -> Parameter {
    Parameter { name, place: ParameterPlace::Header, form, many: false, about }
}

/// The values of a request's parameters, each checked.
#[derive(Clone, Debug, Default)]
pub struct Values(BTreeMap<&'static str, Vec<String>>);

impl Values {
    /// Checks all parameters of a request against those of its route.
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
            let known =
                |known: &&Parameter| known.place == ParameterPlace::Query && known.name == name;
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
        for parameter in parameters.iter().filter(|one| one.place == ParameterPlace::Header) {
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
    let known =
        parameters.iter().filter(|one| one.place == ParameterPlace::Query).map(|one| one.name);
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

/// How `+` is decoded.
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
