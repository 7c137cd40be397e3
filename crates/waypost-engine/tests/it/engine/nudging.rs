//! Mail that goes out with a commit: the instance that owns the receiver learns of it without polling. The
//! clock stands still, so that nothing is polled.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use waypost_core::id::InstanceId;
use waypost_core::status::Status;
use waypost_engine::{Engine, Parts};
use waypost_ports::nudge::{Nudge, Nudges, OnNudge};

use super::remote::LONG;
use crate::support::lab::Lab;

/// What instances send each other, at once.
#[derive(Default)]
struct Bus {
    listeners: Mutex<HashMap<InstanceId, OnNudge>>,
    mail: Mutex<Vec<InstanceId>>,
}

impl Nudges for Bus {
    fn send(&self, nudge: Nudge) {
        if let Nudge::Mail(to) = &nudge {
            self.mail.lock().push(*to);
            let listener = self.listeners.lock().get(to).cloned();
            listener.into_iter().for_each(|listener| listener(nudge.clone()));
        }
    }

    fn listen(&self, instance: InstanceId, on_nudge: OnNudge) {
        self.listeners.lock().insert(instance, on_nudge);
    }
}

fn engine(lab: &Lab, bus: &Arc<Bus>) -> Engine {
    lab.engine_with(|parts: &mut Parts| {
        parts.nudges = Arc::clone(bus) as Arc<dyn Nudges>;
        (parts.config.append_lanes, parts.config.among_others) = (2, true);
    })
}

#[tokio::test]
async fn emitted_signal_reaches_an_owner_on_another_instance_without_a_poll() {
    let (lab, bus) = (Lab::new(), Arc::new(Bus::default()));
    let [owner, other] = [(), ()].map(|()| engine(&lab, &bus));
    // It stays in the memory of its owner as long as its handler runs.
    let receiver = lab.start(&owner, "w = signal(go); h handler hold").await;
    let held = lab.held().await;
    let id = receiver.new.as_ref().unwrap().key.clone();
    let sender = lab.start(&other, &format!("e = emit({id}, go)")).await;
    assert_eq!(sender.ended().await.unwrap().status, Status::Completed);
    lab.event(receiver.execution, "SignalReceived").await;
    assert_eq!(*bus.mail.lock(), [owner.instance()]);
    held.complete();
    assert_eq!(receiver.ended().await.unwrap().status, Status::Completed);
    owner.stop(LONG).await;
    other.stop(LONG).await;
}

#[tokio::test]
async fn signal_by_key_reaches_an_owner_on_another_instance_without_a_poll() {
    let (lab, bus) = (Lab::new(), Arc::new(Bus::default()));
    let [owner, other] = [(), ()].map(|()| engine(&lab, &bus));
    let receiver = lab.start(&owner, "w = signal(go, by order-7); h handler hold").await;
    let held = lab.held().await;
    lab.event(receiver.execution, "NodeWaiting").await;
    // A signal that nothing waits for notifies no instance.
    let idle = lab.start(&other, "e = emit(key order-8, go)").await;
    assert_eq!(idle.ended().await.unwrap().status, Status::Completed);
    let sender = lab.start(&other, "e = emit(key order-7, go)").await;
    assert_eq!(sender.ended().await.unwrap().status, Status::Completed);
    lab.event(receiver.execution, "SignalReceived").await;
    assert_eq!(*bus.mail.lock(), [owner.instance()]);
    held.complete();
    assert_eq!(receiver.ended().await.unwrap().status, Status::Completed);
    owner.stop(LONG).await;
    other.stop(LONG).await;
}

#[tokio::test]
async fn commit_without_mail_and_mail_to_an_own_execution_nudge_no_other_instance() {
    let (lab, bus) = (Lab::new(), Arc::new(Bus::default()));
    let engine = engine(&lab, &bus);
    let receiver = lab.start(&engine, "w = signal(go); h handler hold").await;
    let held = lab.held().await;
    let id = receiver.new.as_ref().unwrap().key.clone();
    let sender = lab.start(&engine, &format!("a; e = emit({id}, go) needs a")).await;
    assert_eq!(sender.ended().await.unwrap().status, Status::Completed);
    lab.event(receiver.execution, "SignalReceived").await;
    held.complete();
    assert_eq!(receiver.ended().await.unwrap().status, Status::Completed);
    assert_eq!(*bus.mail.lock(), []);
    engine.stop(LONG).await;
}
