//! Secrets in a settings file, valid and invalid.

use waypost_ports::secret::{SECRET_BYTES_MAX, Target};

use super::*;

fn read(table: &str) -> Result<GrantedSecrets> {
    let mut file: toml::Table = table.parse().unwrap();
    GrantedSecrets::read(file.remove("secrets").unwrap())
}

fn environment(name: &str) -> Option<OsString> {
    match name {
        "KEY" => Some("canary-1\n".into()),
        "SHORT" => Some("abc".into()),
        _ => None,
    }
}

fn resolve(table: &str, name: &str, workflow: &str) -> Result<Grant, String> {
    let secrets = GrantedSecrets { environment, ..read(table).unwrap() };
    secrets.resolve(name, workflow).map_err(|refused| refused.to_string())
}

#[test]
fn a_secret_is_granted_to_workflows_for_hosts_and_commands() {
    let table = r#"
        [secrets.stripe]
        from = "env:KEY"
        workflows = ["orders", "billing-*"]
        hosts = ["api.stripe.com", "*.stripe.com:8443"]
        [secrets.shell]
        from = "env:KEY"
        workflows = ["*"]
        shell = true
    "#;
    let grant = resolve(table, "stripe", "orders").unwrap();
    assert_eq!(grant.value.reveal(), "canary-1\n", "a variable is taken as it is");
    assert!(!grant.shell);
    let allows = |host, port| grant.allows(&Target { host, port, https: true });
    assert!(allows("api.stripe.com", 443) && allows("x.stripe.com", 8443));
    assert!(!allows("api.stripe.com.evil.example", 443));
    assert!(resolve(table, "stripe", "billing-2").is_ok());
    let grant = resolve(table, "shell", "whatever").unwrap();
    assert!(grant.shell && grant.hosts.is_empty());
    for workflow in ["order", "orders2", "billing", ""] {
        let refused = resolve(table, "stripe", workflow).unwrap_err();
        assert_eq!(refused, format!("secret `stripe` is not granted to workflow `{workflow}`"));
    }
    let unknown = resolve(table, "other", "orders").unwrap_err();
    for part in ["there is no secret `other` here", "[secrets.other]", "env:", "waypost config"] {
        assert!(unknown.contains(part), "{part}: {unknown}");
    }
}

#[test]
fn secret_for_workers_names_handlers_and_keys() {
    let table = r#"
        [secrets.one]
        from = "env:KEY"
        workflows = ["*"]
        workers = ["charge", "billing-*"]
        worker_keys = ["farm"]
        [secrets.two]
        from = "env:KEY"
        workflows = ["*"]
        workers = ["charge"]
    "#;
    let one = resolve(table, "one", "orders").unwrap().workers;
    for (handler, key, allowed) in [
        ("charge", Some("farm"), true),
        ("billing-2", Some("farm"), true),
        ("charges", Some("farm"), false),
        ("charge", Some("other"), false),
        ("charge", None, false),
    ] {
        assert_eq!(one.serve(handler) && one.poll_with(key), allowed, "{handler} {key:?}");
    }
    let two = resolve(table, "two", "orders").unwrap().workers;
    assert!(two.serve("charge") && two.poll_with(None) && two.poll_with(Some("any")));
    assert!(!two.serve("refund"));
    let secrets = read(table).unwrap();
    let shown: Vec<_> = secrets.described().map(|(_, words)| words).collect();
    assert_eq!(
        shown,
        [
            "env:KEY for * to workers of charge, billing-* with key farm",
            "env:KEY for * to workers of charge"
        ]
    );
}

