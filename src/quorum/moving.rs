//! Moves of a quorum to another configuration, and the give-up of a move.
//!
//! ```text
//!  old node   from ──close──► closed ──after the wait──► closed for good ──open──► to, if the node stays
//!              ▲                │
//!              └───give up──────┘
//!  new node   no metadata ──────────────────────────────────────────────init─────► to
//!             other ──close──► taken over ──────────────────────────────open─────► to
//!              ▲                   │
//!              └──────give up──────┘
//! ```
//!
//! A move opens the first new node only after one round has closed old nodes for good, and the remaining old nodes are
//! no quorum. A give-up opens nodes that are closed for good only after a quorum of the other old nodes is open, so
//! that the round cannot succeed. A node executes each step atomically. Therefore a move and its give-up never both
//! succeed, even if requests of the move are late.
//!
//! Only nodes with metadata of the old configuration are closed, and count as closed. An old node without metadata may
//! be a server that never belonged to the quorum, if the list of old nodes is wrong.
//!
//! A new node may be in the quarantine that began with a first client of another configuration. The move takes the node
//! over, as `init` does, but closes the node before the wait, because the quarantine may end during the wait.

use std::{collections::BTreeSet, sync::Arc};

use futures::future::join;

use crate::{
    client::{broadcast::collect, context::ClientContext, fanout::Fanout},
    error::{AdminError, ConfigError, out_of_range},
    lock::client::Client,
    mutation::{self, Mutation},
    node::{Answer, Operation, Reconfigure, Request},
    quorum::{
        QuorumBuilder,
        admin::{
            ask_all_nodes, dry_run, ensure_done, fingerprint_of, has_answered, init_operation,
            inspect_started, is_done, register, reply_of, while_open,
        },
    },
    values::{Fingerprint, NodeReplies, NodeReply, Refusal},
};

/// The largest number of rounds of a move. Each old node that returns to the old configuration during the move makes
/// one more round necessary.
const MAX_ROUNDS: u32 = 3;

/// Moves a quorum to other nodes or settings, such as the number of votes or `max_ttl`. The move pauses for slightly
/// more than the longer `max_ttl` of both configurations. During the pause, no client acquires a lock of the quorum.
///
/// The call first inspects every node, and changes nothing unless the move can succeed. Every new node has to answer,
/// and has to belong to the old quorum or to this move, or to be new: a node that [`init`](crate::admin::init) admits. A
/// new node in the quarantine that began with its first client is taken over, even if that client had another
/// configuration. The old nodes without metadata must be no quorum, because the list of old nodes may be wrong. If both
/// configurations have the same fingerprint and nodes, there is nothing to move, and the call only checks that every
/// node belongs to the quorum.
///
/// # Errors
///
/// * [`AdminError::Config`] if the settings of either builder are invalid, if the clock of a new node is off by more
///   than an hour, or if two addresses of one builder lead to one server. The error is also `Config` if the two
///   configurations differ only in the addresses of the nodes, because nodes cannot distinguish such configurations. In
///   this case, give the new configuration a [`name`](QuorumBuilder::name) of its own.
/// * [`AdminError::OtherQuorum`] if a new node belongs to another quorum or to another move, or if too many old nodes
///   do.
/// * [`AdminError::Incomplete`] if a new node did not answer, or if the old nodes that did not answer or have no
///   metadata could still be a quorum. Old nodes whose reply is `Done` are closed, by this call or by an earlier call.
///   If the call fails before the pause, the call opens the nodes again that it has closed. Repeat the call to continue the move, or [give it
///   up](give_up_reconfigure). After the end of a move, a repeated call succeeds only if enough old nodes still show
///   that they are closed for good.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call. Closed nodes stay closed, as after a cancelled
///   call.
///
/// # Cancel safety
///
/// Closed nodes stay closed. Repeat the call to continue the move, or [give it up](give_up_reconfigure).
pub async fn reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    let new = to.start_to_change()?;
    let old = from.start_to_change()?;
    reconfigure_with(&old, &new, &to.settings.name).await.map(drop)
}

