//! The rule of the queue of a concurrency key: tables, and laws over whole queues that are read in excerpts.

use proptest::prelude::*;
use waypost_core::id::ExecutionNo;
use waypost_core::permits::{
    Excerpt, Occasion, PermitRequest, QueueChanges, RowChange, WAITING_MAX, WaitingRow, decide,
    rejection,
};
use waypost_core::plan::ConcurrencyPolicy::{self, CancelOldest, Queue, Reject};

fn request(policy: ConcurrencyPolicy, limit: u32) -> PermitRequest {
    PermitRequest { key: "k".into(), limit, policy }
}

/// So many holders, and rows 1, 2, 3, … that wait with these limits.
fn queue(holding: u64, waiting: &[u32]) -> Excerpt {
    let row = |(ticket, limit): (i64, &u32)| WaitingRow {
        ticket,
        execution: ExecutionNo(ticket),
        limit: *limit,
    };
    Excerpt { holding, waiting: (1..).zip(waiting).map(row).collect(), ..Excerpt::default() }
}

/// The same with so many rows that can be cancelled, of which 7 is the oldest.
fn cancellable(cancellable: u64, excerpt: Excerpt) -> Excerpt {
    Excerpt { oldest: (cancellable > 0).then_some(ExecutionNo(7)), cancellable, ..excerpt }
}

/// The changes in words: `inserts holding, wakes, promotes 1 2, cancels 7`.
fn described(changes: &QueueChanges) -> String {
    let mut described = Vec::new();
    described.extend(changes.own.map(|own| match own {
        RowChange::Insert { holding: true } => "inserts holding".to_owned(),
        RowChange::Insert { holding: false } => "inserts waiting".to_owned(),
        RowChange::Give => "gives".to_owned(),
    }));
    described.extend(changes.wakes.then(|| "wakes".to_owned()));
    if !changes.promoted.is_empty() {
        let rows: Vec<String> = changes.promoted.iter().map(|row| row.ticket.to_string()).collect();
        described.push(format!("promotes {}", rows.join(" ")));
    }
    described.extend(changes.superseded.map(|execution| format!("cancels {}", execution.0)));
    described.join(", ")
}

#[test]
fn request_of_newcomer_gets_permit_or_waits() {
    for (title, excerpt, policy, limit, expected) in [
        ("an empty queue", queue(0, &[]), Queue, 1, "inserts holding, wakes"),
        ("the last permit", queue(2, &[]), Queue, 3, "inserts holding, wakes"),
        ("all permits are held", queue(3, &[]), Queue, 3, "inserts waiting"),
        ("more are held than its version allows", queue(5, &[]), Queue, 3, "inserts waiting"),
        ("a row with a smaller limit is ahead", queue(1, &[1]), Queue, 5, "inserts waiting"),
        (
            "a lost promotion, and room for both",
            queue(0, &[2]),
            Queue,
            2,
            "inserts holding, wakes, promotes 1",
        ),
        (
            "a lost promotion, and room for one",
            queue(0, &[1]),
            Queue,
            1,
            "inserts waiting, promotes 1",
        ),
        (
            "a full excerpt hides rows ahead",
            queue(0, &[99; 16]),
            Queue,
            99,
            "inserts waiting, promotes 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16",
        ),
        ("reject, with room", queue(0, &[]), Reject, 1, "inserts holding, wakes"),
        (
            "cancel-oldest, with room",
            cancellable(1, queue(1, &[])),
            CancelOldest,
            2,
            "inserts holding, wakes",
        ),
        (
            "cancel-oldest, without room",
            cancellable(2, queue(2, &[])),
            CancelOldest,
            2,
            "inserts waiting, cancels 7",
        ),
        (
            "one is superseded already and makes room",
            cancellable(1, queue(2, &[])),
            CancelOldest,
            2,
            "inserts waiting",
        ),
        (
            "all are superseded already",
            cancellable(0, queue(1, &[])),
            CancelOldest,
            1,
            "inserts waiting",
        ),
        (
            "it supersedes also a row that waits",
            cancellable(1, queue(1, &[1])),
            CancelOldest,
            1,
            "inserts waiting, cancels 7",
        ),
        ("other policies cancel none", cancellable(9, queue(9, &[])), Queue, 1, "inserts waiting"),
    ] {
        let changes = decide(&excerpt, Occasion::Request(&request(policy, limit)));
        assert_eq!(described(&changes), expected, "{title}");
    }
}

#[test]
fn request_of_queued_execution_keeps_its_row() {
    for policy in ConcurrencyPolicy::ALL {
        for (own, expected) in [(true, "wakes"), (false, "")] {
            let excerpt = cancellable(3, Excerpt { own: Some(own), ..queue(1, &[5]) });
            let request = request(policy, 1);
            let changes = decide(&excerpt, Occasion::Request(&request));
            assert_eq!(described(&changes), expected, "{policy:?}");
            assert_eq!(rejection(&excerpt, &request), None, "{policy:?}: it was accepted before");
        }
    }
}

#[test]
fn rejection_counts_the_holders() {
    for (title, excerpt, policy, limit, expected) in [
        ("there is room", queue(1, &[]), Reject, 2, None),
        ("all permits are held", queue(2, &[]), Reject, 2, Some(2)),
        ("a row ahead waits", queue(1, &[1]), Reject, 5, Some(1)),
        ("others may wait", queue(2, &[]), Queue, 2, None),
        ("others may cancel", cancellable(2, queue(2, &[])), CancelOldest, 2, None),
    ] {
        assert_eq!(rejection(&excerpt, &request(policy, limit)), expected, "{title}");
    }
}

