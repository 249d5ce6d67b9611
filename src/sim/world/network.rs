//! Connections, and the path of each message.
//!
//! ```text
//!  event                       network                           decision
//!  ─────                       ───────                           ────────
//!  send ─────────────────────> verdict of the schedule,       ─> drop, reset, or a delivery at a time
//!                              partition, latency, order
//!  delivery at a node ───────> readiness of the server        ─> refuse, backlog, execute
//!  delivery at a process ────> connection open                ─> inbox, wake the task
//!  execute at a node ────────> same incarnation of the server ─> answer, subscribe, release notices
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    hash::Hash,
    task::Waker,
};

use super::{
    WorldState,
    event::WorldEvent,
    message::{Delivery, Inbound, Outbound, Payload},
    server::Readiness,
    subscribers::Subscribers,
    teardown::Teardown,
};
use crate::{
    node::{Operation, QuorumParameters, names},
    sim::{
        Direction, Schedule, Verdict,
        clock::micros,
        rng::{RandomStream, hash_of, part},
    },
    values::{NodeError, Resource},
};

/// One connection, from its first packet on. Its number is its index in `WorldState::connections`, where
/// closed connections stay.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(super) process: usize,
    pub(super) node: usize,
    pub(super) parameters: QuorumParameters,
    /// The incarnation of the server that accepted the connection.
    incarnation: Option<u64>,
    /// The messages that the process has not read yet.
    pub(super) inbox: VecDeque<Inbound>,
    pub(super) waker: Option<Waker>,
    pub(super) is_closed_by_client: bool,
    subscriptions: BTreeSet<Resource>,
    /// The time of arrival of the last message of each direction, requests first. The next message of the
    /// direction arrives no earlier, unless its verdict is `Overtaken`.
    last_arrival: [u64; 2],
}

/// The state of the network: faults of messages and paths, subscriptions, and counts of messages.
#[derive(Debug)]
pub(crate) struct Network {
    verdicts: BTreeMap<(usize, usize, Direction, u32), Verdict>,
    /// The number of messages sent, by process, node and direction.
    sent: BTreeMap<(usize, usize, Direction), u32>,
    /// The end of the partition of each process, node and direction.
    pub(super) cut_until: BTreeMap<(usize, usize, Direction), u64>,
    subscribers: Subscribers,
    /// The number of messages and accesses in flight, including messages that wait for their execution at a
    /// slow or busy node. Messages in the backlog of a hanging node do not count.
    pub(super) in_flight: u64,
}

impl Network {
    pub(super) fn new(schedule: &Schedule) -> Self {
        let verdicts = schedule
            .messages
            .iter()
            .map(|fault| ((fault.process, fault.node, fault.direction, fault.index), fault.verdict))
            .collect();
        Self {
            verdicts,
            sent: BTreeMap::new(),
            cut_until: BTreeMap::new(),
            subscribers: Subscribers::default(),
            in_flight: 0,
        }
    }

    /// Returns the connections that have subscribed to a topic at this incarnation of a node.
    fn subscribed<'a>(
        &'a self,
        connections: &'a [Connection],
        node: usize,
        incarnation: u64,
        topic: &'a Resource,
    ) -> impl Iterator<Item = usize> + 'a {
        self.subscribers.of(node, topic).filter(move |number| {
            connections
                .get(*number)
                .is_some_and(|connection| connection.is_subscribed(node, incarnation, topic))
        })
    }
}

impl WorldState {
    /// Opens a connection of a process to a node, and sends its first packet. Returns the number of the
    /// connection.
    pub(super) fn open(&mut self, process: usize, node: usize, parameters: &QuorumParameters) -> usize {
        let connection = self.connections.len();
        self.connections.push(Connection {
            process,
            node,
            parameters: parameters.clone(),
            incarnation: None,
            inbox: VecDeque::new(),
            waker: None,
            is_closed_by_client: false,
            subscriptions: BTreeSet::new(),
            last_arrival: [0; 2],
        });
        self.send(connection, Payload::Outbound(Outbound::Hello));
        connection
    }

    /// Closes a connection from the side of the process. Returns the waker of the task that waited for a
    /// message, for the caller to drop outside of the mutex. Messages sent earlier still arrive.
    pub(super) fn close(&mut self, connection: usize) -> Option<Waker> {
        let connection = self.connections.get_mut(connection)?;
        connection.is_closed_by_client = true;
        connection.subscriptions.clear();
        connection.inbox.clear();
        connection.waker.take()
    }

