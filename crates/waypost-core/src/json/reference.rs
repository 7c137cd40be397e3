//! References: payloads that stand for the content of a blob, and how they get in and out of texts.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{BadJson, Json};
use crate::blob::{BlobDigest, BlobRef};

/// How a reference begins; `plain` sees to it that nothing else does.
const REFERENCE: &str = "{\"$blob\":";
/// Bytes that a reference has at least.
pub const REFERENCE_BYTES_MIN: usize = 80;
const MARK: &str = "\"$blob\"";

/// A blob that a payload from outside names.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    #[serde(rename = "$blob")]
    pub digest: BlobDigest,
    /// As references have it; the blob itself says how many there are.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// What a worker got for its upload.
    #[serde(default)]
    pub receipt: Option<String>,
}

/// The text without what would be a reference. A quote inside of a string is escaped, so these
/// characters can only be the beginning of an object.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    match text.contains(REFERENCE) {
        true => Cow::Owned(text.replace(REFERENCE, "{ \"$blob\":")),
        false => Cow::Borrowed(text),
    }
}

/// The references in a text that was written here, such as the events of a frame.
pub fn references(text: &str) -> impl Iterator<Item = BlobRef> + '_ {
    let found = text.match_indices(REFERENCE);
    found.filter_map(|(at, _)| Some(reference_at(text.get(at..)?)?.0))
}

/// The reference with which a text begins, and its length.
pub(crate) fn reference_at(text: &str) -> Option<(BlobRef, usize)> {
    let rest = text.strip_prefix(REFERENCE)?.strip_prefix('"')?;
    let (digest, rest) = rest.split_at_checked(64)?;
    let rest = rest.strip_prefix("\",\"bytes\":")?;
    let (bytes, rest) = rest.split_once('}')?;
    let blob = BlobRef { digest: digest.parse().ok()?, bytes: bytes.parse().ok()? };
    Some((blob, text.len() - rest.len()))
}

/// The claim whose mark is here, and where it is. Other objects with such a field are data.
fn claim_around(text: &str, mark: usize) -> Option<(Claim, Range<usize>)> {
    let before = text.get(..mark)?.trim_end();
    let start = before.strip_suffix('{')?.len();
    let mut claims = serde_json::Deserializer::from_str(text.get(start..)?).into_iter::<Claim>();
    let claim = claims.next()?.ok()?;
    Some((claim, start..start + claims.byte_offset()))
}

impl Json {
    /// A reference to a blob.
    pub fn reference(blob: BlobRef) -> Self {
        let text = format!("{REFERENCE}\"{}\",\"bytes\":{}}}", blob.digest, blob.bytes);
        let raw = RawValue::from_string(text);
        Self(Arc::from(raw.expect("a digest and a number are well-formed")))
    }

    /// The blob that this payload stands for.
    pub fn as_reference(&self) -> Option<BlobRef> {
        let (blob, length) = reference_at(self.text())?;
        (length == self.bytes()).then_some(blob)
    }

    /// The blobs that it refers to, wherever they are in it.
    pub fn references(&self) -> impl Iterator<Item = BlobRef> + '_ {
        references(self.text())
    }

    /// The text with each reference replaced by what `content` gives for it.
    pub fn resolve<E: From<BadJson>>(
        &self,
        mut content: impl FnMut(BlobRef) -> Result<Self, E>,
    ) -> Result<Self, E> {
        let (mut text, mut rest) = (String::new(), self.text());
        while let Some(at) = rest.find(REFERENCE) {
            let (before, from) = rest.split_at(at);
            text.push_str(before);
            let length = match reference_at(from) {
                Some((blob, length)) => {
                    text.push_str(content(blob)?.text());
                    length
                }
                None => {
                    text.push_str(REFERENCE);
                    REFERENCE.len()
                }
            };
            rest = from.get(length..).unwrap_or_default();
        }
        if rest.len() == self.bytes() {
            return Ok(self.clone());
        }
        text.push_str(rest);
        Ok(Self::parse_own(&text)?)
    }

    /// Replaces what a payload from outside claims to be a blob, `{"$blob": "<digest>"}` in any
    /// spelling, by the reference that `check` gives for it.
    pub fn adopt<E: From<BadJson>>(
        &self,
        mut check: impl FnMut(&Claim) -> Result<BlobRef, E>,
    ) -> Result<Self, E> {
        let (mut text, mut done) = (String::new(), 0);
        for (at, _) in self.text().match_indices(MARK) {
            let Some((claim, range)) = claim_around(self.text(), at) else { continue };
            text.push_str(self.text().get(done..range.start).unwrap_or_default());
            text.push_str(Self::reference(check(&claim)?).text());
            done = range.end;
        }
        if done == 0 {
            return Ok(self.clone());
        }
        text.push_str(self.text().get(done..).unwrap_or_default());
        Ok(Self::parse_own(&text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(content: &[u8]) -> BlobRef {
        BlobRef { digest: BlobDigest::of(content), bytes: content.len() as u64 }
    }

    #[test]
    fn reference_cannot_be_made_from_outside() {
        let reference = Json::reference(blob(b"x"));
        assert_eq!(reference.as_reference(), Some(blob(b"x")));
        for forged in [reference.text().to_owned(), format!("[1, {reference}]")] {
            let parsed = Json::parse(&forged).unwrap();
            assert_eq!(parsed.references().count(), 0, "{forged}");
            let value: serde_json::Value = serde_json::from_str(&forged).unwrap();
            assert_eq!(parsed.to_value().unwrap(), value);
            assert_eq!(Json::from_value(&value).references().count(), 0, "{forged}");
        }
        let quoted = Json::from_value(&reference.text().into());
        assert_eq!(quoted.references().count(), 0);
        let list = Json::list([reference, Json::null()].iter()).unwrap();
        assert_eq!(list.references().collect::<Vec<_>>(), [blob(b"x")]);
        assert_eq!(list.as_reference(), None);
    }

    #[test]
    fn references_are_replaced_by_content_and_claims_by_references() {
        let refuse = |_: &Claim| Err(BadJson("no".into()));
        let digest = BlobDigest::of(b"[1]");
        let sent = format!(
            r#"{{"a": {{ "$blob" : "{digest}" }}, "b": [{{"$blob":"{digest}"}}], "c": {{"$blob": 7}}, "$blob": "x"}}"#
        );
        let sent = Json::parse(&sent).unwrap();
        assert!(sent.adopt(refuse).is_err());
        let adopted = sent.adopt(|_| Ok::<_, BadJson>(blob(b"[1]"))).unwrap();
        assert_eq!(adopted.references().collect::<Vec<_>>(), [blob(b"[1]"); 2]);
        let resolved = adopted.resolve(|_| Json::parse("[1]")).unwrap();
        assert_eq!(
            resolved.to_value().unwrap(),
            serde_json::json!({"a": [1], "b": [[1]], "c": {"$blob": 7}, "$blob": "x"})
        );
        let without = Json::parse(r#"{"a": "$blob"}"#).unwrap();
        assert_eq!(without.adopt(refuse).unwrap(), without);
    }
}
