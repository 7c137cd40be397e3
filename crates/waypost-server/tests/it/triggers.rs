//! Looking at triggers, and what people ask of them.

use serde_json::{Value, json};
use waypost_server::config::Config;

use super::support::client::with_timeout;
use super::support::triggered::{HOOKED, PICKY, deploy, triggers_of};
use super::support::{Ask, House};

async fn house() -> House {
    let house = House::empty(Config::default()).await;
    [HOOKED, PICKY].into_iter().for_each(|workflow| deploy(&house, workflow));
    house
}

fn names(list: &Value) -> Vec<String> {
    let triggers = list["triggers"].as_array().unwrap().iter();
    triggers
        .map(|one| {
            format!("{}/{}", one["workflow"].as_str().unwrap(), one["name"].as_str().unwrap())
        })
        .collect()
}

#[tokio::test]
async fn triggers_are_listed_in_pages_and_filtered() {
    let house = house().await;
    let (mut all, mut target) = (Vec::new(), "/v1/triggers?limit=4".to_owned());
    loop {
        let page = house.get(&target).await.expect(200).json();
        all.extend(names(&page));
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/v1/triggers?limit=4&cursor={}", next.replace('/', "%2F"));
    }
    assert_eq!(all.len(), triggers_of(HOOKED).len() + triggers_of(PICKY).len());
    assert!(all.is_sorted(), "{all:?}");
    let schedules =
        house.get("/v1/triggers?kind=schedule&workflow=hooked&state=active").await.json();
    assert_eq!(names(&schedules), ["hooked/nightly"]);
    assert_eq!(names(&house.get("/v1/triggers?state=paused").await.json()), Vec::<String>::new());
    house.get("/v1/triggers?kind=other").await.refused(400, "bad_parameter");
    house.get("/v1/triggers?cursor=x").await.refused(400, "bad_parameter");
    house.get("/v1/triggers/hooked/none").await.refused(404, "unknown_trigger");
}

