//! Mutations: deliberate errors in the code of this crate.
//!
//! A test that never fails shows nothing. Therefore tests break the rules on which the promises depend, one at a time,
//! and for each broken rule a test must fail. Outside of tests, [`is_on`] is `false` and costs nothing.
//!
//! A mutation has to change the code that runs in production, so the hooks are in that code. A hook changes one result
//! ([`altered`]) or is one condition ([`is_on`]). No function has two hooks. The rules of a node have no hooks, because
//! `node/state/broken.rs` implements a node that breaks one rule.

/// A broken rule, named after the effect. Each variant describes the broken behaviour.
#[cfg_attr(not(test), allow(dead_code, reason = "only tests break rules"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Mutation {
    /// An attempt with the lease id of the previous attempt.
    ReuseLeaseId,
    /// A lease by a quorum that is complete only after the end of the validity.
    SkipLastValidityCheck,
    /// A quorum of half of the nodes.
    HalfIsQuorum,
    /// A quorum that is a majority of the nodes that answer.
    QuorumOfAnswering,
    /// A write-back that checks neither the key of the lease nor the counter.
    WriteBackUnconditionally,
    /// A write-back that does not check whether the lease has the key.
    WriteBackWithoutOwner,
    /// A write-back that also lowers counters.
    WriteBackAboveToken,
    /// A write-back that does not check the minimum token.
    WriteBackBelowMinimum,
    /// A lease without a write-back of its token, so that perhaps no quorum has recorded the token.
    NoWriteBack,
    /// A renewal that does not restore the lost key at a node whose counter is above the token.
    HealOnlyBelowToken,
    /// A verification that counts nodes whose counter is above the token.
    VerifyAboveToken,
    /// A verification that counts nodes which have lost their counter.
    VerifyWithoutCounter,
    /// An unlock that deletes the key of any lease on the resource.
    UnlockWithoutOwner,
    /// An unlock without a tombstone for an unanswered lock.
    NoTombstoneForLock,
    /// An unlock without a tombstone for an unanswered renewal.
    NoTombstoneForRenewal,
    /// A validity that begins after the first answer.
    StartAfterFirstAnswer,
    /// A request that shortens a ttl.
    ShortenTtl,
    /// Nodes that grant to newcomers although a refused or woken waiter has left a yield mark.
    IgnoreYieldMark,
    /// A rollback that omits the nodes without an answer.
    RollbackSkipsSilent,
    /// A failed attempt without a rollback.
    NoRollback,
    /// A loss that is reported only by a renewal, and not by the expiry task.
    LossOnlyByRenewal,
    /// Clients whose first renewals come after a whole renewal interval.
    RenewTogether,
    /// An unlock of one of several holds that subtracts one at the nodes (a renewal with zero holds), instead of
    /// sending the number of remaining holds.
    HoldsAsIncrements,
    /// A node that stores the proclamation of any client, even without the lock.
    ProclaimWithoutLock,
    /// An observation that returns the client of the last proclamation on a node as leader, even
    /// without the lock.
    ObserveWithoutLock,
    /// An observation that returns to an earlier leader.
    ObserveBackwards,
    /// A restarted node that votes as if it had given no votes before.
    VoteBelowMinimum,
    /// An `init` that takes over a node of another configuration after the first quarantine of that node.
    TakeOverVoter,
    /// An `init` that ignores the renewals of another configuration.
    IgnoreForeignRenewal,
    /// A node that counts as new after a give-up has opened it.
    NewAfterGiveUp,
    /// A queue node that grants to any client.
    GrantOutOfTurn,
    /// A queue node that wakes no waiter.
    NoWake,
    /// A queue node that does not wake the next waiter when a woken waiter rolls back or leaves the
    /// queue.
    NoWakeAfterRollback,
    /// A newcomer that counts a deferral by the queue node as one refusal, instead of ending the attempt.
    IgnoreDeferral,
    /// An attempt that waits for a hedge while votes are split, even if every round trip is longer.
    SplitEndsWithHedge,
    /// An attempt of a waiting call that waits for a vote for only a node timeout.
    ImpatientVotes,
    /// A hedge that does not depend on the response time of the queue node.
    FixedHedge,
    /// A waiter that attempts again soon although nodes have let their time pass.
    NoDelayAfterLateAnswers,
    /// A watchdog that repeats a renewal after a node timeout, and send queues that refuse renewals while their node is
    /// unresponsive.
    ImpatientRenewals,
    /// A send queue that gives up a connection although a renewal in flight may still be answered in time.
    GiveUpRenewals,
    /// A send queue that sends as many requests after a silent connection as before.
    ForgetSilences,
    /// Renewals of short leases that wait for the answers to the renewals of long leases, and a send queue that gives up
    /// a connection as late as if there were no short lease.
    WaitForLongLeases,
    /// A client that does not measure the response times of answers that come after the end of their attempts.
    DropLateLocks,
    /// Vacancy queries that end, and vacancy polls that begin, as at nodes that answer quickly.
    ImpatientVacancyQueries,
    /// A waiter for any one of many candidates that joins three queues.
    ThreeQueues,
    /// A waiter that makes no attempt at the end of the holder's ttl.
    IgnoreHolderTtl,
    /// A waiter that does not pause after a futile grant of a stale queue node.
    NoPauseAfterFutileGrant,
    /// A waiter that makes attempts as often as events and refusals request them, and a release watcher that makes
    /// queries as often as notices request them.
    NoAttemptLimit,
    /// A waiter whose polls are equally rare at each rank.
    EqualPollsAtEachRank,
    /// A client that drops the replies of silent nodes to its unlocks.
    DropUnawaitedReplies,
    /// Yield marks by an attempt without an answer of the queue node.
    MarkWithoutAnswer,
    /// A lock call that stays in flight although its future is not polled.
    NoStallRollback,
    /// A node in quarantine that counts for renewals at once.
    CountInQuarantine,
    /// A node without metadata that counts for renewals.
    CountWithoutMetadata,
    /// A vote for the first reader that equals an earlier vote.
    FirstReaderRepeats,
    /// A write-back of a reader that does not check whether the lease is a reader of the node.
    WriteBackOfNoReader,
    /// A write-back of a reader that does not check the phase of the node's readers.
    WriteBackBelowPhase,
    /// An unlock of a reader after which the key of all readers ends with the ttl of that reader.
    OneEndForReaders,
    /// An unlock of a reader that deletes the key of any lease on the resource.
    UnshareAnyKey,
    /// An unlock of a reader that deletes the key of the remaining readers.
    UnshareForAll,
    /// A phase of readers that continues after a writer.
    StalePhase,
    /// A node that confirms the write-back of a reader without storing it.
    ReadersWriteNothingBack,
    /// A renewal of a reader that renews the resource as a writer.
    RenewAsWriter,
    /// A woken waiter that shares the resource and does not wake the next waiter.
    NoReaderWake,
    /// Nodes that grant to queued readers in spite of a writer mark.
    IgnoreWriterMark,
    /// Renewals of readers that do not extend a writer's yield mark.
    NoMarkRenewal,
    /// Tasks that join the read lease of their client at any time.
    UnboundedJoin,
    /// A call that passes a latch as soon as it has received enough arrivals, without recording on the nodes that the
    /// latch is open.
    PassWithoutRecord,
    /// A node that counts each request with an arrival at a latch as another arrival.
    CountArrivals,
    /// A node that counts the permits of a semaphore: if the requested slot is held, the node grants another slot.
    CountPermits,
    /// Clients that collect several permits at the same time.
    ParallelPermits,
    /// A move that opens new nodes before enough old nodes are closed for good.
    OpenBeforeClosedForGood,
    /// A move that closes a node for good although the node was open again after the close for which the move has
    /// waited.
    CloseForGoodWithoutWait,
    /// A move that is given up, and opens nodes that are closed for good although their round may have closed enough
    /// nodes.
    OpenClosedForGood,
    /// A give-up that opens old nodes although a quorum of new nodes may vote.
    GiveUpBesideNewQuorum,
    /// A replacement that opens the new server although the old node is not retired.
    JoinBesideOld,
    /// A new server that votes without a quarantine as soon as a replacement opens it.
    JoinWithoutQuarantine,
    /// A replacement that does not look for an old node which returns during the wait for the new server.
    IgnoreReturnedOld,
    /// A node that records a server for an old node although it has recorded another one.
    ForgetReplacements,
    /// A node that records the begin of a replacement beside another one that has not ended.
    IgnoreUnfinished,
    /// A replacement that goes on although its begin is missing on a node.
    ContinueWithoutBegin,
    /// A replacement that compares no record when it retires the old node.
    RetireWithoutRecord,
    /// A replacement that keeps the fingerprint by which an earlier call has closed the new server.
    KeepEarlierClose,
    /// A replacement that does not ask an old node again which did not answer before the begin.
    KeepFirstSilence,
    /// A replacement for which an old node that does not answer is gone, although the call was not told so.
    AssumeGone,
    /// A replacement that accepts any voter of the quorum as the new server.
    AcceptAnyVoter,
    /// A replacement that opens the new server of a gone node after a record on one node.
    RecordGoneOnOne,
    /// A replacement of a retired node that needs one other node only, although the new server was not closed.
    NeedOneOther,
    /// A replacement that ends the record of a new server which was replaced in turn, although it opens no server.
    EndUnopened,
    /// An error that withdraws the begin of any call, or an ended replacement.
    WithdrawAny,
    /// A move for which a retired node counts as closed.
    CountRetiredAsClosed,
    /// A downgrade that wins after the write lease has ended.
    DowngradeTooLate,
    /// A redemption of a ticket that also takes resources which are free, or which other leases have held since.
    RedeemWithoutProof,
    /// A redemption of a ticket with the lease id of the ticket.
    RedeemAsTicket,
    /// A redemption of a ticket whose lease keeps the token of the ticket.
    KeepTicketToken,
    /// A node that transfers the resources of a ticket although a counter is above the token of the ticket.
    RedeemWithoutCounter,
    /// A lease that stays valid although it becomes a ticket.
    GiverContinues,
    /// A redemption that does not unlock the ticket on the nodes that did not transfer its resources.
    LeaveTicket,
    /// An unlock of a ticket without tombstones.
    NoTombstoneForTicket,
    /// A redemption of a ticket that ends with the first refusal, even if other nodes may yet grant.
    RedeemUntilFirstRefusal,
    /// A redemption of a ticket that asks all nodes at once.
    RedeemAtAllNodes,
    /// An unlock that deletes the keys during the minimum hold.
    DeleteDuringMinimumHold,
    /// An unlock with the rest of a minimum hold that leaves no tombstone.
    RestWithoutTombstone,
    /// An unlock that sets the ttls of keys to the rest of the minimum hold, even if their ttls are shorter.
    RestExtends,
    /// A lock whose ttl is shorter than its minimum hold.
    TtlBelowMinimumHold,
}

