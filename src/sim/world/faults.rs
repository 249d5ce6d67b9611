//! The start and end of the timed faults of a schedule.

use super::{WorldState, event::WorldEvent, server::Server, teardown::Teardown};
use crate::sim::{Direction, Fault, Memory, Schedule, clock::micros};

impl WorldState {
    /// Adds all faults of the schedule to the queue of events.
    pub(super) fn schedule_faults(&mut self) {
        let schedule = std::sync::Arc::clone(&self.schedule);
        for (index, timed) in schedule.faults.iter().enumerate() {
            if timed.fault.has_no_effect() {
                continue;
            }
            if let Fault::Crash { memory: Memory::AsOf(ago), .. } = timed.fault {
                self.at(micros(timed.at.saturating_sub(ago)), WorldEvent::Snapshot(index));
            }
            self.at(micros(timed.at), WorldEvent::Begin(index));
            if !timed.fault.lasts().is_zero() {
                self.at(micros(timed.until()), WorldEvent::End(index));
            }
        }
    }

    pub(super) fn take_snapshot(&mut self, index: usize) {
        if let Some(Fault::Crash { node, .. }) = self.fault(index)
            && let Some(server) = self.servers.get_mut(node)
        {
            server.take_snapshot(index);
        }
    }

    pub(super) fn begin_fault(&mut self, index: usize, after: &mut Teardown) {
        let now = self.now();
        let Some(fault) = self.fault(index) else { return };
        match fault {
            Fault::Pause { process, .. } => self.pause(process, now),
            Fault::Freeze { process, .. } => {
                self.freeze(process, now);
                self.pause(process, now);
            }
            Fault::Kill { process } => self.kill(process, after),
            Fault::Crash { node, lasts, memory } => {
                self.break_connections(node);
                let unprocessed = self.withdraw(node);
                let Some(server) = self.servers.get_mut(node) else { return };
                let lost = server.go_down(memory, index);
                if lasts.is_zero() {
                    server.come_up();
                }
                lost.into_iter().chain(unprocessed).for_each(|delivery| self.refuse(&delivery));
            }
            Fault::Hang { node, .. } => {
                let unprocessed = self.withdraw(node);
                self.with_server(node, |server| server.hang(unprocessed));
            }
            Fault::Slow { node, by, .. } => {
                self.with_server(node, |server| server.slow_down(micros(by)));
            }
            Fault::Far { .. } => {}
            Fault::Flush { node } => self.with_server(node, Server::flush),
            Fault::Evict { node } => self.with_server(node, |server| server.state.evict_locks()),
            Fault::Step { node, by } => self.with_server(node, |server| server.clock.step(by, now)),
            Fault::Partition { process, node, way, lasts } => {
                let until = now.saturating_add(micros(lasts));
                for direction in [Direction::Request, Direction::Reply] {
                    if way.covers(direction) {
                        let cut = self.network.cut_until.entry((process, node, direction)).or_default();
                        *cut = until.max(*cut);
                    }
                }
            }
        }
    }

    pub(super) fn end_fault(&mut self, index: usize, after: &mut Teardown) {
        let now = self.now();
        let Some(fault) = self.fault(index) else { return };
        match fault {
            Fault::Pause { process, .. } => self.resume(process, now, after),
            Fault::Freeze { process, .. } => {
                self.unfreeze(process, now, after);
                self.resume(process, now, after);
            }
            Fault::Crash { node, .. } => self.with_server(node, Server::come_up),
            Fault::Hang { node, .. } => {
                let Some(server) = self.servers.get_mut(node) else { return };
                // Each message of the backlog is handled like a message that arrives now, because
                // the node may still be slow.
                server.thaw().into_iter().for_each(|delivery| self.arrive_at_node(delivery, now));
            }
            Fault::Slow { node, by, .. } => {
                let unprocessed = self.withdraw(node);
                self.with_server(node, |server| server.speed_up(micros(by)));
                // The messages that are not executed yet arrive again, and take no additional time by this
                // fault.
                unprocessed.into_iter().for_each(|delivery| self.arrive_at_node(delivery, now));
            }
            // The network has stored the end of a partition, and finds the faults of distant nodes in the
            // schedule. The other faults are instantaneous.
            _ => {}
        }
    }

    fn fault(&self, index: usize) -> Option<Fault> {
        self.schedule.faults.get(index).map(|timed| timed.fault.clone())
    }

    fn with_server(&mut self, node: usize, change: impl FnOnce(&mut Server)) {
        if let Some(server) = self.servers.get_mut(node) {
            change(server);
        }
    }
}

impl Schedule {
    /// Returns the additional time of a message to or from a node at present.
    pub(super) fn distance(&self, node: usize, now: u64) -> u64 {
        let faults =
            self.faults.iter().filter(|timed| micros(timed.at) <= now && now < micros(timed.until()));
        let by = faults.map(|timed| match timed.fault {
            Fault::Far { node: of, by, .. } if of == node => micros(by),
            _ => 0,
        });
        by.fold(0, u64::saturating_add)
    }
}
