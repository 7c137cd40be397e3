//! References to blobs: payloads that are kept outside of the log, by the digest of their content.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The BLAKE3 digest of a blob's content, by which it is found. Written as 64 lower-case hexadecimal
/// digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobDigest(pub [u8; 32]);

impl BlobDigest {
    /// The digest of this content.
    pub fn of(content: &[u8]) -> Self {
        Self(*blake3::hash(content).as_bytes())
    }
}

impl fmt::Display for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the digest of a blob has 64 hexadecimal digits, in lower case")]
pub struct BadBlobDigest;

impl FromStr for BlobDigest {
    type Err = BadBlobDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(BadBlobDigest),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != 32 || !rest.is_empty() {
            return Err(BadBlobDigest);
        }
        let mut digest = [0; 32];
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(digest))
    }
}

impl Serialize for BlobDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BlobDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        std::borrow::Cow::<'_, str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A blob by reference, as events and mail name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct BlobRef {
    pub digest: BlobDigest,
    /// Of the content, as it was put.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_written_and_read_is_the_same() {
        let reference = BlobRef { digest: BlobDigest::of(b"content"), bytes: 7 };
        let text = serde_json::to_string(&reference).unwrap();
        assert_eq!(serde_json::from_str::<BlobRef>(&text).unwrap(), reference);
        assert_eq!(reference.digest.to_string().parse(), Ok(reference.digest));
        // Other readers compute it with `b3sum`.
        let known = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(BlobDigest::of(b"").to_string(), known);
    }

    #[test]
    fn text_that_is_no_digest_is_refused() {
        let digest = BlobDigest::of(b"").to_string();
        let spoilt = [
            "".to_owned(),
            digest[1..].to_owned(),
            format!("{digest}0"),
            digest.to_uppercase(),
            digest.replace('a', "g"),
            digest.replace("af", "é"),
        ];
        for text in spoilt {
            assert_eq!(text.parse::<BlobDigest>(), Err(BadBlobDigest), "{text}");
        }
    }
}
