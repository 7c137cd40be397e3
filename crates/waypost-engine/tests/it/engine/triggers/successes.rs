//! `trigger.lastSuccessAt`.

use serde_json::json;
use waypost_core::time::{Millis, Timestamp};
use waypost_engine::triggers::BackfillRequest;

use super::{HOUR, every, fired};
use crate::support::lab::Lab;
use crate::support::triggers::{Instance, TRIGGER, WORKFLOW};
use crate::support::world::START;

/// A schedule of each hour whose first execution was completed; nothing holds the others up.
async fn with_a_success() -> (Lab, Instance, Option<Timestamp>) {
    let lab = Lab::new();
    let input = json!({ "last": "${{ trigger.lastSuccessAt }}" });
    lab.deploy(&every(HOUR, &json!({ "schedule": {}, "input": input })), "h handler hold");
    let instance = lab.instance();
    lab.clock.advance(Millis(HOUR));
    instance.run_due().await;
    lab.held().await.complete();
    lab.event(lab.started()[0], "RunCompleted").await;
    let success = lab.fires()[0].nominal;
    (lab, instance, success)
}

fn last_success(lab: &Lab) -> Option<Timestamp> {
    fired(lab, *lab.started().last().unwrap()).last_success_at
}

#[tokio::test]
async fn last_success_after_a_backfill_of_older_times_stays_the_newest_time() {
    let (lab, instance, success) = with_a_success().await;
    let from = START.minus(Millis(200 * HOUR));
    let to = from.plus(Millis(60 * HOUR));
    let request = BackfillRequest { from, to, again: false, rate: 60, dry_run: false };
    instance.control.backfill(WORKFLOW, TRIGGER, request).await.unwrap();
    instance.run_due().await;
    assert_eq!((lab.started().len(), last_success(&lab)), (61, None), "of a time before all");
    lab.clock.advance(Millis(HOUR));
    instance.run_due().await;
    assert_eq!((lab.started().len(), last_success(&lab)), (62, success));
}

#[tokio::test]
async fn last_success_before_many_failures_is_found() {
    let (lab, instance, success) = with_a_success().await;
    for _ in 0..100 {
        lab.clock.advance(Millis(HOUR));
        instance.run_due().await;
        lab.held().await.fail();
    }
    assert_eq!((lab.started().len(), last_success(&lab)), (101, success));
}
