//! Values that the API carries as they are: payloads, times, statuses.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{IntoDeserializer as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;
use waypost_core::id::Token;
use waypost_core::json::Json;
pub use waypost_core::limits::LABELS_MAX;
use waypost_core::status::{NodeStatus, Status};
use waypost_core::time::Timestamp;
use waypost_engine::sealed_secrets::PublicKey;

use crate::http::parameter::{
    DELIVERY_PATTERN, Form, ID_PATTERN, UUID_PATTERN, is_id, is_label_part, is_uuid,
};

/// The schema of a type: inlined where it is used, or a component of this name.
macro_rules! schema {
    (inline $type:ident $(<$($size:ident: $of:ty),+>)? = $schema:tt) => {
        impl$(<$(const $size: $of),+>)? JsonSchema for $type$(<$($size),+>)? {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
    ($name:literal $type:ident = $schema:tt) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

/// Writes a type as text, and reads it with a function that returns `None` for other texts.
macro_rules! text {
    ($type:ident, $error:literal, $parse:expr) => {
        impl Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let parse: fn(&str) -> Option<Self> = $parse;
                let text = String::deserialize(deserializer)?;
                parse(&text).ok_or_else(|| serde::de::Error::custom($error))
            }
        }
    };
}

/// Any JSON, carried as the text it came as.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Payload(pub Json);

impl Default for Payload {
    fn default() -> Self {
        Self(Json::null())
    }
}

schema!(inline Payload = { "description": "any JSON" });

/// Reads a field that may be absent, but is not `null`: if `null` is a payload, it is read as one,
/// and otherwise it is rejected, as in the schema.
pub fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Takes `null` out of the schema of an `Option`, for fields that are left out instead. schemars
/// adds it to the type, or as one of two schemas.
pub fn without_null(schema: &mut Schema) {
    let schema = schema.ensure_object();
    if let Some(Value::Array(schemas)) = schema.remove("anyOf")
        && let Some(Value::Object(some)) = schemas.into_iter().next()
    {
        schema.extend(some);
    }
    if let Some(types) = schema.get_mut("type")
        && let Some(some) = types.get(0).cloned()
    {
        *types = some;
    }
}

/// Reads a struct from an object and from nothing else: left to itself, serde would take an array too,
/// field by field.
pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize(FromObject(deserializer))
}

/// As [`present`], for an object.
pub fn present_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    object(deserializer).map(Some)
}

struct FromObject<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for FromObject<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// Reads one of several words from a text and from nothing else: serde by itself would accept
/// `{"word": null}` too.
pub fn word<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    T::deserialize(String::deserialize(deserializer)?.into_deserializer())
}

/// A whole number from `MIN` to `MAX`, however it is written: to JSON Schema, `2.0` is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Count<const MIN: u32, const MAX: u32>(pub u32);

impl<const MIN: u32, const MAX: u32> Count<MIN, MAX> {
    /// The nearest to `number` that there is.
    pub fn nearest(number: usize) -> Self {
        Self(u32::try_from(number).unwrap_or(MAX).clamp(MIN, MAX))
    }
}

impl<'de, const MIN: u32, const MAX: u32> Deserialize<'de> for Count<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wanted = || {
            serde::de::Error::custom(format!("a number must be a whole one from {MIN} to {MAX}"))
        };
        let number = f64::deserialize(deserializer).map_err(|_: D::Error| wanted())?;
        let fits = number.fract() == 0.0 && (f64::from(MIN)..=f64::from(MAX)).contains(&number);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole, and within the range"
        )]
        fits.then_some(Self(number as u32)).ok_or_else(wanted)
    }
}

schema!(inline Count<MIN: u32, MAX: u32> = {
    "type": "integer", "minimum": MIN, "maximum": MAX
});

/// The id of a worker, which it made at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerKey(pub Uuid);

text!(WorkerKey, "a worker's id is a UUID", |text| {
    is_uuid(text).then(|| text.parse().ok().map(Self)).flatten()
});
schema!(inline WorkerKey = { "type": "string", "pattern": UUID_PATTERN });

