//! The route of signals by key.

use crate::actions::signals;
use crate::http::route::{Body, CONTROL, Effect, POST, Route, json, of};
use crate::problem::Code;
use crate::wire;

pub(super) static ROUTES: &[Route] = &[Route {
    name: "publishSignal",
    path: "/v1/signals",
    summary: "Publish a signal by its key",
    notes: "It goes to every execution that waits for the signal with this key. If there is none, it is kept for the first one that does. 429 `rate_limited`: 1,000 signals of this name and key wait to be taken already; publish it again later.",
    body: Body::Json { schema: of::<wire::Publish>, optional: false },
    replies: &[json::<wire::PublishResult>(200, "It is durable.")],
    problems: &[Code::InvalidInput],
    ..Route::new(POST, "control", (CONTROL, Effect::Audited), |server, call| {
        Box::pin(signals::publish(server, call))
    })
}];
