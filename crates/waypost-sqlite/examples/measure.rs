//! Measures the store: `cargo run --release -p waypost-sqlite --example measure [folder] [part]`.
//!
//! Appends 256 interleaved chains, the same frames once more as bare inserts into a table of the same
//! shape, then projects, claims and weighs what is on disk.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a program for people to run by hand"
)]

#[path = "../tests/it/workload.rs"]
mod workload;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use waypost_core::time::{Millis, Timestamp};
use waypost_ports::query::{ListRequest, Query};
use waypost_ports::store::{Append, ClaimRequest, MailOf, Share, Store};
use waypost_sqlite::{Options, SqliteStore};
use workload::{Chain, INSTANCE};

const EXECUTIONS: u32 = 50_000;
const NODES: u64 = 10;
const WIDTH: usize = 256;

fn main() {
    let given = std::env::args().nth(1).map(PathBuf::from);
    let folder = given.unwrap_or_else(|| std::env::temp_dir().join("waypost-measure"));
    let only = std::env::args().nth(2);
    let wanted = |what: &str| only.as_deref().is_none_or(|only| only == what);
    if wanted("bare") {
        bare_loop(&folder);
    }
    if wanted("append") {
        for page_bytes in [4096, 8192] {
            append_and_project(&folder, page_bytes);
        }
    }
    if wanted("single") {
        one_at_a_time(&folder);
    }
    if wanted("claim") {
        claim(&folder);
    }
    drop(std::fs::remove_dir_all(&folder));
}

fn fresh(folder: &Path) {
    drop(std::fs::remove_dir_all(folder));
    std::fs::create_dir_all(folder).unwrap();
}

fn rate(what: &str, count: u64, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!("{what:<44} {rate:>10.0} /s   ({count} in {:.2} s)", took.as_secs_f64());
}

/// What the disk and SQLite allow: the same rows and commits, and nothing else.
fn bare_loop(folder: &Path) {
    fresh(folder);
    let connection = Connection::open(folder.join("bare.db")).unwrap();
    let setup = "PRAGMA page_size = 8192; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
        PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -64000;
        CREATE TABLE frames (id INTEGER PRIMARY KEY, execution INTEGER, first_seq INTEGER,
            append_id BLOB, at INTEGER, body BLOB);
        CREATE UNIQUE INDEX by_execution ON frames (execution, first_seq);";
    connection.execute_batch(setup).unwrap();
    let insert = "INSERT INTO frames (execution, first_seq, append_id, at, body)
        VALUES (?1, ?2, ?3, ?4, ?5)";
    let mut insert = connection.prepare(insert).unwrap();
    let (id, body) = ([7u8; 16], [b'x'; 165]);
    let (started, before) = (Instant::now(), workload::cpu());
    let mut frames = 0;
    for round in 0..i64::from(EXECUTIONS) * 10 / 256 {
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for lane in 0..256 {
            let (execution, seq) = (round / 10 * 256 + lane, round % 10 * 3 + 1);
            let at = 1_790_000_000_000_i64;
            insert.execute(params![execution, seq, id, at, body]).unwrap();
            frames += 1;
        }
        connection.execute_batch("COMMIT").unwrap();
    }
    rate("bare inserts, 256 a commit", frames, started.elapsed());
    rate("… by time on the processor", frames, workload::cpu() - before);
}

