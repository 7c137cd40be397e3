//! Published events, and the triggers that they reach.

use serde_json::{Value, json};
use waypost_core::time::Millis;
use waypost_core::trigger::{ItemKey, Over, Throttle, WindowMode};
use waypost_ports::access::Role;
use waypost_ports::triggers::{Arrival, Arrived, GROUP_EVENTS_MAX, Settlement, Triggers as _};
use waypost_server::config::Config;

use super::support::client::with_timeout;
use super::support::triggered::{BESIDE, CHOOSY, HOOKED, PACED, PICKY, deploy};
use super::support::{Answer, Ask, House};

fn event(kind: &str, id: &str, data: &Value) -> Value {
    json!({ "specversion": "1.0", "type": kind, "source": "/shop", "id": id, "subject": "s", "data": data })
}

async fn publish(house: &House, events: &Value) -> Answer {
    house.ask(&Ask::post("/v1/events", events)).await
}

async fn house() -> House {
    let house = House::empty(Config::default()).await;
    [HOOKED, PICKY].into_iter().for_each(|workflow| deploy(&house, workflow));
    house
}

#[tokio::test]
async fn event_starts_one_execution_for_each_trigger_that_wants_it() {
    let house = house().await;
    let paid = event("order.paid", "1", &json!({ "n": 1 }));
    let published = publish(&house, &paid).await.expect(200).json();
    let started = published["started"].as_array().unwrap();
    let triggers: Vec<_> = started.iter().map(|one| one["trigger"].as_str().unwrap()).collect();
    assert_eq!(
        triggers,
        ["also", "paid"],
        "each trigger once, though `paid` has two patterns that fit"
    );
    let again = publish(&house, &paid).await.expect(200).json();
    assert_eq!((again["started"].clone(), again["duplicates"].clone()), (json!([]), json!(2)));
    let id = started[0]["id"].as_str().unwrap();
    let shown = house.get(&format!("/v1/executions/{id}")).await.json();
    assert_eq!(shown["input"], json!({ "n": 1 }), "{shown}");
    let other = publish(&house, &event("stock.low", "1", &json!(null))).await.expect(200).json();
    assert_eq!((other["accepted"].clone(), other["started"].clone()), (json!(1), json!([])));
}

#[tokio::test]
async fn batch_is_taken_as_a_whole_or_not_at_all() {
    let house = house().await;
    let wrong = json!([event("order.paid", "1", &json!(1)), { "id": "2" }]);
    let refused = publish(&house, &wrong).await.refused(400, "bad_event");
    assert_eq!(refused.json()["errors"].as_array().unwrap().len(), 3, "{}", refused.text());
    let fires = house.get("/v1/triggers/hooked/paid/fires").await.json();
    assert_eq!(fires["fires"], json!([]));
    let good: Vec<_> = (0..50).map(|n| event("order.new", &n.to_string(), &json!(n))).collect();
    let published = publish(&house, &json!(good)).await.expect(200).json();
    assert_eq!(published["started"].as_array().unwrap().len(), 100);
}

#[tokio::test]
async fn events_of_a_window_are_held_once() {
    let house = house().await;
    let one = event("window", "1", &json!(1));
    let held = publish(&house, &json!([one, event("window", "2", &json!(2))])).await.expect(200);
    assert_eq!(held.json()["held"], 2);
    // The runner learns of the group before it looks by itself.
    let woken = async {
        house.trigger_wakeups.woken().await;
        Ok(())
    };
    with_timeout(woken).await.unwrap();
    assert_eq!(publish(&house, &one).await.expect(200).json()["duplicates"], 1);
}

