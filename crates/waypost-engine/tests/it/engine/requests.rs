//! Requests to executions wherever they are.

use std::sync::Arc;

use waypost_core::command::{FirstSignal, Refusal, Request};
use waypost_core::event::{Event, NodeEvent, Origin};
use waypost_core::flow;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::status::Status;
use waypost_core::why::why;
use waypost_engine::{ControlRequest, Engine, EngineError, Plans, Requested, StartRequest, fold};
use waypost_ports::store::Store;

use crate::support::lab::Lab;
use crate::support::store::{Call, Fault};

fn signal(name: &str) -> Request {
    Request::Signal { name: name.into(), body: Json::parse("1").unwrap() }
}

#[tokio::test]
async fn a_live_execution_does_it_at_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold; w = signal(go) needs a").await;
    let held = lab.held().await;
    let mut request = ControlRequest::new(started.execution, signal("go"));
    request.origin.actor = Some(Arc::from("ann"));
    let done = engine.request(request).await;
    assert_eq!(done.unwrap(), Requested::Done { status: Status::Running, pausing: false });
    held.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed, "the signal was kept");
}

#[tokio::test]
async fn a_parked_execution_is_woken() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started =
        lab.start(&engine, "w = signal(go); o = output(${{ nodes.w.output }}) needs w").await;
    lab.event(started.execution, "RunPaused").await;
    let accepted =
        engine.request(ControlRequest::new(started.execution, signal("go"))).await.unwrap();
    assert!(matches!(accepted, Requested::Accepted { .. }));
    assert_eq!(started.ended().await.unwrap().output, Some(Json::parse("1").unwrap()));
}

#[tokio::test]
async fn signal_with_a_reserved_name_is_refused_also_with_a_start() {
    let lab = Lab::new();
    let engine = lab.engine();
    for name in ["waypost.delivery.5", "waypost/callback:p/1"] {
        let (body, origin) = (Json::null(), Origin::default());
        let signal = Some(FirstSignal { name: name.into(), body, origin });
        let refused = engine.start(StartRequest { signal, ..lab.request("w = signal(go)") }).await;
        let reserved = |refused| matches!(refused, EngineError::Refused(Refusal::ReservedSignal));
        assert!(refused.is_err_and(reserved), "{name}");
        let started = lab.start(&engine, "a handler hold").await;
        let refused =
            engine.request(ControlRequest::new(started.execution, self::signal(name))).await;
        assert!(refused.is_err_and(reserved), "{name}");
    }
}

#[tokio::test]
async fn an_ended_and_an_unknown_execution_refuse() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a").await;
    let execution = started.execution;
    started.ended().await.unwrap();
    let late = engine
        .request(ControlRequest::new(execution, Request::Resume { reason: None }))
        .await
        .unwrap_err();
    assert!(matches!(late, EngineError::Refused(Refusal::Ended(Status::Completed))), "{late:?}");
    let unknown = engine
        .request(ControlRequest::new(ExecutionNo(4711), Request::Resume { reason: None }))
        .await
        .unwrap_err();
    assert!(matches!(unknown, EngineError::Unknown), "{unknown:?}");
}

#[tokio::test]
async fn a_request_that_changes_nothing_is_refused() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold").await;
    let held = lab.held().await;
    let refused = engine
        .request(ControlRequest::new(started.execution, Request::Resume { reason: None }))
        .await
        .unwrap_err();
    assert!(matches!(refused, EngineError::Refused(Refusal::NotPaused)), "{refused:?}");
    held.complete();
    started.ended().await.unwrap();
}

/// Signals race with executions that park: each is answered, none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_signal_is_lost_to_an_execution_that_parks() {
    let lab = Lab::new();
    let engine = lab.engine();
    for _ in 0..300 {
        let started = lab.start(&engine, "w = signal(go); v = signal(go) needs w; a needs v").await;
        for _ in 0..2 {
            engine.request(ControlRequest::new(started.execution, signal("go"))).await.unwrap();
        }
        assert_eq!(started.ended().await.unwrap().status, Status::Completed);
    }
}

/// A cancellation races with the end: either way the caller gets an answer, and the log agrees.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancellation_at_the_moment_of_completion_is_answered() {
    let lab = Lab::new();
    let engine = lab.engine();
    for _ in 0..300 {
        let started = lab.start(&engine, "a; b needs a").await;
        let cancel = Request::Cancel { reason: None };
        let answer = engine.request(ControlRequest::new(started.execution, cancel)).await;
        let status = started.ended().await.unwrap().status;
        match answer {
            Ok(Requested::Done { .. } | Requested::Accepted { .. }) => {}
            Err(EngineError::Refused(Refusal::Ended(of))) => {
                assert_eq!((of, status), (Status::Completed, Status::Completed));
            }
            Err(error) => panic!("{error:?}"),
        }
    }
}

