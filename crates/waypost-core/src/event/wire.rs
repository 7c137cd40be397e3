//! Events in the log: `{"<Type>":{…}}`, one list of types for both kinds.
//!
//! The reader takes the kind from the type's name, and passes name and content on to the kind's own
//! reader. Nothing is buffered: a payload stays the raw text that it is.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::{CowStrDeserializer, EnumAccessDeserializer};
use serde::de::{DeserializeSeed, EnumAccess, Error, IntoDeserializer, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Event, NodeEvent, RunEvent};

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Run(event) => event.serialize(serializer),
            Self::Node(event) => event.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A format that describes itself needs no list of names.
        deserializer.deserialize_enum("Event", &[], EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, event: A) -> Result<Event, A::Error> {
        let (name, content) = event.variant_seed(Name)?;
        let is_node = ["Node", "Body", "Map", "Items", "Child", "SignalSent"]
            .iter()
            .any(|kind| name.starts_with(kind));
        let named = EnumAccessDeserializer::new(Named { name, content });
        Ok(match is_node {
            true => Event::Node(NodeEvent::deserialize(named)?),
            false => Event::Run(RunEvent::deserialize(named)?),
        })
    }
}

/// Reads the type's name; it is a part of the text, unless it has escapes.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, name: D) -> Result<Self::Value, D::Error> {
        name.deserialize_identifier(self)
    }
}

impl<'de> Visitor<'de> for Name {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type of an event")
    }

    fn visit_borrowed_str<E: Error>(self, name: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(name))
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(name.to_owned()))
    }
}

/// A type's name that was read, and its content that was not.
struct Named<'de, A> {
    name: Cow<'de, str>,
    content: A,
}

impl<'de, A: serde::de::VariantAccess<'de>> EnumAccess<'de> for Named<'de, A> {
    type Error = A::Error;
    type Variant = A;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, A), A::Error> {
        let name: CowStrDeserializer<'de, A::Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.content))
    }
}