/// Moves a quorum like [`reconfigure`]. Returns false if the call moved nothing, because the nodes belonged to the new
/// configuration before.
///
/// # Errors
///
/// As [`reconfigure`].
#[cfg(feature = "__command")]
pub async fn reconfigure_unless_done(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<bool, AdminError> {
    let new = to.start_to_change()?;
    let old = from.start_to_change()?;
    reconfigure_with(&old, &new, &to.settings.name).await
}

/// Moves a quorum. `new_name` is the name in the new configuration. Returns whether this call moved the quorum.
pub(super) async fn reconfigure_with(old: &Client, new: &Client, new_name: &str) -> Result<bool, AdminError> {
    while_open(old, while_open(new, Move::new(old, new).run(new_name))).await
}

/// Gives up a move that was interrupted or failed: opens the nodes that the move has closed, for the old configuration.
/// Pass the arguments of the call of [`reconfigure`], after the end of that call.
///
/// In its last step before it opens new nodes, a move closes old nodes for good. The move can be given up until the
/// remaining old nodes are no quorum. Until then no client has a lease under the new configuration, and old leases stay
/// valid under the old configuration. The new nodes need not answer.
///
/// A client of the new configuration, or an `init`, may have made new nodes vote without the move. If a new node that
/// answers belongs to the new configuration, and the nodes in this state and the silent nodes are a quorum, the call
/// opens nothing.
///
/// # Errors
///
/// * [`AdminError::TooLate`] if new nodes may vote under the new configuration. Continue the move instead, and then
///   move the quorum back by [`reconfigure`] with exchanged arguments.
/// * [`AdminError::Incomplete`] if an old node did not answer, or belongs to another move, or if the old nodes without
///   metadata are a quorum. Old nodes whose reply is `Done` are open. Repeat the call, or give up the other move too.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call. Opened nodes stay open.
/// * [`AdminError::Config`] if the settings of either builder are invalid, or if both configurations are the same.
///
/// # Cancel safety
///
/// Opened nodes stay open. Repeat the call.
pub async fn give_up_reconfigure(from: &QuorumBuilder, to: &QuorumBuilder) -> Result<(), AdminError> {
    let new = to.start_to_change()?;
    let old = from.start_to_change()?;
    give_up_with(&old, &new).await
}

pub(super) async fn give_up_with(old: &Client, new: &Client) -> Result<(), AdminError> {
    while_open(old, while_open(new, Move::new(old, new).give_up())).await
}

/// The move of a quorum from one configuration to another.
struct Move<'a> {
    before: &'a ClientContext,
    after: &'a ClientContext,
    from: Fingerprint,
    to: Fingerprint,
}