/// An event that does not count must not fill a batch or put off a debounce.
#[tokio::test]
async fn condition_of_a_window_is_asked_when_an_event_arrives() {
    let house = House::empty(Config::default()).await;
    deploy(&house, CHOOSY);
    let of = |id: &str, n: i32| event("choosy", id, &json!({ "n": n }));
    let unclear = event("choosy", "3", &json!({}));
    let events = json!([of("1", 1), of("2", 2), unclear, of("4", 4)]);
    let published = publish(&house, &events).await.expect(200).json();
    let counts = ["filtered", "held", "dead"].map(|name| published[name].clone());
    assert_eq!(counts, [json!(1), json!(2), json!(1)], "{published}");
    let test = |n: i32| json!({ "payload": of("5", n) });
    for (n, outcome) in [(1, "filtered"), (7, "start")] {
        let tried = house.post("/v1/triggers/choosy/many/test", &test(n)).await.expect(200).json();
        assert_eq!(tried["outcome"], outcome, "{tried}");
    }
    let fired = house.post("/v1/triggers/choosy/many/fire", &test(1)).await.expect(200).json();
    assert_eq!(fired["outcome"], "filtered", "{fired}");
}

/// What may start has started when the answer comes, and the answer says what became of the others.
#[tokio::test]
async fn throttle_starts_events_at_once_up_to_its_limit() {
    let house = House::empty(Config::default()).await;
    deploy(&house, PACED);
    for (over, held, skipped) in [("queue", 2, 0), ("drop", 0, 2), ("latest", 2, 0)] {
        let events: Vec<Value> =
            (1..=4).map(|n| event(over, &n.to_string(), &json!({ "n": n }))).collect();
        let published = publish(&house, &json!(events)).await.expect(200).json();
        let counts = ["held", "skipped", "duplicates"].map(|name| published[name].clone());
        assert_eq!(counts, [json!(held), json!(skipped), json!(0)], "{over} {published}");
        let started = published["started"].as_array().unwrap();
        assert_eq!(started.len(), 2, "{over} {published}");
        for (n, one) in (1..).zip(started) {
            let id = one["id"].as_str().unwrap();
            let shown = house.get(&format!("/v1/executions/{id}")).await.json();
            assert_eq!(shown["input"], json!({ "n": n }), "{shown}");
        }
        let again = publish(&house, &json!(events)).await.expect(200).json();
        assert_eq!((&again["duplicates"], &again["started"]), (&json!(4), &json!([])), "{over}");
    }
    let shown = house.get("/v1/triggers/paced/queue").await.expect(200).json();
    assert_eq!(shown["waiting"], json!(2), "{shown}");
    assert!(shown["nextDueAt"].is_string(), "{shown}");
    let fires = house.get("/v1/triggers/paced/latest/fires").await.expect(200).json();
    let skipped: Vec<_> = fires["fires"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|fire| fire["outcome"] == "skipped")
        .map(|fire| fire["key"].as_str().unwrap())
        .collect();
    assert_eq!(skipped, ["/shop 3"], "{fires}");
    let test = json!({ "payload": event("queue", "5", &json!({ "n": 5 })) });
    let tried = house.post("/v1/triggers/paced/queue/test", &test).await.expect(200).json();
    assert_eq!((&tried["outcome"], &tried["input"]), (&json!("start"), &json!({ "n": 5 })));
}

/// The answer asks the publisher to publish again, although the event has reached the other triggers.
#[tokio::test]
async fn full_throttle_keeps_an_event_from_no_other_trigger() {
    let house = House::empty(Config::default()).await;
    [PACED, BESIDE].into_iter().for_each(|workflow| deploy(&house, workflow));
    let row = house.store.trigger(PACED, "queue").unwrap().unwrap();
    let waits = |n: u32| Arrival {
        at: row.at(),
        group: "s".into(),
        item: ItemKey { key: n.to_string().into(), incarnation: row.incarnation }.digest(),
        label: n.to_string().into(),
        rule: WindowMode::Throttle(Throttle { limit: 2, per: Millis(60_000), over: Over::Queue }),
        payload: "{}".into(),
    };
    let all: Vec<Arrival> = (0..GROUP_EVENTS_MAX + 2).map(waits).collect();
    assert_eq!(house.store.arrive(&all).unwrap().last(), Some(&Arrived::Held));
    for _ in 0..2 {
        publish(&house, &event("queue", "1", &json!(1))).await.refused(429, "rate_limited");
        let fires = house.get("/v1/triggers/beside/plain/fires").await.json();
        let outcomes: Vec<_> =
            fires["fires"].as_array().unwrap().iter().map(|fire| fire["outcome"].clone()).collect();
        assert_eq!(outcomes, ["started"], "{fires}");
    }
}

