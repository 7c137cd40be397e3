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

/// An execution waits for a signal on one instance, and others emit on another one, one after the other.
/// Given the id of the first, `senders` says which. The signal must come, and only with a nudge.
async fn check_reaches_owner(receiver: &str, senders: impl FnOnce(&str) -> Vec<String>) {
    let (lab, bus) = (Lab::new(), Arc::new(Bus::default()));
    let [owner, other] = [(), ()].map(|()| engine(&lab, &bus));
    // It stays in the memory of its owner as long as its handler runs.
    let receiver = lab.start(&owner, receiver).await;
    let held = lab.held().await;
    lab.event(receiver.execution, "NodeWaiting").await;
    for flow in senders(receiver.new.as_ref().unwrap().key.as_str()) {
        let sender = lab.start(&other, &flow).await;
        assert_eq!(sender.ended().await.unwrap().status, Status::Completed);
    }
    lab.event(receiver.execution, "SignalReceived").await;
    assert_eq!(*bus.mail.lock(), [owner.instance()]);
    held.complete();
    assert_eq!(receiver.ended().await.unwrap().status, Status::Completed);
    owner.stop(LONG).await;
    other.stop(LONG).await;
}

#[tokio::test]
async fn emitted_signal_reaches_an_owner_on_another_instance_without_a_poll() {
    let sender = |id: &str| vec![format!("e = emit({id}, go)")];
    check_reaches_owner("w = signal(go); h handler hold", sender).await;
}

#[tokio::test]
async fn signal_by_key_reaches_an_owner_on_another_instance_without_a_poll() {
    // The first one, which nothing waits for, notifies no instance.
    let senders = ["order-8", "order-7"].map(|key| format!("e = emit(key {key}, go)"));
    let receiver = "w = signal(go, by order-7); h handler hold";
    check_reaches_owner(receiver, |_| senders.to_vec()).await;
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
