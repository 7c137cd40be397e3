use super::*;

fn received(instance: u128, sender: u128, payloads: &[String]) -> Vec<Nudge> {
    let received = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&received);
    let on_nudge: OnNudge = Arc::new(move |nudge| keep.lock().push(nudge));
    let listener = NudgeListener { instance: InstanceId(Uuid::from_u128(instance)), on_nudge };
    payloads.iter().for_each(|payload| tell(&listener, Uuid::from_u128(sender), payload));
    let received = received.lock();
    received.clone()
}

#[test]
fn nudge_reaches_only_its_addressee() {
    let (one, two) = (InstanceId(Uuid::from_u128(1)), InstanceId(Uuid::from_u128(2)));
    let offered = Nudge::Offered("a\n\"b\"\0".into());
    let nudges = [
        Nudge::Mail(one),
        Nudge::Mail(two),
        Nudge::Claimable,
        offered.clone(),
        Nudge::Cancelled(one),
    ];
    let payloads = payloads(Uuid::from_u128(9), &nudges);
    assert_eq!(payloads.len(), 1);
    let for_one = [Nudge::Mail(one), Nudge::Claimable, offered.clone(), Nudge::Cancelled(one)];
    assert_eq!(received(1, 8, &payloads), for_one);
    assert_eq!(received(2, 8, &payloads), [Nudge::Mail(two), Nudge::Claimable, offered]);
    assert_eq!(received(1, 9, &payloads), [], "it sent them itself");
}

#[test]
fn payloads_are_as_long_as_the_server_takes() {
    let nudges: Vec<_> =
        (0..1_000).map(|number| Nudge::Offered(format!("\0{number}").repeat(4).into())).collect();
    let payloads = payloads(Uuid::max(), &nudges);
    assert!(payloads.iter().all(|payload| payload.len() < 8_000));
    assert_eq!(received(1, 2, &payloads), nudges);
    let too_long = [Nudge::Offered("x".repeat(9_000).into())];
    assert!(super::payloads(Uuid::max(), &too_long).is_empty());
}

#[test]
fn nudge_that_cannot_be_parsed_is_ignored() {
    for payload in ["", "[]", "{}", "null", "[\"x\",\"\",\"é\",\"mnobody\",\"cc\",\"z\"]", "[1]"] {
        assert_eq!(received(1, 2, &[payload.to_owned()]), [], "{payload}");
    }
}
