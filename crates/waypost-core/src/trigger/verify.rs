//! How requests to a webhook prove where they come from.

use std::sync::Arc;

/// What a request must carry to be taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verify {
    pub scheme: VerifyScheme,
    /// Names of secrets: one, or several during a rotation. Empty for schemes without a secret.
    pub secrets: Vec<Arc<str>>,
}

/// Who signs what, and where the signature is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VerifyScheme {
    /// Standard Webhooks, `v1`.
    Standard,
    Github,
    Stripe,
    Slack,
    Shopify,
    Gitlab,
    Hmac(HmacScheme),
    /// HTTP basic authentication: the secret is `user:password`.
    Basic,
    /// The last part of the path is the secret.
    Token,
    None,
}

impl VerifyScheme {
    /// The names of all schemes.
    pub const NAMES: [&'static str; 10] = [
        "standard", "github", "stripe", "slack", "shopify", "gitlab", "hmac", "basic", "token",
        "none",
    ];

    /// As definitions spell it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::Github => "github",
            Self::Stripe => "stripe",
            Self::Slack => "slack",
            Self::Shopify => "shopify",
            Self::Gitlab => "gitlab",
            Self::Hmac(_) => "hmac",
            Self::Basic => "basic",
            Self::Token => "token",
            Self::None => "none",
        }
    }

    /// Must it have secrets?
    pub fn needs_secret(&self) -> bool {
        *self != Self::None
    }
}

/// A signature by HMAC in a header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HmacScheme {
    /// The header with the signature, in lower case.
    pub header: Arc<str>,
    pub algorithm: HashAlgorithm,
    pub encoding: Encoding,
    /// What stands before the signature in the header, such as `sha256=`.
    pub prefix: Arc<str>,
    /// The header with the time of the request, in seconds since 1970, in lower case.
    pub timestamp: Option<Arc<str>>,
    /// What is signed: a text with `{body}` and, where there is a timestamp, `{timestamp}`.
    pub signed: Arc<str>,
}

/// The hash of an HMAC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HashAlgorithm {
    Sha256,
    Sha512,
}

/// How a signature is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    Hex,
    Base64,
}
