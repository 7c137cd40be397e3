//! A crash at every point: the process dies after its k-th output, for every k, and another one
//! finishes what it began.

use waypost_core::command::Request;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_engine::driver::{Answer, Ticket};

use crate::support::{Rig, World};

/// A flow, what is sent to it once it is accepted, and how it must end.
struct Case {
    flow: &'static str,
    send: Option<Request>,
    end: Status,
}

fn cases() -> Vec<Case> {
    let go = Request::Signal { name: "go".into(), body: Json::null() };
    let plain = |flow, end| Case { flow, send: None, end };
    vec![
        plain("a; b needs a; c needs b; o = output(1) needs c", Status::Completed),
        plain("s = pass; a needs s; b needs s; c needs s; j needs a, b, c", Status::Completed),
        plain("a; i = if(input.yes) needs a; y needs i:true; n needs i:false", Status::Completed),
        plain("a; d = delay(1500ms) needs a; b needs d", Status::Completed),
        plain("a; d = delay(90s) needs a; b needs d", Status::Completed),
        plain("flaky retry 3; b needs flaky", Status::Completed),
        plain("a; bad needs a; never needs bad", Status::Failed),
        plain("within 40s; a; w = signal(never) needs a", Status::TimedOut),
        Case {
            flow: "a; w = signal(go) needs a; b needs w",
            send: Some(go),
            end: Status::Completed,
        },
        Case {
            flow: "a; d = delay(10m) needs a; b needs d",
            send: Some(Request::Cancel { reason: None }),
            end: Status::Cancelled,
        },
    ]
}

/// A life of a process, performing one output at a time, in order, until it has performed `limit`
/// or nothing is left to do. Says whether the limit cut it short.
struct Life<'w> {
    rig: Rig<'w>,
    left: usize,
}

impl Life<'_> {
    /// Performs one output; `false` when the process dies.
    fn act(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        if let Some(work) = self.rig.work.pop_front() {
            self.rig.perform(work);
        } else if !self.rig.tasks.is_empty() {
            let order = self.rig.tasks.remove(0);
            self.rig.finish(&order);
        }
        true
    }

    fn is_idle(&self) -> bool {
        self.rig.work.is_empty() && self.rig.tasks.is_empty() && self.rig.inputs.is_empty()
    }

    /// Everything without time passing; `false` when the process dies.
    fn settle(&mut self) -> bool {
        self.rig.step();
        while !self.is_idle() {
            if (!self.rig.work.is_empty() || !self.rig.tasks.is_empty()) && !self.act() {
                return false;
            }
            self.rig.step();
        }
        true
    }

    /// Until everything has ended; `false` when the process dies.
    fn live(&mut self, sent: &mut Sending) -> bool {
        for _ in 0..1_000 {
            if !self.settle() {
                sent.note(&self.rig);
                return false;
            }
            sent.note(&self.rig);
            let world = self.rig.world;
            if sent.send(&mut self.rig) {
                continue;
            }
            if world.first_open().is_none() {
                return true;
            }
            world.clock.set(self.rig.driver.next_wake());
            self.rig.renew();
        }
        panic!("it does not end");
    }
}

/// The client: it repeats its request until it is acknowledged.
struct Sending {
    body: Option<Request>,
    asked: Option<Ticket>,
}

impl Sending {
    fn send(&mut self, rig: &mut Rig<'_>) -> bool {
        let Some(execution) = rig.world.executions().first().copied() else { return false };
        if self.asked.is_some() || rig.world.control(execution).is_none() {
            return false;
        }
        let Some(body) = self.body.clone() else { return false };
        self.asked = Some(rig.request(execution, body));
        true
    }

    /// Hears what the process said before it died or came to rest.
    fn note(&mut self, rig: &Rig<'_>) {
        let Some(ticket) = self.asked else { return };
        match rig.answer(ticket) {
            Some(Answer::Done { .. } | Answer::Accepted(_)) => {
                (self.body, self.asked) = (None, None)
            }
            Some(Answer::Moved) => self.asked = None,
            _ => {}
        }
    }
}

/// Lives until each limit in turn cuts it short; the last life has none. Says whether the first
/// limit was reached.
fn live_and_die(case: &Case, limits: &[usize]) -> bool {
    let world = World::new();
    let mut sending = Sending { body: case.send.clone(), asked: None };
    let plan = world.flow(case.flow);
    let mut acknowledged = None::<ExecutionNo>;
    let mut died = false;
    for limit in limits.iter().copied().chain([usize::MAX]) {
        let mut life = Life { rig: Rig::new(&world), left: limit };
        let ticket = world.executions().is_empty().then(|| life.rig.submit(&plan));
        sending.asked = None;
        let survived = life.live(&mut sending);
        if let Some(Answer::Started { execution, .. }) =
            ticket.and_then(|ticket| life.rig.answer(ticket))
        {
            acknowledged = Some(*execution);
        }
        died |= !survived;
        if survived {
            break;
        }
        if let Some(id) = acknowledged {
            assert!(world.executions().contains(&id), "an acknowledged execution is lost");
        }
        world.outlive_leases();
    }
    let [execution] = world.executions()[..] else { panic!("one submission, one execution") };
    let status = world.status(execution);
    assert_eq!(status, case.end, "{} cut at {limits:?}: {:?}", case.flow, world.names(execution));
    world.check();
    died
}

#[test]
fn a_crash_after_any_output_loses_nothing() {
    for case in cases() {
        let mut limit = 0;
        while live_and_die(&case, &[limit]) {
            limit += 1;
        }
        assert!(limit > 5, "{}: the crash was tried at {limit} points only", case.flow);
    }
}

#[test]
fn a_second_crash_during_the_recovery_loses_nothing_either() {
    for case in cases() {
        let mut first = 0;
        while live_and_die(&case, &[first]) {
            for second in [0, 1, 2, 3, 5, 8, 13] {
                live_and_die(&case, &[first, second]);
            }
            first += 1;
        }
    }
}