/// Unlike a pause, this is no decision of a person: the publisher keeps the events until the trigger is resumed.
#[tokio::test]
async fn event_for_a_broken_trigger_is_refused_and_reaches_the_others() {
    let house = house().await;
    let row = house.store.trigger(HOOKED, "paid").unwrap().unwrap();
    let broken = Settlement {
        at: row.at(),
        advance: None,
        group: None,
        fires: Vec::new(),
        failures: 0,
        failure: None,
        broken: Some("10000 dead letters".into()),
        cancel: Vec::new(),
    };
    assert!(house.store.settle_trigger(&broken).unwrap());
    let paid = event("order.paid", "1", &json!({}));
    for _ in 0..2 {
        let refused = publish(&house, &paid).await.refused(503, "store_unavailable");
        assert!(refused.text().contains("hooked/paid"), "{}", refused.text());
    }
    publish(&house, &event("stock.low", "1", &json!({}))).await.expect(200);
    house.ask(&Ask::new("POST", "/v1/triggers/hooked/paid/resume")).await.expect(200);
    let published = publish(&house, &paid).await.expect(200).json();
    let started = published["started"].as_array().unwrap();
    assert_eq!((started.len(), &started[0]["trigger"]), (1, &json!("paid")), "{published}");
    assert_eq!(published["duplicates"], 1, "the other one had it before");
}

#[tokio::test]
async fn event_that_does_not_fit_is_dead_for_its_trigger_alone() {
    let house = house().await;
    let events = json!([
        event("picky", "1", &json!({ "amount": "much" })),
        event("picky", "2", &json!({ "amount": 2 })),
    ]);
    let published = publish(&house, &events).await.expect(200).json();
    assert_eq!(
        (published["dead"].clone(), published["started"].as_array().unwrap().len()),
        (json!(1), 1)
    );
    let letters = house.get("/v1/triggers/picky/event/dead").await.json();
    assert_eq!(letters["deadLetters"][0]["key"], "/shop 1", "{letters}");
}

