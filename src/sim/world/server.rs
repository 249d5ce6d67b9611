//! A simulated node: the pure node function, a clock, and the state of its faults.
//!
//! ```text
//!  event                       server                              decision
//!  ─────                       ──────                              ────────
//!  message arrives ──────────> down         (crash)              ─> refuse a new connection, drop the rest
//!                              hung         (hang)               ─> append to the backlog
//!                              slow or busy (slow, processing)   ─> execute at `busy_until`
//!                              ready                             ─> execute now
//!  hang begins, slow ends ───> messages not executed yet are withdrawn
//!  hang ends ────────────────> the backlog arrives again
//! ```
//!
//! Faults of one kind may overlap, so each kind is a counter or a list.

use std::{collections::VecDeque, time::Duration};

use super::message::Delivery;
use crate::{
    clock::VIRTUAL_EPOCH,
    node::{
        Answer, Init, Operation, QuorumParameters,
        state::{NodeState, NodeTime},
    },
    sim::{
        Memory, NodeLoad, Schedule,
        clock::SkewedClock,
        rng::{RandomStream, hash_of, part},
    },
    values::Resource,
};

/// The bound of the initial difference of two node clocks, in milliseconds. The first vote of a node begins
/// at its clock in whole seconds. The bound is longer than a second, so that the first votes of two nodes
/// often differ and a write-back is needed.
const SPREAD: u64 = 1_500;

/// One simulated server, with the faults that affect it now.
#[derive(Debug)]
pub(crate) struct Server {
    pub(super) state: NodeState,
    pub(super) clock: SkewedClock,
    pub(super) load: NodeLoad,
    /// The number of the present incarnation of the server, from 0.
    pub(super) incarnation: u64,
    /// The number of present crashes.
    down: u32,
    /// The number of present hangs.
    hung: u32,
    /// The additional time per call of each present slow fault. The times add up.
    slowness: Vec<u64>,
    /// The time at which the server will have executed all messages that have arrived.
    busy_until: u64,
    /// The messages that arrived during a hang.
    pub(super) backlog: VecDeque<Delivery>,
    /// The states to restore, by the index of the crash that restores them.
    snapshots: Vec<(usize, NodeState)>,
    number: usize,
    /// Whether the server never belonged to a quorum. Before its first registration, the server executes
    /// `init`, as if an administrator had sent it.
    is_new: bool,
}

/// The reaction of a node to a message that arrives.
pub(super) enum Readiness {
    Down,
    Hung,
    Busy { until: u64 },
    Ready,
}

impl Server {
    pub(super) fn new(schedule: &Schedule, number: usize) -> Self {
        let ahead = hash_of(schedule.seed, RandomStream::NodeClock, [part(number)]) % SPREAD;
        let rate = schedule.node_rates.get(number).copied().unwrap_or(0);
        Self {
            state: NodeState::new(&run_id(number, 0)),
            clock: SkewedClock::new(VIRTUAL_EPOCH + Duration::from_millis(ahead), rate),
            load: NodeLoad::default(),
            incarnation: 0,
            down: 0,
            hung: 0,
            slowness: Vec::new(),
            busy_until: 0,
            backlog: VecDeque::new(),
            snapshots: Vec::new(),
            number,
            is_new: true,
        }
    }

    pub(super) fn time(&self, now: u64) -> NodeTime {
        NodeTime::from_epoch(self.clock.local(now) / 1000)
    }

    /// Decides what happens to a message that arrives now and has this processing time. A node executes one
    /// message at a time.
    pub(super) fn admit(&mut self, processing: u64, now: u64) -> Readiness {
        if self.down > 0 {
            Readiness::Down
        } else if self.hung > 0 {
            Readiness::Hung
        } else if processing > 0 || !self.slowness.is_empty() || self.busy_until > now {
            let from = self.busy_until.max(now).saturating_add(processing);
            self.busy_until = self.slowness.iter().fold(from, |until, by| until.saturating_add(*by));
            Readiness::Busy { until: self.busy_until }
        } else {
            Readiness::Ready
        }
    }

    /// Executes a call. Returns the answers, and the topics whose subscribers receive a notice.
    pub(super) fn apply(
        &mut self,
        parameters: &QuorumParameters,
        operations: &[Operation],
        now: u64,
        listeners: &dyn Fn(&Resource) -> u32,
    ) -> (Vec<Answer>, Vec<Resource>) {
        let time = self.time(now);
        let mut released = Vec::new();
        let mut answers = Vec::with_capacity(operations.len());
        for operation in operations {
            if matches!(operation, Operation::Register(_)) && std::mem::take(&mut self.is_new) {
                let init = Init { is_dry_run: false, time: time.since_epoch() };
                self.state.apply(parameters, &Operation::Init(init), time);
            }
            let listeners = |topic: &Resource| Some(listeners(topic));
            let outcome = self.state.apply_with_listeners(&listeners, parameters, operation, time);
            answers.push(outcome.answer);
            released.extend(outcome.notices);
        }
        (answers, released)
    }

    /// Leaves the server without metadata until its first client registers.
    #[cfg(test)]
    pub(super) fn leave_new(&mut self) {
        self.is_new = false;
    }

    /// Ends this incarnation of the server, with the data that `memory` selects for the next incarnation.
    /// `fault` is the index of the crash. Returns the backlog, which the caller must refuse.
    pub(super) fn go_down(&mut self, memory: Memory, fault: usize) -> VecDeque<Delivery> {
        self.down += 1;
        self.incarnation += 1;
        let lost = std::mem::take(&mut self.backlog);
        self.busy_until = 0;
        let run_id = run_id(self.number, self.incarnation);
        let kept = match memory {
            Memory::Kept => Some(self.state.clone()),
            Memory::Lost => None,
            Memory::AsOf(_) => {
                let known = self.snapshots.iter().find(|(by, _)| *by == fault);
                known.map(|(_, state)| state.clone())
            }
        };
        self.state = kept.unwrap_or_else(|| NodeState::new(&run_id));
        self.state.restart(&run_id);
        lost
    }

    pub(super) fn come_up(&mut self) {
        self.down = self.down.saturating_sub(1);
    }

    pub(super) fn take_snapshot(&mut self, fault: usize) {
        self.snapshots.push((fault, self.state.clone()));
    }

    pub(super) fn flush(&mut self) {
        self.state.flush();
    }

    /// Begins a hang. `unprocessed` are the messages that have arrived earlier and are not executed yet.
    pub(super) fn hang(&mut self, unprocessed: impl IntoIterator<Item = Delivery>) {
        self.hung += 1;
        self.busy_until = 0;
        self.backlog.extend(unprocessed);
    }

    /// Ends one hang. Returns the backlog if no other hang is present.
    pub(super) fn thaw(&mut self) -> VecDeque<Delivery> {
        self.hung = self.hung.saturating_sub(1);
        if self.hung == 0 { std::mem::take(&mut self.backlog) } else { VecDeque::new() }
    }

    pub(super) fn slow_down(&mut self, by: u64) {
        self.slowness.push(by);
    }

    /// Ends a slow fault. The caller has withdrawn the messages that are not executed yet.
    pub(super) fn speed_up(&mut self, by: u64) {
        self.busy_until = 0;
        if let Some(over) = self.slowness.iter().position(|slowness| *slowness == by) {
            self.slowness.swap_remove(over);
        }
    }
}

fn run_id(node: usize, incarnation: u64) -> String {
    format!("{:040x}", (u64::try_from(node).unwrap_or(u64::MAX) << 32) + incarnation)
}
