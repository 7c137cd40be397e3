//! Planted bugs: mistakes that are easily made in an engine of this kind, for the simulator to
//! find.
//!
//! They exist only in builds with the feature `planted`, which no product is built with; otherwise
//! [`is_planted`] is a constant and nothing of them is left. A test shows that each is caught. At
//! each place the code is right without the bug; `is_planted` guards the wrong variant.

/// Declares the bugs, with the names that people type and what each means.
macro_rules! bugs {
    ($($bug:ident = $name:literal, $meaning:literal;)*) => {
        /// A planted bug.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Bug {
            $(#[doc = $meaning] $bug,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug,)*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$bug => $name,)*
                }
            }

            /// Its meaning.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$bug => $meaning,)*
                }
            }
        }
    };
}

bugs! {
    // The store.
    FenceWithoutParent = "fence-without-parent", "a frame goes in where its place is free, whatever it builds on";
    CommitTagIgnored = "commit-tag-ignored", "a batch that the database rolled back counts as committed";
    LookBeforeCommit = "look-before-commit", "parking checks for mail before its commit, and no sweep repairs that";
    VersionIgnored = "version-ignored", "a claim does not ask whether the claimer can read what is ready";
    SweepByIdAlone = "sweep-by-id-alone", "a claim takes what was claimable when the list was made";
    HoldByIdAlone = "hold-by-id-alone", "an execution is quarantined, although another instance owns it by now";
    ExpiryByOwnClock = "expiry-by-own-clock", "a lease is judged by the claimer's clock";
    LostReplyIsFailure = "lost-reply-is-failure", "a repeated append is not known by its id and taken for fenced";
    CrashUncounted = "crash-uncounted", "the death of an owner is not counted against the executions in its memory";
    SuspectUnmarked = "suspect-unmarked", "an execution in memory at a death is decided without being marked as in doubt";
    CrashNeverForgiven = "crash-never-forgiven", "progress does not clear the deaths that were counted before it";
    OrphansIgnored = "orphans-ignored", "executions of dead owners are not claimed";
    // The engine.
    ActBeforeCommit = "act-before-commit", "an attempt is made before its start is durable";
    AnswerBeforeCommit = "answer-before-commit", "a request is acknowledged before it is durable";
    TimerOutsideCommit = "timer-outside-commit", "the due time is not in the commit that parks";
    IdByHostName = "id-by-host-name", "an instance is named after its machine, at every start";
    OwnClock = "own-clock", "waits are judged by the machine's clock";
    SpansFromLeast = "spans-from-least", "durations count from the lower bound of the time";
    ClaimedIsDue = "claimed-is-due", "an execution that was claimed ahead of its due time is decided as if it were due";
    ClaimForgotten = "claim-forgotten", "a claim whose reply was lost is not asked for again";
    KeptBackRunsAnyway = "kept-back-runs-anyway", "an attempt that was abandoned while it waited for the lease is run";
    KeptWhileOwned = "kept-while-owned", "a signal to a paused execution is reported as kept, although an owner is about to end it";
    CancelBeforeKept = "cancel-before-kept", "a held execution is cancelled before the signals in its inbox are read";
    MailConsumedUnread = "mail-consumed-unread", "mail is deleted with a frame that does not hold it";
    CacheTrustedBySeq = "cache-trusted-by-seq", "a snapshot counts for the seq on its label, whatever it holds";
    QueuedTokenUnchecked = "queued-token-unchecked", "a report on a queued attempt counts with any token";
    SlotLeaked = "slot-leaked", "the slot of an attempt that has ended is not freed";
    OfferedOnce = "offered-once", "an offer to remote workers that was lost is not repeated";
    WorkerNeverMissed = "worker-never-missed", "the death of a remote worker goes unnoticed";
    ForgottenTaskKept = "forgotten-task-kept", "an attempt that a live remote worker has forgotten goes unnoticed";
    ForgottenAtOnce = "forgotten-at-once", "a remote worker that omits an attempt from one list loses it";
    TimerNeverArmed = "timer-never-armed", "a wait in memory has no timer";
    AdmittedWithoutPermit = "admitted-without-permit", "a take-over starts a queued execution without a permit";
    PermitForgottenInQueue = "permit-forgotten-in-queue", "an execution that returns to the queue does not check whether it has a permit by now";
    // The core.
    PromotionLost = "promotion-lost", "the end of an execution promotes no waiting execution, and neither does a sweep";
    PermitReleasedTwice = "permit-released-twice", "the end of an execution gives its permit to two";
    LastComesFirst = "last-comes-first", "a free permit goes to the last in the queue";
    HandedOverCounts = "handed-over-counts", "an attempt that an orderly stop handed over counts as lost";
    AbandonedCounts = "abandoned-counts", "an attempt that was lost counts as a try";
    BranchNeutral = "branch-neutral", "a branch that was not selected counts as neutral";
    AttemptInKey = "attempt-in-key", "the idempotency key names the attempt";
    JoinCountedTwice = "join-counted-twice", "a source counts twice for a join";
    RecoveryRunsCompleted = "recovery-runs-completed", "a take-over runs completed nodes again";
    CancelForgotten = "cancel-forgotten", "a take-over forgets that the execution is ending";
    RetryForgets = "retry-forgets", "a retry does not count the attempts before it";
    RetryUnnamed = "retry-unnamed", "a retry does not record its message id, so that its repeat runs it again";
    RetryRunsCompleted = "retry-runs-completed", "a retry runs completed nodes again";
    JitterSubtracts = "jitter-subtracts", "jitter makes the wait between two tries shorter";
    TooEarly = "too-early", "waits end a little before they are due";
    SignalStopsEarly = "signal-stops-early", "a signal that many wait for counts as delivered after the first frame";
    AnySignalIsEnough = "any-signal-is-enough", "the first of several signals ends the wait for all of them";
    MessageTwice = "message-twice", "a message that comes twice is consumed twice";
    AnyWait = "any-wait", "a request to end one wait ends whichever is open";
    PauseIgnored = "pause-ignored", "nodes start while the execution is paused";
    RemoteLostAtTakeOver = "remote-lost-at-take-over", "a take-over closes attempts that run remotely";
    RepeatRefused = "repeat-refused", "a worker that reports an end again is refused";
    LateMark = "late-mark", "a mark of an attempt that comes late replaces those after it";
    ForeignToken = "foreign-token", "a report counts with any token";
    BodyForgotten = "body-forgotten", "a container that is stopped is cancelled without awaiting the attempts in its body";
    ClosedScopeHears = "closed-scope-hears", "a report for an iteration that has closed counts for the open one";
    LoopOffByOne = "loop-off-by-one", "a loop begins one iteration more than it may";
    KeysIgnoreTries = "keys-ignore-tries", "a group that is tried again uses the idempotency keys of its first try";
    TokenWithoutScope = "token-without-scope", "attempts of one node in two items get the same token";
    ItemOpenedTwice = "item-opened-twice", "the last item of several that were opened together is opened again";
    WindowIgnored = "window-ignored", "a map opens as many items as if none were open";
    ToleranceOffByOne = "tolerance-off-by-one", "a map fails when as many items have failed as are tolerated";
    ResultsOutOfOrder = "results-out-of-order", "the results of a map are in the order in which its items completed";
    VariablesStayInside = "variables-stay-inside", "a variable that is set in a body is lost at its end";
    ClosedItemHears = "closed-item-hears", "a report for an item that has closed counts for one that is open";
    // Children.
    ChildForgotten = "child-forgotten", "a node that is stopped neither cancels nor awaits the execution that it started";
    ParentNotTold = "parent-not-told", "the end of an execution is not sent to the node that started it";
    BirthOutsideCommit = "birth-outside-commit", "an execution that a node starts is appended after the frame that records it, and not with it";
    EndTakenTwice = "end-taken-twice", "a retry of a node takes the end of its child a second time instead of opening it again";
    ChildStartedAnew = "child-started-anew", "a retry of a node starts another execution instead of opening its child again";
    // Signals by key.
    WaitsUnsubscribed = "waits-unsubscribed", "a wait by key that begins with a frame that takes mail is not written as a subscription";
    SubscriberBlind = "subscriber-blind", "a wait by key does not look for signals that came before it, and no sweep does";
    FedForEver = "fed-for-ever", "a wait by key gets no other signal after one that did not end it";
    // Messages to webhook endpoints.
    MessageOutsideCommit = "message-outside-commit", "messages are written after the frame that causes them, and not with it";
    SettledWithoutMail = "settled-without-mail", "the last delivery of a message is recorded without the mail to the node that waits for it";
    FirstEndpointIsEnough = "first-endpoint-is-enough", "a node that waits for its message continues when the first endpoint has it";
    MessageOvertakes = "message-overtakes", "a message is sent before an earlier one about the same execution";
    CoolingIgnored = "cooling-ignored", "an endpoint that cools is sent every message that is due";
    MessageClaimedForEver = "message-claimed-for-ever", "a message whose dispatcher died is not sent again";
    // Triggers.
    CursorOutsideCommit = "cursor-outside-commit", "the cursor of a poll moves before the items of its page have fired";
    FireNotFenced = "fire-not-fenced", "a fire goes in though another instance has moved the cursor that it was decided on";
    SpecNotFenced = "spec-not-fenced", "a fire that was prepared by an older version goes in after a deploy";
    PauseNotFenced = "pause-not-fenced", "a fire that was prepared before a pause goes in after it";
    OwnClockSchedule = "own-clock-schedule", "a schedule is judged by the clock of the machine";
    CatchUpUnbounded = "catch-up-unbounded", "a schedule that was away fires every time that it missed";
    BackfillMovesCursor = "backfill-moves-cursor", "a backfill moves the cursor of its schedule";
    MoveNotFenced = "move-not-fenced", "a backfill that is accepted while its schedule fires moves the schedule back";
    OverlapLooksTooEarly = "overlap-looks-too-early", "the unfinished executions of a schedule are those from before its row was read";
    FiredWithoutPermit = "fired-without-permit", "the first frame of an execution that a trigger starts does not ask for its permit";
    PoisonBlocks = "poison-blocks", "an item that can start nothing is tried again and again instead of becoming a dead letter";
    EndAnsweredUnfired = "end-answered-unfired", "an end that cannot be fired now counts as fired";
    EndLeftWhenStale = "end-left-when-stale", "an end whose trigger is changed while it fires counts as fired";
    GroupReplaced = "group-replaced", "an event that arrives when its group is due begins another one in its place";
    DebouncedForEver = "debounced-for-ever", "every event puts off its debounce, however long it has waited";
    // Approvals.
    SecondDecisionTaken = "second-decision-taken", "a decision about an approval that is over is acknowledged as done";
    ReminderForgotten = "reminder-forgotten", "a take-over forgets when people are to be reminded of an approval";
    ExpiryForgotten = "expiry-forgotten", "a take-over forgets when an approval expires";
    // Operations that call back.
    EarlyCallbackForgotten = "early-callback-forgotten", "a callback that comes before its node waits is acknowledged and not recorded";
    SecondCallbackWins = "second-callback-wins", "the last of several callbacks counts, and not the first";
    FormerCallbackTaken = "former-callback-taken", "a callback for an earlier try of its node, or for an earlier generation, counts for the present one";
    OperationNeverExpires = "operation-never-expires", "a take-over forgets when an operation that has not called back expires";
    // Circuit breakers.
    ProbesUnlimited = "probes-unlimited", "a half-open circuit breaker lets every attempt be a probe";
    BreakerNeverAsked = "breaker-never-asked", "a take-over forgets when an attempt asks its circuit breaker again";
    // Budgets.
    LostUsageFree = "lost-usage-free", "the tokens that an abandoned attempt may have used do not count";
    ReservationKept = "reservation-kept", "an attempt whose usage is known does not give back its reservation";
    // Blobs.
    BlobAfterCommit = "blob-after-commit", "the frame that names a blob is committed before the blob is put";
    GcTakesFresh = "gc-takes-fresh", "the sweep of blobs ignores how young a blob is";
    // The projector.
    ProjectionMissesLast = "projection-misses-last", "the projector leaves out the last frame of a batch";
}

impl Bug {
    /// The bug of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|bug| bug.name() == name)
    }
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug for the current thread, or removes it.
#[cfg(feature = "planted")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Is this bug planted?
#[cfg(feature = "planted")]
pub fn is_planted(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Is this bug planted? Never, in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
pub const fn is_planted(_: Bug) -> bool {
    false
}
