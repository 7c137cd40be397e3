//! Streams of events: order, coming back, the end, signs of life, slow readers.

use std::time::Duration;

use serde_json::json;
use tokio::net::TcpSocket;
use waypost_ports::access::{Access as _, Role};
use waypost_server::config::Config;

use crate::support::events::{Event, Events, Word};
use crate::support::{Ask, Client, House, house};

/// The log of an execution, as the list has it.
async fn log(house: &House, id: &str) -> Vec<(String, String)> {
    let (mut log, mut after) = (Vec::new(), 0);
    loop {
        let target = format!("/v1/executions/{id}/events?limit=1000&after={after}");
        let page = house.get(&target).await.expect(200).json();
        for event in page["events"].as_array().unwrap() {
            log.push((event["seq"].to_string(), event["type"].as_str().unwrap().to_owned()));
        }
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => return log,
        }
    }
}

fn shown(events: &[Event]) -> Vec<(String, String)> {
    events.iter().map(|event| (event.id.clone(), event.kind.clone())).collect()
}

#[tokio::test]
async fn a_stream_of_one_execution_is_its_log_and_ends_with_it() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let mut stream = Events::follow(&house, "/v1/executions/e/stream", None).await;
    let first = stream.next().await.unwrap();
    assert_eq!((first.id.as_str(), first.kind.as_str()), ("1", "RunCreated"));
    assert_eq!((&first.data["seq"], &first.data["type"]), (&json!(1), &json!("RunCreated")));
    house.post("/v1/executions/e/signals", &json!({ "name": "go" })).await.expect(200);
    let mut events = [vec![first], stream.rest().await].concat();
    let end = events.pop().unwrap();
    assert_eq!((end.kind.as_str(), end.id.as_str()), ("end", ""));
    assert_eq!(shown(&events), log(&house, "e").await);
}

#[tokio::test]
async fn stream_client_that_reconnects_continues_after_its_last_event() {
    let house = House::open().await;
    house.finish(house::QUICK, "e").await;
    let log = log(&house, "e").await;
    for at in 0..log.len() {
        let last = at.to_string();
        let mut stream = Events::follow(&house, "/v1/executions/e/stream", Some(&last)).await;
        let events = shown(&stream.rest().await);
        assert_eq!(events[..events.len() - 1], log[at..], "after {at}");
        let mut stream =
            Events::follow(&house, &format!("/v1/executions/e/stream?after={at}"), None).await;
        assert_eq!(shown(&stream.rest().await), events, "after {at}");
    }
    // There is nothing more, which tells a browser not to come back.
    let ask = Ask::get("/v1/executions/e/stream").header("Accept", "text/event-stream");
    for last in [log.len().to_string(), "9223372036854775807".to_owned()] {
        house.ask(&ask.clone().header("Last-Event-ID", &last)).await.expect(204);
    }
    for last in ["-1", "x", "1.5", ""] {
        house.ask(&ask.clone().header("Last-Event-ID", last)).await.refused(400, "bad_parameter");
    }
}

#[tokio::test]
async fn the_stream_of_everything_can_be_resumed_after_every_event() {
    let house = House::open().await;
    for id in ["a", "b", "c"] {
        house.finish(house::QUICK, id).await;
    }
    let ask = |last: &str| Ask::get("/v1/stream?follow=false").header("Last-Event-ID", last);
    let read = async |last: &str| {
        Events::open(house.connect().await, &house, &ask(last)).await.rest().await
    };
    let all = read("0").await;
    // Every log is in it, whole and in order.
    for id in ["a", "b", "c"] {
        let own = all.iter().filter(|event| event.data["execution"] == id);
        let own: Vec<_> =
            own.map(|event| (event.data["seq"].to_string(), event.kind.clone())).collect();
        assert_eq!(own, log(&house, id).await, "{id}");
    }
    for (at, event) in all.iter().enumerate() {
        assert_eq!(read(&event.id).await, all[at + 1..], "after {}", event.id);
    }
    let frame = |event: &Event| event.id.split('.').next().unwrap().to_owned();
    for (at, event) in all.iter().enumerate() {
        let whole = all.iter().rposition(|other| frame(other) == frame(event)).unwrap();
        assert_eq!(read(&frame(event)).await, all[whole + 1..], "after the frame of {at}");
    }
}

