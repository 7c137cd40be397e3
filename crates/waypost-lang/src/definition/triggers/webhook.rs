//! Triggers that fire with requests of other systems.

use std::sync::Arc;

use waypost_core::limits::{
    HOOK_BODY_BYTES, HOOK_BODY_BYTES_MAX, HOOK_HEADERS_MAX, HOOK_SECRETS_MAX, SECRET_NAME_CHARS_MAX,
};
use waypost_core::trigger::{
    Challenge, Encoding, HashAlgorithm, HmacScheme, Respond, TriggerKind, Verify, VerifyScheme,
    WebhookTrigger,
};

use super::{Block, SeenNames};
use crate::diagnostics::{Code, quoted};
use crate::fields;
use crate::tree::{Tree, TreeEntry};

const REQUEST: SeenNames = &["body", "headers", "query"];
const VERIFY_FIELDS: &[&str] =
    &["scheme", "secret", "header", "algorithm", "encoding", "prefix", "timestamp", "signed"];
/// The fields of `verify` that belong to the scheme `hmac`.
const HMAC_FIELDS: &[&str] = &["header", "algorithm", "encoding", "prefix", "timestamp", "signed"];
const VERIFY_HINT: &str = "write `verify: { scheme: github, secret: name_of_a_secret }`";

pub(super) fn read(block: &mut Block<'_, '_, '_>) -> Option<TriggerKind> {
    let hint = "write `verify: { scheme: github, secret: name_of_a_secret }`, or `verify: none` if anybody \
                may start executions";
    let verify = block.required("verify", hint).and_then(|entry| verify(block, entry));
    let dedupe = block.expression("dedupe", REQUEST);
    let respond = match block.word("respond", &["accepted", "output"], Code::BadValue) {
        Some("output") => Respond::Output,
        _ => Respond::Accepted,
    };
    block.leave_out("respond", "accepted");
    let headers = headers(block);
    let challenge = block.inner("challenge", &["if", "value"], |block| {
        block.required("if", "which requests ask: `if: body.type == 'url_verification'`");
        block.required("value", "what the answer is: `value: body.challenge`");
        let (condition, value) =
            (block.expression("if", REQUEST), block.expression("value", REQUEST));
        Some(Challenge { condition: condition?, value: value? })
    });
    let allow_get = block.flag("allowGet", false);
    let is_token = verify.as_ref().is_none_or(|verify| verify.scheme == VerifyScheme::Token);
    if let Some(entry) = block.present("allowGet").filter(|_| allow_get && !is_token) {
        let message = "`allowGet` is only allowed with the scheme `token`";
        let hint =
            "a GET has no body that could be signed, and any page can make a browser send one";
        block.context.faults.error(Code::BadValue, &entry.key_span, message).hint(hint);
    }
    let largest = u32::try_from(HOOK_BODY_BYTES_MAX).unwrap_or(u32::MAX);
    let body_max = block.whole("maxBodyBytes", 1, largest);
    let body_max =
        body_max.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(HOOK_BODY_BYTES);
    let own = WebhookTrigger {
        verify: verify?,
        dedupe,
        respond,
        headers,
        challenge,
        allow_get,
        body_max,
    };
    Some(TriggerKind::Webhook(Box::new(own)))
}

fn verify(block: &mut Block<'_, '_, '_>, entry: &TreeEntry) -> Option<Verify> {
    if let Some(text) = entry.value.as_text() {
        if text == "none" {
            block.keep("verify", "none");
            return Some(unsigned(block, &entry.value));
        }
        let message = format!("`verify` must be a mapping or `none`, not {}", quoted(text));
        block.context.faults.error(Code::WrongType, &entry.value.span, message).hint(VERIFY_HINT);
        return None;
    }
    let found = block.inner("verify", VERIFY_FIELDS, |block| {
        block.required("scheme", VERIFY_HINT)?;
        let scheme = block.word("scheme", &VerifyScheme::NAMES, Code::BadValue)?;
        let secrets = secrets(block, scheme != "none");
        Some(Verify { scheme: read_scheme(block, scheme)?, secrets: secrets? })
    })?;
    if found.scheme == VerifyScheme::None {
        block.keep("verify", "none");
        return Some(unsigned(block, &entry.value));
    }
    Some(found)
}

fn unsigned(block: &mut Block<'_, '_, '_>, tree: &Tree) -> Verify {
    let message = "anybody who can reach the server may start executions";
    let hint = "use a scheme with a secret; off the loopback interface the server refuses such requests unless \
                the setting allow_unsigned_hooks is on";
    block.context.faults.warning(Code::UnsignedHook, &tree.span, message).hint(hint);
    Verify { scheme: VerifyScheme::None, secrets: Vec::new() }
}

