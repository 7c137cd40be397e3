//! How much a node costs on disk.

use waypost_sqlite::{Options, SqliteStore};

use crate::workload;

/// Log and projections together, for a chain of nodes that do nothing.
const BYTES_PER_NODE_MAX: u64 = 450;

#[test]
fn a_node_costs_no_more_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(folder.path(), Options::engine()).unwrap();
    let nodes = workload::run(&store, 2_000, 10, 256).frames;
    store.wait_projected().unwrap();
    store.close().unwrap();
    let bytes = |file: &str| std::fs::metadata(folder.path().join(file)).unwrap().len() / nodes;
    let (log, rows) = (bytes("log.db"), bytes("projections.db"));
    println!("log {log} B, projections {rows} B a node");
    assert!(log + rows <= BYTES_PER_NODE_MAX, "log {log} B, projections {rows} B a node");
}
