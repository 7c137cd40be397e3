//! Secrets that go into a task do not come out of it in any form.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use unicode_normalization::UnicodeNormalization as _;
use waypost_core::command::Outcome;
use waypost_core::id::{ExecutionId, Token};
use waypost_ports::handler::Marks;
use waypost_ports::secret::{NoSecrets, SECRET_BYTES_MAX, SecretText};

use super::*;

const CANARY: &str = "kaná/ry \"7+f\" ~3%&?";

struct Book(Vec<(&'static str, String)>);

impl Secrets for Book {
    fn resolve(&self, name: &str, workflow: &str) -> Result<Grant, SecretRefused> {
        assert_eq!(workflow, "flow");
        let unknown = || SecretRefused::Unknown(name.into());
        let (_, value) = self.0.iter().find(|(known, _)| *known == name).ok_or_else(unknown)?;
        let value = SecretText::new(value).unwrap();
        Ok(Grant {
            name: name.into(),
            value,
            hosts: [].into(),
            shell: true,
            workers: Default::default(),
            verify: false,
        })
    }
}

struct Minds(bool);

impl Handler for Minds {
    fn checks_secrets(&self) -> bool {
        self.0
    }

    fn run(&self, task: Task, _: CancellationToken) -> BoxFuture<'static, Result<Json, Failure>> {
        Box::pin(async move { Ok(task.config) })
    }
}

fn task(config: &str, places: &[(usize, &str)]) -> Task {
    let place = |(at, name): &(usize, &str)| Placeholder { at: *at, name: (*name).into() };
    Task {
        execution: ExecutionId("exe_test".into()),
        workflow: "flow".into(),
        path: "a".into(),
        attempt: 1,
        handler: "minds".into(),
        config: Json::parse(config).unwrap(),
        placeholders: places.iter().map(place).collect(),
        secrets: Vec::new(),
        operation: None,
        heartbeat: None,
        breaker: None,
        marks: Marks::none(),
        checkpoint: None,
        timeout: None,
        idempotency_key: String::new(),
        token: Token(1),
    }
}

fn book(entries: &[(&'static str, &str)]) -> Arc<dyn Secrets> {
    Arc::new(Book(entries.iter().map(|(name, value)| (*name, (*value).to_owned())).collect()))
}

async fn refusal(task: Task, handler: &dyn Handler, secrets: Arc<dyn Secrets>) -> Failure {
    let failure = supply(task, handler, secrets.into()).await.map(|_| ()).unwrap_err();
    assert!(!failure.retryable && failure.unsent, "{failure:?}");
    failure
}

#[tokio::test]
async fn each_secret_lands_in_its_place() {
    let task = task(r#"{"a":"Bearer ","b":["x","x-"],"c":""}"#, &[(13, "k"), (22, "k"), (35, "l")]);
    let secrets = book(&[("k", CANARY), ("l", "line\nline")]);
    let (task, _) = supply(task, &Minds(true), secrets.into()).await.unwrap();
    let config = task.config.to_value().unwrap();
    assert_eq!(config["a"], format!("Bearer {CANARY}"));
    assert_eq!(config["b"], serde_json::json!([format!("x{CANARY}"), "x-"]));
    assert_eq!(config["c"], "line\nline");
    let shown = format!("{task:?}");
    assert!(!shown.contains("kan") && shown.contains("config: ***"), "{shown}");
    assert!(task.placeholders.is_empty());
    assert_eq!(task.secrets.len(), 2);
}

#[tokio::test]
async fn supply_beyond_grants_and_limits_fails_the_task() {
    let config = r#"{"a":""}"#;
    let one = || task(config, &[(6, "k")]);
    let failure = refusal(one(), &Minds(true), Arc::new(NoSecrets)).await;
    assert_eq!(&*failure.kind, "secret");
    assert!(failure.message.starts_with("there is no secret `k` here: "), "{}", failure.message);
    let failure = refusal(one(), &Minds(false), book(&[("k", CANARY)])).await;
    assert!(failure.message.contains("is given no secrets"), "{failure:?}");
    let names: Vec<String> = (0..=SECRETS_MAX).map(|n| format!("k{n}")).collect();
    let places: Vec<(usize, &str)> = names.iter().map(|name| (6, name.as_str())).collect();
    let failure = refusal(task(config, &places), &Minds(true), Arc::new(NoSecrets)).await;
    assert!(failure.message.contains("may use 16 secrets, not 17"), "{failure:?}");
    let long = "x".repeat(SECRET_BYTES_MAX);
    let many = vec![(6, "k"); PAYLOAD_BYTES_MAX / SECRET_BYTES_MAX + 1];
    let failure = refusal(task(config, &many), &Minds(true), book(&[("k", &long)])).await;
    assert_eq!(failure.kind, "too_large");
    let nowhere = task(config, &[(600, "k")]);
    assert_eq!(refusal(nowhere, &Minds(true), book(&[("k", CANARY)])).await.kind, "secret");
}

/// The upper case of a value, percent-encoded.
fn percent_upper(value: &str) -> String {
    value.to_uppercase().bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// A value as the world may spell it.
fn spellings(value: &str) -> Vec<String> {
    let hex = |byte: u8| format!("{byte:02x}");
    let lower: String = value.bytes().map(hex).collect();
    let percent: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let component: String = value
        .bytes()
        .map(|byte| match byte {
            b if b.is_ascii_alphanumeric() || b"-_.~".contains(&b) => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect();
    let ascii: String = value.encode_utf16().map(|unit| format!("\\u{unit:04X}")).collect();
    let quoted = serde_json::Value::from(value).to_string();
    let html = |char: char| match char {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        '"' => "&quot;".to_owned(),
        '\'' => "&#39;".to_owned(),
        'á' => "&aacute;".to_owned(),
        other => other.to_string(),
    };
    let html: String = value.chars().map(html).collect();
    let decimal: String = value.chars().map(|char| format!("&#{};", u32::from(char))).collect();
    let open: String = value.chars().map(|char| format!("&#{:07}", u32::from(char))).collect();
    let hexadecimal = |char: char| format!("&#x{:x};", u32::from(char));
    let hexadecimal: String = value.chars().map(hexadecimal).collect();
    let braces: String =
        value.chars().map(|char| format!("\\u{{{:x}}}", u32::from(char))).collect();
    let bytes: String = value.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    let folded_hex = lower.as_bytes().chunks(6).map(String::from_utf8_lossy);
    let folded_hex = folded_hex.collect::<Vec<_>>().join("\n");
    let mut spellings = vec![
        value.to_uppercase(),
        value.to_lowercase(),
        value.nfc().collect(),
        value.nfd().collect(),
        value.nfd().collect::<String>().to_uppercase(),
        html.to_uppercase(),
        html,
        decimal,
        open,
        hexadecimal.to_uppercase(),
        hexadecimal,
        braces,
        bytes,
        percent_upper(value),
        folded_hex,
        value.to_owned(),
        value.to_ascii_uppercase(),
        value.chars().rev().collect(),
        lower.to_uppercase(),
        lower,
        percent.to_lowercase(),
        percent,
        component.replace("%20", "+"),
        component,
        quoted.replace('/', "\\/"),
        ascii,
        quoted,
    ];
    for before in ["", "u", "user", "user:"] {
        for after in ["", "z", "zz", " and more"] {
            let text = format!("{before}{value}{after}");
            let wrapped = STANDARD.encode(&text);
            let lines = wrapped.as_bytes().chunks(8).map(String::from_utf8_lossy);
            spellings.push(lines.collect::<Vec<_>>().join("\r\n"));
            spellings.push(STANDARD.encode(&text));
            spellings.push(URL_SAFE_NO_PAD.encode(&text));
        }
    }
    spellings
}

#[test]
fn every_form_is_found_wherever_it_stands() {
    for value in [
        CANARY,
        "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
        "abcd",
        "pass word+𝄞",
        "-----\nline\r\n",
        "schlüssel-straße",
        "ΚΛΕΙΔΊ-σοφός",
        "пароль<&>'\"",
        "Nai\u{308}ve-Cle\u{301}",
        "ŉﬁǅİı-x",
    ] {
        let scrubber = Scrubber::new([value].into_iter());
        for spelling in spellings(value) {
            for text in [spelling.clone(), format!("a {spelling} b {spelling}")] {
                let found = scrubber.text(&text).unwrap_or_else(|| panic!("{text:?} was kept"));
                assert!(!found.contains(&spelling), "{text:?} became {found:?}");
                let tree = serde_json::json!({"k": [text, {text.as_str(): 1}]});
                let json = scrubber.json(&Json::from_value(&tree));
                let again = scrubber.json(&json);
                assert_eq!(json, again, "{text:?} is found in what was scrubbed");
                assert!(json.text().matches("***").count() >= 2, "{json}");
            }
        }
    }
}

#[test]
fn scrubber_reads_json_strings_as_decoded_text() {
    let scrubber = Scrubber::new(["canary", "123456"].into_iter());
    for (before, after) in [
        (r#"{"a":"\u0063an\u0061ry!"}"#, r#"{"a":"***!"}"#),
        (r#"["x\"canary\\"]"#, r#"["x\"***\\"]"#),
        (
            r#"{"canary":true,"n":123456,"m":-123456.5e3}"#,
            r#"{"***":true,"n":"***","m":"-***.5e3"}"#,
        ),
        (r#"["cana","ry"]"#, r#"["***","ry"]"#),
        ("[1234,3456]", ""),
        (r#"{ "big":1e400, "n":9007199254740993, "t":"can ary" }"#, ""),
        ("\"\"", ""),
        ("null", ""),
    ] {
        let expected = if after.is_empty() { before } else { after };
        assert_eq!(scrubber.json(&Json::parse(before).unwrap()).text(), expected);
    }
}

#[test]
fn a_secret_that_was_cut_off_is_found_too() {
    let scrubber = Scrubber::new(["sk_live_4eC39Häq"].into_iter());
    for (before, after) in [
        ("the key is sk_live_4eC3", "the key is ***"),
        ("the key is sk_l", "the key is ***"),
        ("the key is sk_", "the key is sk_"),
        ("4eC39Häq was the key", "*** was the key"),
        ("cut in a letter: sk_live_4eC39H\u{fffd}", "cut in a letter: ***\u{fffd}"),
        ("\u{fffd}9Häq was the key", "\u{fffd}*** was the key"),
        ("sk_live is not the key", "sk_live is not the key"),
    ] {
        assert_eq!(scrubber.text(before).unwrap_or_else(|| before.to_owned()), after);
    }
}

#[test]
fn all_of_an_outcome_is_scrubbed() {
    let scrubber = Scrubber::new(["canary"].into_iter());
    let json = || Json::parse(r#"{"a":"canary"}"#).unwrap();
    let failure = || Failure {
        status: Some(500),
        retryable: true,
        details: Some(json()),
        ..Failure::permanent("canary".to_owned(), "no canary")
    };
    for outcome in [
        Outcome::Completed(json()),
        Outcome::Checkpoint(json().into()),
        Outcome::Failed(failure()),
        Outcome::Lost(failure()),
    ] {
        let scrubbed = scrubber.outcome(outcome);
        let shown = format!("{scrubbed:?}");
        assert!(!shown.contains("canary") && shown.contains("***"), "{shown}");
        if let Outcome::Failed(failure) = scrubbed {
            assert_eq!((failure.status, failure.retryable), (Some(500), true));
        }
    }
}

#[test]
fn scrubber_keeps_the_failure_kinds_of_the_engine() {
    let scrubber = Scrubber::new(["connection"].into_iter());
    let failure = Failure::transient(kind::CONNECTION, "connection refused");
    let Outcome::Failed(scrubbed) = scrubber.outcome(Outcome::Failed(failure)) else { panic!() };
    assert_eq!((&*scrubbed.kind, &*scrubbed.message), (kind::CONNECTION, "*** refused"));
}

/// The largest secrets in the largest output: the cost must not depend on the content.
#[test]
fn the_worst_output_does_not_take_for_ever() {
    let value = "a".repeat(20_000) + "b";
    let scrubber = Scrubber::new([value.as_str()].into_iter());
    let near = serde_json::json!("a".repeat(500_000));
    let scrubbed = scrubber.json(&Json::from_value(&near));
    assert!(scrubbed.bytes() < 490_000, "the beginning of the secret is at the end");
    let many = serde_json::json!(vec!["a".repeat(16); 20_000]);
    assert!(!scrubber.json(&Json::from_value(&many)).text().contains("aa"));
}
