//! Processes beside the engine's: they read, and deliver mail.

use waypost_core::command::Request;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::access::{Access, NewKey, Role};
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{
    Append, Appended, ClaimRequest, Mail, MailDelivery, MailOf, Share, Store, StoreError,
};
use waypost_sqlite::{Options, SqliteStore};

use crate::workload::{self, Chain, INSTANCE};

#[test]
fn mail_from_a_guest_reaches_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    let mut chains: Vec<_> =
        workload::numbers(&engine, 2).map(|number| Chain::new(number, 5)).collect();
    let batch: Vec<_> = chains.iter_mut().filter_map(Chain::next).collect();
    engine.append(&batch).unwrap();
    engine.append(&[chains[1].park(Some(Timestamp(i64::MAX)))]).unwrap();
    assert_eq!(engine.collect(MailOf::Owner(INSTANCE, Share::ALL), 10).unwrap(), []);
    let mail: Vec<_> = chains
        .iter()
        .map(|chain| Mail {
            execution: chain.execution,
            message: "m1".into(),
            actor: Some("ann".into()),
            body: Request::Resume { reason: None }.into(),
            blobs: Vec::new(),
        })
        .collect();
    let deliveries = guest.deliver(&mail).unwrap();
    assert_eq!(deliveries[0], MailDelivery::Accepted { owner: Some(INSTANCE) });
    assert_eq!(deliveries[1], MailDelivery::Accepted { owner: None });
    assert_eq!(engine.collect(MailOf::Owner(INSTANCE, Share::ALL), 10).unwrap(), mail[..1]);
    let request = ClaimRequest {
        instance: INSTANCE,
        fold: 1,
        limit: 10,
        share: Share::ALL,
        only: None,
        held: None,
        suspects: true,
        ahead: Millis(0),
    };
    let claims = engine.claim(&request).unwrap();
    assert_eq!(claims.claimed[0].mail, mail[1..]);
    assert!(matches!(guest.claim(&request), Err(StoreError::Refused(_))));
    assert_eq!(guest.load(chains[0].execution).unwrap().unwrap().frames.len(), 1);
}

#[test]
fn frame_on_a_remembered_parent_is_fenced_by_a_frame_of_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    let other = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    let number = workload::numbers(&engine, 1).start;
    let mut chain = Chain::new(number, 5);
    let committed = |store: &SqliteStore, append: &Append| {
        let outcomes = store.append(std::slice::from_ref(append)).unwrap();
        matches!(outcomes[..], [Appended::Committed { .. }])
    };
    for _ in 0..2 {
        assert!(committed(&engine, &chain.next().unwrap()));
    }
    let theirs = chain.clone().next().unwrap();
    let ours = chain.next().unwrap();
    assert!(committed(&other, &theirs));
    assert!(!committed(&engine, &ours), "the engine remembers its parent, and its place is taken");
    assert!(!committed(&engine, &chain.next().unwrap()), "what follows it has no parent");
    assert!(committed(&engine, &theirs), "a repeat is answered as before");
    assert_eq!(engine.load(chain.execution).unwrap().unwrap().frames.len(), 3);
}

#[test]
fn guest_without_an_engine_projects_before_it_lists() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    workload::run(&engine, 20, 3, 4);
    engine.wait_projected().unwrap();
    let request = ListRequest { limit: 100, ..ListRequest::default() };
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    assert_eq!(guest.list(&request).unwrap().rows.len(), 20);
    let refused = guest.rebuild(&mut |_, _| {});
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    drop(engine);
    for suffix in ["", "-wal", "-shm"] {
        drop(std::fs::remove_file(folder.path().join(format!("projections.db{suffix}"))));
    }
    drop(guest);
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    assert_eq!(guest.lag().unwrap().frames, 60);
    let page = guest.list(&request).unwrap();
    assert_eq!((page.rows.len(), page.lag.frames), (20, 0));
    assert_eq!(guest.rebuild(&mut |_, _| {}).unwrap(), 60);
}

/// Somebody adds a key from the command line while the server runs.
#[test]
fn keys_from_a_guest_are_seen_by_the_engine() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    let (id, name) = ("k1".into(), "deploys".into());
    let key = NewKey { id, name, role: Role::Operator, digest: [1; 32] };
    guest.add_key(&key).unwrap();
    assert_eq!(engine.keys().unwrap()[0].key, key);
    assert!(engine.revoke_key("k1").unwrap());
    assert!(guest.keys().unwrap()[0].revoked_at.is_some());
}

/// The columns that say how far the rows go differ between layouts.
#[test]
fn rows_of_another_layout_count_as_none() {
    let folder = tempfile::tempdir().unwrap();
    let engine = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    workload::run(&engine, 2, 3, 2);
    engine.close().unwrap();
    let rows = rusqlite::Connection::open(folder.path().join("projections.db")).unwrap();
    rows.execute_batch("ALTER TABLE meta DROP COLUMN shown_at; PRAGMA user_version = 1").unwrap();
    drop(rows);
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    let lag = guest.lag().unwrap();
    assert_eq!((lag.frames, lag.as_of), (6, None));
    let page = guest.list(&ListRequest { limit: 9, ..ListRequest::default() }).unwrap();
    assert_eq!((page.rows.len(), page.lag.frames), (2, 0));
    assert!(guest.lag().unwrap().as_of.is_some());
}

#[test]
fn a_guest_makes_an_empty_store_where_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let guest = SqliteStore::open(&folder.path().join("new"), Options::guest()).unwrap();
    assert_eq!(guest.find(None).unwrap(), None);
    assert!(guest.list(&ListRequest::default()).unwrap().rows.is_empty());
}
