//! Which sources can be written, and who may read what of them.

use waypost_core::trigger::{RowMark, TableName, TableSafety};

use super::*;

const SETTINGS: &str = "
    [shop]
    kind = \"redis\"
    url = \"env:SHOP\"
    streams = [\"orders\", \"returns-*\"]
    workflows = [\"fulfil\"]
    [erp]
    kind = \"postgres\"
    url = \"postgres://reader@db.example/erp\"
    tables = [\"orders\", \"sales.*\"]
    workflows = [\"*\"]
";

fn read(text: &str) -> Result<Sources> {
    Sources::read(toml::Value::Table(text.parse().unwrap()))
}

fn redis(source: &str, stream: &str) -> StreamSource {
    StreamSource::Redis { source: source.into(), stream: stream.into() }
}

fn postgres(source: &str, table: &str) -> StreamSource {
    StreamSource::Postgres {
        source: source.into(),
        table: TableName::parse(table).unwrap(),
        key: "id".into(),
        safety: TableSafety::Mark { mark: RowMark::Delete, order: None },
    }
}

#[test]
fn workflow_reads_what_it_is_granted_and_nothing_else() {
    let sources = read(SETTINGS).unwrap().with_own_prefix("returns-own".to_owned());
    let check = |workflow, source: &StreamSource| sources.check(workflow, source, true);
    for source in [
        redis("shop", "orders"),
        redis("shop", "returns-eu"),
        postgres("erp", "orders"),
        postgres("erp", "sales.items"),
    ] {
        assert_eq!(check("fulfil", &source), None, "{source:?}");
    }
    for (workflow, source, part) in [
        ("fulfil", redis("stock", "orders"), "no source \"stock\""),
        ("other", redis("shop", "orders"), "\"other\" may not read"),
        ("fulfil", redis("shop", "payments"), "\"payments\" may not be read"),
        ("fulfil", redis("shop", "returns-own:tasks"), "Waypost's own"),
        ("fulfil", redis("erp", "orders"), "of kind postgres"),
        ("fulfil", postgres("shop", "orders"), "of kind redis"),
        ("fulfil", postgres("erp", "other.orders"), "\"other.orders\" may not be read"),
        ("fulfil", postgres("erp", "items"), "\"public.items\" may not be read"),
    ] {
        let fault = check(workflow, &source).unwrap();
        assert!(fault.message.contains(part), "{}", fault.message);
        assert_eq!(fault.severity, Severity::Error);
    }
    // A server that fires no triggers need not know the sources of those that do.
    let unknown = sources.check("fulfil", &redis("stock", "orders"), false).unwrap();
    assert_eq!(unknown.severity, Severity::Warning);
    let known = sources.check("other", &redis("shop", "orders"), false).unwrap();
    assert_eq!(known.severity, Severity::Error);
}

#[test]
fn source_that_cannot_be_is_refused_without_its_password() {
    let table = |rest: &str| format!("[a]\nworkflows = [\"*\"]\n{rest}");
    for (text, part) in [
        ("[\"a b\"]\nkind = \"redis\"".to_owned(), "its name must be"),
        (table("kind = \"kafka\"\nurl = \"canary\""), "unknown variant"),
        (table("kind = \"redis\"\nurl = \"env:A\""), "has `streams`"),
        (table("kind = \"postgres\"\nurl = \"env:A\"\nstreams = [\"a\"]"), "has `tables`"),
        (table("kind = \"redis\"\nurl = \"redis://u:canary@h\"\nstreams = [\"a\"]"), "a password"),
        (table("kind = \"redis\"\nurl = \"canary\"\nstreams = [\"a\"]"), "a password"),
        (table("kind = \"redis\"\nurl = \"file:relative\"\nstreams = [\"a\"]"), "absolute"),
        (table("kind = \"redis\"\nurl = \"env:A\"\nstreams = [\"a*b\"]"), "only at its end"),
        (
            "[a]\nkind = \"redis\"\nurl = \"env:A\"\nstreams = [\"a\"]\nworkflows = []".to_owned(),
            "who may",
        ),
        ("a = \"canary\"".to_owned(), "give a table"),
    ] {
        let error = format!("{:#}", read(&text).unwrap_err());
        assert!(error.contains(part) && !error.contains("canary"), "{text}: {error}");
    }
}

#[test]
fn source_is_described_without_its_password() {
    let sources = read(SETTINGS).unwrap();
    let described: Vec<String> = sources.described().map(|(_, text)| text).collect();
    assert_eq!(
        described,
        [
            "postgres postgres://reader@db.example/erp: public.orders, sales.* for *",
            "redis env:SHOP: orders, returns-* for fulfil",
        ]
    );
}
