//! Bodies that are too large, too deep, not text, not JSON, or not what was asked for.

use serde_json::{Value, json};

use crate::support::{Ask, House, house};

const MEGABYTES_50: usize = 50 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn body_too_large_is_refused_with_a_readable_response() {
    let house = House::open().await;
    for target in ["/v1/executions", "/v1/definitions", "/v1/limits", "/nowhere"] {
        let expected = match target {
            "/v1/limits" => 405,
            "/nowhere" => 404,
            _ => 413,
        };
        let ask = Ask::new("POST", target).header("Content-Type", "application/json");
        // With its length said before, and with no length at all.
        let mut client = house.connect().await;
        let reply = client.ask(&ask.clone().body(vec![b' '; MEGABYTES_50])).await.unwrap();
        assert_eq!(reply.status, expected, "{target}");
        // What was refused has been read, so the connection is as good as new.
        client.ask(&Ask::get("/livez")).await.unwrap().expect(200);

        let chunked = ask.header("Transfer-Encoding", "chunked");
        client.send(&chunked.bytes(house.address)).await.unwrap();
        let piece = [b"100000\r\n".as_slice(), &[b' '; 0x10_0000], b"\r\n"].concat();
        for _ in 0..50 {
            client.send(&piece).await.unwrap();
        }
        client.send(b"0\r\n\r\n").await.unwrap();
        assert_eq!(client.answer(&chunked).await.unwrap().status, expected, "{target}");
        client.ask(&Ask::get("/livez")).await.unwrap().expect(200);
    }
}

#[tokio::test]
async fn expect_continue_with_too_large_body_is_refused_before_the_body() {
    let house = House::open().await;
    let ask = Ask::new("POST", "/v1/executions")
        .header("Content-Type", "application/json")
        .header("Content-Length", &MEGABYTES_50.to_string())
        .header("Expect", "100-continue");
    house.ask(&ask).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_and_a_large_payload_is_not() {
    let house = House::open().await;
    let large = "x".repeat(1024 * 1024 + 1);
    let start = json!({ "workflow": house::QUICK, "input": large });
    house.post("/v1/executions", &start).await.expect(201);
    house.start(house::PATIENT, "waiting").await;
    let larger = "x".repeat(5 * 1024 * 1024);
    let signal = json!({ "name": "go", "body": larger });
    house.post("/v1/executions/waiting/signals", &signal).await.refused(413, "body_too_large");
}

#[tokio::test]
async fn a_body_must_be_json_of_the_right_form() {
    let house = House::open().await;
    house.start(house::PATIENT, "waiting").await;
    let deep = 100_000;
    let bodies: Vec<Vec<u8>> = vec![
        b"{".to_vec(),
        b"nonsense".to_vec(),
        b"[]".to_vec(),
        b"null".to_vec(),
        b"\"text\"".to_vec(),
        b"{\"workflow\": \"quick\"} {}".to_vec(),
        b"{\"workflow\": \"\xff\xfe\"}".to_vec(),
        b"\xef\xbb\xbf{\"workflow\": \"quick\"}x".to_vec(),
        b"{\"workflow\": \"quick\", \"workflow\": \"quick\"}".to_vec(),
        b"{\"workflow\": \"quick\", \"input\": NaN}".to_vec(),
        b"{\"workflow\": \"quick\", \"input\": 01}".to_vec(),
        b"{\"workflow\": \"quick\", \"input\": '1'}".to_vec(),
        b"{\"workflow\": \"quick\", \"colour\": 1}".to_vec(),
        b"{\"workflow\": 7}".to_vec(),
        b"{\"workflow\": null}".to_vec(),
        b"{\"workflow\": \"\"}".to_vec(),
        b"{\"workflow\": \"quick\", \"version\": null}".to_vec(),
        b"{\"workflow\": \"quick\", \"version\": -1}".to_vec(),
        b"{\"workflow\": \"quick\", \"version\": 1.5}".to_vec(),
        b"{\"workflow\": \"quick\", \"version\": 1e300}".to_vec(),
        b"{\"workflow\": \"quick\", \"id\": null}".to_vec(),
        format!(
            "{{\"workflow\": \"quick\", \"input\": {}1{}}}",
            "[".repeat(deep),
            "]".repeat(deep)
        )
        .into_bytes(),
        format!("{}{}", "{\"a\":".repeat(deep), "}".repeat(deep)).into_bytes(),
        "[".repeat(deep).into_bytes(),
        vec![0; 1000],
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        for target in ["/v1/executions", "/v1/executions/waiting/signals", "/v1/keys"] {
            let ask = Ask::new("POST", target).header("Content-Type", "application/json");
            let reply = house.ask(&ask.body(body.clone())).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (400, "bad_body"),
                "{target} {shown}"
            );
            assert!(reply.body.len() < 2_000, "what was sent is not sent back: {shown}");
        }
        let ask = Ask::new("POST", "/v1/definitions").header("Content-Type", "application/yaml");
        house.ask(&ask.body(body)).await.refused(422, "invalid_definition");
    }
    assert_eq!(house.get("/v1/executions").await.json()["executions"].as_array().unwrap().len(), 1);
}

