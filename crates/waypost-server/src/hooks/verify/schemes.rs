//! What each scheme signs, and where it puts the signature.

use hyper::header::AUTHORIZATION;
use waypost_core::time::{Millis, Timestamp};
use waypost_core::trigger::{Encoding, HashAlgorithm, HmacScheme};
use waypost_ports::secret::SecretText;

use super::mac::{digest, from_base64, from_hex, is_same_secret, is_signed, is_signed_by_owner};
use super::{Incoming, Reason, SignedDelivery, TOLERANCE};

/// What a scheme says; a header that the trigger names goes with its reason.
type Verified = Result<SignedDelivery, (Reason, Option<String>)>;

const SHA256: HashAlgorithm = HashAlgorithm::Sha256;

/// The prefix of the secrets of Standard Webhooks.
const STANDARD_PREFIX: &str = "whsec_";
/// The prefix of its public keys.
const PUBLIC_PREFIX: &str = "whpk_";

/// The one value of a header.
fn header<'a>(
    request: &Incoming<'a>,
    name: &'static str,
) -> Result<&'a str, (Reason, Option<String>)> {
    one(request, name).ok_or((Reason::Missing { what: name }, None))
}

fn one<'a>(request: &Incoming<'a>, name: &str) -> Option<&'a str> {
    let mut values = request.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn refused(reason: Reason) -> (Reason, Option<String>) {
    (reason, None)
}

/// The secrets as keys: their bytes.
fn keys(secrets: &[SecretText]) -> Vec<&[u8]> {
    secrets.iter().map(|secret| secret.reveal().as_bytes()).collect()
}

fn seconds(text: &str) -> Option<Timestamp> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = text.parse::<i64>().ok().filter(|_| digits)?;
    Timestamp::from_ms(seconds.checked_mul(1_000)?)
}

/// Is a request of this time taken at this time? Only to be asked about a time that is signed.
fn check_time(sent: Timestamp, now: Timestamp) -> Result<(), (Reason, Option<String>)> {
    let Millis(apart) = sent.since(now).max(now.since(sent));
    if apart <= TOLERANCE.0 { Ok(()) } else { Err(refused(Reason::StaleTimestamp)) }
}

/// Standard Webhooks: `webhook-signature` is a list of `v1,<base64>` by a secret and `v1a,<base64>` by a private
/// key, of id, time and body. A public key verifies the latter alone, and a secret the former.
pub(super) fn standard(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    const SIGNATURE: &str = "webhook-signature";
    const TIME: &str = "webhook-timestamp";
    let id = header(request, "webhook-id")?;
    let time = header(request, TIME)?;
    let sent = seconds(time).ok_or(refused(Reason::Missing { what: TIME }))?;
    let given = header(request, SIGNATURE)?;
    let signatures = |version: &str| -> Vec<Vec<u8>> {
        given.split(' ').filter_map(|one| from_base64(one.strip_prefix(version)?)).collect()
    };
    let keys: Vec<Vec<u8>> = secrets.iter().filter_map(standard_key).collect();
    let public: Vec<[u8; 32]> = secrets.iter().filter_map(public_key).collect();
    if keys.is_empty() && public.is_empty() {
        return Err(refused(Reason::BadSecret));
    }
    let signed: [&[u8]; 5] = [id.as_bytes(), b".", time.as_bytes(), b".", request.body];
    if !is_signed(SHA256, &keys, &signed, &signatures("v1,"))
        && !is_signed_by_owner(&public, &signed, &signatures("v1a,"))
    {
        return Err(refused(Reason::BadSignature));
    }
    check_time(sent, request.now)?;
    Ok(SignedDelivery::Id(id.to_owned()))
}

/// The key is written in Base64, after a prefix that may be missing.
fn standard_key(secret: &SecretText) -> Option<Vec<u8>> {
    let text = secret.reveal();
    from_base64(text.strip_prefix(STANDARD_PREFIX).unwrap_or(text))
}

/// A public key is written in Base64, after its prefix.
fn public_key(secret: &SecretText) -> Option<[u8; 32]> {
    from_base64(secret.reveal().strip_prefix(PUBLIC_PREFIX)?)?.try_into().ok()
}

/// `x-hub-signature-256: sha256=<hex>`, of the body alone.
pub(super) fn github(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    const SIGNATURE: &str = "x-hub-signature-256";
    let signature = header(request, SIGNATURE)?.strip_prefix("sha256=").and_then(from_hex);
    let signature = signature.ok_or(refused(Reason::Missing { what: SIGNATURE }))?;
    body_alone(secrets, request, signature)
}

/// `x-shopify-hmac-sha256: <base64>`, of the body alone.
pub(super) fn shopify(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    const SIGNATURE: &str = "x-shopify-hmac-sha256";
    let signature = from_base64(header(request, SIGNATURE)?);
    let signature = signature.ok_or(refused(Reason::Missing { what: SIGNATURE }))?;
    body_alone(secrets, request, signature)
}

fn body_alone(secrets: &[SecretText], request: &Incoming<'_>, signature: Vec<u8>) -> Verified {
    match is_signed(SHA256, &keys(secrets), &[request.body], &[signature]) {
        true => Ok(SignedDelivery::Digest(digest(&[request.body]))),
        false => Err(refused(Reason::BadSignature)),
    }
}