/// The stage of a node in a move. A variant has the fingerprint of the node if a later step has to name the
/// fingerprint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage<'a> {
    /// The node did not answer.
    Silent,
    /// The node has no metadata.
    Empty,
    /// The node belongs to the old configuration.
    Open,
    /// The node is closed, and a give-up may open the node again.
    Closed(&'a Fingerprint),
    /// An earlier version has closed the node, for a move from any configuration.
    ClosedFromAny(&'a Fingerprint),
    /// The node is closed for good: a give-up may open the node only after a quorum of the other old nodes is open.
    ClosedForGood(&'a Fingerprint),
    /// The node belongs to the new configuration.
    Moved(&'a Fingerprint),
    /// A move to the new configuration has taken this new node over from the configuration of its first client. The node
    /// is closed. It never counts as a closed old node, because it may never have belonged to the old configuration.
    TakenOver(&'a Fingerprint),
    /// The node belongs to another quorum or to another move.
    Foreign(&'a Fingerprint),
}

impl<'a> Move<'a> {
    fn new(old: &'a Client, new: &'a Client) -> Self {
        let (before, after) = (&*old.context, &*new.context);
        let (from, to) = (fingerprint_of(before), fingerprint_of(after));
        Self { before, after, from, to }
    }

    /// Returns whether this call moved the quorum.
    async fn run(&self, new_name: &str) -> Result<bool, AdminError> {
        if self.from == self.to {
            return self.check_unchanged(new_name).await.map(|()| false);
        }
        if self.check_before_start().await? {
            return Ok(false);
        }
        let lasts = |context: &ClientContext| context.settings.parameters.quarantine.lasts;
        let longest = lasts(self.before).max(lasts(self.after));
        for round in 0..MAX_ROUNDS {
            let closed = self.close(round).await?;
            self.before.clock.sleep_until(self.before.now() + longest).await;
            let is_closed: Vec<bool> = closed.iter().map(Option::is_some).collect();
            let ended = async {
                if self.close_for_good(closed, round).await? {
                    self.open().await.map(|()| true)
                } else {
                    Ok(false)
                }
            };
            let is_closed = |node: usize| is_closed.get(node).is_some_and(|is_closed| *is_closed);
            if ended.await.map_err(|error| self.beside_closed(error, is_closed))? {
                return Ok(true);
            }
        }
        let old = inspect_started(self.before).await?;
        Err(self.incomplete(&old, |answer| self.is_closed(answer)))
    }

    /// Checks that every node belongs to the quorum, if there is nothing to move.
    async fn check_unchanged(&self, new_name: &str) -> Result<(), AdminError> {
        if addresses(self.before) != addresses(self.after) {
            return Err(same_configuration(new_name).into());
        }
        let nodes = inspect_started(self.after).await?;
        self.refuse_foreign(self.after, &nodes, &[])?;
        let is_ours = |answer: &Answer| self.stage(answer) == Stage::Open;
        if nodes.iter().all(is_ours) { Ok(()) } else { Err(untouched(self.after, &nodes, is_ours)) }
    }

    /// Inspects every node, before any node is changed. Returns true if the move was completed before, and an error if
    /// the move cannot succeed.
    ///
    /// A move is complete only if a give-up can open no quorum of old nodes. New nodes may belong to the new
    /// configuration without the move.
    async fn check_before_start(&self) -> Result<bool, AdminError> {
        let (old, new) = join(inspect_started(self.before), inspect_started(self.after)).await;
        let (old, new) = (old?, new?);
        let checked = self.check_before_change(&old, &new).await;
        checked.map_err(|error| {
            self.beside_closed(error, |node| old.get(node).is_some_and(|old| self.is_closed(old)))
        })
    }

    async fn check_before_change(&self, old: &[Answer], new: &[Answer]) -> Result<bool, AdminError> {
        self.check_new(new).await?;
        let is_moved = |answer: &Answer| matches!(self.stage(answer), Stage::Moved(_));
        let is_open = |answer: &Answer| self.stage(answer) == Stage::Open;
        if new.iter().all(is_moved) && !old.iter().any(is_open) && self.is_closed_for_good(old) {
            return Ok(true);
        }
        self.check_old(old, is_never_closed)?;
        // A new node must also be able to join at the end. A node refuses a wrong clock, and a replica cannot join.
        let joining = dry_run(self.after).await?;
        let can_join =
            |answer: &Answer| is_done(answer) || matches!(answer, Answer::AlreadyRegistered { .. });
        if joining.iter().all(can_join) { Ok(false) } else { Err(untouched(self.after, &joining, can_join)) }
    }

    /// Closes old nodes, and returns the fingerprints of the closed nodes. If the move cannot continue, because of the
    /// remaining old nodes or of a new node, opens the nodes again that this call has closed, and returns an error.
    async fn close(&self, round: u32) -> Result<Vec<Option<Fingerprint>>, AdminError> {
        // Every request has a fingerprint of its own. Otherwise a late request could close a node that was open during
        // the wait, and the move would count this node as closed for the whole wait.
        let name = format!("{}-{round}", self.before.lease_ids.client());
        let mine = self.to.closed_by(&self.from, &name);
        let close = Reconfigure { from: self.from.clone(), to: mine.clone(), record: None };
        // A node without metadata is not registered: the node would then count as closed, although the node may not
        // belong to the quorum.
        let old = ask_all_nodes(self.before, Operation::Reconfigure(close.clone())).await;
        let mut taken_over = Vec::new();
        if let Err(error) = self.close_new_and_check(&old, &close, &name, &mut taken_over).await {
            let open =
                Operation::Reconfigure(Reconfigure { from: mine, to: self.from.clone(), record: None });
            let open_new = |node: usize| {
                let theirs: Option<&Fingerprint> = taken_over.get(node).and_then(Option::as_ref);
                let give_back = |theirs: &Fingerprint| {
                    let from = self.to.taken_over_from(theirs, &name);
                    Operation::Reconfigure(Reconfigure { from, to: theirs.clone(), record: None })
                };
                Some(theirs.map_or_else(|| open.clone(), give_back))
            };
            join(ask_all_nodes(self.before, open.clone()), ask_each(self.after, open_new)).await;
            // An earlier call may have closed nodes.
            return Err(
                self.beside_closed(error, |node| old.get(node).is_some_and(|old| self.is_closed(old)))
            );
        }
        let closed_by = |answer: &Answer| match self.stage(answer) {
            Stage::Closed(by) | Stage::ClosedFromAny(by) => Some(by.clone()),
            _ => is_done(answer).then(|| mine.clone()),
        };
        Ok(old.iter().map(closed_by).collect())
    }

    /// Closes the new nodes that belong to the old configuration but are not in the list of old nodes, and the nodes to
    /// take over, whose configurations are added to `taken_over`. Returns an error if the old nodes that are not closed
    /// are a quorum, if an old node is closed for another move, or if a new node did not answer or takes no part in this
    /// move.
    async fn close_new_and_check(
        &self,
        old: &[Answer],
        close: &Reconfigure,
        name: &str,
        taken_over: &mut Vec<Option<Fingerprint>>,
    ) -> Result<(), AdminError> {
        let new = inspect_started(self.after).await?;
        taken_over.extend(self.check_new(&new).await?);
        let is_open = |answer: &Answer| self.stage(answer) == Stage::Open;
        let close = |node: usize| {
            let take_over = |theirs: &Fingerprint| Reconfigure {
                from: theirs.clone(),
                to: self.to.taken_over_from(theirs, name),
                record: None,
            };
            let change = match taken_over.get(node).and_then(Option::as_ref) {
                Some(theirs) => Some(take_over(theirs)),
                None => is_open(new.get(node)?).then(|| close.clone()),
            };
            change.map(Operation::Reconfigure)
        };
        drop(ask_each(self.after, close).await);
        self.check_old(old, |stage| is_never_closed(stage) || stage == Stage::Open)
    }

    /// Closes old nodes for good, after the wait. `closed` has the fingerprints of the nodes that were closed before
    /// the wait. Returns false if another round is necessary, because a node is open or too many nodes did not answer.
    async fn close_for_good(&self, closed: Vec<Option<Fingerprint>>, round: u32) -> Result<bool, AdminError> {
        let (old, new) = join(inspect_started(self.before), inspect_started(self.after)).await;
        let (old, new) = (old?, new?);
        let to_take_over = self.check_new(&new).await?;
        let is_open = |answer: &Answer| self.stage(answer) == Stage::Open;
        if old.iter().any(is_open) || new.iter().any(is_open) || to_take_over.iter().any(Option::is_some) {
            return Ok(false);
        }
        self.check_old(&old, is_never_closed)?;
        let closed = self.closed_during_the_wait(closed, &old);
        let name = format!("{}-{round}", self.before.lease_ids.client());
        let for_good = self.to.closed_for_good_by(&self.from, &name);
        let close = |node: usize| {
            // Only nodes that this round closes for good count, because a give-up may open a node of an earlier round.
            let from = match self.stage(old.get(node)?) {
                Stage::ClosedForGood(by) => by.clone(),
                _ => closed.get(node)?.clone()?,
            };
            Some(Operation::Reconfigure(Reconfigure { from, to: for_good.clone(), record: None }))
        };
        let answers = ask_each(self.before, close).await;
        let is_closed = |answer: &Answer| is_done(answer) || matches!(self.stage(answer), Stage::Moved(_));
        let may_vote = old
            .iter()
            .zip(&answers)
            .filter(|(old, answer)| !answer.as_ref().is_some_and(is_closed) && !is_closed(old));
        let is_enough = is_minority(self.before, may_vote.count());
        Ok(mutation::altered(Mutation::OpenBeforeClosedForGood, is_enough, |_| true))
    }

    /// Returns the fingerprints that nodes closed before the wait must still have. A node that was open during the wait
    /// and was closed again has another fingerprint.
    fn closed_during_the_wait(
        &self,
        closed: Vec<Option<Fingerprint>>,
        old: &[Answer],
    ) -> Vec<Option<Fingerprint>> {
        mutation::altered(Mutation::CloseForGoodWithoutWait, closed, |_| {
            old.iter().map(|answer| self.closed_by(answer).cloned()).collect()
        })
    }

    /// Opens the new nodes.
    ///
    /// Empty nodes become nodes of the quorum at once. These nodes cannot have forgotten votes, since no node votes
    /// under the new configuration yet. If nodes already vote under the new configuration, after a repeated call, empty
    /// nodes wait for the end of a quarantine.
    async fn open(&self) -> Result<(), AdminError> {
        let found = inspect_started(self.after).await?;
        // A node that does not answer may be open.
        let may_be_open = |answer: &Answer| matches!(self.stage(answer), Stage::Silent | Stage::Moved(_));
        let has_begun = found.iter().any(may_be_open);
        let admit = if has_begun { register(self.after) } else { init_operation(self.after) };
        let admitted = ask_all_nodes(self.after, admit).await;
        let open = |node: usize| match self.stage(found.get(node)?) {
            Stage::Closed(by)
            | Stage::ClosedFromAny(by)
            | Stage::ClosedForGood(by)
            | Stage::TakenOver(by) => Some(Operation::Reconfigure(Reconfigure {
                from: by.clone(),
                to: self.to.clone(),
                record: None,
            })),
            _ => None,
        };
        let opened = ask_each(self.after, open).await;
        let decisive = |(opened, admitted): (Option<Answer>, Answer)| {
            if is_done(&admitted) { admitted } else { opened.unwrap_or(admitted) }
        };
        let answers: Vec<Answer> = opened.into_iter().zip(admitted).map(decisive).collect();
        ensure_done(self.after, &answers)
    }

    async fn give_up(&self) -> Result<(), AdminError> {
        if self.from == self.to {
            // Nodes that are closed for this configuration come from another configuration, whose leases may be valid.
            let expected =
                "another configuration than that of `from`, because the move between the two is given up";
            return Err(out_of_range("to", &self.to, expected).into());
        }
        let (old, new) = join(inspect_started(self.before), inspect_started(self.after)).await;
        let old = old?;
        // An error of the new nodes is ignored, because it may be the reason to give up.
        let new = new.unwrap_or_default();
        if self.are_final(&old) {
            self.refuse_too_late(&old)?;
        }
        self.refuse_beside_new_quorum(&new)?;
        // A move of an earlier version opened new nodes without closing old nodes for good. If old nodes were closed by
        // an earlier version, the give-up opens them only if the answers of all new nodes show that no new node was
        // opened.
        let is_moved = |answer: &Answer| matches!(self.stage(answer), Stage::Moved(_));
        let is_unmoved =
            !new.is_empty() && new.iter().all(|answer| has_answered(answer) && !is_moved(answer));
        let open = |by: &Fingerprint| {
            Operation::Reconfigure(Reconfigure { from: by.clone(), to: self.from.clone(), record: None })
        };
        let open_closed = |answer: &Answer| match self.stage(answer) {
            Stage::Closed(by) => Some(open(by)),
            Stage::ClosedFromAny(by) if is_unmoved => Some(open(by)),
            Stage::TakenOver(by) => {
                let theirs = by.first_configuration(&self.to)?;
                Some(Operation::Reconfigure(Reconfigure { from: by.clone(), to: theirs, record: None }))
            }
            _ => None,
        };
        ask_each(self.before, |node| open_closed(old.get(node)?)).await;
        // The move also closes new nodes that belong to the old configuration but are not in the list of old nodes.
        ask_each(self.after, |node| open_closed(new.get(node)?)).await;
        let mut now = inspect_started(self.before).await?;
        if !self.are_final(&now) {
            let open_final = |answer: &Answer| match self.stage(answer) {
                Stage::ClosedForGood(by) => Some(open(by)),
                _ => None,
            };
            // The answers of `old` count, because those nodes were closed for good before the second inspection showed
            // the open nodes.
            let opened = ask_each(self.before, |node| open_final(old.get(node)?)).await;
            now = now.into_iter().zip(opened).map(|(before, opened)| opened.unwrap_or(before)).collect();
        }
        self.refuse_too_late(&now)?;
        // A node without metadata joins the old configuration when its next client registers. If such nodes are a
        // quorum, the list of old nodes may be wrong, and the closed nodes may be at other addresses.
        let is_empty = |answer: &Answer| !is_done(answer) && self.stage(answer) == Stage::Empty;
        let may_be_empty = is_minority(self.before, now.iter().filter(|answer| is_empty(answer)).count());
        let is_open = |answer: &Answer| {
            is_done(answer) || self.stage(answer) == Stage::Open || (may_be_empty && is_empty(answer))
        };
        if now.iter().all(is_open) { Ok(()) } else { Err(self.incomplete(&now, is_open)) }
    }

    /// Whether nodes that are closed for good have to stay closed, because the round that closed them may close enough
    /// nodes. That round cannot close a node that is open now: the request of the round names the fingerprint that the
    /// node had before.
    fn are_final(&self, old: &[Answer]) -> bool {
        let open = old.iter().filter(|answer| self.stage(answer) == Stage::Open).count();
        mutation::altered(Mutation::OpenClosedForGood, is_minority(self.before, open), |_| false)
    }

    /// Returns an error if the move may have opened new nodes.
    fn refuse_too_late(&self, old: &[Answer]) -> Result<(), AdminError> {
        if self.is_closed_for_good(old) { Err(self.too_late(self.before, old)) } else { Ok(()) }
    }

    /// Whether so many old nodes are closed for good that the other old nodes are no quorum.
    fn is_closed_for_good(&self, old: &[Answer]) -> bool {
        is_minority(self.before, old.iter().filter(|answer| !self.is_final(answer)).count())
    }

    /// Returns an error if a quorum of new nodes may vote under the new configuration, although the move has not opened
    /// them: after an `init`, or after the registration of a client. Silent nodes count only if another node belongs to
    /// the new configuration. Otherwise a move could not be given up after the loss of new nodes.
    fn refuse_beside_new_quorum(&self, new: &[Answer]) -> Result<(), AdminError> {
        let is_moved = |answer: &&Answer| matches!(self.stage(answer), Stage::Moved(_));
        let may_vote = |answer: &&Answer| is_moved(answer) || self.stage(answer) == Stage::Silent;
        let is_refused = new.iter().any(|answer| is_moved(&answer))
            && !is_minority(self.after, new.iter().filter(may_vote).count());
        if mutation::altered(Mutation::GiveUpBesideNewQuorum, is_refused, |_| false) {
            return Err(self.too_late(self.after, new));
        }
        Ok(())
    }

    /// Returns the error of a give-up that is too late. The error names the first node that shows this.
    fn too_late(&self, context: &ClientContext, answers: &[Answer]) -> AdminError {
        let mut nodes = context.nodes.iter().zip(answers);
        let (node, metadata) = nodes
            .find_map(|(node, answer)| match self.stage(answer) {
                Stage::ClosedForGood(by) | Stage::Moved(by) => {
                    Some((Arc::clone(node.address()), by.to_string().into()))
                }
                _ => None,
            })
            .unwrap_or_default();
        AdminError::TooLate { node, metadata }
    }

    fn stage<'n>(&self, answer: &'n Answer) -> Stage<'n> {
        match answer {
            Answer::Inspected(inspection) => {
                inspection.fingerprint.as_ref().map_or(Stage::Empty, |fingerprint| self.stage_of(fingerprint))
            }
            Answer::WrongQuorum { fingerprint } => self.stage_of(fingerprint),
            Answer::Abstains(_) => Stage::Empty,
            _ => Stage::Silent,
        }
    }

    fn stage_of<'n>(&self, fingerprint: &'n Fingerprint) -> Stage<'n> {
        if *fingerprint == self.from {
            Stage::Open
        } else if *fingerprint == self.to {
            Stage::Moved(fingerprint)
        } else if fingerprint.is_closed_for_good_between(&self.from, &self.to)
            || mutation::altered(Mutation::CountRetiredAsClosed, false, |_| {
                self.from.replacement_of(fingerprint.as_str()).is_some()
            })
        {
            Stage::ClosedForGood(fingerprint)
        } else if fingerprint.is_closed_between(&self.from, &self.to) {
            Stage::Closed(fingerprint)
        } else if *fingerprint == self.to.closed_for() {
            Stage::ClosedFromAny(fingerprint)
        } else if fingerprint.first_configuration(&self.to).is_some() {
            Stage::TakenOver(fingerprint)
        } else {
            Stage::Foreign(fingerprint)
        }
    }

    /// Returns the fingerprint of a node that is closed, but not for good.
    fn closed_by<'n>(&self, answer: &'n Answer) -> Option<&'n Fingerprint> {
        match self.stage(answer) {
            Stage::Closed(by) | Stage::ClosedFromAny(by) => Some(by),
            _ => None,
        }
    }

    /// Whether the node is closed, or belongs to the new configuration.
    fn is_closed(&self, answer: &Answer) -> bool {
        self.closed_by(answer).is_some() || self.is_final(answer)
    }

    /// Whether the node is closed for good, or belongs to the new configuration.
    fn is_final(&self, answer: &Answer) -> bool {
        matches!(self.stage(answer), Stage::ClosedForGood(_) | Stage::Moved(_))
    }

    /// Returns the configurations of the new nodes to take over: those of another configuration that an `init` admits,
    /// because they have given no vote. Returns an error if a new node did not answer, or takes no part in this move.
    async fn check_new(&self, new: &[Answer]) -> Result<Vec<Option<Fingerprint>>, AdminError> {
        let foreign = |answer: &Answer| match self.stage(answer) {
            Stage::Foreign(theirs) => Some(theirs.clone()),
            _ => None,
        };
        let to_take_over: Vec<Option<Fingerprint>> = new.iter().map(foreign).collect();
        if to_take_over.iter().any(Option::is_some) {
            let admitted = dry_run(self.after).await?;
            self.refuse_foreign(self.after, new, &admitted)?;
        }
        if new.iter().all(has_answered) {
            Ok(to_take_over)
        } else {
            Err(untouched(self.after, new, has_answered))
        }
    }

    /// Returns an error if the old nodes in a stage that `is_unclosed` accepts are a quorum, since these nodes may
    /// still vote. Also returns an error if an old node is closed for another move. Otherwise both moves could close
    /// enough old nodes, if the number of nodes is even or a quorum is more than a majority.
    fn check_old(&self, old: &[Answer], is_unclosed: impl Fn(Stage<'_>) -> bool) -> Result<(), AdminError> {
        let is_of_another_move =
            |answer: &Answer| matches!(self.stage(answer), Stage::Foreign(theirs) if theirs.is_closed());
        if old.iter().any(is_of_another_move) {
            self.refuse_foreign(self.before, old, &[])?;
        }
        let is_unclosed = |answer: &Answer| !is_done(answer) && is_unclosed(self.stage(answer));
        if is_minority(self.before, old.iter().filter(|answer| is_unclosed(answer)).count()) {
            return Ok(());
        }
        self.refuse_foreign(self.before, old, &[])?;
        Err(untouched(self.before, old, |answer| !is_unclosed(answer)))
    }

    /// Returns an error if a node belongs to another quorum or to another move, unless the node is new: its answer in
    /// `admitted`, to the dry run of an `init`, is done.
    fn refuse_foreign(
        &self,
        context: &ClientContext,
        answers: &[Answer],
        admitted: &[Answer],
    ) -> Result<(), AdminError> {
        for (index, (node, answer)) in context.nodes.iter().zip(answers).enumerate() {
            if let Stage::Foreign(theirs) = self.stage(answer)
                && !admitted.get(index).is_some_and(is_done)
            {
                let (node, metadata) = (Arc::clone(node.address()), theirs.to_string().into());
                return Err(AdminError::OtherQuorum { node, metadata });
            }
        }
        Ok(())
    }

    /// Adds the old nodes that stay closed to an error about nodes that do not take part. The reply of a closed node is
    /// `Done`.
    fn beside_closed(&self, error: AdminError, is_closed: impl Fn(usize) -> bool) -> AdminError {
        let AdminError::Incomplete(replies) = error else { return error };
        let mut all: Vec<(Arc<str>, NodeReply)> =
            replies.iter().map(|(node, reply)| (node.into(), reply.clone())).collect();
        let closed = self.before.nodes.iter().enumerate().filter(|(node, _)| is_closed(*node));
        for (_, node) in closed {
            match all.iter_mut().find(|(address, _)| address == node.address()) {
                Some((_, reply)) if *reply == NodeReply::NotAsked => *reply = NodeReply::Done,
                Some(_) => {}
                None => all.push((Arc::clone(node.address()), NodeReply::Done)),
            }
        }
        let (addresses, all): (Vec<Arc<str>>, Vec<NodeReply>) = all.into_iter().unzip();
        AdminError::Incomplete(NodeReplies::new(addresses.into(), all, replies.needed()))
    }

    /// Returns the error of old nodes that do not take part. The reply of the other old nodes is `Done`.
    fn incomplete(&self, old: &[Answer], is_done: impl Fn(&Answer) -> bool) -> AdminError {
        let reply = |answer: &Answer| {
            if is_done(answer) { NodeReply::Done } else { reply_of_absent(self.before, answer) }
        };
        AdminError::Incomplete(self.before.replies(old.iter().map(reply)))
    }
}