/// An array with the values of all fields in their order, which serde would take for the struct.
#[tokio::test]
async fn array_is_no_request_of_any_kind() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    let worker = "0190163d-8694-739b-aea5-966c26f8ad90";
    let token = "0123456789abcdef0123456789abcdef";
    let failure = json!(["oops", "it broke", true, 500, false, 7, null]);
    let report = json!({ "worker": worker, "execution": "e", "node": "a", "attempt": 1 });
    let mut failed = report.clone();
    failed["status"] = "failed".into();
    failed["failure"] = failure;
    let mut status = report.clone();
    status["status"] = json!({ "completed": null });
    for (target, body) in [
        ("/v1/executions", json!(["quick", 1, {}, "id", {}])),
        ("/v1/executions/e/pause", json!([true])),
        ("/v1/executions/e/cancel", json!(["why"])),
        ("/v1/executions/e/cancel", json!([])),
        ("/v1/executions/e/signals", json!(["go", {}, "m"])),
        ("/v1/waits/e~4/complete", json!([{}, "m"])),
        ("/v1/keys", json!(["name", "admin"])),
        ("/v1/keys", json!({ "name": "n", "role": { "admin": null } })),
        (&format!("/v1/workers/{worker}/poll"), json!(["w", ["h"], 1, 0, 1, []])),
        (&format!("/v1/workers/{worker}/heartbeat"), json!(["w", ["h"], 1, 0, 1, []])),
        (&format!("/v1/tasks/{token}/start"), json!([worker, "e", "a", 1])),
        (&format!("/v1/tasks/{token}/checkpoint"), json!([worker, "e", "a", 1, {}, 1])),
        (&format!("/v1/tasks/{token}/report"), json!([worker, "e", "a", 1, "completed", 1, null])),
        (&format!("/v1/tasks/{token}/report"), failed),
        (&format!("/v1/tasks/{token}/report"), status),
    ] {
        let reply = house.post(target, &body).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "bad_body"), "{target} {body}");
    }
    let log = house.get("/v1/executions/e/events").await.expect(200).text();
    for event in ["RunPauseRequested", "RunEnding", "SignalReceived"] {
        assert!(!log.contains(event), "{log}");
    }
}