#[tokio::test]
async fn next_times_of_a_schedule_show_daylight_saving() {
    let house = house().await;
    let target = "/v1/triggers/hooked/nightly/next?count=3&after=2026-03-28T00:00:00Z";
    let times = house.get(target).await.expect(200).json();
    assert_eq!(times["zone"], "Europe/Berlin");
    let at: Vec<_> = times["times"]
        .as_array()
        .unwrap()
        .iter()
        .map(|time| time["at"].as_str().unwrap())
        .collect();
    // 02:30 does not exist on the 29th.
    assert_eq!(
        at,
        ["2026-03-28T01:30:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]
    );
    assert!(times["times"][1]["remark"].is_string() && times["times"][0].get("remark").is_none());
    house.get("/v1/triggers/hooked/github/next").await.refused(422, "invalid_trigger_change");
}

#[tokio::test]
async fn trigger_is_fired_by_hand_once_for_each_message_id() {
    let house = house().await;
    let target = "/v1/triggers/hooked/open/fire";
    let body = json!({ "payload": { "n": 1 }, "messageId": "m" });
    let first = house.post(target, &body).await.expect(200).json();
    let again = house.post(target, &body).await.expect(200).json();
    assert_eq!(
        (first["outcome"].as_str(), again["outcome"].as_str()),
        (Some("started"), Some("repeated"))
    );
    assert_eq!(first["id"], again["id"]);
    let fires = house.get("/v1/triggers/hooked/open/fires").await.json();
    let fire = &fires["fires"][0];
    assert_eq!(
        (fire["event"].as_str(), fire["id"].clone()),
        (Some("TriggerInputReceived"), first["id"].clone()),
        "{fires}"
    );
    house.post("/v1/triggers/hooked/nightly/fire", &json!({})).await.expect(200);
}

#[tokio::test]
async fn test_shows_what_a_payload_starts_and_starts_nothing() {
    let house = house().await;
    let test = async |trigger: &str, payload: Value| {
        let target = format!("/v1/triggers/{trigger}/test");
        house.post(&target, &json!({ "payload": payload })).await.expect(200).json()
    };
    assert_eq!(test("hooked/open", json!([1])).await["input"], json!([1]));
    assert_eq!(test("hooked/pushed", json!({ "n": 1 })).await["outcome"], "filtered");
    let failed = test("picky/any", json!({})).await;
    assert_eq!(failed["outcome"], "failed");
    assert!(failed["reason"].as_str().unwrap().contains("amount"), "{failed}");
    let list = house.get("/v1/executions").await.json();
    assert_eq!(list["executions"], json!([]));
}

#[tokio::test]
async fn headers_by_hand_are_what_a_webhook_trigger_sees() {
    let house = house().await;
    let pushed = |headers: Value| json!({ "payload": { "n": 1 }, "headers": headers });
    let push = pushed(json!({ "X-GitHub-Event": "push" }));
    let tested = house.post("/v1/triggers/hooked/pushed/test", &push).await.expect(200).json();
    assert_eq!(
        (&tested["outcome"], &tested["id"]),
        (&json!("start"), &json!("push-1")),
        "{tested}"
    );
    let fired = house.post("/v1/triggers/hooked/pushed/fire", &push).await.expect(200).json();
    assert_eq!((&fired["outcome"], &fired["id"]), (&json!("started"), &json!("push-1")), "{fired}");
    for (trigger, headers) in [
        ("hooked/pushed", json!({ "x-other": "push" })),
        ("hooked/pushed", json!({ "x-github-event": 1 })),
        ("hooked/pushed", json!(["push"])),
        ("hooked/nightly", json!({ "x-github-event": "push" })),
    ] {
        let asked = pushed(headers);
        let fired = house.post(&format!("/v1/triggers/{trigger}/fire"), &asked).await;
        fired.refused(422, "invalid_trigger_change");
        let tested = house.post(&format!("/v1/triggers/{trigger}/test"), &asked).await;
        let tested = tested.expect(200).json();
        assert_eq!(tested["outcome"], "failed", "{tested}");
    }
}

#[tokio::test]
async fn pause_and_resume_show_in_the_state() {
    let house = house().await;
    let paused =
        house.post("/v1/triggers/hooked/nightly/pause", &json!({ "reason": "holidays" })).await;
    let paused = paused.expect(200).json();
    assert_eq!(
        (paused["state"].as_str(), paused["reason"].as_str()),
        (Some("paused"), Some("holidays"))
    );
    house.post("/v1/triggers/hooked/nightly/fire", &json!({})).await.refused(409, "trigger_state");
    let resume = Ask::new("POST", "/v1/triggers/hooked/nightly/resume?catchUp=true");
    let resumed = house.ask(&resume).await.expect(200).json();
    assert_eq!(resumed["state"], "active");
}

#[tokio::test]
async fn backfill_is_counted_accepted_and_cancelled() {
    let house = house().await;
    let target = "/v1/triggers/hooked/nightly/backfill";
    let span =
        json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-11T00:00:00Z", "dryRun": true });
    let counted = house.post(target, &span).await.expect(200).json();
    assert_eq!((counted["count"].clone(), counted.get("id")), (json!(10), None));
    let span = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-11T00:00:00Z" });
    let accepted = house.post(target, &span).await.expect(200).json();
    let path = format!("/v1/triggers/hooked/nightly/backfills/{}", accepted["id"]);
    house.ask(&Ask::new("DELETE", &path)).await.expect(200);
    house.ask(&Ask::new("DELETE", &path)).await.refused(422, "invalid_trigger_change");
    let long = json!({ "from": "1990-01-01T00:00:00Z", "to": "2026-01-11T00:00:00Z" });
    house.post(target, &long).await.refused(422, "invalid_trigger_change");
    let turned = json!({ "from": "2026-01-11T00:00:00Z", "to": "2026-01-01T00:00:00Z" });
    house.post(target, &turned).await.refused(422, "invalid_trigger_change");
    let poll = house.post("/v1/triggers/hooked/open/backfill", &span).await;
    poll.refused(422, "invalid_trigger_change");
}

#[tokio::test]
async fn rewind_needs_a_time_or_a_cursor() {
    let house = house().await;
    let target = "/v1/triggers/hooked/nightly/rewind";
    house.post(target, &json!({})).await.refused(400, "bad_body");
    house.post(target, &json!({ "cursor": {} })).await.refused(422, "invalid_trigger_change");
    let moved =
        house.post(target, &json!({ "to": "2026-01-01T00:00:00Z" })).await.expect(200).json();
    assert_eq!(moved["cursor"]["after"], json!(1_767_225_600_000_i64), "{moved}");
    // A wrong year would stop the schedule without a word.
    let future = json!({ "to": "9999-01-01T00:00:00Z" });
    house.post(target, &future).await.refused(422, "invalid_trigger_change");
}

/// The deploy says so, and not a sender that is refused later.
#[tokio::test]
async fn deploy_of_a_webhook_whose_secret_cannot_verify_warns() {
    let house = House::empty(Config::default()).await;
    let warnings = async |secrets: &Value| {
        let verify = json!({ "scheme": "github", "secret": secrets });
        let hook = json!({ "name": "h", "on": [{ "webhook": "w", "verify": verify }],
            "nodes": [{ "id": "a", "type": "noop" }] });
        let deployed = house.post("/v1/definitions?dryRun=true", &hook).await.expect(200).json();
        let warnings = deployed["warnings"].as_array().cloned().unwrap_or_default();
        warnings.iter().map(|one| one["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(warnings(&json!(["hook", "hook_old"])).await, [""; 0]);
    // One that is for tasks, and one that is not there.
    assert_eq!(warnings(&json!(["hook", "task", "none"])).await, ["unusable_secret"; 2]);
}

/// Otherwise the first end after the deploy waits until the dispatcher looks by itself.
#[tokio::test]
async fn deploy_of_a_trigger_of_ends_wakes_the_dispatcher() {
    let house = House::empty(Config::default()).await;
    let on = json!([{ "workflow-ended": "e", "workflow": "other" }]);
    let tell = json!({ "name": "tell", "on": on, "nodes": [{ "id": "a", "type": "noop" }] });
    house.post("/v1/definitions", &tell).await.expect(201);
    let woken = async {
        house.dispatcher_wakeups.woken().await;
        Ok(())
    };
    with_timeout(woken).await.unwrap();
}

#[tokio::test]
async fn changes_of_a_retired_trigger_are_refused() {
    let house = house().await;
    let without = json!({ "name": "hooked", "nodes": [{ "id": "a", "type": "noop" }] });
    house.post("/v1/definitions", &without).await.expect(201);
    let span = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" });
    for (change, body) in [
        ("pause", json!({})),
        ("resume", json!(null)),
        ("fire", json!({})),
        ("rewind", json!({ "to": "2026-01-01T00:00:00Z" })),
        ("backfill", span),
    ] {
        let target = format!("/v1/triggers/hooked/nightly/{change}");
        let ask = match body {
            Value::Null => Ask::new("POST", &target),
            body => Ask::post(&target, &body),
        };
        house.ask(&ask).await.refused(409, "trigger_state");
    }
}

/// Schedules of all workflows count together, and those that jitter puts off do not.
#[tokio::test]
async fn deploy_of_one_schedule_too_many_for_a_full_hour_warns() {
    let house = House::empty(Config::default()).await;
    let workflow = |name: &str, schedules: u32, jitter: bool| {
        let entry = |n: u32| {
            let mut entry = json!({ "schedule": format!("s{n}"), "cron": "0 3 * * *" });
            if jitter {
                entry["jitter"] = json!("5m");
            }
            entry
        };
        let on: Vec<Value> = (0..schedules).map(entry).collect();
        json!({ "name": name, "on": on, "nodes": [{ "id": "a", "type": "noop" }] })
    };
    let warnings = async |definition: &Value| {
        let deployed = house.post("/v1/definitions", definition).await.expect(201).json();
        deployed["warnings"].as_array().cloned().unwrap_or_default()
    };
    assert_eq!(warnings(&workflow("many", 60, false)).await, [""; 0]);
    assert_eq!(warnings(&workflow("later", 60, true)).await, [""; 0]);
    assert_eq!(warnings(&workflow("more", 40, false)).await, [""; 0]);
    let found = warnings(&workflow("one", 1, false)).await;
    assert_eq!((found.len(), found[0]["code"].as_str()), (1, Some("many_schedules")), "{found:?}");
    let quarter = json!({ "name": "quarter", "nodes": [{ "id": "a", "type": "noop" }],
        "on": [{ "schedule": "s", "cron": "15 3 * * *" }] });
    assert_eq!(warnings(&quarter).await, [""; 0]);
}
