//! Clients that ask for much and read nothing: what is in memory for them is bounded, and others are served.

use std::time::Duration;

use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};
use waypost_server::config::Config;

use crate::support::{Ask, Client, House, house};

const READERS: usize = 200;
const EVENT_BYTES: usize = 300_000;
const REPLY_BYTES_MAX: usize = 2 << 20;

/// A server that waits for its readers for as long as they like, and an execution `e` with a log of
/// events that are larger than what a socket takes.
async fn house() -> House {
    let never = Duration::from_secs(3_600);
    let house = House::with(Config {
        reply_bytes_max: REPLY_BYTES_MAX,
        read_bytes_max: REPLY_BYTES_MAX,
        stream_slow_after: never,
        stall_timeout: never,
        ..Config::default()
    })
    .await;
    let input = "x".repeat(EVENT_BYTES);
    let start = json!({ "workflow": house::PATIENT, "id": "e", "input": input });
    house.post("/v1/executions", &start).await.expect(201);
    for _ in 0..6 {
        let signal = json!({ "name": "other", "body": input });
        house.post("/v1/executions/e/signals", &signal).await.expect(200);
    }
    let start = json!({ "workflow": house::QUICK, "id": "done", "input": input });
    house.post("/v1/executions?wait=60s", &start).await.expect(201);
    house.start(house::PATIENT, "small").await;
    house
}

/// A client that asks for something many times over and reads none of it.
async fn deaf(house: &House, target: &str, times: usize) -> Client<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let mut client = Client::over(socket.connect(house.address).await.unwrap(), house.address);
    for _ in 0..times {
        client.send(&Ask::get(target).bytes(house.address)).await.unwrap();
    }
    client
}

/// Waits until no client is served any more: the budget is used up, and all others wait.
async fn until_stuck(house: &House) {
    let budget = &house.server.budget;
    while budget.waiting() < READERS - REPLY_BYTES_MAX / EVENT_BYTES {
        tokio::task::yield_now().await;
    }
}

async fn readers(house: &House, target: &str, times: usize) {
    let budget = &house.server.budget;
    let mut all = Vec::new();
    for _ in 0..READERS {
        all.push(deaf(house, target, times).await);
    }
    until_stuck(house).await;
    assert!(budget.in_flight() > 0, "{target}");
    assert!(budget.peak() <= REPLY_BYTES_MAX, "{target}: {}", budget.peak());
    assert!(budget.reading() <= REPLY_BYTES_MAX, "{target}");
    // Others are served meanwhile.
    house.get("/v1/executions/small").await.expect(200);
    house.get("/v1/executions/small/events").await.expect(200);
    house.get("/v1/executions").await.expect(200);
    house.get("/openapi.json").await.expect(200);
    let start = json!({ "workflow": house::QUICK });
    house.post("/v1/executions?wait=60s", &start).await.expect(201);
    house.post("/v1/executions/small/signals", &json!({ "name": "other" })).await.expect(200);
    let metrics = house.get("/metrics").await.expect(200).text();
    assert!(metrics.contains("\nwaypost_http_reply_bytes "), "{metrics}");
    // They leave, some with an order and some without, and everything is given back.
    all.truncate(READERS / 2);
    for client in &mut all {
        client.stream.get_mut().set_zero_linger().unwrap();
    }
    drop(all);
    while budget.in_flight() > 0 || budget.waiting() > 0 || budget.reading() > 0 {
        tokio::task::yield_now().await;
    }
    house.get("/v1/executions/done/output").await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_not_read_have_a_bounded_part_of_memory() {
    let house = house().await;
    readers(&house, "/v1/executions/e/stream", 1).await;
    readers(&house, "/v1/stream?after=0", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_are_not_read_have_a_bounded_part_of_memory() {
    let house = house().await;
    readers(&house, "/v1/executions/e/events?limit=1000", 8).await;
    readers(&house, "/v1/executions/done/output", 8).await;
    readers(&house, "/v1/executions/done/nodes", 8).await;
}

/// A client that reads gets everything, however large, and however little room there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_that_is_larger_than_all_the_room_is_sent_alone() {
    let config = Config { reply_bytes_max: 64 * 1024, read_bytes_max: 1, ..Config::default() };
    let house = House::with(config).await;
    let input = "x".repeat(EVENT_BYTES);
    let start = json!({ "workflow": house::QUICK, "id": "e", "input": input });
    house.post("/v1/executions?wait=60s", &start).await.expect(201);
    let mut asked = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let mut client = house.connect().await;
        asked.spawn(async move {
            let ask = Ask::get("/v1/executions/e/output");
            client.ask(&ask).await.unwrap().expect(200).body.len()
        });
    }
    let sizes = asked.join_all().await;
    assert!(sizes.iter().all(|size| *size > EVENT_BYTES), "{sizes:?}");
    let mut after = 0;
    loop {
        let target = format!("/v1/executions/e/events?after={after}");
        let page = house.get(&target).await.expect(200).json();
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(house.server.budget.in_flight(), 0);
}