/// Whether a move never closes an old node in this stage.
fn is_never_closed(stage: Stage<'_>) -> bool {
    matches!(stage, Stage::Silent | Stage::Empty | Stage::Foreign(_) | Stage::TakenOver(_))
}

/// Returns the error of nodes that do not take part. The reply of the other nodes is `NotAsked`, because the call has
/// changed nothing at these nodes, or has undone the change.
fn untouched(context: &ClientContext, answers: &[Answer], is_fine: impl Fn(&Answer) -> bool) -> AdminError {
    let reply = |answer: &Answer| {
        if is_fine(answer) { NodeReply::NotAsked } else { reply_of_absent(context, answer) }
    };
    AdminError::Incomplete(context.replies(answers.iter().map(reply)))
}

/// Returns the reply of a node that does not take part.
pub(super) fn reply_of_absent(context: &ClientContext, answer: &Answer) -> NodeReply {
    match answer {
        Answer::Inspected(inspection) => NodeReply::Refused(match &inspection.fingerprint {
            Some(fingerprint) => Refusal::wrong_quorum(fingerprint),
            None => Refusal::Quarantined { remaining: None },
        }),
        answer => reply_of(context, answer),
    }
}

/// Sends each node its own operation. The answer of a node without an operation is `None`.
pub(super) async fn ask_each(
    context: &ClientContext,
    operation: impl Fn(usize) -> Option<Operation>,
) -> Vec<Option<Answer>> {
    let deadline = context.now() + context.settings.connect_timeout;
    let mut fanout = Fanout::new();
    let mut is_asked = vec![false; context.nodes.len()];
    for (node, is_asked) in is_asked.iter_mut().enumerate() {
        if let Some(operation) = operation(node) {
            fanout.send(&context.nodes, node, (), Request::one(operation, deadline));
            *is_asked = true;
        }
    }
    let answers = collect(context, fanout, deadline).await;
    answers.into_iter().zip(is_asked).map(|(answer, is_asked)| is_asked.then_some(answer)).collect()
}

/// Whether this number of nodes is no quorum.
fn is_minority(context: &ClientContext, nodes: usize) -> bool {
    nodes < context.settings.electorate.needed()
}

/// Returns the error for two configurations with the same fingerprint and different nodes. An old node that the move
/// does not reach would vote for clients of both configurations.
fn same_configuration(name: &str) -> ConfigError {
    let expected = "a name of its own for the new configuration, because its other settings are those of the old one \
                    and its nodes are not";
    out_of_range("name", name, expected)
}

fn addresses(context: &ClientContext) -> BTreeSet<Arc<str>> {
    context.nodes.iter().map(|node| Arc::clone(node.address())).collect()
}
