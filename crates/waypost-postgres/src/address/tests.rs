use super::*;

fn refusal(url: &str) -> String {
    match Address::parse(url) {
        Err(StoreError::Refused(why)) => why,
        other => panic!("{url}: {other:?}"),
    }
}

#[test]
fn urls_are_read() {
    for (url, tls) in [
        ("postgres://ann:secret@db.example.com:5433/orders?sslmode=disable", false),
        ("postgresql://ann@127.0.0.1/orders", true),
        ("postgres://ann@localhost/orders?sslmode=require", true),
        ("postgres://ann@[::1]/orders?sslmode=prefer", true),
        ("postgres://ann@127.0.0.1/orders?sslmode=disable&connect_timeout=3", false),
    ] {
        let address = Address::parse(url).unwrap();
        assert_eq!(address.tls.is_some(), tls, "{url}");
        assert_eq!(address.config.get_dbname(), Some("orders"));
    }
}

#[test]
fn secrets_are_not_printed() {
    let address = Address::parse("postgres://ann:hunter2@db.example.com/orders?sslmode=disable");
    let address = address.unwrap();
    assert_eq!(address.config.get_password(), Some(b"hunter2".as_slice()));
    assert_eq!(format!("{address:?}"), "db.example.com/orders");
    for url in ["postgres://ann:hunter2@db:port/x", "mysql://ann:hunter2@db/x"] {
        assert!(!refusal(url).contains("hunter2"));
    }
    assert!(!refusal("postgres://ann:hunter2@db/x?nonsense=1").contains("hunter2"));
}

#[test]
fn modes_that_are_not_known_are_refused() {
    assert!(refusal("postgres://db/x?sslmode=verify-ca").contains("verify-full"));
    assert!(
        refusal("postgres://db/x?sslmode=verify-full&sslrootcert=/no/file").contains("/no/file")
    );
}

#[test]
fn only_this_machine_need_not_prove_itself() {
    for (host, here) in [
        ("localhost", true),
        ("127.0.0.1", true),
        ("127.8.9.1", true),
        ("::1", true),
        ("10.0.0.1", false),
        ("localhost.example.com", false),
    ] {
        assert_eq!(is_here(&Host::Tcp(host.to_owned())), here, "{host}");
    }
}
