//! What happens to files: kills, damage, a full disk, a second engine.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use rusqlite::Connection;
use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::clock::{Clock, ManualClock};
use waypost_ports::query::{
    EventsRequest, FeedPosition, FeedRequest, ListRequest, Query, UNREADABLE,
};
use waypost_ports::store::{
    About, Appended, ClaimRequest, Heartbeat, LEASE, Mail, MailDelivery, MailOf, Share, Store,
    StoreError,
};
use waypost_sqlite::{Options, SqliteStore, engine_of, migrations};

use crate::workload::{self, Chain, INSTANCE};

fn open(folder: &Path) -> SqliteStore {
    SqliteStore::open(folder, Options::engine()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

fn commit(store: &SqliteStore, chain: &mut Chain) {
    let outcomes = store.append(&[chain.next().unwrap()]).unwrap();
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "{outcomes:?}");
}

#[test]
fn a_copy_of_open_files_has_everything_that_was_acknowledged() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path());
    let mut chain = Chain::new(workload::numbers(&store, 1).start, 1_000);
    for _ in 0..300 {
        commit(&store, &mut chain);
    }
    copy(folder.path(), other.path());
    commit(&store, &mut chain);
    let restored = open(other.path());
    assert_eq!(restored.load(chain.execution).unwrap().unwrap().frames.len(), 300);
    restored.wait_projected().unwrap();
    let page = restored.list(&ListRequest { limit: 1, ..ListRequest::default() }).unwrap();
    assert_eq!((page.rows[0].view.nodes_executed, page.lag.frames), (300, 0));
    assert_eq!(store.load(chain.execution).unwrap().unwrap().frames.len(), 301);
}

const CHILD: &str = "WAYPOST_TEST_APPENDING_CHILD";

/// Not a test by itself: the process that the next one kills.
#[test]
fn appends_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let store = open(Path::new(&folder));
    let mut chain = Chain::new(workload::numbers(&store, 1).start, u64::MAX);
    for acknowledged in 1.. {
        commit(&store, &mut chain);
        println!("acknowledged {acknowledged}");
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::appends_until_it_is_killed", "--nocapture"])
        .env(CHILD, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = 0;
    while acknowledged < 200 {
        let line = lines.next().unwrap().unwrap();
        if let Some((_, count)) = line.split_once("acknowledged ") {
            acknowledged = count.parse::<usize>().unwrap();
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let rest = lines.map_while(Result::ok).filter(|line| line.contains("acknowledged ")).count();
    let store = open(folder.path());
    let frames = store.load(ExecutionNo(1)).unwrap().unwrap().frames;
    assert!(frames.len() >= acknowledged + rest);
    assert!(frames.iter().all(|frame| frame.body.is_ok()));
    workload::numbers(&store, 0);
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
    assert_eq!(store.claim(&request).unwrap().claimed.len(), 1, "its owner is known to be dead");
}

#[test]
fn damaged_frame_flags_its_execution_only() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut chains: Vec<_> =
        workload::numbers(&store, 2).map(|number| Chain::new(number, 10)).collect();
    for _ in 0..3 {
        for chain in &mut chains {
            commit(&store, chain);
        }
    }
    store.close().unwrap();
    let raw = Connection::open(folder.path().join("log.db")).unwrap();
    let damage = "UPDATE frames SET body = x'00' WHERE execution = ?1 AND id > 2";
    assert_eq!(raw.execute(damage, [1]).unwrap(), 2);
    drop(raw);
    std::fs::remove_file(folder.path().join("projections.db")).unwrap();

    let store = open(folder.path());
    let damaged = store.load(chains[0].execution).unwrap().unwrap();
    let intact: Vec<bool> = damaged.frames.iter().map(|frame| frame.body.is_ok()).collect();
    assert_eq!(intact, [true, false, false]);
    assert!(damaged.frames[1].body.as_ref().unwrap_err().contains("checksum"));
    let kind = Some(UNREADABLE.to_owned());
    let request = EventsRequest { kind, ..EventsRequest::all(chains[0].execution) };
    assert_eq!(store.events(&request).unwrap().len(), 2);
    let all = FeedRequest { after: FeedPosition::default(), limit: 10 };
    let fed: Vec<bool> =
        store.feed(&all).unwrap().iter().map(|fed| fed.frame.body.is_ok()).collect();
    assert_eq!(fed, [true, true, false, true, false, true]);
    store.wait_projected().unwrap();
    assert_eq!(store.frames_skipped(), 2);
    let page = store.list(&ListRequest { limit: 10, ..ListRequest::default() }).unwrap();
    let nodes: Vec<u64> = page.rows.iter().map(|row| row.view.nodes_executed).collect();
    assert_eq!(nodes, [3, 1]);
    commit(&store, &mut chains[1]);
}

#[test]
fn second_engine_is_refused_and_the_error_names_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let error = SqliteStore::open(folder.path(), Options::engine()).err().unwrap();
    let StoreError::Refused(message) = error else { panic!("{error:?}") };
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains(&folder.path().display().to_string()), "{message}");
    let command = std::env::args().next().unwrap();
    assert!(message.contains(&command) && message.contains(", since 2"), "{message}");
    drop(first);
    drop(open(folder.path()));
}

