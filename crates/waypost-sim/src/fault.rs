//! Faults: what may go wrong, and how likely each is in the world of a seed.
//!
//! The chances are drawn per seed, and some are zero: a world in which everything fails hides the
//! bugs that need most of it to work.

use std::collections::BTreeSet;

use crate::random::Random;

/// Declares the faults, with the names that people type and what each means.
macro_rules! faults {
    ($($fault:ident = $name:literal, $meaning:literal;)*) => {
        /// Something that goes wrong.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Fault {
            $(#[doc = $meaning] $fault,)*
        }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$fault,)*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$fault => $name,)*
                }
            }

            /// What it means.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$fault => $meaning,)*
                }
            }
        }
    };
}

faults! {
    Kill = "kill", "a process dies at any point and another is started later";
    Killer = "killer", "one execution kills every process that decides it";
    Suspend = "suspend", "a process stands still, sometimes beyond its lease, and wakes up";
    Skew = "skew", "a machine's clock is wrong";
    Step = "step", "a machine's clock is set, forward or back";
    Drift = "drift", "a machine's clock runs fast or slow";
    Outage = "outage", "the store answers no call for a while";
    Fails = "fails", "a call fails before it is done";
    LostReply = "lost-reply", "a call is done and its reply is lost";
    Slow = "slow", "a call takes long, sometimes longer than the lease";
    Posthumous = "posthumous", "a call of a process that has died is done all the same";
    Full = "full", "the store has no space left for a while";
    Poison = "poison", "the store refuses the data of a frame, which fails its whole batch";
    StaleRead = "stale-read", "others commit between what a statement reads and what it writes";
    Repeat = "repeat", "a call is repeated while the first one still waits behind a key";
    LostSuffix = "lost-suffix", "a replica that is behind becomes the store";
    CacheLost = "cache-lost", "a snapshot is gone";
    CacheSpoiled = "cache-spoiled", "a snapshot is not what was written, or an old one";
    LostNudge = "lost-nudge", "a nudge does not arrive";
    LateNudge = "late-nudge", "a nudge arrives late";
    DoubleNudge = "double-nudge", "a nudge arrives twice";
    WorkerDeath = "worker-death", "an attempt is lost with its worker";
    DoubleReport = "double-report", "a report arrives twice";
    LateReport = "late-report", "a report arrives late, maybe after the attempt was abandoned";
    Contradiction = "contradiction", "a second report contradicts the first";
    Zombie = "zombie", "a report comes from a worker that does not hold the attempt";
    Checkpoints = "checkpoints", "attempts leave marks";
    FarDeath = "far-death", "a remote worker dies, and another comes up later";
    FarSilence = "far-silence", "a remote worker reaches no instance for longer than its lease";
    FarForgets = "far-forgets", "a remote worker forgets a task that it began";
    LatePoll = "late-poll", "a poll of a remote worker arrives late, at several instances, after its next poll";
    NoStart = "no-start", "the first report of a remote worker is the end of its attempt";
    OfferLost = "offer-lost", "an offer, or what a poll was given, is lost on the way";
    TasksFail = "tasks-fail", "the store of remote tasks does not answer";
    TasksLost = "tasks-lost", "the store of remote tasks loses everything";
    DeafWorker = "deaf-worker", "a worker ignores a cancellation";
    EffectWithoutReply = "effect-without-reply", "a call to the outside world works and is not answered";
    NoEffectNoReply = "no-effect-no-reply", "a call to the outside world is lost on the way";
    Impatience = "impatience", "a caller submits again because the answer did not come";
    DoubleRequest = "double-request", "a caller repeats a request under the same message id";
    Signals = "signals", "signals come early, late, twice and unasked for";
    Resumptions = "resumptions", "users complete waits, also such as do not exist";
    Pauses = "pauses", "users pause and resume";
    Cancels = "cancels", "users cancel";
    Retries = "retries", "users retry ended executions, twice, and at two instances at once";
    Drains = "drains", "a process is stopped in order and hands over";
    OldVersion = "old-version", "some processes cannot read what others write";
    BlobFails = "blob-fails", "the blob store answers no call for a while";
    BlobSlow = "blob-slow", "what was fetched arrives late, after what was fetched later";
    BlobLostBeforeCommit = "blob-lost-before-commit", "a process dies after it has put a blob, before a frame names it";
    GcRuns = "gc-runs", "the sweep deletes blobs that no execution names";
    Steers = "steers", "users cancel items of maps, hold and release maps, and change their concurrency";
    EndpointFails = "endpoint-fails", "a webhook endpoint is down for a while, or answers a message with an error";
    EndpointGone = "endpoint-gone", "a webhook endpoint answers 410, and is disabled until a user resumes it";
    DeliveryUnanswered = "delivery-unanswered", "a webhook endpoint gets a message, and its answer is lost";
    Answers = "answers", "people decide approvals, twice, at two instances, and at the moment of expiry";
    Callbacks = "callbacks", "services call back before the node waits, twice, with a forged token, at the moment of expiry and late";
    Budgets = "budgets", "users change budgets, also such as are not exhausted";
    SourceRepeats = "source-repeats", "a source of a poll tells items again, also twice in one page";
    SourceLate = "source-late", "an item of a source appears after later ones, within the lookback of its poll";
    SourceBack = "source-back", "a source goes back: a read is answered as of an earlier moment";
    HookTwice = "hook-twice", "a delivery comes twice, at two instances at once";
    ProjectorDies = "projector-dies", "the projector loses what it has not written";
}

