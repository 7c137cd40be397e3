//! The canonical form: one text for all spellings, stable under parsing.

use proptest::prelude::*;
use serde_json::{Value, json};
use waypost_lang::parse;

use crate::kinds::catalog;

fn canonical(source: &str) -> String {
    match parse(source.as_bytes(), &catalog()) {
        Ok(compiled) => compiled.canonical,
        Err(faults) => panic!("{}", faults.render(source.as_bytes(), "test", false)),
    }
}

#[test]
fn spellings_of_one_definition_give_one_text() {
    let expected = r#"{"name":"x","nodes":[{"id":"a","onError":"error","type":"noop"},{"config":{"url":"/"},"id":"b","join":"any","needs":["a"],"retry":{},"timeout":60000,"type":"api-call"},{"id":"c","needs":[{"branch":"error","node":"a"}],"type":"noop"}]}"#;
    for source in [
        "name: x\nnodes:\n- {id: a, type: noop}\n- {id: b, type: api-call, config: {url: /}, needs: a, join: 1, retry: {}, timeout: 60s}\n- {id: c, type: noop, needs: {node: a, branch: error}}\n",
        "nodes:\n- {type: noop, id: a, onError: error, delivery: at-least-once}\n- {join: any, needs: [a], type: action, subType: call_external_service, nodeId: b, config: {retry: {enabled: true, maxAttempts: 3}, url: '/'}, timeout: PT1M}\n- {id: c, type: noop, needs: [{branch: error, node: a}], join: all, label: }\nname: x\nfailurePolicy: fail-fast\n",
        r#"{"nodes": [{"type": "noop", "id": "a"}, {"config": {"url": "\u002f"}, "id": "b", "join": {"count": 1, "cancelRest": false}, "needs": ["a"], "retry": {"jitter": 0.2}, "timeout": 60000, "type": "api-call"}, {"id": "c", "needs": {"node": "a", "branch": "error"}, "type": "noop", "retry": {"enabled": false}}], "name": "x"}"#,
    ] {
        assert_eq!(canonical(source), expected, "{source}");
    }
}

#[test]
fn bodies_are_inside_of_their_containers() {
    let expected = r#"{"name":"x","nodes":[{"id":"g","nodes":[{"id":"a","type":"noop"},{"config":{"until":"true"},"id":"l","needs":["a"],"nodes":[{"id":"b","type":"noop"}],"type":"loop"}],"retry":{},"type":"group"},{"id":"h","needs":["g"],"nodes":[{"id":"a","type":"noop"}],"type":"group"}]}"#;
    for source in [
        "name: x\nnodes:\n- {id: g, type: group, retry: {}, nodes: [{id: a, type: noop}, {id: l, type: loop, needs: a, config: {until: 'true'}, nodes: [{id: b, type: noop}]}]}\n- {id: h, type: group, needs: g, nodes: [{id: a, type: noop}]}\n",
        r#"{"name": "x", "nodes": [{"nodeId": "g", "type": "logic", "subType": "group", "config": {"retry": {"enabled": true}}, "nodes": [{"nodeId": "a", "type": "logic", "subType": "noop", "nodes": null}, {"nodeId": "l", "type": "logic", "subType": "loop", "needs": ["a"], "config": {"until": "true"}, "nodes": [{"nodeId": "b", "type": "logic", "subType": "noop"}]}]}, {"nodeId": "h", "type": "logic", "subType": "group", "needs": [{"node": "g"}], "nodes": [{"nodeId": "a", "type": "logic", "subType": "noop"}]}]}"#,
        expected,
    ] {
        assert_eq!(canonical(source), expected, "{source}");
    }
}