#[test]
fn the_lock_says_where_the_server_of_a_folder_is() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(engine_of(folder.path()), None);
    assert!(!folder.path().join("lock").exists(), "a query leaves nothing behind");
    let address = Some("http://127.0.0.1:7070".to_owned());
    let options = Options { address: address.clone(), ..Options::engine() };
    let engine = SqliteStore::open(folder.path(), options).unwrap();
    let guest = SqliteStore::open(folder.path(), Options::guest()).unwrap();
    let process = engine_of(folder.path()).unwrap();
    assert_eq!(process.address, address);
    let description = Some(process.description);
    assert_eq!(
        [guest.engine_process(), engine.engine_process()],
        [description.clone(), description]
    );
    drop(engine);
    assert_eq!((guest.engine_process(), engine_of(folder.path())), (None, None), "it has ended");
    let engine = open(folder.path());
    assert_eq!(engine_of(folder.path()).unwrap().address, None, "one without a server");
    drop(engine);
    // As an older version wrote it, and as no version did.
    for (text, described) in
        [(r#"{"pid":7,"command":"waypost run","since":0}"#, "process 7"), ("{", "another process")]
    {
        let file = std::fs::File::create(folder.path().join("lock")).unwrap();
        file.lock().unwrap();
        std::fs::write(folder.path().join("lock"), text).unwrap();
        let process = engine_of(folder.path()).unwrap();
        assert!(process.description.contains(described), "{process:?}");
        assert_eq!(process.address, None);
    }
}

fn big_mail(execution: ExecutionNo, message: &str) -> Mail {
    let reason = Some("x".repeat(50_000));
    let body = Request::Cancel { reason };
    Mail { execution, message: message.into(), actor: None, body: body.into(), blobs: Vec::new() }
}

#[test]
fn a_full_disk_stops_appends_until_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { pages_max: Some(200), ..Options::engine() };
    let store = SqliteStore::open(folder.path(), options).unwrap();
    let mut chain = Chain::new(workload::numbers(&store, 1).start, u64::MAX);
    commit(&store, &mut chain);
    let full = (0..1_000)
        .find_map(|number| store.deliver(&[big_mail(chain.execution, &number.to_string())]).err());
    assert!(matches!(full, Some(StoreError::Full(_))), "{full:?}");
    let mut frames = 1;
    let mut refused = None;
    while refused.is_none() {
        let append = chain.next().unwrap();
        match store.append(std::slice::from_ref(&append)) {
            Ok(_) => frames += 1,
            Err(error) => refused = Some((error, append)),
        }
    }
    let (error, append) = refused.unwrap();
    assert!(matches!(error, StoreError::Full(_)), "{error:?}");
    assert_eq!(store.load(chain.execution).unwrap().unwrap().frames.len(), frames);

    let raw = Connection::open(folder.path().join("log.db")).unwrap();
    raw.execute("DELETE FROM inbox", []).unwrap();
    let outcomes = store.append(&[append]).unwrap();
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "the identical batch goes in now");
    commit(&store, &mut chain);
    let delivery = store.deliver(&[big_mail(chain.execution, "again")]).unwrap();
    assert!(matches!(&delivery[0], MailDelivery::Accepted { .. }));
}

#[test]
fn a_frame_that_is_too_big_is_poisoned_alone() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut chains: Vec<_> =
        workload::numbers(&store, 3).map(|number| Chain::new(number, 10)).collect();
    let mut batch: Vec<_> = chains.iter_mut().filter_map(Chain::next).collect();
    batch[1].header.last_seq = u64::MAX;
    let outcomes = store.append(&batch).unwrap();
    assert!(matches!(&outcomes[0], Appended::Committed { .. }), "{outcomes:?}");
    assert!(matches!(&outcomes[1], Appended::Poisoned { .. }), "{outcomes:?}");
    assert!(matches!(&outcomes[2], Appended::Committed { .. }), "{outcomes:?}");
    assert!(store.load(chains[1].execution).unwrap().is_none());
    assert_eq!(store.find(Some(&batch[1].side.submission.as_ref().unwrap().key.0)).unwrap(), None);
}

#[test]
fn a_newer_layout_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    assert_eq!(migrations(folder.path()).unwrap().pending, []);
    let raw = Connection::open(folder.path().join("log.db")).unwrap();
    raw.execute("INSERT INTO migrations VALUES (99, 'future', '')", []).unwrap();
    drop(raw);
    let error = SqliteStore::open(folder.path(), Options::engine()).err().unwrap();
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("layout 99")), "{error}");
}