#[tokio::test]
async fn half_of_a_surrogate_pair_is_refused_where_it_stands() {
    let house = House::open().await;
    house.start(house::PATIENT, "e").await;
    for (target, body, place) in [
        ("/v1/executions", r#"{"workflow": "quick", "input": "\ud800"}"#, "column 33"),
        (
            "/v1/executions",
            "{\"workflow\": \"quick\",\n\"input\": {\"\\uDC00\": 1}}",
            "line 2 column 12",
        ),
        ("/v1/executions/e/signals", r#"{"name": "go", "body": ["\ud83d\u0041"]}"#, "column 26"),
        ("/v1/definitions", r#"{"name": "\ud800", "nodes": [{"id": "a", "type": "noop"}]}"#, ""),
    ] {
        let ask = Ask::new("POST", target).header("Content-Type", "application/json");
        let reply = house.ask(&ask.body(body.as_bytes().to_vec())).await;
        assert!(matches!(reply.status, 400 | 422), "{target}: {}", reply.text());
        assert!(reply.text().contains("surrogate pair"), "{}", reply.text());
        assert!(reply.text().contains(place), "{}", reply.text());
    }
    let pair = br#"{"workflow": "quick", "input": "\ud83d\ude00"}"#.to_vec();
    let ask = Ask::new("POST", "/v1/executions").header("Content-Type", "application/json");
    house.ask(&ask.body(pair)).await.expect(201);
}

#[tokio::test]
async fn compressed_body_is_refused_by_its_encoding() {
    let house = House::open().await;
    let start = br#"{"workflow": "quick"}"#;
    for (encoding, status) in [
        ("gzip", 415),
        ("br", 415),
        ("GZIP", 415),
        ("identity, deflate", 415),
        ("nonsense", 415),
        ("identity", 201),
        ("Identity", 201),
        ("", 201),
    ] {
        for target in ["/v1/executions", "/v1/definitions"] {
            let ask = Ask::new("POST", target)
                .header("Content-Type", "application/json")
                .header("Content-Encoding", encoding);
            let body =
                if status == 415 { b"\x1f\x8b\x08\x00\xff\xfe".to_vec() } else { start.to_vec() };
            let reply = house.ask(&ask.body(body)).await;
            match status {
                415 => {
                    let reply = reply.refused(415, "unsupported_media_type");
                    assert!(reply.text().contains("Content-Encoding"), "{}", reply.text());
                }
                _ if target == "/v1/executions" => drop(reply.expect(201)),
                _ => drop(reply.refused(422, "invalid_definition")),
            }
        }
    }
}

/// Clients announce a type for a body that they leave out; `curl -d ''` does.
#[tokio::test]
async fn empty_body_counts_as_none_whatever_its_type() {
    let house = House::open().await;
    for (n, kind) in ["application/x-www-form-urlencoded", "application/json", "text/plain", ""]
        .iter()
        .enumerate()
    {
        let id = format!("e{n}");
        house.start(house::PATIENT, &id).await;
        let empty = |target: String| {
            let ask = Ask::new("POST", &target).header("Content-Length", "0");
            if kind.is_empty() { ask } else { ask.header("Content-Type", kind) }
        };
        let encoded =
            empty(format!("/v1/executions/{id}/pause")).header("Content-Encoding", "gzip");
        house.ask(&encoded).await.expect(200);
        house.ask(&empty(format!("/v1/executions/{id}/resume"))).await.expect(200);
        house.ask(&empty(format!("/v1/executions/{id}/cancel"))).await.expect(200);
        for target in ["/v1/executions", "/v1/definitions", "/v1/keys"] {
            let reply = house.ask(&empty(target.to_owned())).await.refused(400, "bad_body");
            assert!(reply.text().contains("a body is needed"), "{target}: {}", reply.text());
        }
    }
}

#[tokio::test]
async fn body_for_route_without_one_is_refused() {
    let house = House::open().await;
    let ask = Ask::new("DELETE", "/v1/keys/none").json(&json!({}));
    house.ask(&ask).await.refused(400, "bad_body");
    house.ask(&Ask::get("/v1/limits").json(&json!({}))).await.refused(400, "bad_body");
}

#[tokio::test]
async fn parameters_must_be_of_their_form() {
    let house = House::open().await;
    house.finish(house::QUICK, "known").await;
    for query in [
        "limit=0",
        "limit=1000000000",
        "limit=1001",
        "limit=-1",
        "limit=1.5",
        "limit=",
        "limit",
        "limit=1&limit=1",
        "limit=99999999999999999999999",
        "cursor=x",
        "cursor=9223372036854775808",
        "status=running",
        "status=RUNNING,PAUSED",
        "since=yesterday",
        "since=2030-01-31",
        "label=x",
        "label==x",
        "consistent=yes",
        "workflow=%00",
        "workflow=..%2f",
        "text=",
        "text=%ff",
        "text=%zz",
        "filter=",
        "filter=state%20%3D%3D%201",
        "filter=created%20%3E%20ago('soon')",
        "colour=red",
        "LIMIT=1",
    ] {
        house.get(&format!("/v1/executions?{query}")).await.refused(400, "bad_parameter");
    }
    for wait in ["30", "61s", "60001ms", "-1s", "1h", "s", "1.5s", "1m", "007s", "+1s", "%201s"] {
        house.get(&format!("/v1/executions/known?wait={wait}")).await.refused(400, "bad_parameter");
    }
    for wait in ["0s", "60s", "0ms", "60000ms", "5ms"] {
        house.get(&format!("/v1/executions/known?wait={wait}")).await.expect(200);
    }
    let many = vec!["status=RUNNING"; 21].join("&");
    house.get(&format!("/v1/executions?{many}")).await.refused(400, "bad_parameter");
    house
        .get(&format!("/v1/executions?text={}", "x".repeat(9_000)))
        .await
        .refused(400, "bad_parameter");
    for limit in ["1", "1000"] {
        house.get(&format!("/v1/executions?limit={limit}")).await.expect(200);
    }
}

#[tokio::test]
async fn unknown_ids_return_not_found() {
    let house = House::open().await;
    let long = format!("/v1/executions/{}", "x".repeat(129));
    house.get(&long).await.refused(400, "bad_parameter");
    for (method, target, code) in [
        ("GET", "/v1/executions/nobody", "unknown_execution"),
        ("GET", "/v1/executions/nobody?wait=60s", "unknown_execution"),
        ("GET", "/v1/executions/last", "unknown_execution"),
        ("GET", "/v1/executions/nobody/nodes", "unknown_execution"),
        ("GET", "/v1/executions/nobody/events", "unknown_execution"),
        ("GET", "/v1/executions/nobody/stream", "unknown_execution"),
        ("GET", "/v1/executions/nobody/output", "unknown_execution"),
        ("GET", "/v1/executions/nobody/why", "unknown_execution"),
        ("POST", "/v1/executions/nobody/pause", "unknown_execution"),
        ("POST", "/v1/executions/nobody/resume", "unknown_execution"),
        ("POST", "/v1/executions/nobody/cancel", "unknown_execution"),
        ("GET", "/v1/definitions/nobody", "unknown_definition"),
        ("GET", "/v1/definitions/nobody/versions", "unknown_definition"),
        ("GET", "/v1/definitions/quick/versions/2", "unknown_definition"),
        ("DELETE", "/v1/keys/nobody", "unknown_key"),
    ] {
        house.ask(&Ask::new(method, target)).await.refused(404, code);
    }
    let signal = json!({ "name": "go" });
    house.post("/v1/executions/nobody/signals", &signal).await.refused(404, "unknown_execution");
    for start in [json!({ "workflow": "nobody" }), json!({ "workflow": "quick", "version": 2 })] {
        house.post("/v1/executions", &start).await.refused(404, "unknown_definition");
    }
}

#[tokio::test]
async fn a_definition_is_refused_with_all_of_its_faults() {
    let house = House::open().await;
    let faulty = json!({ "name": "faulty", "nodes": [
        { "id": "a", "type": "noop", "needs": ["b"] },
        { "id": "c", "type": "nonsense" },
    ] });
    let reply = house.post("/v1/definitions", &faulty).await.refused(422, "invalid_definition");
    let errors = reply.json()["errors"].as_array().unwrap().clone();
    assert!(errors.len() >= 2, "{errors:?}");
    assert!(errors.iter().all(|fault| fault["span"]["line"].as_u64() == Some(1)), "{errors:?}");
    house.get("/v1/definitions/faulty").await.refused(404, "unknown_definition");
}

#[tokio::test]
async fn a_definition_is_deployed_once() {
    let house = House::open().await;
    let yaml = "name: new\nnodes:\n  - { id: a, type: noop }\n";
    let ask = |query: &str, body: &str| {
        let ask = Ask::new("POST", &format!("/v1/definitions{query}"));
        ask.header("Content-Type", "application/yaml").body(body)
    };
    let dry = house.ask(&ask("?dryRun=true", yaml)).await.expect(200).json();
    assert_eq!((&dry["created"], dry.get("version")), (&json!(true), None));
    house.get("/v1/definitions/new").await.refused(404, "unknown_definition");
    let first = house.ask(&ask("", yaml)).await.expect(201);
    assert_eq!(first.header("location"), Some("/v1/definitions/new/versions/1"));
    let again = house.ask(&ask("", yaml)).await.expect(200).json();
    assert_eq!((&again["created"], &again["version"]), (&json!(false), &json!(1)));
    let next = house.ask(&ask("", &yaml.replace("id: a", "id: b"))).await.expect(201).json();
    assert_eq!(next["version"], 2);
    let newest: Value = house.get("/v1/definitions/new").await.expect(200).json();
    assert_eq!(newest["definition"]["nodes"][0]["id"], "b");
    let old: Value = house.get("/v1/definitions/new/versions/1").await.expect(200).json();
    assert_eq!(old["definition"]["nodes"][0]["id"], "a");
}

#[tokio::test]
async fn a_schema_that_multiplies_is_refused_in_time() {
    let house = House::open().await;
    let twice = json!([{ "$ref": "#/$defs/a" }, { "$ref": "#/$defs/a" }]);
    let schema = json!({ "$defs": { "a": { "items": { "allOf": twice } } }, "$ref": "#/$defs/a" });
    let definition =
        json!({ "name": "greedy", "input": schema, "nodes": [{ "id": "n", "type": "noop" }] });
    house.post("/v1/definitions", &definition).await.expect(201);
    let start = |depth: usize| {
        let input = (0..depth).fold(json!(1), |inner, _| json!([inner]));
        json!({ "workflow": "greedy", "input": input })
    };
    house.post("/v1/executions", &start(3)).await.expect(201);
    let reply = house.post("/v1/executions", &start(60)).await.refused(422, "invalid_input").json();
    assert!(reply["errors"][0]["message"].as_str().unwrap().contains("steps"), "{reply}");
}