/// A public key: 32 bytes in base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPublicKey(pub PublicKey);

text!(WorkerPublicKey, "a public key is 32 bytes in base64", |text| text.parse().ok().map(Self));
schema!(inline WorkerPublicKey = { "type": "string", "pattern": "^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$" });

/// The token of a task, as it was given to its worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskToken(pub Token);

impl TaskToken {
    /// Reads the text of one.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = Form::Delivery.check(text).is_ok();
        let token = u128::from_str_radix(text, 16).ok().filter(|_| fits);
        token.map(|token| Self(Token(token)))
    }
}

text!(TaskToken, "a token is 32 hexadecimal digits", Self::parse);
schema!(inline TaskToken = { "type": "string", "pattern": DELIVERY_PATTERN });

/// A time, by RFC 3339 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub Timestamp);

text!(Time, "not a time by RFC 3339", |text| Timestamp::parse(text).map(Self));
schema!(inline Time = { "type": "string", "format": "date-time" });

/// The status of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ExecutionStatus(pub Status);

schema!("ExecutionStatus" ExecutionStatus = {
    "type": "string", "enum": Status::SHOWN.map(Status::name)
});

/// The status of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeState(pub NodeStatus);

schema!("NodeStatus" NodeState = {
    "type": "string", "enum": NodeStatus::ALL.map(NodeStatus::name)
});

/// An execution's id that a submitter chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OwnId(pub String);

impl<'de> Deserialize<'de> for OwnId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if is_id(&text) && text != "last" {
            return Ok(Self(text));
        }
        let message = "an id is 1 to 128 letters, digits, '_', '-', ':', and after the first '.', and not `last`";
        Err(serde::de::Error::custom(message))
    }
}

schema!(inline OwnId = { "type": "string", "pattern": ID_PATTERN, "not": { "const": "last" } });

/// Text of 1 to `MAX` characters without control characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Short<const MAX: usize>(pub String);

impl<'de, const MAX: usize> Deserialize<'de> for Short<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if (1..=MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control) {
            return Ok(Self(text));
        }
        let message = format!("a text must have 1 to {MAX} characters and no control characters");
        Err(serde::de::Error::custom(message))
    }
}

schema!(inline Short<MAX: usize> = {
    "type": "string", "minLength": 1, "maxLength": MAX, "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]+$"
});

/// Text that a person writes: 1 to `MAX` characters, in lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Prose<const MAX: usize>(pub String);

impl<const MAX: usize> Prose<MAX> {
    /// The text, if it is one that may be stored.
    pub fn checked(text: String) -> Result<Self, String> {
        let foreign = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
        match (1..=MAX).contains(&text.chars().count()) && !text.chars().any(foreign) {
            true => Ok(Self(text)),
            false => Err(format!(
                "a text must have 1 to {MAX} characters, of the control characters only line breaks and tabs"
            )),
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Prose<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::checked(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

schema!(inline Prose<MAX: usize> = {
    "type": "string", "minLength": 1, "maxLength": MAX,
    "pattern": "^[^\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f]+$"
});

/// Labels of an execution.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Labels(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let labels = BTreeMap::<String, String>::deserialize(deserializer)?;
        let fits = |(name, value): (&String, &String)| {
            is_label_part(name, 1) && !name.contains('=') && is_label_part(value, 0)
        };
        if labels.len() <= LABELS_MAX && labels.iter().all(fits) {
            return Ok(Self(labels));
        }
        let message = "labels are at most 64, with names of 1 to 256 characters without '=', and \
                       values of at most 256, all without control characters";
        Err(serde::de::Error::custom(message))
    }
}

schema!("Labels" Labels = {
    "type": "object", "maxProperties": LABELS_MAX,
    "propertyNames": { "pattern": "^[^=\\x00-\\x1f\\x7f-\\x9f]{1,256}$" },
    "additionalProperties": { "type": "string", "pattern": "^[^\\x00-\\x1f\\x7f-\\x9f]{0,256}$" }
});
