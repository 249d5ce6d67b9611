//! The values of labels, each from a fixed set.

use crate::{
    algorithm::attempt::FailureReason,
    error::{ClosedReason, LossReason},
    node::Answer,
    observer::{AttemptEnd, CallEnd, LatchEnd, LeaseEnd, Mode, OperationKind, RenewalOutcome, TicketEvent},
    values::NodeError,
};

/// All outcomes of an attempt.
pub(super) const ATTEMPT_ENDS: [AttemptEnd; 5] = [
    AttemptEnd::Acquired,
    AttemptEnd::Failed(FailureReason::Contended),
    AttemptEnd::Failed(FailureReason::NoQuorum),
    AttemptEnd::Failed(FailureReason::Expired),
    AttemptEnd::Cancelled,
];

/// All modes of a lease.
pub(super) const MODES: [Mode; 3] = [Mode::Exclusive, Mode::Shared, Mode::Permit];

/// All reasons for a loss. `Unlocked` is none of them, because an unlock is no loss.
pub(super) const LOSS_REASONS: [LossReason; 6] = [
    LossReason::Expired,
    LossReason::HoldLimit,
    LossReason::Revoked,
    LossReason::Closed(ClosedReason::ShutDown),
    LossReason::Closed(ClosedReason::RuntimeEnded),
    LossReason::Closed(ClosedReason::Forked),
];

/// All outcomes of a renewal.
pub(super) const RENEWAL_ENDS: [RenewalOutcome; 4] =
    [RenewalOutcome::Renewed, RenewalOutcome::Failed, RenewalOutcome::Revoked, RenewalOutcome::TooLate];

/// All events of a ticket.
pub(super) const TICKET_EVENTS: [TicketEvent; 4] =
    [TicketEvent::Issued, TicketEvent::Redeemed, TicketEvent::Spent, TicketEvent::Released];

pub(super) fn of_ticket(event: TicketEvent) -> &'static str {
    match event {
        TicketEvent::Issued => "issued",
        TicketEvent::Redeemed => "redeemed",
        TicketEvent::Spent => "spent",
        TicketEvent::Released => "released",
    }
}

pub(super) fn of_attempt(end: AttemptEnd) -> &'static str {
    match end {
        AttemptEnd::Acquired => "acquired",
        AttemptEnd::Failed(FailureReason::Contended) => "held",
        AttemptEnd::Failed(FailureReason::NoQuorum) => "no_quorum",
        AttemptEnd::Failed(FailureReason::Expired) => "expired",
        AttemptEnd::Cancelled => "cancelled",
    }
}

pub(super) fn of_call(end: CallEnd) -> &'static str {
    match end {
        CallEnd::Acquired => "acquired",
        CallEnd::Reentered => "reentered",
        CallEnd::Joined => "joined",
        CallEnd::Held => "held",
        CallEnd::TimedOut => "timed_out",
        CallEnd::NoQuorum => "no_quorum",
        CallEnd::Quarantined => "quarantined",
        CallEnd::Expired => "expired",
        CallEnd::LeaseLost => "lease_lost",
        CallEnd::Closed => "closed",
        CallEnd::Refused => "refused",
        CallEnd::Cancelled => "cancelled",
    }
}

pub(super) fn of_mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Exclusive => "exclusive",
        Mode::Shared => "shared",
        Mode::Permit => "permit",
    }
}

pub(super) fn of_latch(end: LatchEnd) -> &'static str {
    match end {
        LatchEnd::Open => "open",
        LatchEnd::TimedOut => "timed_out",
        LatchEnd::NoQuorum => "no_quorum",
        LatchEnd::Closed => "closed",
        LatchEnd::CountMismatch => "count_mismatch",
        LatchEnd::Refused => "refused",
        LatchEnd::Cancelled => "cancelled",
    }
}

pub(super) fn of_lease(end: LeaseEnd) -> &'static str {
    match end {
        LeaseEnd::Unlocked => "unlocked",
        LeaseEnd::Dropped => "dropped",
        LeaseEnd::Lost(_) => "lost",
    }
}

