//! Clients that hang up while what they asked for is under way.

use std::io::Write as _;
use std::net::{Ipv4Addr, TcpStream};

use serde_json::json;
use waypost_testbed::wait_until;

use super::limits::LIMITED;
use super::rig::{Cluster, LONG, With};

/// Clients.
const COUNT: usize = 50;

/// Has whoever starts an execution with a key wait inside of its transaction until there is a row in
/// `public.gone`, or too much time has passed.
const HOLD_UP: &str = "
    SET statement_timeout = '30s';
    DO $$ BEGIN
        LOCK TABLE permit_keys;
        WHILE NOT EXISTS (SELECT FROM public.gone) LOOP PERFORM pg_sleep(0.01); END LOOP;
    END $$";

/// Connections in a transaction, between two statements.
const IDLE: &str = "pg_stat_activity WHERE state LIKE 'idle in transaction%'";

/// Connections that the server has ended because their transaction stood still.
const ENDED: &str =
    "SELECT sessions_fatal FROM pg_stat_database WHERE datname = current_database()";

#[test]
fn clients_that_hang_up_leave_no_transaction_behind() {
    let cluster = Cluster::start(3, With::Postgres);
    cluster.deploy(LIMITED);
    cluster.sql("CREATE TABLE public.gone (one integer)");
    let count = |of: &str| cluster.sql(&format!("SELECT count(*) FROM {of}"));
    let held_up = || count("pg_stat_activity WHERE wait_event_type = 'Lock'") != "0";
    std::thread::scope(|scope| {
        let hold_up = scope.spawn(|| cluster.sql(HOLD_UP));
        let locks =
            "pg_locks WHERE relation = 'permit_keys'::regclass AND mode = 'AccessExclusiveLock'";
        wait_until("the table is locked", LONG, || count(locks) == "1");
        let clients: Vec<TcpStream> = (0..COUNT).map(|n| ask(&cluster, n)).collect();
        wait_until("somebody is held up in a transaction", LONG, held_up);
        drop(clients);
        cluster.sql("INSERT INTO public.gone VALUES (1)");
        hold_up.join().unwrap();
    });
    let api = &cluster.api;
    let ended = cluster.block_on(async {
        let input = json!({ "key": "k0", "n": COUNT, "ms": 10 });
        let id = api.start(0, "limited", &input, "after").await;
        api.ended(&id, LONG).await
    });
    assert_eq!((&ended["status"], &ended["output"]), (&json!("COMPLETED"), &json!(COUNT)));
    wait_until("what was begun has ended", LONG, || count("control") == "0");
    // One that was left would stand there until the server ends it. Others come and go.
    wait_until("nobody is in a transaction", LONG, || count(IDLE) == "0");
    assert_eq!(cluster.sql(ENDED), "0");
    assert_eq!(count("permits"), "0", "every slot was released");
    cluster.check();
}

/// Asks for the start of an execution, and does not wait for the answer. A quarter of them sends half of it.
fn ask(cluster: &Cluster, n: usize) -> TcpStream {
    let port = cluster.instances[n % 3].port;
    let input = json!({ "key": format!("k{}", n % 5), "n": n, "ms": 10 });
    let body = json!({ "workflow": "limited", "input": input }).to_string();
    let sent = if n.is_multiple_of(4) { &body[..body.len() / 2] } else { &body };
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    write!(
        stream,
        "POST /v1/executions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{sent}",
        body.len()
    )
    .unwrap();
    stream
}