#[test]
fn a_clean_close_empties_the_wal() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    workload::run(&store, 10, 3, 10);
    store.wait_projected().unwrap();
    store.close().unwrap();
    for file in ["log.db-wal", "projections.db-wal"] {
        let bytes = std::fs::metadata(folder.path().join(file)).map_or(0, |meta| meta.len());
        assert_eq!(bytes, 0, "{file}");
    }
}

#[test]
fn wal_is_checkpointed_during_appends() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut chain = Chain::new(1, 1_000);
    let copied = || std::fs::metadata(folder.path().join("log.db")).unwrap().len() > 16 << 20;
    let mut appends = 0;
    while !copied() {
        let mut append = chain.next().unwrap();
        append.body = vec![b'x'; 256 << 10];
        store.append(&[append]).unwrap();
        appends += 1;
        assert!(appends < 900, "225 MiB are in the WAL, and none of it in the log's file");
    }
}

#[test]
fn numbers_are_not_given_back_by_a_kill() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(folder.path());
    let heartbeat = Heartbeat {
        instance: INSTANCE,
        numbers: 100,
        fold: 1,
        lease: Some(LEASE),
        about: About::default(),
    };
    let reserved = store.heartbeat(&heartbeat).unwrap().numbers;
    copy(folder.path(), other.path());
    let restored = open(other.path());
    assert_eq!(restored.heartbeat(&heartbeat).unwrap().numbers.start, reserved.end);
}

/// The claim is made when the rows are read: one that cannot be must not keep the others from
/// being handed out, now and with every claim that follows.
#[test]
fn unreadable_execution_is_claimed_as_damaged_and_blocks_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut chains: Vec<_> =
        workload::numbers(&store, 3).map(|number| Chain::new(number, 10)).collect();
    for chain in &mut chains {
        commit(&store, chain);
        store.append(&[chain.park(Some(Timestamp(0)))]).unwrap();
    }
    let raw = Connection::open(folder.path().join("log.db")).unwrap();
    let damage = "UPDATE frames SET append_id = x'00' WHERE execution = ?1";
    assert!(raw.execute(damage, [chains[1].execution.0]).unwrap() > 0);
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
    let claims = store.claim(&request).unwrap();
    let intact = |frames: &[waypost_ports::store::StoredFrame]| {
        frames.iter().all(|frame| frame.body.is_ok())
    };
    let all = FeedRequest { after: FeedPosition::default(), limit: 10 };
    let fed = store.feed(&all).unwrap();
    let unreadable = fed.iter().filter(|fed| fed.frame.body.is_err()).count();
    assert_eq!((fed.len(), unreadable), (6, 2), "the feed gets past them, too");
    let handed: Vec<_> =
        claims.claimed.iter().map(|found| (found.execution, intact(&found.frames))).collect();
    let expected: Vec<_> = chains.iter().zip([true, false, true]).collect();
    assert_eq!(handed, expected.iter().map(|(c, ok)| (c.execution, *ok)).collect::<Vec<_>>());
}

/// Mail that cannot be read, as a newer version may leave it, concerns its addressee alone.
#[test]
fn unreadable_mail_does_not_block_other_mail() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let mut chains: Vec<_> =
        workload::numbers(&store, 2).map(|number| Chain::new(number, 10)).collect();
    for chain in &mut chains {
        commit(&store, chain);
        store.deliver(&[big_mail(chain.execution, "m1")]).unwrap();
    }
    let raw = Connection::open(folder.path().join("log.db")).unwrap();
    let spoil = "UPDATE inbox SET body = '\"unknown kind\"' WHERE execution = ?1";
    assert_eq!(raw.execute(spoil, [chains[0].execution.0]).unwrap(), 1);
    let collected = store.collect(MailOf::Owner(INSTANCE, Share::ALL), 10).unwrap();
    assert_eq!(collected.len(), 1);
    assert_eq!(collected[0].execution, chains[1].execution);
}

/// A store that waited for a clock that was set back to catch up would make every wait do so.
#[test]
fn time_continues_when_the_clock_is_set_back() {
    let folder = tempfile::tempdir().unwrap();
    let start = Timestamp(1_780_000_000_000);
    let clock = Arc::new(ManualClock::at(start));
    let shared = Arc::clone(&clock) as Arc<dyn Clock>;
    let store =
        SqliteStore::open(folder.path(), Options { clock: shared, ..Options::engine() }).unwrap();
    let heartbeat = Heartbeat {
        instance: INSTANCE,
        numbers: 1,
        fold: 1,
        lease: Some(LEASE),
        about: About::default(),
    };
    let now = |store: &SqliteStore| store.heartbeat(&heartbeat).unwrap().now;
    assert_eq!(now(&store), start);
    clock.set(Timestamp(start.0 - 7_200_000));
    assert_eq!(now(&store), start, "it does not go back");
    clock.advance(Millis(1_500));
    assert_eq!(now(&store), start.plus(Millis(1_500)), "and does not stand still");
    clock.set(start.plus(Millis(60_000)));
    assert!(now(&store) >= start.plus(Millis(60_000)));
}