#[tokio::test]
async fn a_pause_holds_until_the_resumption() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold; b needs a").await;
    let held = lab.held().await;
    let pause = Request::Pause { now: true, reason: None };
    engine.request(ControlRequest::new(started.execution, pause)).await.unwrap();
    held.cancel.cancelled().await;
    lab.event(started.execution, "RunPaused").await;
    let resumed = engine
        .request(ControlRequest::new(started.execution, Request::Resume { reason: None }))
        .await
        .unwrap();
    assert!(matches!(resumed, Requested::Accepted { .. }));
    let again = lab.held().await;
    assert_eq!((again.task.attempt, &again.task.idempotency_key), (2, &held.task.idempotency_key));
    again.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}

/// Sends a request under an id that the sender chose.
async fn send(
    engine: &Engine,
    execution: ExecutionNo,
    body: Request,
    message: &str,
) -> Result<Requested, EngineError> {
    let origin = Origin { message: Some(message.into()), actor: None };
    engine.request(ControlRequest { origin, ..ControlRequest::new(execution, body) }).await
}

fn is_duplicate(answer: &Result<Requested, EngineError>) -> bool {
    matches!(answer, Err(EngineError::Refused(Refusal::Duplicate)))
}

#[tokio::test]
async fn a_message_that_was_consumed_is_refused_in_memory_parked_and_reloaded() {
    let lab = Lab::new();
    let engine = lab.engine();
    let flow = "a handler hold; w = signal(go) needs a; b needs w handler hold";
    let started = lab.start(&engine, flow).await;
    let execution = started.execution;
    let a = lab.held().await;
    let first = send(&engine, execution, signal("other"), "m").await.unwrap();
    assert_eq!(first, Requested::Done { status: Status::Running, pausing: false });
    let live = send(&engine, execution, signal("other"), "m").await;
    assert!(is_duplicate(&live), "{live:?}");

    a.complete();
    lab.event(execution, "RunPaused").await;
    let parked = send(&engine, execution, signal("other"), "m").await;
    assert!(is_duplicate(&parked), "{parked:?}");

    send(&engine, execution, signal("go"), "n").await.unwrap();
    let b = lab.held().await;
    for message in ["m", "n"] {
        let reloaded = send(&engine, execution, signal("go"), message).await;
        assert!(is_duplicate(&reloaded), "{reloaded:?}");
    }
    assert_eq!(lab.count("SignalReceived"), 2);
    b.complete();
    started.ended().await.unwrap();
}

#[tokio::test]
async fn every_request_is_done_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "a handler hold").await;
    let execution = started.execution;
    lab.held().await;
    // A refusal is remembered, too: what was asked at the wrong moment is not done at a later one.
    let requests = [
        ("early", Request::Resume { reason: None }),
        ("pause", Request::Pause { now: true, reason: None }),
        ("resume", Request::Resume { reason: None }),
    ];
    let early = send(&engine, execution, Request::Resume { reason: None }, "early").await;
    assert!(matches!(early, Err(EngineError::Refused(Refusal::NotPaused))), "{early:?}");
    send(&engine, execution, Request::Pause { now: true, reason: None }, "pause").await.unwrap();
    lab.event(execution, "RunPaused").await;
    send(&engine, execution, Request::Resume { reason: None }, "resume").await.unwrap();
    let again = lab.held().await;
    for (message, body) in requests {
        let answer = send(&engine, execution, body, message).await;
        assert!(is_duplicate(&answer), "{message}: {answer:?}");
    }
    let cancel = Request::Cancel { reason: None };
    send(&engine, execution, cancel.clone(), "cancel").await.unwrap();
    let twice = send(&engine, execution, cancel, "cancel").await;
    assert!(twice.is_err(), "{twice:?}");
    again.cancel.cancelled().await;
    assert_eq!(started.ended().await.unwrap().status, Status::Cancelled);
    assert_eq!((lab.count("RunPauseRequested"), lab.count("RunEnding")), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_sent_twice_at_once_is_consumed_once() {
    let lab = Lab::new();
    let engine = lab.engine();
    for round in 0..200 {
        let started = lab.start(&engine, "w = signal(go); v = signal(go) needs w").await;
        let execution = started.execution;
        let (first, second) = tokio::join!(
            send(&engine, execution, signal("go"), "m"),
            send(&engine, execution, signal("go"), "m"),
        );
        assert!(first.is_ok() || second.is_ok(), "{round}: {first:?}, {second:?}");
        // Whatever the answer to the other one was, it was not done: `v` still waits.
        send(&engine, execution, signal("go"), "n").await.unwrap();
        assert_eq!(started.ended().await.unwrap().status, Status::Completed);
        let signals = lab.count("SignalReceived");
        assert_eq!(signals, 2 * (round + 1));
    }
}

/// The mail is in the inbox and the reply is lost: what the second try finds there is its own.
#[tokio::test]
async fn a_repeat_by_the_engine_is_no_duplicate() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "w = signal(go)").await;
    lab.event(started.execution, "RunPaused").await;
    lab.store.break_calls(&[Call::Deliver], &Fault::LosesReply);
    let sent = send(&engine, started.execution, signal("go"), "m");
    tokio::pin!(sent);
    assert!(futures_util::poll!(&mut sent).is_pending());
    lab.store.failures(2).await;
    lab.store.heal();
    let message = Arc::from("m");
    assert_eq!(sent.await.unwrap(), Requested::Accepted { message });
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn end_is_returned_without_a_usable_definition() {
    let lab = Lab::new();
    let first = lab.engine();
    let started = lab.start(&first, "o = output(7)").await;
    let execution = started.execution;
    started.ended().await.unwrap();
    drop(first);
    let refuses = |text: &str| match text.contains("out") {
        true => Err("this build does not know it".to_owned()),
        false => flow::compile(text),
    };
    let second = lab.engine_with(|parts| parts.plans = Arc::new(Plans::new(Box::new(refuses))));
    let late = second
        .request(ControlRequest::new(execution, Request::Resume { reason: None }))
        .await
        .unwrap_err();
    assert!(matches!(late, EngineError::Refused(Refusal::Ended(Status::Completed))), "{late:?}");
    assert_eq!(second.ended(execution).await.unwrap().output, Some(Json::parse("7").unwrap()));
}

