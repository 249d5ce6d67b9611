//! Deliberate faults in our own code.
//!
//! A test that has never failed shows nothing. So the rules that promises rest on can be switched
//! off, one at a time and by tests alone, and for each there is a test that sees the difference. In
//! any other build [`is_on`] is `false` and costs nothing.
//!
//! What is broken has to be what runs, so the hooks stand in production code. A hook is where it
//! changes one thing: it wraps the result of a pure function ([`altered`]), or stands alone in a
//! small function that is named after the rule, and no function has two. The rules of a node are
//! free of them: `node/state/broken.rs` is a node that breaks one.

/// One rule, broken.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests break rules"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mutation {
    /// An attempt takes the owner id of the one before it.
    ReuseOwnerId,
    /// A quorum that comes after the end of validity wins.
    SkipLastValidityCheck,
    /// Half of the nodes are a quorum.
    HalfIsQuorum,
    /// Nodes that do not answer are not counted.
    QuorumOfAnswering,
    /// A write-back asks neither for the owner nor for the counter.
    WriteBackUnconditionally,
    /// A write-back does not ask whose the key is.
    WriteBackWithoutOwner,
    /// A write-back lowers counters, too.
    WriteBackAboveToken,
    /// The largest vote is the token, although no quorum may know of it.
    NoWriteBack,
    /// A renewal does not heal nodes whose counter is above the token.
    HealOnlyBelowToken,
    /// A verification counts nodes whose counter is above the token.
    VerifyAboveToken,
    /// A verification counts nodes that have lost their counter.
    VerifyWithoutCounter,
    /// An unlock deletes the key of any owner.
    UnlockWithoutOwner,
    /// A lock that is unanswered when its owner unlocks leaves no tombstone.
    NoTombstoneForLock,
    /// A renewal that is unanswered when its owner unlocks leaves no tombstone.
    NoTombstoneForRenewal,
    /// Validity counts from after the first answer.
    StartAfterFirstAnswer,
    /// A request may shorten a ttl.
    ShortenTtl,
    /// Nodes do not let the waiters go first that were refused, or are woken.
    IgnoreYieldMark,
    /// Nodes that have not answered are not told of the rollback.
    RollbackSkipsSilent,
    /// What an attempt has that was lost is not given back.
    NoRollback,
    /// A loss is announced by the renewal, not by a timer of its own.
    LossOnlyByRenewal,
    /// An inner unlock takes one hold away, whatever is left, instead of saying how many are left:
    /// it travels as a renewal with no holds.
    HoldsAsIncrements,
    /// A node keeps what any client proclaims, even one that does not hold the lock.
    ProclaimWithoutLock,
    /// The client that proclaimed last on a node is shown as leader, even if it does not hold the
    /// lock.
    ObserveWithoutLock,
    /// What is observed may go back to what was there before.
    ObserveBackwards,
    /// A node that restarted votes as if it had given no votes before.
    VoteBelowMinimum,
    /// The queue node grants to any client that asks.
    GrantOutOfTurn,
    /// The queue node wakes no waiter.
    NoWake,
    /// When a waiter that was woken gives its vote back, or leaves the queue, the next is not
    /// woken.
    NoWakeAfterRollback,
    /// A newcomer takes the refusal of the queue node for one vote.
    IgnoreDeferral,
    /// A waiter does not come when the ttl of the holder ends.
    IgnoreHolderTtl,
    /// A waiter makes no pause after a futile grant of a stale queue node.
    NoPauseAfterFutileGrant,
    /// A lease that was won without a word from the queue node leaves marks.
    MarkWithoutAnswer,
    /// What a call has begun whose future nobody polls is not taken back.
    NoStallRollback,
    /// A node in quarantine counts for renewals at once.
    CountInQuarantine,
    /// A node without metadata counts for renewals.
    CountWithoutMetadata,
    /// The first reader gets a vote that was given before.
    FirstReaderRepeats,
    /// A write-back of a reader does not ask whether that is one here.
    WriteBackOfNoReader,
    /// A write-back of a reader does not ask when the first of those was who are here.
    WriteBackBelowPhase,
    /// When a reader leaves, the key ends when its own ttl would.
    OneEndForReaders,
    /// A reader that leaves deletes the key, no matter who has it.
    UnshareAnyKey,
    /// A reader that leaves deletes the key of those who stay.
    UnshareForAll,
    /// Readers are counted from those before a writer.
    StalePhase,
    /// The write-back of a reader is confirmed, and nothing of it is kept.
    ReadersWriteNothingBack,
    /// A renewal of a reader asks for the resource alone.
    RenewAsWriter,
    /// A waiter that shares the resource when it is its turn does not wake the next.
    NoReaderWake,
    /// Readers do not let a writer go first whose turn it is at a queue node of which they do not know.
    IgnoreWriterMark,
    /// Renewals of readers do not prolong the mark of a writer.
    NoMarkRenewal,
    /// Tasks share the lease of a reader of their client whenever they come.
    UnboundedJoin,
    /// Who waits for a latch passes as soon as it knows of enough arrivals, and tells nobody.
    PassWithoutRecord,
    /// A node counts how often somebody arrives at a latch.
    CountArrivals,
    /// A node counts permits of a semaphore, whichever slots they have.
    CountPermits,
    /// Those who want several permits collect them at once.
    ParallelPermits,
    /// A downgrade may be won after the write lease is over.
    DowngradeTooLate,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// The rule that is broken on this thread.
#[cfg(test)]
pub(crate) fn broken() -> Option<Mutation> {
    ON.get()
}

/// Whether the rule is broken, on this thread.
#[cfg(test)]
pub(crate) fn is_on(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Whether the rule is broken: never outside of tests.
#[cfg(not(test))]
pub(crate) const fn is_on(_: Mutation) -> bool {
    false
}

/// What a rule says; or, where that is broken, what `broken` makes of it.
pub(crate) fn altered<T>(mutation: Mutation, value: T, broken: impl FnOnce(T) -> T) -> T {
    if is_on(mutation) { broken(value) } else { value }
}

/// Breaks a rule on this thread while it lives.
#[cfg(test)]
#[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "most tests that break rules are simulations"))]
#[must_use = "the rule is whole again when this is dropped"]
#[derive(Debug)]
pub(crate) struct Broken(Option<Mutation>);

/// Breaks a rule, or none, on this thread, until what is returned is dropped.
#[cfg(test)]
#[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "most tests that break rules are simulations"))]
pub(crate) fn break_rule(mutation: Option<Mutation>) -> Broken {
    Broken(ON.replace(mutation))
}

#[cfg(test)]
impl Drop for Broken {
    fn drop(&mut self) {
        ON.set(self.0);
    }
}