#[tokio::test]
async fn the_stream_of_everything_begins_now_and_can_be_filtered() {
    let house = House::open().await;
    house.finish(house::QUICK, "before").await;
    let target = "/v1/stream?type=RunCreated&type=RunCompleted";
    let mut stream = Events::follow(&house, target, None).await;
    house.finish(house::QUICK, "after").await;
    for kind in ["RunCreated", "RunCompleted"] {
        let event = stream.next().await.unwrap();
        assert_eq!((event.kind.as_str(), &event.data["execution"]), (kind, &json!("after")));
    }
}

#[tokio::test]
async fn a_place_that_the_store_does_not_have_is_refused() {
    let house = House::open().await;
    house.finish(house::QUICK, "e").await;
    for place in ["99999999", "99999999.1"] {
        let ask = Ask::get("/v1/stream").header("Last-Event-ID", place);
        house.ask(&ask).await.refused(404, "unknown_event");
    }
}

#[tokio::test]
async fn a_stream_that_is_not_to_be_followed_ends_with_what_there_is() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    house.wait_for("e", "RunPaused").await;
    for accept in ["*/*", "text/*", ""] {
        let ask = Ask::get("/v1/executions/e/stream?follow=false").header("Accept", accept);
        let events = Events::open(house.connect().await, &house, &ask).await.rest().await;
        assert_eq!(shown(&events), log(&house, "e").await, "there is no `end`: it goes on");
        let ask = Ask::get("/v1/stream?follow=false").header("Accept", accept);
        assert_eq!(Events::open(house.connect().await, &house, &ask).await.rest().await, []);
    }
    let ask = Ask::get("/v1/stream").header("Accept", "application/json");
    house.ask(&ask).await.refused(406, "not_acceptable");
}

#[tokio::test]
async fn a_stream_with_nothing_to_say_shows_that_it_is_alive() {
    let config =
        Config { stream_sign_of_life_every: Duration::from_millis(20), ..Config::default() };
    let house = House::with(config).await;
    // Also where much happens, but nothing of what is asked for.
    let mut stream = Events::follow(&house, "/v1/stream?type=Nothing", None).await;
    for at in 0..5 {
        house.finish(house::QUICK, &format!("e{at}")).await;
        assert_eq!(stream.next_word().await, Some(Word::Comment("alive".to_owned())));
    }
}

#[tokio::test]
async fn streams_end_when_the_server_does() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let mut one = Events::follow(&house, "/v1/executions/e/stream?after=1000", None).await;
    let mut all = Events::follow(&house, "/v1/stream", None).await;
    house.server.closing.cancel();
    assert_eq!((one.rest().await, all.rest().await), (vec![], vec![]));
}

#[tokio::test]
async fn there_are_only_so_many_streams() {
    let house = House::with(Config { streams_max: 2, ..Config::default() }).await;
    let first = Events::follow(&house, "/v1/stream", None).await;
    let _second = Events::follow(&house, "/v1/stream", None).await;
    let ask = Ask::get("/v1/stream").header("Accept", "text/event-stream");
    let said = house.ask(&ask).await.refused(503, "overloaded");
    assert_eq!(said.header("retry-after"), Some("5"));
    house.get("/v1/executions").await.expect(200);
    // Whoever leaves makes room.
    drop(first);
    while house.ask(&Ask::new("HEAD", "/v1/stream")).await.status != 200 {}
}

