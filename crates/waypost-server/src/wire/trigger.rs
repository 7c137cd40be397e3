//! Triggers on the wire.

use super::control::{MessageIdText, ReasonText};
use super::payload::{Count, Labels, OwnId, Payload, Time};

/// Fires of a backfill in a second.
pub type BackfillRate = Count<1, 100>;

wire! {
    /// The answer to a request to a webhook trigger.
    pub struct HookReply {
        /// `started`; `repeated`, where the delivery came before; `filtered`, where the trigger's `if` does not hold.
        pub outcome: String,
        /// The execution.
        pub id?: String,
    }

    /// What became of published events.
    pub struct EventsPublished {
        /// The number of events.
        pub accepted: u64,
        /// The executions that they started.
        pub started: Vec<StartedByTrigger>,
        /// How often an event went to an execution that waits for it.
        pub woken: u64,
        /// How often an event was put into a window, or waits for its throttle.
        pub held: u64,
        /// How often a trigger, or an execution that waits, had got an event before.
        pub duplicates: u64,
        /// How often the `if` of a trigger did not hold.
        pub filtered: u64,
        /// How often a trigger started nothing because of its concurrency limit, or of its throttle with `over: drop`.
        pub skipped: u64,
        /// How often a trigger could not start anything: see its dead letters.
        pub dead: u64,
    }

    /// An execution that a trigger started.
    pub struct StartedByTrigger {
        /// The workflow.
        pub workflow: String,
        /// The trigger's name.
        pub trigger: String,
        /// The execution's id.
        pub id: String,
    }

    /// A trigger.
    pub struct Trigger {
        /// The workflow.
        pub workflow: String,
        /// Its name, which is unique in the workflow.
        pub name: String,
        /// `schedule`, `webhook`, `event`, `poll`, `stream` or `workflow-ended`.
        pub kind: String,
        /// `active`, `paused`, `broken` or `retired`.
        pub state: String,
        /// Why it is paused or broken.
        pub reason?: String,
        /// The version of the workflow that it starts.
        pub version: u32,
        /// The types of events that it gets, or the workflow whose ends it gets.
        pub topics: Vec<String>,
        /// When it is due next, or the next of its events that wait.
        pub next_due_at?: Time,
        /// Events that wait, in windows or for the throttle; absent where there is none, and in lists.
        pub waiting?: u64,
        /// When it fired last.
        pub last_fired_at?: Time,
        /// When the first version that has it was deployed.
        pub registered_at: Time,
        /// Reads in a row that failed.
        pub failures: u32,
        /// The last failure.
        pub failure?: String,
        /// How far it is; absent for kinds that keep nothing.
        pub cursor?: Payload,
        /// Grows with each deploy, pause, resumption and rewind.
        pub revision: u64,
    }

    /// A page of triggers, by workflow and name.
    pub struct TriggerList {
        /// The triggers on this page.
        pub triggers: Vec<Trigger>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }

    /// The next times of a schedule.
    pub struct TriggerTimes {
        /// Its zone.
        pub zone: String,
        /// The times; fewer than asked for where the schedule ends.
        pub times: Vec<TriggerTime>,
    }

    /// A time of a schedule.
    pub struct TriggerTime {
        /// The nominal time, which identifies the fire.
        pub at: Time,
        /// The same on the clock of the zone, with its offset.
        pub local: String,
        /// When it fires: later than the nominal time by the jitter.
        pub fires_at: Time,
        /// What daylight saving time has to do with it.
        pub remark?: String,
    }

    /// A request to fire a trigger by hand, or to test one.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    pub struct FireTrigger {
        /// What its kind brings: a body, an event, an item, an execution that ended. A schedule brings nothing.
        #[serde(default)]
        pub payload: Payload,
        /// Of a webhook: the request headers that its expressions see, as an object of texts.
        #[serde(default)]
        pub headers: Payload,
        /// The request's id: a repeat with the same id fires nothing.
        pub message_id?: MessageIdText,
    }

    /// What a fire led to.
    pub struct TriggerFired {
        /// `started`, `repeated`, `filtered`, `rejected` by a concurrency limit, or `dead`.
        pub outcome: String,
        /// The execution.
        pub id?: String,
        /// Why it started none.
        pub reason?: String,
    }

    /// What a trigger would start.
    pub struct TriggerTested {
        /// `start`, `filtered` or `failed`.
        pub outcome: String,
        /// The input of the execution.
        pub input?: Payload,
        /// Its id; absent where one is made.
        pub id?: OwnId,
        /// Its labels.
        pub labels?: Labels,
        /// Why it would start none.
        pub reason?: String,
    }

    /// A request to pause a trigger.
    #[derive(Default)]
    #[serde(deny_unknown_fields)]
    pub struct PauseTrigger {
        /// The reason, which the trigger shows.
        pub reason?: ReasonText,
    }

    /// A request to fire times of the past.
    #[serde(deny_unknown_fields)]
    pub struct BackfillTrigger {
        /// The first time that fires.
        pub from: Time,
        /// The first one that does not; at most now.
        pub to: Time,
        /// Whether times fire that fired before; default: no, and then times are refused that may have fired more than 8 days ago.
        #[serde(default)]
        pub again: bool,
        /// Fires in a second; default: 10.
        pub rate?: BackfillRate,
        /// Only count the times; default: no.
        #[serde(default)]
        pub dry_run: bool,
    }

    /// A backfill that was accepted, or counted.
    pub struct TriggerBackfill {
        /// Its id, to cancel it; absent where nothing is to be fired.
        pub id?: u64,
        /// The number of times.
        pub count: u64,
        /// The first of the times, at most 100.
        pub times: Vec<Time>,
    }

    /// A request to move a trigger to another place.
    #[serde(deny_unknown_fields)]
    pub struct RewindTrigger {
        /// The time after which a schedule goes on.
        pub to?: Time,
        /// The cursor from which a poll goes on; of a stream, the text `now`, `beginning` or, for Redis, the id of an entry.
        pub cursor?: Payload,
        /// Whether items fire that fired before; default: no.
        #[serde(default)]
        pub again: bool,
    }

    /// An item of a trigger's history.
    pub struct TriggerFire {
        /// `TriggerInputReceived` for what started an execution or was put into a window or before a throttle, `TriggerCursorAdvanced` for what was passed over, `TriggerGap` for entries of a stream that were removed before they were read.
        pub event: String,
        /// What identifies the item.
        pub key: String,
        /// When it was recorded.
        pub at: Time,
        /// The nominal time of a schedule.
        pub nominal?: Time,
        /// `started`, `filtered`, `skipped`, `missed`, `dead`, `collected` or `gap`.
        pub outcome: String,
        /// Why it started nothing.
        pub reason?: String,
        /// The execution that it started.
        pub id?: String,
    }

    /// A page of the history of a trigger, newest first. Items are kept for 8 days at least.
    pub struct TriggerFireList {
        /// The items on this page.
        pub fires: Vec<TriggerFire>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }

    /// An item that could start no execution.
    pub struct TriggerDeadLetter {
        /// Its id.
        pub id: i64,
        /// What identifies the item.
        pub key: String,
        /// When it was recorded.
        pub at: Time,
        /// Why it started nothing.
        pub reason: String,
        /// `dead`, `retried` or `discarded`.
        pub state: String,
        /// What it was about, as it is kept.
        pub payload: Payload,
    }

    /// A page of dead letters of a trigger, newest first. They are kept for 30 days.
    pub struct TriggerDeadLetterList {
        /// The dead letters on this page.
        pub dead_letters: Vec<TriggerDeadLetter>,
        /// Pass this as `cursor` for the next page; absent on the last page.
        pub next?: String,
    }
}
