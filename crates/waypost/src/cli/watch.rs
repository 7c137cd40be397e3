//! `waypost watch`, and the parts it shares with `run`: an execution on the screen until it ends.

use anyhow::Result;
use waypost_core::event::Event;
use waypost_core::status::Status;
use waypost_ports::clock::{Clock, SystemClock};
use waypost_server::wire;

use super::interrupts::Interrupts;
use super::show::ShownExecution;
use super::{Context, Exit, failed, find};
use crate::client::News;
use crate::output::{self, Format, complain, print_json, print_line};
use crate::progress::Progress;
use crate::target::Target;

pub(crate) async fn run(args: &find::Named, context: &Context) -> Result<Exit> {
    let (target, id) = args.open(context).await?;
    let execution = target.execution(&id).await?;
    begin(&execution, context);
    match execution.status.0.is_end() {
        true => finish(&target, &id, context).await,
        false => follow(&target, &id, Unread::Stop, context).await,
    }
}

/// What a watch does if standard output fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// It continues to the end, for the exit code.
    Continue,
    /// It stops: there is nothing to watch for.
    Stop,
}

/// Shows the progress of an execution that another process drives until it ends, is quarantined, or
/// the user interrupts.
pub(super) async fn follow(
    target: &Target,
    id: &str,
    unread: Unread,
    context: &Context,
) -> Result<Exit> {
    let mut interrupts = Interrupts::listen()?;
    let mut feed = target.follow(id).await?;
    let mut screen = Screen::new(context);
    loop {
        let news = tokio::select! { // an interrupt ends the watch; nothing else drops the feed's future
            news = feed.next() => news?,
            () = interrupts.next() => {
                let note = format!(
                    "stopped watching; the execution goes on. See it again with: waypost watch {id}"
                );
                return stop(target, id, &note, Exit::Interrupted, context).await;
            }
        };
        match news {
            News::Events(events) => {
                let aside = events.iter().any(|event| event.kind == "RunQuarantined");
                screen.draw(&events);
                // The event may be old: the execution may have been resumed since.
                if aside && target.execution(id).await?.quarantine.is_some() {
                    return quarantine(target, id, context).await;
                }
            }
            News::Lost => screen.say("connection lost, trying again"),
            News::Back => screen.say("connected again"),
            News::Abandoned => {
                let note = format!("no engine is running; go on with: waypost resume {id}");
                return stop(target, id, &note, Exit::Failed, context).await;
            }
            News::Over => return finish(target, id, context).await,
        }
        if unread == Unread::Stop && output::failure().is_some() {
            complain(&format!(
                "stopped watching: standard output takes no more. See it again with: waypost watch \
                 {id}"
            ));
            return Ok(Exit::Failed);
        }
    }
}

/// Prints the execution that is watched.
pub(super) fn begin(execution: &wire::Execution, context: &Context) {
    if context.format == Format::Text {
        let wire::Execution { id, workflow, version, .. } = execution;
        print_line(&format!("execution {id}  workflow {workflow} v{version}"));
    }
}

/// Prints how it ended.
pub(super) async fn finish(target: &Target, id: &str, context: &Context) -> Result<Exit> {
    let shown = ShownExecution::read(target, id).await?;
    let execution = &shown.execution;
    let completed = execution.status.0 == Status::Completed;
    let exit = if completed { Exit::Done } else { Exit::Failed };
    if context.format == Format::Json {
        print_json(&shown)?;
        say_unprinted(execution);
        return Ok(exit);
    }
    let ended = execution.ended_at.unwrap_or(execution.updated_at);
    let took = ended.0.since(execution.created_at.0);
    print_line(&format!("{} in {took}", execution.status.0));
    print_end(target, &shown).await?;
    say_unprinted(execution);
    Ok(exit)
}

/// Prints how it ended on standard error if standard output failed, unless its reader is gone.
fn say_unprinted(execution: &wire::Execution) {
    if output::failure().is_some_and(|error| !output::is_reader_gone(error)) {
        let wire::Execution { id, status, .. } = execution;
        complain(&format!("execution {id} is {}; see it with: waypost show {id}", status.0));
    }
}

/// Prints the result of an execution.
pub(super) async fn print_end(target: &Target, shown: &ShownExecution) -> Result<()> {
    let execution = &shown.execution;
    if let Some(failure) = &execution.failure {
        let sentences = failed::sentences(target, &execution.id, failure, &shown.nodes).await?;
        sentences.iter().for_each(|sentence| print_line(&format!("failure: {sentence}")));
        failed::printed(failure).iter().for_each(|line| print_line(line));
    }
    if let Some(output) = execution.output.as_ref().filter(|output| !output.0.is_null()) {
        print_line(&format!("output: {}", output.0));
    }
    Ok(())
}

/// Prints that a person has to act on it.
pub(super) async fn quarantine(target: &Target, id: &str, context: &Context) -> Result<Exit> {
    let note = format!("quarantined: `waypost why {id}` says why");
    stop(target, id, &note, Exit::Failed, context).await
}

/// Ends the watch of an execution that has not ended: prints why, or its state.
async fn stop(
    target: &Target,
    id: &str,
    note: &str,
    exit: Exit,
    context: &Context,
) -> Result<Exit> {
    match context.format {
        Format::Json => print_json(&ShownExecution::read(target, id).await?)?,
        Format::Text => print_line(note),
    }
    Ok(exit)
}

/// Where progress is drawn, or nowhere, where only the end is printed.
struct Screen {
    progress: Option<Progress>,
}

impl Screen {
    fn new(context: &Context) -> Self {
        let text = context.format == Format::Text;
        Self { progress: text.then(|| Progress::new(context.color)) }
    }

    fn draw(&mut self, events: &[wire::Event]) {
        let Some(progress) = &mut self.progress else { return };
        // Events of one commit have one time, and are drawn together.
        for commit in events.chunk_by(|one, next| one.at == next.at) {
            let known: Vec<Event> = commit.iter().filter_map(stored).collect();
            if let Some(first) = commit.first() {
                progress.note(first.at.0, &known);
            }
        }
    }

    fn say(&mut self, text: &str) {
        if let Some(progress) = &mut self.progress {
            progress.say(SystemClock.now(), text);
        }
    }
}

/// The core's event for a wire event; `None` if the server is newer than this program and sends
/// events that it cannot draw.
fn stored(event: &wire::Event) -> Option<Event> {
    let text = format!("{{{:?}:{}}}", event.kind, event.data.0.text());
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use waypost_core::event::RunEvent;

    #[test]
    fn events_are_read_back_as_they_are_stored() {
        let wire = |kind: &str, data: &str| {
            let text = format!(
                r#"{{"seq":1,"at":"2026-01-31T09:00:00Z","epoch":1,"type":"{kind}","data":{data}}}"#
            );
            serde_json::from_str::<wire::Event>(&text).unwrap()
        };
        let event = stored(&wire("RunQuarantined", r#"{"reason":"x","later":[1]}"#));
        assert_eq!(event, Some(Event::Run(RunEvent::Quarantined { reason: "x".to_owned() })));
        assert_eq!(stored(&wire("NeverHeardOf", "{}")), None);
    }
}