pub(super) fn of_loss(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Expired => "expired",
        LossReason::HoldLimit => "hold_limit",
        LossReason::Revoked => "revoked",
        LossReason::Unlocked => "unlocked",
        LossReason::Closed(ClosedReason::ShutDown) => "shutdown",
        LossReason::Closed(ClosedReason::RuntimeEnded) => "runtime_ended",
        LossReason::Closed(ClosedReason::Forked) => "forked",
    }
}

pub(super) fn of_renewal(outcome: RenewalOutcome) -> &'static str {
    match outcome {
        RenewalOutcome::Renewed => "renewed",
        RenewalOutcome::Failed => "failed",
        RenewalOutcome::Revoked => "revoked",
        RenewalOutcome::TooLate => "too_late",
    }
}

pub(super) fn of_operation(operation: OperationKind) -> &'static str {
    match operation {
        OperationKind::Lock => "lock",
        OperationKind::WriteBack => "write_back",
        OperationKind::Renew => "renew",
    }
}

/// Returns the label of an answer to a lock, a write-back or a renewal.
pub(super) fn of_answer(answer: &Answer) -> &'static str {
    match answer.without_waiters() {
        Answer::Granted { .. } | Answer::WrittenBack | Answer::Renewed { .. } => "granted",
        Answer::Held(_) | Answer::Queued(_) => "held",
        Answer::Tombstone => "unlocked",
        Answer::NotWrittenBack { .. } => "superseded",
        Answer::Abstains(_) | Answer::RenewedInQuarantine(_) => "abstained",
        Answer::WrongQuorum { .. } => "wrong_quorum",
        Answer::Error(error) => of_error(error),
        // The other answers belong to other operations. A node that gives one here violates the protocol.
        _ => "protocol",
    }
}

/// Returns the label of a dial.
pub(super) fn of_dial(error: Option<&NodeError>) -> &'static str {
    error.map_or("connected", of_error)
}

fn of_error(error: &NodeError) -> &'static str {
    match error {
        NodeError::Unreachable(_) => "unreachable",
        NodeError::NotExecuted(_) => "not_executed",
        NodeError::DialTimedOut(_) => "dial_timed_out",
        NodeError::Handshake(refused) => of_error(refused),
        NodeError::TimedOut => "timed_out",
        NodeError::Unresponsive => "unresponsive",
        NodeError::Overloaded => "overloaded",
        NodeError::Disconnected => "disconnected",
        NodeError::Closed(_) => "closed",
        NodeError::WrongType => "wrong_type",
        NodeError::NoAuth(_) => "no_auth",
        NodeError::NoCredentials(_) => "no_credentials",
        NodeError::ReadOnly => "read_only",
        NodeError::OutOfMemory => "out_of_memory",
        NodeError::Loading => "loading",
        NodeError::NoPermission(_) => "no_permission",
        NodeError::RunIdForbidden => "run_id_forbidden",
        NodeError::InfoMissing => "info_missing",
        NodeError::ScanForbidden => "scan_forbidden",
        NodeError::WrongQuorum(_) => "wrong_quorum",
        NodeError::SameServer { .. } => "same_server",
        NodeError::SameCluster { .. } => "same_cluster",
        NodeError::ClockOff { .. } => "clock_off",
        NodeError::CannotPersist => "cannot_persist",
        NodeError::Busy => "busy",
        NodeError::InvalidCounter(_) => "invalid_counter",
        NodeError::ReadLimit { .. } => "read_limit",
        NodeError::Protocol(_) => "protocol",
        NodeError::ClusterMode => "cluster_mode",
        NodeError::StandaloneMode => "standalone_mode",
        NodeError::SentinelMode => "sentinel_mode",
        NodeError::NoMaster(_) => "no_master",
        NodeError::NoSlotMaster(_) => "no_slot_master",
        NodeError::SlotMigrating => "slot_migrating",
        NodeError::ClusterDown(_) => "cluster_down",
        NodeError::Tls(_) => "tls",
        NodeError::Server(_) => "server",
        NodeError::CallFailed(_) => "call_failed",
    }
}