#[test]
fn a_file_is_read_at_every_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let table = format!(
        "[secrets.key]\nfrom = \"file:{}\"\nworkflows = [\"a\"]\nshell = true",
        path.display()
    );
    let value = || resolve(&table, "key", "a").map(|grant| grant.value.reveal().to_owned());
    let refused = |reason: &str| Err(format!("secret `key` cannot be used: {reason}"));
    assert_eq!(value(), refused("its file: entity not found"));
    for (content, expected) in [
        ("first\n", Ok("first".to_owned())),
        ("second\r\n", Ok("second".to_owned())),
        ("third\n\n", Ok("third\n".to_owned())),
        ("abc\n", refused("it is too short to be kept secret: it needs at least 4 characters")),
        ("", refused("it is too short to be kept secret: it needs at least 4 characters")),
    ] {
        std::fs::write(&path, content).unwrap();
        assert_eq!(value(), expected, "{content:?}");
    }
    std::fs::write(&path, "x".repeat(SECRET_BYTES_MAX) + "\n").unwrap();
    assert!(value().is_ok());
    std::fs::write(&path, "x".repeat(SECRET_BYTES_MAX + 1)).unwrap();
    assert_eq!(value(), refused("it has more than 65536 bytes"));
    std::fs::write(&path, b"can\xffary").unwrap();
    assert_eq!(value(), refused("it is not UTF-8"));
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert_eq!(value(), refused("its file: not a regular file"));
    let of_variable = |name: &str| {
        let table =
            format!("[secrets.key]\nfrom = \"env:{name}\"\nworkflows = [\"a\"]\nshell = true");
        resolve(&table, "key", "a").map(|_| ())
    };
    assert!(of_variable("NONE").unwrap_err().contains("variable is not set"));
    assert!(of_variable("SHORT").unwrap_err().contains("too short"));
}

#[test]
fn mistakes_are_named_and_no_value_is_repeated() {
    let with = |line: &str| {
        format!(
            "[secrets.key]\nfrom = \"env:KEY\"\nworkflows = [\"a\"]\nhosts = [\"a.test\"]\n{line}"
        )
    };
    for (table, part) in [
        ("secrets = 'canary'".to_owned(), "must be a table"),
        ("[secrets]\nkey = 'canary'".to_owned(), "give a table with `from`"),
        (
            "[secrets.key]\nfrom = 'canary'\nworkflows = ['a']\nshell = true".to_owned(),
            "not the place",
        ),
        (
            "[secrets.key]\nfrom = 'vault:canary'\nworkflows = ['a']\nshell = true".to_owned(),
            "env:VARIABLE",
        ),
        (
            "[secrets.key]\nfrom = 'env:'\nworkflows = ['a']\nshell = true".to_owned(),
            "env:VARIABLE",
        ),
        (
            "[secrets.key]\nfrom = 'file:canary'\nworkflows = ['a']\nshell = true".to_owned(),
            "absolute",
        ),
        (
            "[secrets.key]\nfrom = 'env:KEY'\nworkflows = ['a']".to_owned(),
            "neither `hosts` nor `shell` nor `workers`",
        ),
        ("[secrets.key]\nfrom = 'env:KEY'\nshell = true".to_owned(), "missing field `workflows`"),
        (
            "[secrets.key]\nfrom = 'env:KEY'\nworkflows = []\nshell = true".to_owned(),
            "who may use it",
        ),
        (
            "[secrets.key]\nfrom = 'env:KEY'\nworkflows = ['a*b']\nshell = true".to_owned(),
            "only at its end",
        ),
        (
            "[secrets.1key]\nfrom = 'env:KEY'\nworkflows = ['a']\nshell = true".to_owned(),
            "begin with a digit",
        ),
        (
            "[secrets.a-b]\nfrom = 'env:KEY'\nworkflows = ['a']\nshell = true".to_owned(),
            "letters, digits",
        ),
        (
            "[secrets.key]\nfrom = 'env:KEY'\nworkflows = ['a']\nhosts = ['https://a.test']"
                .to_owned(),
            "not a URL",
        ),
        (with("host = ['b.test']"), "unknown field `host`"),
        (with("shell = 'yes'"), "expected a boolean"),
        (with("workers = ['a*b']"), "not a handler's name"),
        (with("worker_keys = ['farm']"), "`worker_keys` limits `workers`"),
    ] {
        let error = format!("{:#}", read(&table).unwrap_err());
        assert!(error.contains(part), "{table}\n{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}

#[test]
fn grants_are_shown_in_words() {
    let table = "[secrets.key]\nfrom = 'env:KEY'\nworkflows = ['a', 'b-*']\nshell = true\n\
                 hosts = ['API.test', 'http://b.test:80']";
    let secrets = read(table).unwrap();
    let shown: Vec<_> = secrets.described().collect();
    let words = "env:KEY for a, b-* to api.test, http://b.test:80, shell".to_owned();
    assert_eq!(shown, [("key", words)]);
}
