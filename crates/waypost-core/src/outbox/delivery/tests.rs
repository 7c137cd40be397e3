//! Tables of attempts under virtual time.

use super::*;

const START: Timestamp = Timestamp(1_000_000);

fn no(status: u16) -> Delivered {
    Delivered::No { status: Some(status), retry_after: None, reason: format!("HTTP {status}") }
}

fn later(retry_after: Millis) -> Delivered {
    Delivered::No { status: Some(429), retry_after: Some(retry_after), reason: String::new() }
}

fn secs(seconds: u64) -> Millis {
    Millis::from_secs(seconds)
}

/// One attempt at a message of a healthy endpoint: what becomes of it, in seconds from now.
fn next_of(attempts: u32, result: &Delivered) -> MessageNext {
    judge(EndpointHealth::default(), attempts, result, START, Jitter::NONE).message
}

#[test]
fn message_that_fails_is_due_by_the_schedule_and_dead_after_it() {
    let due = |seconds| MessageNext::Retry { due: START.plus(secs(seconds)) };
    let table = [
        (0, due(5)),
        (1, due(300)),
        (2, due(1_800)),
        (3, due(7_200)),
        (4, due(18_000)),
        (5, due(36_000)),
        (6, due(50_400)),
        (7, due(72_000)),
        (8, due(86_400)),
        (9, MessageNext::Dead),
        (u32::MAX, MessageNext::Dead),
    ];
    for (attempts, expected) in table {
        for status in [300, 302, 400, 404, 429, 500, 503] {
            assert_eq!(next_of(attempts, &no(status)), expected, "after {attempts}: {status}");
        }
    }
}

#[test]
fn results_decide_about_message_and_endpoint() {
    let sick = EndpointHealth { failures: 4, ..EndpointHealth::default() };
    let table = [
        (Delivered::Yes { status: 200 }, MessageNext::Delivered, 0, false),
        (Delivered::Yes { status: 204 }, MessageNext::Delivered, 0, false),
        (Delivered::Gone, MessageNext::Dead, 0, true),
        (no(500), MessageNext::Retry { due: START.plus(secs(5)) }, 5, false),
    ];
    for (result, message, failures, disables) in table {
        let verdict = judge(sick, 0, &result, START, Jitter::NONE);
        assert_eq!(verdict.message, message, "{result:?}");
        assert_eq!((verdict.health.failures, verdict.disables), (failures, disables), "{result:?}");
        assert_eq!(verdict.attempts, 1);
    }
}

#[test]
fn retry_after_is_a_floor_of_at_most_a_day() {
    let table = [
        (0, secs(1), secs(5)),
        (0, secs(60), secs(60)),
        (1, secs(60), secs(300)),
        (0, secs(10 * 24 * 3_600), RETRY_AFTER_MAX),
    ];
    for (attempts, asked, wait) in table {
        let expected = MessageNext::Retry { due: START.plus(wait) };
        assert_eq!(next_of(attempts, &later(asked)), expected, "{attempts}, {asked:?}");
    }
}

#[test]
fn jitter_stays_within_its_percentage() {
    for wait in SCHEDULE {
        let (least, most) = (Jitter(0).apply(wait), Jitter(u32::MAX).apply(wait));
        assert_eq!(least.0, wait.0 * 80 / 100);
        assert_eq!(most.0, wait.0 * 120 / 100);
        assert!((wait.0 - 1..=wait.0).contains(&Jitter::NONE.apply(wait).0), "{wait:?}");
    }
}

