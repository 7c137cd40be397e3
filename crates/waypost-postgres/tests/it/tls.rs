//! Through TLS: to a server with a certificate that is trusted, and to no other where that was asked for.

use uuid::Uuid;
use waypost_core::id::InstanceId;
use waypost_ports::store::{About, Heartbeat, LEASE, Store, StoreError};
use waypost_postgres::{Options, PostgresStore};
use waypost_testbed::postgres::{Durability, Postgres};

#[test]
fn a_server_is_talked_to_through_tls_and_only_where_it_is_trusted() {
    let postgres = Postgres::start(Durability::None);
    let certificate = postgres.speak_tls();
    let database = postgres.database();
    let url = |options: &str| database.replace("sslmode=disable", options);
    let trusting = format!("sslmode=verify-full&sslrootcert={}", certificate.display());

    for options in ["sslmode=require", &trusting] {
        let store = PostgresStore::open(&url(options), Options::default()).unwrap();
        let instance = InstanceId(Uuid::from_u128(1));
        let (lease, about) = (Some(LEASE), About::default());
        let beat = Heartbeat { instance, numbers: 1, fold: 1, lease, about };
        store.heartbeat(&beat).unwrap();
        let plain = "SELECT count(*) FILTER (WHERE NOT s.ssl) || ' of ' || (count(*) > 0)::text \
                     FROM pg_stat_ssl AS s JOIN pg_stat_activity AS a USING (pid) \
                     WHERE a.application_name LIKE 'waypost/%'";
        assert_eq!(postgres.sql("postgres", plain), "0 of true", "{options}");
    }

    // One that no authority has signed.
    let refused = PostgresStore::open(&url("sslmode=verify-full"), Options::default()).err();
    let text = refused.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(refused, Some(StoreError::Unavailable(_))), "{text}");
    assert!(text.to_lowercase().contains("certificate"), "{text}");
}