    /// Sends a message, subject to the faults of the schedule.
    pub(super) fn send(&mut self, number: usize, payload: Payload) {
        let now = self.now();
        let direction = payload.direction();
        let Some(connection) = self.connections.get(number) else { return };
        let (process, node) = (connection.process, connection.node);
        if direction == Direction::Request && (connection.is_closed_by_client || self.is_killed(process)) {
            return;
        }
        if let Payload::Outbound(Outbound::Call { operations, .. }) = &payload {
            self.trace_sent(operations);
        }
        let sent = self.network.sent.entry((process, node, direction)).or_default();
        let index = *sent;
        *sent += 1;
        self.messages += 1;
        let latency =
            self.latency(process, node, direction, index).saturating_add(self.schedule.distance(node, now));
        let verdict = self.network.verdicts.get(&(process, node, direction, index)).copied();
        let cut_until = self.network.cut_until.get(&(process, node, direction)).copied().unwrap_or(0);
        let mut at = now.max(cut_until).saturating_add(latency);
        let mut keeps_order = true;
        match verdict {
            Some(Verdict::Drop) => return,
            Some(Verdict::Reset) => return self.reset(number, at),
            Some(Verdict::Delay(by)) => at = at.saturating_add(micros(by)),
            Some(Verdict::Overtaken(by)) => {
                at = at.saturating_add(micros(by));
                keeps_order = false;
            }
            Some(Verdict::Duplicate(_)) | None => {}
        }
        if keeps_order && let Some(connection) = self.connections.get_mut(number) {
            let last = &mut connection.last_arrival[usize::from(direction == Direction::Reply)];
            at = at.max(*last);
            *last = at;
        }
        if let Some(Verdict::Duplicate(later)) = verdict {
            let again = Delivery { connection: number, payload: payload.clone() };
            self.deliver(at.saturating_add(micros(later)), again);
        }
        self.deliver(at, Delivery { connection: number, payload });
    }

    /// Adds the arrival of a message to the queue of events.
    fn deliver(&mut self, at: u64, delivery: Delivery) {
        // The largest time means never. A message that never arrives is not in flight.
        if at == u64::MAX {
            return;
        }
        self.network.in_flight += 1;
        self.at(at, WorldEvent::Arrive(delivery));
    }

    /// Breaks a connection: at once for the node, and for the process when the close arrives there.
    fn reset(&mut self, number: usize, at: u64) {
        if let Some(connection) = self.connections.get_mut(number) {
            // No incarnation has the largest number, so the node ignores all later messages of the
            // connection.
            connection.incarnation = Some(u64::MAX);
            connection.subscriptions.clear();
        }
        self.deliver(at, Delivery { connection: number, payload: Payload::Inbound(Inbound::Closed) });
    }

    /// Breaks every open connection of a node: the close is a message to the process.
    pub(super) fn break_connections(&mut self, node: usize) {
        let of_node = self.connections.iter().enumerate().filter(|(_, connection)| {
            connection.node == node && connection.incarnation.is_some() && !connection.is_closed_by_client
        });
        let broken: Vec<usize> = of_node.map(|(number, _)| number).collect();
        for number in broken {
            self.send(number, Payload::Inbound(Inbound::Closed));
        }
    }

    /// Handles the arrival of a message at its node or its process.
    pub(super) fn arrive(&mut self, delivery: Delivery, after: &mut Teardown) {
        self.network.in_flight -= 1;
        let now = self.now();
        let Delivery { connection: number, payload } = delivery;
        match payload {
            Payload::Outbound(_) => self.arrive_at_node(Delivery { connection: number, payload }, now),
            Payload::Inbound(inbound) => {
                let Some(connection) = self.connections.get_mut(number) else { return };
                if !connection.is_closed_by_client {
                    (now, number).hash(&mut self.trace);
                    connection.inbox.push_back(inbound);
                    after.woken.extend(connection.waker.take());
                }
            }
        }
    }

    /// Refuses, stores, schedules or executes a message, depending on the state of its node.
    pub(super) fn arrive_at_node(&mut self, delivery: Delivery, now: u64) {
        let Some(connection) = self.connections.get(delivery.connection) else { return };
        let Some(server) = self.servers.get_mut(connection.node) else { return };
        let processing = micros(self.schedule.processing.of(delivery.payload.operations()));
        match server.admit(processing, now) {
            Readiness::Down => self.refuse(&delivery),
            Readiness::Hung => server.backlog.push_back(delivery),
            Readiness::Busy { until } => {
                self.network.in_flight += 1;
                self.at(until, WorldEvent::Execute(delivery));
            }
            Readiness::Ready => {
                self.network.in_flight += 1;
                self.execute(delivery);
            }
        }
    }

    /// Handles a message to a node that is down. The machine refuses a new connection, and drops
    /// every other message.
    pub(super) fn refuse(&mut self, delivery: &Delivery) {
        if matches!(delivery.payload, Payload::Outbound(Outbound::Hello)) {
            let refused = Inbound::Refused(NodeError::Unreachable("connection refused".into()));
            self.send(delivery.connection, Payload::Inbound(refused));
        }
    }