#[test]
fn release_and_sweep_promote_from_the_front() {
    for (title, excerpt, expected) in [
        ("none waits", queue(0, &[]), ""),
        ("the next row gets the permit", queue(1, &[2, 2]), "promotes 1"),
        ("all permits are held", queue(2, &[2, 2]), ""),
        ("several permits are free", queue(1, &[4, 4, 4, 4]), "promotes 1 2 3"),
        ("a small limit keeps the rows behind it waiting", queue(1, &[1, 9]), ""),
        (
            "a small limit has its turn, and the rows behind it theirs",
            queue(0, &[1, 9]),
            "promotes 1 2",
        ),
        ("rows up to a small limit", queue(0, &[9, 1, 9]), "promotes 1"),
        ("more hold than the limit of a newer version", queue(5, &[2, 2]), ""),
    ] {
        for occasion in [Occasion::Release, Occasion::Sweep] {
            assert_eq!(described(&decide(&excerpt, occasion)), expected, "{title}, {occasion:?}");
        }
    }
}

#[test]
fn repair_makes_the_row_what_the_log_says() {
    for (title, own, admitted, expected) in [
        ("it waits, without a row", None, false, "inserts waiting"),
        ("it has begun, without a row", None, true, "inserts holding"),
        ("it waits, and so does its row", Some(false), false, ""),
        ("it has begun, and its row waits", Some(false), true, "gives"),
        ("its row has a permit that it has not used", Some(true), false, "wakes"),
        ("it has begun, with a permit", Some(true), true, ""),
    ] {
        let excerpt = Excerpt { own, ..Excerpt::default() };
        assert_eq!(
            described(&decide(&excerpt, Occasion::Repair { admitted })),
            expected,
            "{title}"
        );
    }
}

/// A whole queue, which a store would keep in rows.
#[derive(Default, Debug)]
struct Rows(Vec<Member>);

#[derive(Debug)]
struct Member {
    row: WaitingRow,
    holding: bool,
    superseded: bool,
}

impl Rows {
    fn excerpt(&self) -> Excerpt {
        let waiting = self.0.iter().filter(|member| !member.holding).map(|member| member.row);
        let mut current = self.0.iter().filter(|member| !member.superseded);
        Excerpt {
            own: None,
            holding: self.0.iter().filter(|member| member.holding).count() as u64,
            waiting: waiting.take(WAITING_MAX.into()).collect(),
            cancellable: current.clone().count() as u64,
            oldest: current.next().map(|member| member.row.execution),
        }
    }

    fn promote(&mut self, promoted: &[WaitingRow]) {
        let given = |member: &&mut Member| promoted.contains(&member.row);
        self.0.iter_mut().filter(given).for_each(|member| member.holding = true);
    }

    /// Gives whether the request was accepted.
    fn request(&mut self, ticket: i64, request: &PermitRequest) -> bool {
        let excerpt = self.excerpt();
        if rejection(&excerpt, request).is_some() {
            return false;
        }
        let changes = decide(&excerpt, Occasion::Request(request));
        self.promote(&changes.promoted);
        for member in &mut self.0 {
            member.superseded |= changes.superseded == Some(member.row.execution);
        }
        let holding = changes.own == Some(RowChange::Insert { holding: true });
        let row = WaitingRow { ticket, execution: ExecutionNo(ticket), limit: request.limit };
        self.0.push(Member { row, holding, superseded: false });
        true
    }

    fn release(&mut self, at: usize) {
        self.0.remove(at);
        loop {
            let changes = decide(&self.excerpt(), Occasion::Release);
            self.promote(&changes.promoted);
            if !changes.may_promote_more() {
                return;
            }
        }
    }

    /// With the whole queue in sight: the turn of no row has come that waits.
    fn is_settled(&self) -> bool {
        let holding = self.0.iter().filter(|member| member.holding).count();
        let first = self.0.iter().find(|member| !member.holding);
        first.is_none_or(|first| holding >= first.row.limit as usize)
    }
}

fn policies() -> impl Strategy<Value = ConcurrencyPolicy> {
    prop::sample::select(ConcurrencyPolicy::ALL.to_vec())
}

proptest! {
    /// Excerpts are enough: after each step no free permit is left that a row waits for, no row holds a
    /// permit beyond the largest limit, and none that must not wait does.
    #[test]
    fn queue_read_in_excerpts_stays_settled(
        steps in prop::collection::vec((policies(), 1..40u32, 0..4u8, any::<prop::sample::Index>()), 1..150)
    ) {
        let mut rows = Rows::default();
        for (ticket, (policy, limit, kind, at)) in (1..).zip(steps) {
            if kind == 0 && !rows.0.is_empty() {
                rows.release(at.index(rows.0.len()));
            } else {
                // Small limits hold up large ones behind them.
                let limit = if kind == 1 { 1 } else { limit };
                let accepted = rows.request(ticket, &request(policy, limit));
                let waits = rows.0.last().is_some_and(|last| !last.holding);
                prop_assert!(!accepted || policy != Reject || !waits);
            }
            prop_assert!(rows.is_settled(), "{:#?}", rows);
            let holders = rows.0.iter().filter(|member| member.holding);
            let most = holders.clone().map(|member| member.row.limit).max().unwrap_or(0);
            prop_assert!(holders.count() <= most as usize, "{:#?}", rows);
        }
    }

    /// A row whose turn has come keeps it while rows leave, so that an old excerpt gives too few permits
    /// and never too many.
    #[test]
    fn turn_of_a_row_stays_until_it_leaves(
        holding in 0..10u64, limits in prop::collection::vec(1..12u32, 1..16), gone in 0..10u64,
    ) {
        let promoted = |holding| decide(&queue(holding, &limits), Occasion::Sweep).promoted;
        let (before, after) = (promoted(holding), promoted(holding.saturating_sub(gone)));
        prop_assert!(after.starts_with(&before), "{before:?} {after:?}");
    }
}