/// Executions whose events a slow reader does not read: thousands of events, and more bytes than all
/// buffers on the way can hold.
const FLOOD: usize = 300;
const FLOOD_INPUT_BYTES: usize = 48 * 1024;

/// The events of so many executions, to their ends.
async fn read_flood(stream: &mut Events, executions: usize) -> Vec<Event> {
    let (mut events, mut ended) = (Vec::new(), 0);
    while ended < executions {
        let event = stream.next().await.unwrap();
        ended += usize::from(event.kind == "RunCompleted");
        events.push(event);
    }
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stream_client_that_does_not_read_is_dropped_and_delays_no_other() {
    let config = Config {
        stream_slow_after: Duration::from_millis(300),
        // The marker is for a reader that comes round, however late in this test.
        stall_timeout: Duration::from_secs(600),
        ..Config::default()
    };
    let house = House::with(config).await;
    let mut eager = Events::follow(&house, "/v1/stream", None).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(16 * 1024).unwrap();
    let socket = socket.connect(house.address).await.unwrap();
    let ask = Ask::get("/v1/stream").header("Accept", "text/event-stream");
    let mut slow = Events::open(Client::over(socket, house.address), &house, &ask).await;

    let input = "x".repeat(FLOOD_INPUT_BYTES);
    let flood = async {
        for _ in 0..FLOOD {
            let start = json!({ "workflow": house::QUICK, "input": input });
            house.post("/v1/executions", &start).await.expect(201);
        }
    };
    let ((), all) = tokio::join!(flood, read_flood(&mut eager, FLOOD));
    assert!(all.len() > 2_000, "{}", all.len());

    // Nobody reads, so somebody is let go.
    let metric = "waypost_http_streams_dropped_total 1";
    while !house.get("/metrics").await.expect(200).text().contains(metric) {}
    let got = slow.rest().await;
    let (last, got) = got.split_last().unwrap();
    assert_eq!((last.kind.as_str(), &last.data["reason"]), ("dropped", &json!("slow_reader")));
    assert!(got.len() < all.len() / 2, "{} of {} events were kept for it", got.len(), all.len());
    assert_eq!(got, &all[..got.len()], "what it got is the beginning");
    // It comes back and gets the rest.
    let after = got.last().unwrap().id.clone();
    let mut again = Events::follow(&house, "/v1/stream", Some(&after)).await;
    let missing = FLOOD - got.iter().filter(|event| event.kind == "RunCompleted").count();
    assert_eq!(read_flood(&mut again, missing).await, all[got.len()..]);
}

#[tokio::test]
async fn a_stream_ends_with_the_key_it_was_opened_with() {
    let house = House::locked().await;
    let key = house.key(Role::Viewer);
    let ask = Ask::get("/v1/stream").key(&key);
    let mut stream = Events::open(house.connect().await, &house, &ask).await;
    house.store.revoke_key(key.split('_').nth(1).unwrap()).unwrap();
    house.server.keys.refresh(&*house.store).unwrap();
    let admin = house.key(Role::Admin);
    let start = json!({ "workflow": house::QUICK });
    house.ask(&Ask::post("/v1/executions?wait=60s", &start).key(&admin)).await.expect(201);
    assert!(stream.next().await.is_none(), "nothing of what came after is told");
}

#[tokio::test]
async fn line_ends_in_a_payload_do_not_break_its_event() {
    let house = House::open().await;
    let body =
        format!("{{\"workflow\": \"{}\", \"id\": \"e\", \"input\": [1,\r\r\n2]}}", house::QUICK);
    let ask =
        Ask::new("POST", "/v1/executions?wait=60s").header("Content-Type", "application/json");
    house.ask(&ask.body(body)).await.expect(201);
    let ask = Ask::get("/v1/executions/e/stream?follow=false");
    let events = Events::open(house.connect().await, &house, &ask).await.rest().await;
    assert_eq!(events[0].data["data"]["input"], json!([1, 2]));
}