#[test]
fn endpoint_cools_after_five_failures_in_a_row() {
    let mut health = EndpointHealth::default();
    for failure in 1..=4 {
        health = judge(health, 0, &no(500), START, Jitter::NONE).health;
        assert_eq!((health.failures, health.probe_at), (failure, None));
        assert_eq!(health.room(2, START), IN_FLIGHT_MAX - 2);
    }
    let between = judge(health, 0, &Delivered::Yes { status: 200 }, START, Jitter::NONE).health;
    assert_eq!(between, EndpointHealth::default(), "a success begins anew");
    health = judge(health, 0, &no(500), START, Jitter::NONE).health;
    let probe_at = START.plus(PROBE_AFTER);
    assert_eq!(health.probe_at, Some(probe_at));
    assert_eq!(health.room(0, START), 0);
    assert_eq!(health.room(0, probe_at), 1);
    let straggler = judge(health, 0, &no(500), START, Jitter::NONE).health;
    assert_eq!(straggler.probe_at, Some(probe_at), "what was under way does not put a probe off");
}

#[test]
fn one_probe_at_a_time_until_its_claim_ends() {
    let cooling = EndpointHealth { failures: 5, probe_at: Some(START), probing: false };
    let ends = START.plus(secs(60));
    let probing = cooling.claimed(ends);
    assert_eq!(probing.room(1, START), 0);
    assert_eq!(probing.room(1, ends), 1, "its sender may have died");
    let failed = judge(probing, 0, &no(500), START, Jitter::NONE).health;
    assert_eq!(failed.probe_at, Some(START.plus(Millis(PROBE_AFTER.0 * 2))));
    assert_eq!(EndpointHealth::default().claimed(ends), EndpointHealth::default());
}

#[test]
fn probe_waits_as_long_as_the_endpoint_asks() {
    let cooling = EndpointHealth { failures: 5, probe_at: Some(START), probing: true };
    let health = judge(cooling, 0, &later(secs(3_600)), START, Jitter::NONE).health;
    assert_eq!(health.probe_at, Some(START.plus(secs(3_600))));
}

/// An endpoint that is down for a while, with so many messages: the attempts that this costs, and how many
/// of them each message has spent at the end.
fn outage(messages: usize, down: Millis, jitter: Jitter) -> (usize, Vec<u32>) {
    let mut health = EndpointHealth::default();
    let mut rows = vec![(START, 0_u32); messages];
    let (mut now, mut sent) = (START, 0);
    let end = START.plus(down);
    loop {
        // Straight to when a message is due and may be sent.
        let next = rows.iter().map(|(due, _)| *due).min().into_iter().chain(health.probe_at).max();
        now = now.max(next.unwrap_or(now));
        if now >= end {
            break;
        }
        let mut due: Vec<usize> = (0..rows.len()).filter(|at| rows[*at].0 <= now).collect();
        due.sort_by_key(|at| rows[*at].0);
        due.truncate(health.room(0, now));
        health = health.claimed(now.plus(secs(60)));
        for at in due {
            let verdict = judge(health, rows[at].1, &no(503), now, jitter);
            health = verdict.health;
            let due = match verdict.message {
                MessageNext::Retry { due } => due,
                MessageNext::Delivered | MessageNext::Dead => panic!("it is neither: {verdict:?}"),
            };
            rows[at] = (due, verdict.attempts);
            sent += 1;
        }
    }
    (sent, rows.into_iter().map(|(_, attempts)| attempts).collect())
}

#[test]
fn outage_of_an_hour_costs_at_most_fifteen_probes() {
    for messages in [1, 8, 1_000] {
        for jitter in [Jitter(0), Jitter::NONE, Jitter(u32::MAX)] {
            let (sent, _) = outage(messages, secs(3_600), jitter);
            let before_cooling = messages.min(IN_FLIGHT_MAX);
            assert!(sent <= before_cooling + 15, "{messages} messages: {sent} attempts");
        }
    }
}

#[test]
fn outage_of_three_days_burns_no_message_among_many() {
    let (sent, attempts) = outage(1_000, secs(3 * 24 * 3_600), Jitter::NONE);
    assert!(sent < 320, "{sent}");
    assert!(attempts.iter().all(|spent| *spent <= 3), "{:?}", attempts.iter().max());
}