impl Fault {
    /// The fault of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}

/// How likely each fault is, and how often each has struck.
#[derive(Clone, Debug)]
pub struct Weather {
    /// Chances in a thousand, by the order of [`Fault::ALL`].
    chances: Vec<u64>,
    struck: Vec<u64>,
    random: Random,
    faults_over: bool,
}

impl Weather {
    /// The weather of a seed, without some faults.
    pub fn draw(seed: &Random, without: &BTreeSet<Fault>) -> Self {
        // Each from a stream of its own: leaving one out does not change the others.
        let chance = |fault: &Fault| {
            let mut random = seed.split(fault.name());
            let chance = match random.below(4) {
                0 | 1 => 0,
                2 => random.between(1, 40),
                _ => random.between(40, 400),
            };
            if without.contains(fault) { 0 } else { chance }
        };
        Self {
            chances: Fault::ALL.iter().map(chance).collect(),
            struck: vec![0; Fault::ALL.len()],
            random: seed.split("weather"),
            faults_over: false,
        }
    }

    /// Does it strike now?
    pub fn strikes(&mut self, fault: Fault) -> bool {
        let at = fault as usize;
        let chance = self.chances.get(at).copied().unwrap_or(0);
        let strikes = !self.faults_over && self.random.below(1_000) < chance;
        if strikes && let Some(struck) = self.struck.get_mut(at) {
            *struck += 1;
        }
        strikes
    }

    /// As `strikes`, drawn from another stream: the faults before it strike as they did without it.
    pub fn strikes_apart(&mut self, fault: Fault, random: &mut Random) -> bool {
        let at = fault as usize;
        let chance = self.chances.get(at).copied().unwrap_or(0);
        let strikes = !self.faults_over && random.below(1_000) < chance;
        if strikes && let Some(struck) = self.struck.get_mut(at) {
            *struck += 1;
        }
        strikes
    }

    /// Nothing goes wrong any more.
    pub fn end_faults(&mut self) {
        self.faults_over = true;
    }

    /// How often each fault has struck, by the order of [`Fault::ALL`].
    pub fn struck(&self) -> &[u64] {
        &self.struck
    }

    /// Has it struck?
    pub fn has_struck(&self, fault: Fault) -> bool {
        self.struck.get(fault as usize).is_some_and(|struck| *struck > 0)
    }

    /// The chances, for people.
    pub fn describe(&self) -> String {
        let shown = Fault::ALL.iter().zip(&self.chances).filter(|(_, chance)| **chance > 0);
        let shown = shown.map(|(fault, chance)| format!("{} {chance}‰", fault.name()));
        shown.collect::<Vec<_>>().join(", ")
    }
}
