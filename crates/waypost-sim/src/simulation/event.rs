//! What can happen in a simulation, and how a driver's outputs are described.

use waypost_core::command::Outcome;
use waypost_core::event::Event as LogEvent;
use waypost_core::expr::Wanted;
use waypost_core::id::ExecutionNo;
use waypost_core::json::Json;
use waypost_core::time::Millis;
use waypost_engine::driver::{
    ControlRequest, Input, Outgoing, Output, StoreWork, TaskOrder, TaskWork,
};
use waypost_ports::memory::Claimable;
use waypost_ports::store::Renewal;

use super::operations::{AppendOp, Stage};
use crate::process::Life;

/// Something that will happen.
pub enum WorldEvent {
    /// A process takes a step.
    Step(Life),
    /// A process sends a sign of life.
    Heartbeat(Life),
    /// That reaches the store.
    Renew { life: Life, sent: Millis, numbers: u32 },
    /// The store's answer to that.
    Renewed { life: Life, sent: Millis, renewal: Renewal },
    /// A statement of an append.
    Append(AppendOp, Stage),
    /// The first statement of a delivery.
    Put { life: Life, outgoing: Outgoing },
    /// The second.
    Wake { life: Life, outgoing: Outgoing },
    /// Other work at the store.
    Perform { life: Life, work: StoreWork, tries: u32 },
    /// The second statement of a claim.
    Take { life: Life, work: StoreWork, listed: Claimable },
    /// A process reads a blob.
    Fetch { life: Life, execution: ExecutionNo, wanted: Wanted },
    /// A blob is put after it was named.
    PutBlob { life: Option<Life>, payload: Json },
    /// The blob store answers again.
    BlobsAnswer,
    /// The sweep of blobs is due.
    SweepBlobs,
    /// Answers reach a process.
    Inputs(Life, Vec<Input>),
    /// A worker calls the outside world.
    Call(Life, Box<TaskOrder>),
    /// An attempt ends.
    Ended { life: Life, order: Box<TaskOrder>, outcome: Outcome },
    /// A user submits.
    Submit { at: usize, again: bool },
    /// A user sends a request to an execution: to this one, or to any.
    Request(Option<ExecutionNo>),
    /// A user repeats a request, under the same message id; for a signal, with its serial number.
    Repeat(ControlRequest, Option<u64>),
    /// A user steers a map of an execution.
    Steer(ExecutionNo),
    /// A service calls back.
    CallBack(super::services::OutgoingCallback),
    /// People decide an approval of an execution.
    Decide(ExecutionNo),
    /// A user changes the budget of an execution.
    Pay(ExecutionNo),
    /// A user releases a quarantined execution.
    Release(ExecutionNo),
    /// Something happens around remote workers.
    Far(super::far::FarEvent),
    /// Something happens around webhooks.
    Webhooks(super::webhooks::WebhookEvent),
    /// Something happens around triggers.
    Triggers(super::triggers::TriggerEvent),
    /// Something goes wrong.
    Fate,
    /// A process starts on a machine.
    Start { machine: usize },
    /// A frozen process continues.
    Resume(Life),
    /// The grace time of a stopping process is over: it hands over the attempts that still run.
    HandOver(Life),
    /// It leaves, whether that was committed or not.
    Leave(Life),
    /// The store answers again.
    OutageEnds,
    /// There is space again.
    SpaceComes,
    /// The projector writes.
    Project,
    /// After the faults: people unblock executions that make no progress.
    Care,
}

/// A driver's output, in a few words.
pub(super) fn kind_of(output: &Output) -> String {
    match output {
        Output::Store(StoreWork::Append(append)) => {
            let header = &append.header;
            format!("append x{} {}..{}", header.execution.0, header.first_seq, header.last_seq)
        }
        Output::Run(order) => format!("run x{} {}", order.execution.0, order.task.path),
        Output::Cancel(_) => "cancel task".to_owned(),
        Output::Tasks(TaskWork::Offer(order)) => {
            format!("offer x{} {}", order.id.execution.0, order.id.path)
        }
        Output::Tasks(TaskWork::Withdraw(id)) => {
            format!("withdraw x{} {}", id.execution.0, id.path)
        }
        Output::Tasks(TaskWork::Cancel(..)) => "cancel remote".to_owned(),
        Output::Tasks(TaskWork::Look(_)) => "look at workers".to_owned(),
        Output::Answer(ticket, answer) => format!("answer {} {answer:?}", ticket.0),
        Output::Store(StoreWork::Deliver(outgoing)) => {
            format!("deliver x{}", outgoing.mail.execution.0)
        }
        Output::Store(StoreWork::Claim { .. }) => "claim".to_owned(),
        Output::Store(StoreWork::Reload(ExecutionNo(id))) => format!("reload x{id}"),
        Output::Store(StoreWork::LoadEnded(request, _)) => {
            format!("load ended x{}", request.execution.0)
        }
        Output::Store(StoreWork::FindEnd(ExecutionNo(id))) => format!("find end x{id}"),
        Output::Store(StoreWork::Launch(order)) => format!("launch x{}", order.execution.0),
        Output::Store(StoreWork::Collect { .. }) => "collect".to_owned(),
        Output::Store(StoreWork::ReserveNumbers) => "numbers".to_owned(),
        Output::Fetch { execution, wanted } => format!("fetch x{} {wanted:?}", execution.0),
        Output::Renew => "renew".to_owned(),
        Output::Forward { input, .. } => format!("forward {input:?}"),
        Output::Store(StoreWork::Doubt(executions)) => format!("doubt {executions:?}"),
        Output::Store(StoreWork::Hold { execution, reason }) => {
            format!("hold x{}: {reason}", execution.0)
        }
        Output::Keep(context) => format!("keep {}", context.execution),
        Output::Forget(key) => format!("forget {key}"),
        Output::Committed(committed) => {
            let names: Vec<_> = committed.events.iter().map(LogEvent::name).collect();
            format!("committed x{} {}", committed.execution.0, names.join(" "))
        }
    }
}
