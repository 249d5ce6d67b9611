//! The protocol as a graph of states, for a search by `stateright`: the initial states, the actions
//! that are possible in a state, and the state after an action.
//!
//! Actions that cannot change the result of a search are left out. [`Bounds`] has the reasons.

use std::time::Duration;

use stateright::{Model, Property};

use crate::{
    model::{
        CLIENTS, NODES,
        action::{Action, ModelDelivery},
        bounds::{Bounds, Expiries, ModelProperty},
        message::{FromNode, Reply, Request, ToNode},
        node_model::{INCARNATION, ModelLockVote, NodeModel, Sealed},
        rules::Rules,
        world::{ClientPhase, ModelTicket, World},
    },
    node::{QuarantineParameters, QuorumParameters, operation::samples::parameters},
};

/// The protocol within bounds and rules.
#[derive(Clone, Debug)]
pub(super) struct Protocol {
    pub(super) bounds: Bounds,
    pub(super) rules: Rules,
    pub(super) parameters: QuorumParameters,
    /// The number of votes of a quorum.
    pub(super) needed: usize,
}

impl Protocol {
    pub(super) fn new(bounds: Bounds, rules: Rules) -> Self {
        let mut parameters =
            QuorumParameters { guard: rules.guard, incarnation: Some(INCARNATION.into()), ..parameters() };
        if let Some(timing) = bounds.timing {
            parameters.max_ttl = Duration::from_millis(timing.ttl.into());
            // For a node, a period is over from the tick after its end. An attempt cannot win at the
            // tick at which its timeout ends. Therefore the period after which renewals count is one
            // tick shorter than the attempt timeout.
            let renewals_after = Duration::from_millis(timing.attempt_timeout.saturating_sub(1).into());
            parameters.quarantine = QuarantineParameters { lasts: parameters.max_ttl, renewals_after };
        }
        Self { bounds, rules, parameters, needed: rules.needed() }
    }

    pub(super) fn ttl(&self) -> Duration {
        self.parameters.max_ttl
    }