fn append_and_project(folder: &Path, page_bytes: u32) {
    fresh(folder);
    let store = SqliteStore::open(folder, Options { page_bytes, ..Options::engine() }).unwrap();
    store.define(&workload::definition(NODES)).unwrap();
    let started = Instant::now();
    let ran = workload::run(&store, EXECUTIONS, NODES, WIDTH);
    let frames = ran.frames;
    rate(&format!("append, 256 a commit, pages of {page_bytes}"), frames, ran.appending);
    rate("… by time on the processor", frames, ran.appending_cpu);
    store.wait_projected().unwrap();
    rate("… made, appended and projected", frames, started.elapsed());

    let (started, before) = (Instant::now(), workload::cpu());
    let rebuilt = store.rebuild(&mut |_, _| {}).unwrap();
    rate("projector alone (node rows)", rebuilt, started.elapsed());
    rate("… by time on the processor", rebuilt, workload::cpu() - before);

    let started = Instant::now();
    for _ in 0..100 {
        let request =
            ListRequest { workflow: Some("chain".into()), limit: 50, ..ListRequest::default() };
        assert_eq!(store.list(&request).unwrap().rows.len(), 50);
    }
    rate("lists of 50", 100, started.elapsed());

    let started = Instant::now();
    for _ in 0..1_000 {
        assert!(store.collect(MailOf::Owner(INSTANCE, Share::ALL), 100).unwrap().is_empty());
    }
    rate("collect from an empty inbox", 1_000, started.elapsed());
    let wal = std::fs::metadata(folder.join("log.db-wal")).unwrap().len();
    store.close().unwrap();
    let bytes = |file: &str| std::fs::metadata(folder.join(file)).unwrap().len() as f64;
    let nodes = frames as f64;
    println!(
        "bytes a node: log {:.0}, projections {:.0}; the WAL had {} MiB",
        bytes("log.db") / nodes,
        bytes("projections.db") / nodes,
        wal >> 20
    );
    overhead(folder, nodes);
}

fn overhead(folder: &Path, frames: f64) {
    let connection = Connection::open(folder.join("log.db")).unwrap();
    let body: i64 =
        connection.query_row("SELECT sum(length(body)) FROM frames", [], |row| row.get(0)).unwrap();
    let mut sizes = connection
        .prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name HAVING sum(pgsize) > 100000")
        .unwrap();
    println!("  bodies {:.0}", body as f64 / frames);
    let rows = sizes.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?)));
    for (name, bytes) in rows.unwrap().map(Result::unwrap) {
        println!("  {name} {:.1}", bytes / frames);
    }
}

fn one_at_a_time(folder: &Path) {
    fresh(folder);
    let store = SqliteStore::open(folder, Options::engine()).unwrap();
    let mut chain = Chain::new(workload::numbers(&store, 1).start, 2_000);
    let started = Instant::now();
    let mut frames = 0;
    while let Some(append) = chain.next() {
        store.append(&[append]).unwrap();
        frames += 1;
    }
    rate("append, one frame a commit", frames, started.elapsed());
}

fn claim(folder: &Path) {
    fresh(folder);
    let store = SqliteStore::open(folder, Options::engine()).unwrap();
    let mut chains: Vec<Chain> =
        workload::numbers(&store, EXECUTIONS).map(|number| Chain::new(number, NODES)).collect();
    for lanes in chains.chunks_mut(WIDTH) {
        for round in 0..9 {
            let batch: Vec<Append> = lanes
                .iter_mut()
                .filter_map(|chain| match u64::try_from(chain.execution.0 % 8).unwrap() + 1 {
                    rounds if round < rounds => chain.next(),
                    rounds if round == rounds => Some(chain.park(Some(Timestamp(1)))),
                    _ => None,
                })
                .collect();
            store.append(&batch).unwrap();
        }
    }
    store.wait_projected().unwrap();
    let (started, before) = (Instant::now(), workload::cpu());
    let mut claimed = 0;
    let request = ClaimRequest {
        instance: INSTANCE,
        fold: 1,
        limit: 500,
        share: Share::ALL,
        only: None,
        held: None,
        suspects: true,
        ahead: Millis(0),
    };
    loop {
        let claims = store.claim(&request).unwrap();
        claimed += claims.claimed.len() as u64;
        if !claims.more {
            break;
        }
    }
    rate("claim, 500 at a time, 2 to 9 frames each", claimed, started.elapsed());
    rate("… by time on the processor", claimed, workload::cpu() - before);
    drop(store);
    let started = Instant::now();
    drop(SqliteStore::open(folder, Options::engine()).unwrap());
    println!(
        "open after a stop with 50,000 owned: {:.0} ms",
        started.elapsed().as_secs_f64() * 1e3
    );
}