/// A map that says no more than a word is written as the word.
#[test]
fn on_error_has_one_spelling() {
    let of = |on_error: &str| {
        let text =
            canonical(&format!("name: x\nnodes: [{{id: a, type: noop, onError: {on_error}}}]"));
        let definition: Value = serde_json::from_str(&text).expect("JSON");
        definition["nodes"][0]["onError"].to_string()
    };
    for word in ["continue", "{take: continue}", "{take: continue, definitionErrors: false}"] {
        assert_eq!(of(word), r#""continue""#, "{word}");
    }
    let always = r#"{"definitionErrors":true,"take":"continue"}"#;
    assert_eq!(of("{take: continue, definitionErrors: true}"), always);
    assert_eq!(of(always), always);
}

#[test]
fn heartbeat_is_in_the_canonical_form_as_milliseconds() {
    let of = |heartbeat: &str| {
        let call = format!("{{id: a, type: api-call, config: {{url: /}}{heartbeat}}}");
        canonical(&format!("name: x\nnodes: [{call}]"))
    };
    let expected = r#"{"name":"x","nodes":[{"config":{"url":"/"},"heartbeat":30000,"id":"a","type":"api-call"}]}"#;
    assert_eq!(of(", heartbeat: 30s"), expected);
    assert_eq!(of(", heartbeat: PT30S"), expected);
    assert_eq!(of(", heartbeat: null"), of(""));
}

#[test]
fn breaker_is_in_the_canonical_form_without_defaults() {
    let of = |breaker: &str| {
        let call = format!("{{id: a, type: api-call, config: {{url: /}}, breaker: {breaker}}}");
        let text = canonical(&format!("name: x\nnodes: [{call}]"));
        let definition: Value = serde_json::from_str(&text).expect("JSON");
        definition["nodes"][0]["breaker"].to_string()
    };
    let short = r#"{"key":"api"}"#;
    assert_eq!(of("{key: api}"), short);
    assert_eq!(of("{key: api, failures: 5, period: 1m, cooldown: PT30S}"), short);
    let whole = r#"{"cooldown":1000,"failures":3,"key":"${{ input.host }}","period":2000}"#;
    let written = "{key: '${{ input.host }}', failures: 3, period: 2s, cooldown: 1s}";
    assert_eq!(of(written), whole);
    assert_eq!(of(whole), whole);
    assert_eq!(of("null"), "null");
}

/// Limits and policies that are as by default are left out.
#[test]
fn canonical_form_has_every_retry_field_that_is_not_default() {
    let retry = r#"{"exponentialBackoff":false,"ignoreExceptions":["timeout"],"jitter":0.5,"maxAttempts":7,"maxWait":9000,"multiplier":3.0,"retryOn":["429","5xx"],"waitDuration":2000}"#;
    let source = format!("name: x\nnodes:\n- {{id: a, type: noop, retry: {retry}}}\n");
    let expected =
        format!(r#"{{"name":"x","nodes":[{{"id":"a","retry":{retry},"type":"noop"}}]}}"#);
    assert_eq!(canonical(&source), expected);
}

#[test]
fn concurrency_has_one_spelling() {
    let of = |block: &str| {
        let text =
            canonical(&format!("name: x\nconcurrency: {block}\nnodes: [{{id: a, type: noop}}]"));
        let definition: Value = serde_json::from_str(&text).expect("JSON");
        definition["concurrency"].to_string()
    };
    for block in ["{key: 7}", "{key: '7', limit: 1}", "{policy: queue, limit: 1, key: \"7\"}"] {
        assert_eq!(of(block), r#"{"key":"7"}"#, "{block}");
    }
    assert_eq!(
        of("{policy: cancel-oldest, key: 'u-${{ input.u }}', limit: 4}"),
        r#"{"key":"u-${{ input.u }}","limit":4,"policy":"cancel-oldest"}"#
    );
    assert_eq!(of(""), "null");
}

/// JSON that may stand in a config.
fn payload() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter_map("finite", |n| serde_json::Number::from_f64(n).map(Value::from)),
        "[^$]{0,12}".prop_map(Value::from),
        Just(json!("${{ input.x }} and ${{ input['y'] }}")),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[^$]{0,6}", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Definitions of nodes in a row, each needing some of those before it.
fn definition() -> impl Strategy<Value = Value> {
    let node = (
        payload(),
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        prop::option::of(0u64..100_000),
        prop::option::of(prop_oneof![
            Just(json!({})),
            Just(json!({"maxAttempts": 7, "maxWait": "9s"}))
        ]),
        prop::option::of(prop_oneof![Just("fail"), Just("continue"), Just("broken")]),
        any::<bool>(),
    );
    prop::collection::vec(node, 1..8).prop_map(|nodes| {
        let nodes = nodes.into_iter().enumerate().map(|(at, node)| {
            let (value, needs, timeout, retry, on_error, any) = node;
            let mut needs: Vec<usize> =
                needs.iter().filter(|_| at > 0).map(|index| index.index(at)).collect();
            needs.sort_unstable();
            needs.dedup();
            let mut node = json!({ "id": format!("n{at}"), "type": "transform" });
            node["config"] = json!({ "value": value });
            if any && !needs.is_empty() {
                node["join"] = json!("any");
            }
            node["needs"] = needs.iter().map(|source| format!("n{source}")).collect();
            if let Some(timeout) = timeout {
                node["timeout"] = json!(timeout + 1);
            }
            if let Some(retry) = retry {
                node["retry"] = retry;
            }
            if let Some(on_error) = on_error {
                node["onError"] = json!(on_error);
            }
            node
        });
        json!({ "name": "generated", "nodes": nodes.collect::<Value>() })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parsing_the_canonical_form_gives_it_again(definition in definition()) {
        let once = canonical(&definition.to_string());
        prop_assert_eq!(&canonical(&once), &once);
        let spaced = canonical(&serde_json::to_string_pretty(&definition).unwrap());
        prop_assert_eq!(spaced, once);
    }

    #[test]
    fn nodes_in_a_body_are_written_as_those_of_a_definition(definition in definition()) {
        let nodes = &definition["nodes"];
        let nested = json!({ "name": "nested", "nodes": [
            { "id": "g", "type": "group", "nodes": nodes },
            { "id": "l", "type": "loop", "needs": ["g"], "config": { "until": "true" }, "nodes": [
                { "id": "h", "type": "group", "nodes": nodes },
            ] },
        ] });
        let once = canonical(&nested.to_string());
        prop_assert_eq!(&canonical(&once), &once);
        let flat: Value = serde_json::from_str(&canonical(&definition.to_string())).expect("JSON");
        let nested: Value = serde_json::from_str(&once).expect("JSON");
        prop_assert_eq!(&nested["nodes"][0]["nodes"], &flat["nodes"]);
        prop_assert_eq!(&nested["nodes"][1]["nodes"][0]["nodes"], &flat["nodes"]);
    }

    #[test]
    fn parse_of_arbitrary_bytes_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Err(faults) = parse(&bytes, &catalog()) {
            prop_assert!(faults.render(&bytes, "noise", false).contains("error"));
        }
    }

    #[test]
    fn parse_of_damaged_definitions_does_not_panic(
        definition in definition(),
        cut in any::<prop::sample::Index>(),
        noise in "[\\[\\]{}:,\"'#&*!|>%@` \n-]{0,6}",
    ) {
        let mut text = serde_json::to_string_pretty(&definition).unwrap();
        let mut at = cut.index(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.insert_str(at, &noise);
        if let Err(faults) = parse(text.as_bytes(), &catalog()) {
            for fault in &faults.faults {
                prop_assert!(text.get(fault.span.clone()).is_some(), "{:?}", fault);
            }
            faults.render(text.as_bytes(), "damaged", true);
        }
    }
}