fn secrets(block: &mut Block<'_, '_, '_>, needed: bool) -> Option<Vec<Arc<str>>> {
    if !needed {
        if let Some(entry) = block.present("secret") {
            let message = "the scheme `none` has no `secret`";
            block.context.faults.error(Code::BadValue, &entry.key_span, message);
        }
        return Some(Vec::new());
    }
    let entry =
        block.required("secret", "the name of a secret, or a list of names for a rotation")?;
    let texts = block.texts("secret");
    if texts.len() > HOOK_SECRETS_MAX {
        let message =
            format!("`secret` may have at most {HOOK_SECRETS_MAX} names, not {}", texts.len());
        block.context.faults.error(Code::TooLarge, &entry.value.span, message);
    }
    for (text, tree) in &texts {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let fits = text.chars().all(word)
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && (1..=SECRET_NAME_CHARS_MAX).contains(&text.len());
        if !fits {
            let message = format!("{} is not the name of a secret", quoted(text));
            let hint = "write the name alone, without `${{ }}`: letters, digits and `_`";
            block.context.faults.error(Code::BadName, &tree.span, message).hint(hint);
        }
    }
    Some(texts.into_iter().map(|(text, _)| text.into()).collect())
}

fn read_scheme(block: &mut Block<'_, '_, '_>, scheme: &str) -> Option<VerifyScheme> {
    if scheme != "hmac" {
        for name in HMAC_FIELDS {
            if let Some(entry) = block.present(name) {
                let message = format!("`{name}` belongs to the scheme `hmac`, not `{scheme}`");
                block.context.faults.error(Code::BadValue, &entry.key_span, message);
            }
        }
    }
    Some(match scheme {
        "standard" => VerifyScheme::Standard,
        "github" => VerifyScheme::Github,
        "stripe" => VerifyScheme::Stripe,
        "slack" => VerifyScheme::Slack,
        "shopify" => VerifyScheme::Shopify,
        "gitlab" => VerifyScheme::Gitlab,
        "basic" => VerifyScheme::Basic,
        "token" => VerifyScheme::Token,
        "hmac" => VerifyScheme::Hmac(hmac(block)?),
        _ => VerifyScheme::None,
    })
}

fn hmac(block: &mut Block<'_, '_, '_>) -> Option<HmacScheme> {
    block.required("header", "the header with the signature: `header: X-Signature`");
    let header = header_name(block, "header");
    let algorithm = match block.word("algorithm", &["sha256", "sha512"], Code::BadValue) {
        Some("sha512") => HashAlgorithm::Sha512,
        _ => HashAlgorithm::Sha256,
    };
    block.leave_out("algorithm", "sha256");
    let encoding = match block.word("encoding", &["hex", "base64"], Code::BadValue) {
        Some("base64") => Encoding::Base64,
        _ => Encoding::Hex,
    };
    block.leave_out("encoding", "hex");
    let prefix = block.text("prefix").unwrap_or_default();
    let timestamp = header_name(block, "timestamp");
    let signed = block.text("signed");
    let [has_body, has_time] = ["{body}", "{timestamp}"]
        .map(|part| signed.as_ref().is_some_and(|signed| signed.contains(part)));
    let entry = block.present("signed").or_else(|| block.present("timestamp"));
    if let Some(entry) = entry {
        let faults = &mut *block.context.faults;
        let hint = "write `signed: \"{timestamp}.{body}\"`, as the sender documents it";
        if signed.is_some() && !has_body {
            let message = "`signed` must contain `{body}`";
            faults.error(Code::BadValue, &entry.value.span, message).hint(hint);
        } else if timestamp.is_some() && !has_time {
            let message = "with `timestamp`, `signed` must contain `{timestamp}`: a time that is not signed \
                           proves nothing";
            faults.error(Code::BadValue, &entry.value.span, message).hint(hint);
        } else if timestamp.is_none() && has_time {
            let message = "`signed` contains `{timestamp}`, and there is no `timestamp`";
            let hint = "write `timestamp: X-Timestamp`, the header with the time";
            faults.error(Code::BadValue, &entry.value.span, message).hint(hint);
        }
    }
    let signed = signed.unwrap_or_else(|| "{body}".to_owned());
    Some(HmacScheme {
        header: header?,
        algorithm,
        encoding,
        prefix: prefix.into(),
        timestamp,
        signed: signed.into(),
    })
}

fn headers(block: &mut Block<'_, '_, '_>) -> Vec<Arc<str>> {
    let texts = block.texts("headers");
    if let Some(entry) = block.present("headers").filter(|_| texts.len() > HOOK_HEADERS_MAX) {
        let message =
            format!("`headers` may have at most {HOOK_HEADERS_MAX} names, not {}", texts.len());
        block.context.faults.error(Code::TooLarge, &entry.value.span, message);
    }
    let mut names: Vec<Arc<str>> = Vec::new();
    for (text, tree) in texts {
        check_header("`headers`", &text, tree, block);
        names.push(text.to_ascii_lowercase().into());
    }
    names
}

fn header_name(block: &mut Block<'_, '_, '_>, field: &str) -> Option<Arc<str>> {
    let entry = block.present(field)?;
    let text = fields::owned_text(&format!("`{field}`"), &entry.value, block.context.faults)?;
    block.keep(field, text.as_str());
    check_header(&format!("`{field}`"), &text, &entry.value, block);
    Some(text.to_ascii_lowercase().into())
}

fn check_header(what: &str, text: &str, tree: &Tree, block: &mut Block<'_, '_, '_>) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if text.is_empty() || text.len() > 256 || !text.chars().all(fits) {
        let message = format!("{what}: {} is not the name of a header", quoted(text));
        block.context.faults.error(Code::BadValue, &tree.span, message);
    }
}