#[tokio::test]
async fn trigger_that_was_deployed_or_paused_before_is_known() {
    let house = House::empty(Config::default()).await;
    let paid = |id| event("order.paid", id, &json!({}));
    let none = publish(&house, &paid("1")).await.expect(200).json();
    assert_eq!(none["started"], json!([]));
    deploy(&house, HOOKED);
    assert_eq!(publish(&house, &paid("2")).await.json()["started"].as_array().unwrap().len(), 2);
    house.post("/v1/triggers/hooked/also/pause", &json!({})).await.expect(200);
    assert_eq!(publish(&house, &paid("3")).await.json()["started"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn publisher_may_publish_and_nothing_else() {
    let house = House::locked().await;
    let key = house.key(Role::Publisher);
    let ask = Ask::post("/v1/events", &event("x", "1", &json!(1)));
    house.ask(&ask.clone().key(&key)).await.expect(200);
    house.ask(&ask.clone()).await.refused(401, "unauthenticated");
    house.ask(&ask.key(&house.key(Role::Viewer))).await.refused(403, "forbidden");
    for target in ["/v1/executions", "/v1/triggers"] {
        house.ask(&Ask::get(target).key(&key)).await.refused(403, "forbidden");
    }
}

fn waits(name: &str, config: &Value) -> Value {
    json!({ "name": name, "nodes": [
        { "id": "paid", "type": "wait-for-events", "config": config },
        { "id": "done", "type": "output", "needs": ["paid"], "config": { "value": "${{ nodes.paid.output }}" } },
    ] })
}

async fn woken(house: &House, events: &Value) -> (Value, Value) {
    let published = publish(house, events).await.expect(200).json();
    (published["woken"].clone(), published["duplicates"].clone())
}

#[tokio::test]
async fn event_wakes_the_executions_that_wait_for_it_once() {
    let house = House::empty(Config::default()).await;
    let config = json!({ "type": "order.*", "match": { "data.order": "${{ input.order }}" } });
    house.post("/v1/definitions", &waits("order", &config)).await.expect(201);
    let any = json!({ "type": "*", "filter": "event.data.n > 5" });
    house.post("/v1/definitions", &waits("any", &any)).await.expect(201);
    for (id, order) in [("o-7", 7), ("o-8", 8)] {
        let start = json!({ "workflow": "order", "id": id, "input": { "order": order } });
        house.post("/v1/executions", &start).await.expect(201);
    }
    let early = event("order.paid", "0", &json!({ "order": 7, "n": 1 }));
    for id in ["o-7", "o-8"] {
        house.wait_for(id, "NodeWaiting").await;
    }
    house.post("/v1/executions", &json!({ "workflow": "any", "id": "a" })).await.expect(201);
    house.wait_for("a", "NodeWaiting").await;
    // Nothing waits for it: its order is another one. The filter of `any` rejects it.
    let other = event("order.paid", "1", &json!({ "order": 9, "n": 1 }));
    assert_eq!(woken(&house, &other).await, (json!(1), json!(0)));
    house.wait_for("a", "MessageIgnored").await;
    assert_eq!(woken(&house, &early).await.0, json!(2));
    let ended = house.get("/v1/executions/o-7?wait=60s").await.expect(200).json();
    assert_eq!(ended["output"], early);
    // The waits are over, or had it before.
    let (again, _) = woken(&house, &early).await;
    assert!(again.as_u64() <= Some(1), "{again}");
    let paid = event("order.closed", "2", &json!({ "order": 8, "n": 6 }));
    assert_eq!(woken(&house, &paid).await, (json!(2), json!(0)));
    for id in ["o-8", "a"] {
        let ended = house.get(&format!("/v1/executions/{id}?wait=60s")).await.expect(200).json();
        assert_eq!(ended["output"], paid, "{id}");
    }
    let events = house.get("/v1/executions/a/events").await.expect(200).json();
    let of = |kind: &str| {
        let all = events["events"].as_array().unwrap().iter();
        all.filter(|event| event["type"] == kind).count()
    };
    assert_eq!((of("SignalReceived"), of("MessageIgnored")), (1, 2), "{events}");
}

#[tokio::test]
async fn event_of_several_waits_counts_for_each_type_and_is_not_kept() {
    let house = House::empty(Config::default()).await;
    let both = json!({ "events": [{ "type": "a.one" }, { "type": "a.*", "match": { "subject": "s" } }, { "type": "b" }] });
    house.post("/v1/definitions", &waits("both", &both)).await.expect(201);
    let before = event("b", "0", &json!(0));
    assert_eq!(woken(&house, &before).await, (json!(0), json!(0)), "nothing waits for it");
    house.post("/v1/executions", &json!({ "workflow": "both", "id": "e" })).await.expect(201);
    house.wait_for("e", "NodeWaiting").await;
    let (one, b) = (event("a.one", "1", &json!(1)), event("b", "2", &json!(2)));
    assert_eq!(woken(&house, &json!([one, b])).await, (json!(3), json!(0)));
    let ended = house.get("/v1/executions/e?wait=60s").await.expect(200).json();
    assert_eq!(ended["output"], json!([one, one, b]));
}

/// JSON has no largest number, and a number that cannot be compared is no reason to lose the event.
#[tokio::test]
async fn event_with_a_number_outside_of_f64_wakes_and_starts() {
    let house = house().await;
    let config = json!({ "type": "order.*", "match": { "data.order": 7 }, "filter": "event.data.order == 7" });
    house.post("/v1/definitions", &waits("order", &config)).await.expect(201);
    house.post("/v1/executions", &json!({ "workflow": "order", "id": "o" })).await.expect(201);
    house.wait_for("o", "NodeWaiting").await;
    let data = json!({ "order": 7, "far": 0 });
    let text = event("order.paid", "1", &data).to_string().replace("\"far\":0", "\"far\":1e999");
    let ask = Ask::post("/v1/events", &json!(null)).body(text);
    let published = house.ask(&ask).await.expect(200).json();
    assert_eq!(
        (published["woken"].clone(), published["started"].as_array().unwrap().len()),
        (json!(1), 2)
    );
    let ended = house.get("/v1/executions/o?wait=60s").await.expect(200);
    assert!(ended.text().contains("\"far\":1e999"), "{}", ended.text());
}