#[tokio::test]
async fn the_end_of_any_execution_can_be_awaited() {
    let lab = Lab::new();
    let engine = lab.engine();
    let started = lab.start(&engine, "w = signal(go); o = output(7) needs w").await;
    let execution = started.execution;
    drop(started);
    lab.event(execution, "RunPaused").await;
    {
        let withdrawn = engine.ended(execution);
        tokio::pin!(withdrawn);
        assert!(futures_util::poll!(&mut withdrawn).is_pending());
    }
    let ended = engine.ended(execution);
    tokio::pin!(ended);
    assert!(futures_util::poll!(&mut ended).is_pending());
    engine.request(ControlRequest::new(execution, signal("go"))).await.unwrap();
    let end = ended.await.unwrap();
    assert_eq!((end.status, end.output), (Status::Completed, Some(Json::parse("7").unwrap())));
    assert!(engine.ended(execution).await.is_some(), "also where it has been");
    assert!(engine.ended(ExecutionNo(4711)).await.is_none());
}

/// The event that opened the only wait of an execution, as `why` tells it.
fn open_wait(lab: &Lab, execution: ExecutionNo) -> u64 {
    let history = lab.store.inner.load(execution).unwrap().unwrap();
    let loaded = fold(history, &Plans::new(Box::new(flow::compile)), &lab.store.inner).unwrap();
    let reasons = why(&loaded.plan, &loaded.state, None);
    reasons.iter().find_map(|reason| reason.wait).expect("something waits")
}

#[tokio::test]
async fn completed_wait_continues_with_the_given_output() {
    let cases = [
        ("w = signal(go); o = output(${{ nodes.w.output }}) needs w", "RunPaused", "7"),
        ("d = delay(1h); o = output(${{ nodes.d.output }}) needs d", "RunPaused", "null"),
        ("d = delay(1500ms); o = output(${{ nodes.d.output }}) needs d", "NodeWaiting", "null"),
    ];
    for (flow, rests, output) in cases {
        let lab = Lab::new();
        let engine = lab.engine();
        let started = lab.start(&engine, flow).await;
        let execution = started.execution;
        lab.event(execution, rests).await;
        let (wait, body) = (open_wait(&lab, execution), Json::parse("7").unwrap());
        let end = Request::CompleteWait { wait, body };
        let mut request = ControlRequest::new(execution, end.clone());
        request.origin = Origin { message: Some("m".into()), actor: Some("ann".into()) };
        engine.request(request).await.unwrap();
        let ended = started.ended().await.unwrap();
        assert_eq!(ended.output, Some(Json::parse(output).unwrap()), "{flow}");
        let Event::Node(NodeEvent::Resumed { origin, .. }) =
            lab.find(execution, "NodeResumed").unwrap()
        else {
            panic!("it was found by its name");
        };
        assert_eq!((origin.message.as_deref(), origin.actor.as_deref()), (Some("m"), Some("ann")));
    }
}

#[tokio::test]
async fn wait_is_completed_once_and_refused_where_there_is_none() {
    let lab = Lab::new();
    let engine = lab.engine();
    let flow = "w = signal(go); v = signal(go) needs w; a needs v handler hold";
    let started = lab.start(&engine, flow).await;
    let execution = started.execution;
    lab.event(execution, "RunPaused").await;
    let end = |wait| Request::CompleteWait { wait, body: Json::null() };
    let first = open_wait(&lab, execution);
    send(&engine, execution, end(first), "m").await.unwrap();
    lab.event(execution, "NodeCompleted").await;
    let again = send(&engine, execution, end(first), "m").await;
    assert!(is_duplicate(&again), "{again:?}");
    send(&engine, execution, signal("go"), "n").await.unwrap();
    let held = lab.held().await;
    let gone = send(&engine, execution, end(first), "o").await;
    let expected = Refusal::NoSuchWait(first);
    assert!(matches!(&gone, Err(EngineError::Refused(why)) if *why == expected), "{gone:?}");
    assert_eq!(lab.count("NodeResumed"), 2);
    held.complete();
    assert_eq!(started.ended().await.unwrap().status, Status::Completed);
}