/// `stripe-signature: t=<seconds>,v1=<hex>,…`, of time and body.
pub(super) fn stripe(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    const SIGNATURE: &str = "stripe-signature";
    let missing = || refused(Reason::Missing { what: SIGNATURE });
    let (mut time, mut signatures) = (None, Vec::new());
    for part in header(request, SIGNATURE)?.split(',') {
        match part.split_once('=') {
            Some(("t", _)) if time.is_some() => return Err(missing()),
            Some(("t", value)) => time = Some(value),
            Some(("v1", value)) => signatures.extend(from_hex(value)),
            // Other versions, and whatever is added to the scheme.
            Some(_) | None => {}
        }
    }
    let time = time.ok_or_else(missing)?;
    let sent = seconds(time).ok_or_else(missing)?;
    let signed: [&[u8]; 3] = [time.as_bytes(), b".", request.body];
    timed(secrets, &signed, &signatures, (sent, request.now))
}

/// `x-slack-signature: v0=<hex>`, of version, time and body.
pub(super) fn slack(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    const SIGNATURE: &str = "x-slack-signature";
    const TIME: &str = "x-slack-request-timestamp";
    let time = header(request, TIME)?;
    let sent = seconds(time).ok_or(refused(Reason::Missing { what: TIME }))?;
    let signature = header(request, SIGNATURE)?.strip_prefix("v0=").and_then(from_hex);
    let signature = signature.ok_or(refused(Reason::Missing { what: SIGNATURE }))?;
    let signed: [&[u8]; 4] = [b"v0:", time.as_bytes(), b":", request.body];
    timed(secrets, &signed, &[signature], (sent, request.now))
}

fn timed(
    secrets: &[SecretText],
    signed: &[&[u8]],
    signatures: &[Vec<u8>],
    (sent, now): (Timestamp, Timestamp),
) -> Verified {
    if !is_signed(SHA256, &keys(secrets), signed, signatures) {
        return Err(refused(Reason::BadSignature));
    }
    check_time(sent, now)?;
    Ok(SignedDelivery::Digest(digest(signed)))
}

/// `x-gitlab-token: <secret>`: nothing is signed.
pub(super) fn gitlab(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    one_of(secrets, header(request, "x-gitlab-token")?.as_bytes())
}

/// `authorization: Basic <base64 of user:password>`.
pub(super) fn basic(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    let missing = || refused(Reason::Missing { what: "authorization" });
    let (scheme, given) =
        header(request, AUTHORIZATION.as_str())?.split_once(' ').ok_or_else(missing)?;
    let given = Some(given).filter(|_| scheme.eq_ignore_ascii_case("basic"));
    let given = given.and_then(|given| from_base64(given.trim())).ok_or_else(missing)?;
    one_of(secrets, &given)
}

/// The secret is the last part of the path.
pub(super) fn token(secrets: &[SecretText], request: &Incoming<'_>) -> Verified {
    let given = request.token.filter(|token| !token.is_empty());
    one_of(secrets, given.ok_or(refused(Reason::NoToken))?.as_bytes())
}

fn one_of(secrets: &[SecretText], given: &[u8]) -> Verified {
    let known = secrets.iter().any(|secret| is_same_secret(secret.reveal().as_bytes(), given));
    if known { Ok(SignedDelivery::Unsigned) } else { Err(refused(Reason::BadSignature)) }
}

/// A signature in a header, as the trigger describes it.
pub(super) fn hmac(
    scheme: &HmacScheme,
    secrets: &[SecretText],
    request: &Incoming<'_>,
) -> Verified {
    let missing = |name: &str| (Reason::MissingNamed, Some(name.to_owned()));
    let signature =
        one(request, &scheme.header).and_then(|text| text.strip_prefix(&*scheme.prefix));
    let signature = signature.and_then(|text| match scheme.encoding {
        Encoding::Hex => from_hex(text),
        Encoding::Base64 => from_base64(text),
    });
    let signature = signature.ok_or_else(|| missing(&scheme.header))?;
    let time = match scheme.timestamp.as_deref() {
        None => None,
        Some(name) => {
            let text = one(request, name).ok_or_else(|| missing(name))?;
            Some((text, seconds(text).ok_or_else(|| missing(name))?))
        }
    };
    let signed = fill(&scheme.signed, time.map(|(text, _)| text), request.body);
    if !is_signed(scheme.algorithm, &keys(secrets), &signed, &[signature]) {
        return Err(refused(Reason::BadSignature));
    }
    if let Some((_, sent)) = time {
        check_time(sent, request.now)?;
    }
    Ok(SignedDelivery::Digest(digest(&signed)))
}

/// What is signed, by its template. Nothing that is filled in is read as a part of the template.
fn fill<'a>(template: &'a str, time: Option<&'a str>, body: &'a [u8]) -> Vec<&'a [u8]> {
    const BODY: &str = "{body}";
    const TIME: &str = "{timestamp}";
    let mut pieces = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(BODY) {
            pieces.push(body);
            rest = after;
        } else if let (Some(after), Some(time)) = (rest.strip_prefix(TIME), time) {
            pieces.push(time.as_bytes());
            rest = after;
        } else {
            let next = rest.char_indices().skip(1).find(|(_, c)| *c == '{');
            let (plain, after) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
            pieces.push(plain.as_bytes());
            rest = after;
        }
    }
    pieces
}
