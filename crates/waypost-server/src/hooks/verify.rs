//! Does a request to a webhook come from where it claims to come from?
//!
//! Everything here is computed from the request's raw bytes, secrets and a time that the caller passes: no
//! clock is read and nothing is stored. Signatures are compared in constant time. A reason names the scheme
//! and what the request lacks, and nothing that was computed from a secret.
//!
//! | file | owns |
//! | --- | --- |
//! | `mac` | signatures by HMAC and by Ed25519: computing, decoding, comparing |
//! | `schemes` | what each scheme signs, and where it puts the signature |

mod mac;
mod schemes;
#[cfg(test)]
mod tests;

use hyper::HeaderMap;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::VerifyScheme;
use waypost_ports::secret::SecretText;

/// How far the time of a request may be from the time of its verification.
pub const TOLERANCE: Millis = Millis::from_secs(5 * 60);
/// Secrets that a trigger may name, for rotation.
pub const SECRETS_MAX: usize = 4;

/// A request as its verification needs it.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    pub headers: &'a HeaderMap,
    /// The bytes as they were sent.
    pub body: &'a [u8],
    /// The last part of the path, where it may be a token.
    pub token: Option<&'a str>,
    /// The store's time.
    pub now: Timestamp,
}

/// What is known about a request that passed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SignedDelivery {
    /// The sender's id of the delivery, which is a part of what is signed.
    Id(String),
    /// The digest of what is signed: this scheme signs no id, and one in a header could be exchanged.
    Digest([u8; 32]),
    /// Nothing is signed, so nothing tells a repeat from another delivery.
    Unsigned,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// What the scheme needs is not there, more than once there, or not of its form.
    Missing {
        what: &'static str,
    },
    /// A header that the trigger names is not there, more than once there, or not of its form.
    MissingNamed,
    /// The path has no token.
    NoToken,
    BadSignature,
    StaleTimestamp,
    /// No secret can be used as a key of this scheme.
    BadSecret,
}

/// A refusal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", self.text())]
pub struct Refused {
    pub scheme: &'static str,
    pub reason: Reason,
    /// The header that is missing, where the trigger names it.
    header: Option<String>,
}

impl Refused {
    fn text(&self) -> String {
        let scheme = self.scheme;
        match self.reason {
            Reason::Missing { what } => {
                format!("scheme {scheme} needs exactly one header `{what}` of its form")
            }
            Reason::MissingNamed => {
                let header = self.header.as_deref().unwrap_or_default();
                format!("scheme {scheme} needs exactly one header `{header}` of its form")
            }
            Reason::NoToken => format!("scheme {scheme} needs the token at the end of the path"),
            Reason::BadSignature => match scheme {
                "basic" => "user or password of scheme basic are wrong".to_owned(),
                "token" | "gitlab" => format!("the token of scheme {scheme} is wrong"),
                _ => format!("the signature of scheme {scheme} does not fit the request"),
            },
            Reason::StaleTimestamp => format!(
                "the signed time of scheme {scheme} is more than {} minutes away from the time here",
                TOLERANCE.0 / 60_000
            ),
            Reason::BadSecret => format!("no secret of the trigger is a key for scheme {scheme}"),
        }
    }
}

/// Verifies a request. Several secrets are tried in turn.
pub fn verify(
    scheme: &VerifyScheme,
    secrets: &[SecretText],
    request: &Incoming<'_>,
) -> Result<SignedDelivery, Refused> {
    let secrets = secrets.get(..SECRETS_MAX).unwrap_or(secrets);
    let verified = match scheme {
        VerifyScheme::Standard => schemes::standard(secrets, request),
        VerifyScheme::Github => schemes::github(secrets, request),
        VerifyScheme::Stripe => schemes::stripe(secrets, request),
        VerifyScheme::Slack => schemes::slack(secrets, request),
        VerifyScheme::Shopify => schemes::shopify(secrets, request),
        VerifyScheme::Gitlab => schemes::gitlab(secrets, request),
        VerifyScheme::Hmac(hmac) => schemes::hmac(hmac, secrets, request),
        VerifyScheme::Basic => schemes::basic(secrets, request),
        VerifyScheme::Token => schemes::token(secrets, request),
        VerifyScheme::None => Ok(SignedDelivery::Unsigned),
    };
    verified.map_err(|(reason, header)| Refused { scheme: scheme.name(), reason, header })
}
