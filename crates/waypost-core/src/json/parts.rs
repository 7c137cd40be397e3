//! Making a payload smaller that cannot be kept as one blob, because it has references in it: a reference
//! inside of a blob would be data to its readers.

use std::cmp::Reverse;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};

use super::{BadJson, Json};

/// A part this small is not worth a blob: its reference would be as large.
const PART_BYTES_MIN: usize = 128;

/// The parts of an object or list, in their order.
enum Members {
    Object(Vec<(String, Json)>),
    List(Vec<Json>),
}

impl Json {
    /// Replaces parts that have no references by what `put` makes of them, the largest first, until the
    /// text has at most `max` bytes. It stays larger where nothing is left to replace.
    pub fn split<E>(
        &self,
        max: usize,
        put: &mut dyn FnMut(&Self) -> Result<Self, E>,
    ) -> Result<Self, E> {
        if self.bytes() <= max || self.as_reference().is_some() {
            return Ok(self.clone());
        }
        if self.references().next().is_none() {
            return put(self);
        }
        let Ok(mut parts) = Members::of(self) else { return Ok(self.clone()) };
        let mut largest_first: Vec<&mut Self> = parts.iter_mut().collect();
        largest_first.sort_by_key(|part| Reverse(part.bytes()));
        let mut size = self.bytes();
        for part in largest_first {
            let bytes = part.bytes();
            if size <= max || bytes < PART_BYTES_MIN {
                break;
            }
            *part = part.split(bytes.saturating_sub(size - max), put)?;
            size = size - bytes + part.bytes();
        }
        Ok(parts.into_json().unwrap_or_else(|_| self.clone()))
    }
}

impl Members {
    /// Only objects and lists have references in them.
    fn of(payload: &Json) -> Result<Self, BadJson> {
        let mut text = serde_json::Deserializer::from_str(payload.text());
        text.deserialize_any(MembersVisitor).map_err(|error| BadJson(error.to_string()))
    }

    fn iter_mut(&mut self) -> Box<dyn Iterator<Item = &mut Json> + '_> {
        match self {
            Self::Object(fields) => Box::new(fields.iter_mut().map(|(_, value)| value)),
            Self::List(items) => Box::new(items.iter_mut()),
        }
    }

    fn into_json(self) -> Result<Json, BadJson> {
        match self {
            Self::Object(fields) => Json::object(fields.into_iter()),
            Self::List(items) => Json::list(items.iter()),
        }
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object or a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Members::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Members, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Members::List(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob::{BlobDigest, BlobRef};

    fn reference(content: &str) -> Json {
        let (digest, bytes) = (BlobDigest::of(content.as_bytes()), content.len() as u64);
        Json::reference(BlobRef { digest, bytes })
    }

    /// The payload with its parts put away, and what was put away.
    fn split(payload: &Json, max: usize) -> (Json, Vec<String>) {
        let mut kept = Vec::new();
        let mut put = |part: &Json| {
            kept.push(part.text().to_owned());
            Ok::<_, BadJson>(reference(part.text()))
        };
        (payload.split(max, &mut put).unwrap(), kept)
    }

    #[test]
    fn parts_are_put_away_and_references_stay() {
        let file = reference("file");
        let [long, longer] = [300, 600].map(|count| Json::from_value(&"x".repeat(count).into()));
        let inner = Json::object([("file", file.clone()), ("long", long.clone())].into_iter());
        let fields = [
            ("z", longer.clone()),
            ("short", Json::from_value(&1.into())),
            ("inner", inner.unwrap()),
            ("list", Json::list([&file, &long].into_iter()).unwrap()),
        ];
        let payload = Json::object(fields.into_iter()).unwrap();
        let whole = payload.bytes();
        let cases: [(usize, &[&Json]); 4] = [
            (whole, &[]),
            (whole - 1, &[&longer]),
            (whole - 600, &[&longer, &long]),
            (0, &[&longer, &long, &long]),
        ];
        for (max, put_away) in cases {
            let (smaller, kept) = split(&payload, max);
            assert_eq!(kept, put_away.iter().map(|part| part.text()).collect::<Vec<_>>(), "{max}");
            assert!(smaller.bytes() <= max || max == 0, "{max}: {smaller}");
            assert_eq!(smaller.references().count(), 2 + put_away.len(), "{max}");
            let content = |blob: BlobRef| {
                let parts = [&long, &longer].into_iter();
                let part =
                    parts.clone().find(|part| reference(part.text()).as_reference() == Some(blob));
                Ok::<_, BadJson>(part.cloned().unwrap_or_else(|| Json::reference(blob)))
            };
            assert_eq!(smaller.resolve(content).unwrap().text(), payload.text(), "in order");
        }
        let without = Json::from_value(&vec![1; 100].into());
        assert_eq!(split(&without, 10).1, [without.text()]);
        assert_eq!(split(&file, 10), (file, Vec::new()));
    }
}