#[cfg(test)]
thread_local! {
    static ON: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Returns the mutation of this thread.
#[cfg(test)]
pub(crate) fn broken() -> Option<Mutation> {
    ON.get()
}

/// Whether the mutation is on for this thread.
#[cfg(test)]
pub(crate) fn is_on(mutation: Mutation) -> bool {
    ON.get() == Some(mutation)
}

/// Whether the mutation is on: never outside of tests.
#[cfg(not(test))]
pub(crate) const fn is_on(_: Mutation) -> bool {
    false
}

/// Returns the value of a rule, or the result of `broken` if the mutation is on.
pub(crate) fn altered<T>(mutation: Mutation, value: T, broken: impl FnOnce(T) -> T) -> T {
    if is_on(mutation) { broken(value) } else { value }
}

/// A guard that breaks a rule on this thread until it is dropped.
#[cfg(test)]
#[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "most tests that break rules are simulations"))]
#[must_use = "the rule is restored when the guard is dropped"]
#[derive(Debug)]
pub(crate) struct MutationGuard(Option<Mutation>);

/// Breaks a rule, or no rule, on this thread until the guard is dropped.
#[cfg(test)]
#[cfg_attr(not(feature = "sim"), allow(dead_code, reason = "most tests that break rules are simulations"))]
pub(crate) fn break_rule(mutation: Option<Mutation>) -> MutationGuard {
    MutationGuard(ON.replace(mutation))
}

#[cfg(test)]
impl Drop for MutationGuard {
    fn drop(&mut self) {
        ON.set(self.0);
    }
}
