//! Which driver of an instance gets an input: a pure function of the input, except for starts.

use waypost_core::id::ExecutionNo;

use super::io::Input;

/// Who gets an input.
enum Addressee {
    One(usize),
    All,
    /// The driver with the least to do.
    Any,
    /// It has parts for several.
    Several,
}

/// Passes an input to the drivers that it is for, of so many. `least` is the one with the least to
/// do.
pub(crate) fn route(
    input: Input,
    drivers: usize,
    least: impl FnOnce() -> usize,
    mut to: impl FnMut(usize, Input),
) {
    if drivers == 1 {
        return to(0, input);
    }
    match addressee(&input, drivers) {
        Addressee::One(driver) => to(driver, input),
        Addressee::Any => to(least(), input),
        Addressee::All => {
            for driver in 0..drivers {
                if let Some(copy) = input.copy() {
                    to(driver, copy);
                }
            }
        }
        Addressee::Several => split(input, drivers, to),
    }
}

/// The driver that has an execution.
fn driver_of(execution: ExecutionNo, drivers: usize) -> usize {
    let drivers = i64::try_from(drivers).unwrap_or(1);
    usize::try_from(execution.0.rem_euclid(drivers)).unwrap_or(0)
}

fn addressee(input: &Input, drivers: usize) -> Addressee {
    let of = |execution: &ExecutionNo| Addressee::One(driver_of(*execution, drivers));
    match input {
        Input::Start(_) => Addressee::Any,
        Input::Appended(_) | Input::Mail(_) => Addressee::Several,
        Input::Report { execution, .. }
        | Input::Mark { execution, .. }
        | Input::Delivered { execution, .. }
        | Input::Fetched { execution, .. }
        | Input::Launched { execution, .. }
        | Input::AwaitEnd { execution, .. }
        | Input::EndFound { execution, .. }
        | Input::Forget { execution, .. }
        | Input::Adopt(execution) => of(execution),
        Input::TaskReport { report, .. } => of(&report.execution),
        Input::Request { request, .. } => of(&request.execution),
        Input::Reloaded(loaded) => of(&loaded.state.execution),
        Input::Reopen(retry) => of(&retry.1.execution),
        // A driver asks about its own executions only.
        Input::Doubted { executions, .. } => executions.first().map_or(Addressee::One(0), of),
        Input::WorkersSeen { share, .. }
        | Input::Claimed { share, .. }
        | Input::Collected { share, .. } => Addressee::One(usize::try_from(share.at).unwrap_or(0)),
        // It is only counted.
        Input::Held => Addressee::One(0),
        Input::Numbers(_)
        | Input::Nudge
        | Input::Wake
        | Input::MailWaits
        | Input::Renewed { .. }
        | Input::Readable(_)
        | Input::Lapsed
        | Input::Drain
        | Input::HandOver => Addressee::All,
    }
}

fn split(input: Input, drivers: usize, mut to: impl FnMut(usize, Input)) {
    match input {
        Input::Appended(answers) => {
            for (driver, part) in parts(answers, drivers, |(execution, _)| *execution) {
                to(driver, Input::Appended(part));
            }
        }
        Input::Mail(mail) => {
            for (driver, part) in parts(mail, drivers, |mail| mail.execution) {
                to(driver, Input::Mail(part));
            }
        }
        other => to(0, other),
    }
}

/// The parts of the drivers, in order; none of them is empty.
fn parts<T>(
    all: Vec<T>,
    drivers: usize,
    execution: impl Fn(&T) -> ExecutionNo,
) -> impl Iterator<Item = (usize, Vec<T>)> {
    let mut parts: Vec<Vec<T>> = (0..drivers).map(|_| Vec::new()).collect();
    for one in all {
        if let Some(part) = parts.get_mut(driver_of(execution(&one), drivers)) {
            part.push(one);
        }
    }
    parts.into_iter().enumerate().filter(|(_, part)| !part.is_empty())
}

impl Input {
    /// The same for another driver; `None` if it is for one alone.
    pub(crate) fn copy(&self) -> Option<Self> {
        Some(match self {
            Self::Numbers(numbers) => Self::Numbers(numbers.clone()),
            Self::Nudge => Self::Nudge,
            Self::Wake => Self::Wake,
            Self::MailWaits => Self::MailWaits,
            Self::Renewed { until } => Self::Renewed { until: *until },
            Self::Readable(format) => Self::Readable(*format),
            Self::Lapsed => Self::Lapsed,
            Self::Drain => Self::Drain,
            Self::HandOver => Self::HandOver,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::time::Timestamp;
    use waypost_ports::store::{Appended, Share};

    use super::*;
    use crate::driver::Ticket;

    /// Who gets what, of so many drivers.
    fn routed(input: Input, drivers: usize) -> Vec<String> {
        let mut routed = Vec::new();
        let name = |input: Input| match input {
            Input::Appended(answers) => {
                let numbers: Vec<_> = answers.iter().map(|(execution, _)| execution.0).collect();
                format!("appended {numbers:?}")
            }
            Input::AwaitEnd { execution, .. } => format!("await {execution}"),
            Input::Collected { share, .. } => format!("collected {}", share.at),
            Input::Renewed { until } => format!("renewed {}", until.0),
            other => format!("{other:?}"),
        };
        route(input, drivers, || 1, |at, input| routed.push(format!("{at}: {}", name(input))));
        routed
    }

    fn appended(numbers: [i64; 4]) -> Input {
        Input::Appended(numbers.map(|number| (ExecutionNo(number), Appended::Fenced)).into())
    }

    #[test]
    fn route_splits_answers_by_number_and_keeps_their_order() {
        let parts = ["0: appended [6, 3]", "1: appended [1]", "2: appended [5]"];
        assert_eq!(routed(appended([6, 1, 5, 3]), 3), parts);
        assert_eq!(routed(appended([6, 1, 5, 3]), 1), ["0: appended [6, 1, 5, 3]"]);
        assert_eq!(routed(appended([6, 0, 9, 3]), 3), ["0: appended [6, 0, 9, 3]"]);
    }

    #[test]
    fn route_sends_what_concerns_one_execution_to_its_driver() {
        let await_end =
            |number| Input::AwaitEnd { execution: ExecutionNo(number), ticket: Ticket(1) };
        for (number, driver) in [(0, 0), (7, 1), (8, 2), (i64::MAX, 1)] {
            let number = ExecutionNo(number);
            assert_eq!(routed(await_end(number.0), 3), [format!("{driver}: await {number}")]);
        }
        let collected = Input::Collected { share: Share { at: 2, of: 3 }, whole: true };
        assert_eq!(routed(collected, 3), ["2: collected 2"]);
    }

    #[test]
    fn route_sends_what_concerns_the_instance_to_all_drivers() {
        let renewed = Input::Renewed { until: Timestamp(5) };
        assert_eq!(routed(renewed, 3), ["0: renewed 5", "1: renewed 5", "2: renewed 5"]);
        assert_eq!(routed(Input::Drain, 2), ["0: Drain", "1: Drain"]);
    }
}