    /// Returns the world after an action, with every node at the index that it had before; `None` if
    /// the action needs a lease that the client does not have.
    pub(super) fn after(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Begin(client) => world.begin(self, client),
            Action::Retry(client) => world.retry_refused(self, client),
            Action::RollBack(client) => world.roll_back(self, client),
            Action::Redeem(client) => {
                let ticket = world.ticket?;
                world.redeem(self, client, ticket);
            }
            Action::ReleaseTicket => {
                let ticket = world.ticket?;
                world.release_ticket(self, ticket);
            }
            Action::Renew(client)
            | Action::Unlock(client)
            | Action::Downgrade(client)
            | Action::IssueTicket(client) => {
                let ClientPhase::Holding(lease) = world.clients[client].phase else { return None };
                match action {
                    Action::Renew(_) => world.renew(self, client, lease),
                    Action::Downgrade(_) => world.downgrade(self, client, lease),
                    Action::IssueTicket(_) => world.issue_ticket(self, client, lease),
                    _ => world.unlock(self, client),
                }
            }
            Action::Execute { node, request, again, delivery } => {
                self.execute(&mut world, node, request, again, delivery);
            }
            Action::Deliver { node, reply } => self.deliver(&mut world, node, reply),
            Action::Expire { node } | Action::ExpireReader { node, .. } => {
                if let Expiries::AtMost(left) = &mut world.expiries {
                    *left -= 1;
                }
                let reader = match action {
                    Action::ExpireReader { reader, .. } => Some(reader),
                    _ => None,
                };
                world.nodes[node].open().expire(self, reader);
            }
            Action::LoseCounter { node } => {
                world.losses -= 1;
                world.nodes[node].open().lose_counter(self.bounds.is_regained_above);
            }
            Action::Crash { node } => {
                world.crashes -= 1;
                world.nodes[node].open().crash(&self.parameters, before.now);
            }
            Action::Save { node } => world.nodes[node].open().save(),
            Action::Restart { node } => {
                world.restarts -= 1;
                let is_undecided = std::array::from_fn(|client| world.is_trying(client));
                world.nodes[node].open().restart(self, is_undecided);
            }
            Action::Tick => self.tick(&mut world),
        }
        world.nodes.iter_mut().for_each(Sealed::seal);
        Some(world)
    }

    /// Returns the world after the first client has won its first attempt, by votes of the first
    /// nodes that are a quorum.
    fn with_first_lease(&self, world: World) -> World {
        let then = |world: World, action| self.after(&world, action).unwrap();
        let mut world = then(world, Action::Begin(0));
        for node in 0..self.needed {
            let request = world.nodes[node].requests()[0];
            world = then(
                world,
                Action::Execute { node, request, again: false, delivery: ModelDelivery::AnyTime },
            );
            let reply = world.nodes[node].replies()[0];
            world = then(world, Action::Deliver { node, reply });
        }
        assert!(world.is_holding(self, 0), "the first votes differ, so the lease needs a write-back");
        world.with_sorted_nodes()
    }

    fn client_actions(&self, world: &World, client: usize, actions: &mut Vec<Action>) {
        match world.clients[client].phase {
            ClientPhase::Idle => {
                // Of clients that are alike and have not begun, only the client with the smallest
                // index begins. The other orders would only exchange names.
                let does_not_precede =
                    |other: usize| !self.bounds.are_alike(other, client) || world.clients[other].begun > 0;
                let is_next = (0..client).all(does_not_precede);
                if is_next && world.clients[client].begun < self.bounds.attempts[client] {
                    if self.bounds.contenders[client] {
                        actions.push(Action::Begin(client));
                    }
                    // A redemption of a spent ticket leaves nothing on a node, because the tombstone refuses it.
                    let is_over = |ticket: ModelTicket| self.bounds.is_all_delivered() && ticket.is_spent;
                    if self.bounds.redeemers[client] && world.ticket.is_some_and(|ticket| !is_over(ticket)) {
                        actions.push(Action::Redeem(client));
                    }
                }
            }
            ClientPhase::Locking | ClientPhase::Confirming { .. } => {
                let is_last = world.clients[client].begun >= self.bounds.attempts[client];
                let delays_a_quarantine = world.count(|node| node.attempts[client].began_before_restart) > 0;
                if !is_last || delays_a_quarantine || self.bounds.is_last_rollback_relevant() {
                    actions.push(Action::RollBack(client));
                }
                let is_refused = |node: &NodeModel| node.attempts[client].lock == ModelLockVote::Refused;
                let is_locking = world.clients[client].phase == ClientPhase::Locking;
                if world.repeats > 0 && is_locking && world.count(is_refused) > 0 {
                    actions.push(Action::Retry(client));
                }
            }
            ClientPhase::Holding(lease) => {
                let is_in_time = self.bounds.timing.is_none() || world.is_holding(self, client);
                if lease.round.is_none() && lease.rounds < self.bounds.renewals[client] && is_in_time {
                    actions.push(Action::Renew(client));
                }
                let is_last = world.clients[client].begun >= self.bounds.attempts[client];
                if self.bounds.may_downgrade && !world.is_reader(self, client) && is_in_time {
                    actions.push(Action::Downgrade(client));
                }
                if self.bounds.may_issue_ticket && client == 0 && is_in_time {
                    actions.push(Action::IssueTicket(client));
                }
                if !is_last || self.bounds.are_unlocks_relevant() {
                    actions.push(Action::Unlock(client));
                }
            }
        }
    }

    fn node_actions(&self, world: &World, node: usize, actions: &mut Vec<Action>) {
        let here = &world.nodes[node];
        let is_in_quarantine = self.bounds.restarts > 0 && here.is_in_quarantine(self);
        // Requests are sorted. The execution of one of several equal requests is enough.
        let mut last = None;
        for request in here.requests().iter().copied() {
            let requests_vote = matches!(
                request.message,
                ToNode::Lock { .. }
                    | ToNode::Downgrade { .. }
                    | ToNode::IssueTicket { .. }
                    | ToNode::Redeem { .. }
                    | ToNode::WriteBack { .. }
            );
            if last.replace(request) == Some(request) || (is_in_quarantine && requests_vote) {
                continue;
            }
            let deliveries: &[_] = match request.message {
                ToNode::Unlock { .. } => &[ModelDelivery::Never],
                _ if !self.bounds.are_answers_immediate() => &[ModelDelivery::AnyTime],
                _ if world.expects_answer(request) => &[ModelDelivery::AtOnce, ModelDelivery::Never],
                _ => &[ModelDelivery::Never],
            };
            for delivery in deliveries.iter().copied() {
                actions.push(Action::Execute { node, request, again: false, delivery });
                if world.duplicates > 0 {
                    actions.push(Action::Execute { node, request, again: true, delivery });
                }
            }
        }
        let mut last = None;
        for reply in here.replies().iter().copied() {
            if last.replace(reply) != Some(reply) {
                actions.push(Action::Deliver { node, reply });
            }
        }
        // The expiry of a key with one reader has the same effect as the expiry of this reader.
        if world.expiries != Expiries::AtMost(0) && here.is_held(0) && here.readers().count() != 1 {
            actions.push(Action::Expire { node });
        }
        if world.expiries != Expiries::AtMost(0) {
            actions.extend(here.readers().map(|reader| Action::ExpireReader { node, reader }));
        }
        if world.losses > 0 && here.has_counter() {
            actions.push(Action::LoseCounter { node });
        }
        if world.crashes > 0 {
            actions.push(Action::Crash { node });
        }
        if world.restarts > 0 {
            // One saved state of one node is enough.
            let is_any_saved = world.count(NodeModel::has_saved) > 0;
            actions.extend((!is_any_saved).then_some(Action::Save { node }));
            actions.extend(here.has_saved().then_some(Action::Restart { node }));
        }
    }

    fn execute(
        &self,
        world: &mut World,
        node: usize,
        request: Request,
        again: bool,
        delivery: ModelDelivery,
    ) {
        let now = world.now;
        let is_delivered = delivery != ModelDelivery::Never && world.expects_answer(request);
        let here = world.nodes[node].open();
        if again {
            world.duplicates -= 1;
        } else {
            here.remove_request(request);
        }
        let Some(message) = here.execute(self, request, now).filter(|_| is_delivered) else { return };
        let reply = Reply { to: request.of, message };
        if world.is_relevant(self, node, reply) {
            world.nodes[node].open().add_reply(reply);
            if delivery == ModelDelivery::AtOnce {
                self.deliver(world, node, reply);
            }
        }
    }

    fn deliver(&self, world: &mut World, node: usize, reply: Reply) {
        let Reply { to, message } = reply;
        world.nodes[node].open().remove_reply(reply);
        match message {
            FromNode::Granted { .. } | FromNode::Refused | FromNode::WrittenBack(_) => {
                world.on_vote(self, to.client, node, message);
            }
            FromNode::Renewed { .. } | FromNode::NotRenewed { .. } => {
                world.on_renewal_answer(self, to.client, node, message)
            }
        }
        world.drop_irrelevant(self);
    }

    fn tick(&self, world: &mut World) {
        world.now += 1;
        let now = world.now;
        for node in &mut world.nodes {
            node.open().tick(now);
        }
    }
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let worlds = self.bounds.starts.iter().map(|counters| World::new(self, *counters));
        if self.bounds.is_held_at_start {
            worlds.map(|world| self.with_first_lease(world)).collect()
        } else {
            worlds.collect()
        }
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !world.is_kept(self) || world.is_decided(self) {
            return;
        }
        for client in 0..CLIENTS {
            self.client_actions(world, client, actions);
        }
        if self.bounds.is_all_delivered() && world.ticket.is_some_and(|ticket| !ticket.is_spent) {
            actions.push(Action::ReleaseTicket);
        }
        for node in 0..world.nodes.len() {
            // Equal nodes are neighbours, and the actions of one of them are enough.
            let is_twin = node > 0 && world.nodes[node - 1].digest() == world.nodes[node].digest();
            if !is_twin {
                self.node_actions(world, node, actions);
            }
        }
        if self.bounds.timing.is_some_and(|timing| world.now < timing.horizon) {
            actions.push(Action::Tick);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        Some(self.after(before, action)?.with_sorted_nodes())
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let name = match self.bounds.property {
            ModelProperty::LeasesDoNotOverlap => "leases do not overlap",
            ModelProperty::TokensAreUniqueAndGrow => "tokens are unique and grow",
            ModelProperty::ProofsHold => "proofs hold",
            ModelProperty::NothingIsLeftBehind => "nothing is left behind",
            ModelProperty::KeysAgreeWithReaders => "keys agree with readers",
            ModelProperty::TicketsPassLocksOn => "tickets pass locks on",
        };
        let is_kept = Property::always(name, |model: &Self, world: &World| world.is_kept(model));
        // With a broken rule, only the searched property is checked, because the rule must show in
        // this property.
        let agrees = Property::always("keys agree with readers", |_, world: &World| {
            world.count(|node| node.agrees_with_readers(world.now)) == NODES
        });
        let checks_agreement =
            self.rules.broken_rule.is_none() && self.bounds.property != ModelProperty::KeysAgreeWithReaders;
        [Some(is_kept), checks_agreement.then_some(agrees)].into_iter().flatten().collect()
    }
}