    /// Removes the messages that have arrived at a node, but are not executed yet, from the queue
    /// of events. Returns the messages in order.
    pub(super) fn withdraw(&mut self, node: usize) -> Vec<Delivery> {
        let is_of_node = |delivery: &Delivery| {
            self.connections.get(delivery.connection).is_some_and(|connection| connection.node == node)
        };
        let waiting = self.queue.iter().filter_map(|(key, event)| match event {
            WorldEvent::Execute(delivery) if is_of_node(delivery) => Some((*key, delivery.clone())),
            _ => None,
        });
        let (keys, deliveries): (Vec<_>, Vec<_>) = waiting.unzip();
        for key in keys {
            // The event contains no waker, so dropping it under the mutex is safe.
            drop(self.queue.remove(&key));
            self.network.in_flight -= 1;
        }
        deliveries
    }

    /// Executes a message at its node, and sends the reply. A message of a connection to an earlier
    /// incarnation is dropped. The node is neither down nor hung, because a crash and a hang withdraw all
    /// messages that are not executed yet.
    pub(super) fn execute(&mut self, delivery: Delivery) {
        self.network.in_flight -= 1;
        let now = self.now();
        let number = delivery.connection;
        let Payload::Outbound(outbound) = delivery.payload else { return };
        let Some(connection) = self.connections.get_mut(number) else { return };
        let node = connection.node;
        let Some(server) = self.servers.get_mut(node) else { return };
        server.load.busy += self.schedule.processing.of(outbound.operations());
        if let Outbound::Hello = outbound {
            connection.incarnation.get_or_insert(server.incarnation);
            return self.send(number, Payload::Inbound(Inbound::Welcome));
        }
        // The connection leads to an earlier incarnation of the server, or was reset.
        if connection.incarnation != Some(server.incarnation) {
            return;
        }
        let reply = match outbound {
            Outbound::Hello => return,
            Outbound::Call { batch, operations } => {
                self.rounds.extend(operations.iter().filter_map(|operation| match operation {
                    Operation::Lock(lock) => Some(lock.lease_id.clone()),
                    _ => None,
                }));
                let (parameters, incarnation) = (connection.parameters.clone(), server.incarnation);
                let (connections, network) = (&self.connections, &self.network);
                let listeners = |topic: &Resource| {
                    let channel = names::shared_key_alias(topic);
                    let listeners = network.subscribed(connections, node, incarnation, &channel);
                    u32::try_from(listeners.count()).unwrap_or(u32::MAX)
                };
                server.load.executed(operations.len(), now);
                let (answers, released) = server.apply(&parameters, &operations, now, &listeners);
                (now, node, batch, answers.len()).hash(&mut self.trace);
                let is_sound = server.state.inconsistent_resource(server.time(now)).is_none();
                if !is_sound && !self.schedule.disturbs_keys(node) {
                    self.inconsistent.get_or_insert(node);
                }
                self.trace_answers(node, &operations, &answers);
                for resource in released {
                    self.publish(&resource, number);
                }
                Inbound::Answers { batch, answers }
            }
            Outbound::Subscribe(resource) => {
                connection.subscriptions.insert(resource.clone());
                self.network.subscribers.insert(number, node, &resource);
                Inbound::Subscribed(resource)
            }
            Outbound::Unsubscribe(resource) => {
                connection.subscriptions.remove(&resource);
                self.network.subscribers.remove(number, node, &resource);
                return;
            }
        };
        self.send(number, Payload::Inbound(reply));
    }

    /// Sends a release notice to all subscribers at the node of the connection `from`.
    fn publish(&mut self, resource: &Resource, from: usize) {
        let channel = names::shared_key_alias(resource);
        let Some(node) = self.connections.get(from).map(|connection| connection.node) else { return };
        let Some(incarnation) = self.servers.get(node).map(|server| server.incarnation) else { return };
        let subscribed: Vec<usize> =
            self.network.subscribed(&self.connections, node, incarnation, &channel).collect();
        for number in subscribed {
            self.send(number, Payload::Inbound(Inbound::Released(channel.clone())));
        }
    }

    /// Returns the latency of a message without faults, in microseconds.
    fn latency(&self, process: usize, node: usize, direction: Direction, index: u32) -> u64 {
        let latency = self.schedule.latency;
        let (shortest, longest) = (micros(latency.shortest), micros(latency.longest));
        let spread = longest.saturating_sub(shortest).saturating_add(1);
        let way = match direction {
            Direction::Request => 0,
            Direction::Reply => 1,
        };
        let parts = [part(process), part(node), way, u64::from(index)];
        let beyond = hash_of(self.schedule.seed, RandomStream::Latency, parts) % spread;
        shortest.saturating_add(beyond)
    }
}

impl Connection {
    /// Whether the connection leads to this incarnation of the node and has subscribed to the
    /// topic.
    fn is_subscribed(&self, node: usize, incarnation: u64, topic: &Resource) -> bool {
        self.node == node && self.incarnation == Some(incarnation) && self.subscriptions.contains(topic)
    }
}
