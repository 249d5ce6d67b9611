//! The replacement of one node by a new server, while the other nodes vote.
//!
//! ```text
//!  old node     F ───────────────────────retire──► replaced by the new server, for good
//!
//!  new server   no metadata ──close──► joining ──────────────open──► F, in quarantine ──► votes
//! ```
//!
//! F is the fingerprint of the quorum, which does not contain addresses. The new server counts as the old node after a
//! loss of its data: the new server begins its quarantine after the last vote of the old node. Therefore the old node is
//! retired, or is gone for good, before the new server is opened. Until then, the new server is closed, so that no client
//! with the new list of nodes begins an earlier quarantine.
//!
//! A node executes each step atomically, and compares its fingerprint. Another call continues from the fingerprints that
//! it finds. If a new server belongs to the quorum, and no old node shows that this is the result of an earlier call, the
//! server is closed, and begins its quarantine again.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    client::context::ClientContext,
    error::{AdminError, ConfigError, out_of_range},
    lock::client::Client,
    mutation::{self, Mutation},
    node::{Answer, Inspect, NewNodes, Operation, Reconfigure, Register, Registration, RestartGuard, names},
    quorum::{
        QuorumBuilder,
        admin::{dry_run, fingerprint_of, inspect_started, is_done, register, while_open},
        moving::{ask_each, reply_of_absent},
    },
    values::{Fingerprint, NodeError, NodeReply, Refusal, Resource},
};

/// The time for which a call waits for an old node that is said to be gone. If the node answers, it is retired.
const GONE_TIMEOUT: Duration = Duration::from_secs(3);

/// The delay after which a node without an answer is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The replacement of one node of a quorum by a new server, for [`replace`].
#[derive(Clone, PartialEq, Eq)]
#[must_use = "a replacement does nothing until it is passed to `replace`"]
pub struct Replacement {
    pub(super) old: String,
    pub(super) new: String,
    is_old_gone: bool,
}

impl Replacement {
    /// Returns the replacement of the node with the url `old` by the server with the url `new`. The urls have the same
    /// form as those of [`QuorumBuilder::nodes`]. Of the first url, only host and port are compared with the nodes.
    pub fn new(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self { old: old.into(), new: new.into(), is_old_gone: false }
    }

    /// States that the old node is gone for good if it does not answer: nothing starts the server again with its data
    /// or without, or its address leads nowhere. Default: a node that does not answer is not replaced.
    ///
    /// If the statement is wrong, the old node and the new server vote at the same time, and two clients may hold one
    /// lock. If the old node answers, the statement changes nothing.
    pub fn old_is_gone(self) -> Self {
        Self { is_old_gone: true, ..self }
    }
}

impl fmt::Debug for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = crate::node::redis::without_password;
        f.debug_struct("Replacement")
            .field("old", &shown(&self.old))
            .field("new", &shown(&self.new))
            .field("is_old_gone", &self.is_old_gone)
            .finish()
    }
}

/// Replaces one node of a quorum by a new server, while clients hold and acquire locks. Returns the list of nodes that
/// the clients are to get, as urls without users and passwords: `***@` stands for them.
///
/// `quorum` has the nodes and settings of the running clients. The list may also name the new server in place of the
/// old node already. The new server has to be empty, and every other node has to answer and vote. The call retires the
/// old node, which never votes again: its fingerprint names the address of the new server. Then the call registers the
/// new server, and returns when the new server votes, after a quarantine of slightly more than `max_ttl`.
///
/// Running clients continue with the other nodes. Their logs have one warning, and
/// [`Quorum::health`](crate::Quorum::health) has the address of the new server, if the old node still answers. Give each
/// client the new list and restart it. Meanwhile both lists may be in use. Stop the old server after the call, and do not
/// start it again before every client has the new list: if the server loses its data, a client with the old list
/// registers it as a node that has lost its data, and it votes again.
///
/// The call refuses a quorum in which the other nodes are no quorum (one node, two nodes, or as many votes needed as
/// nodes), because running clients would acquire no lock. It also refuses an old node or a new server behind Sentinels,
/// because a failover may lose the retirement; such a node changes its servers by a failover, at the same address.
/// [`reconfigure`](crate::admin::reconfigure) moves a quorum in all of these cases.
///
/// # Errors
///
/// * [`AdminError::Config`] if the settings are invalid, if neither or both of the servers are in the list of nodes, in
///   the cases above, if the restart guard is off, or if both addresses lead to one server. Nothing is changed.
/// * [`AdminError::OthersNeeded`] if another node did not answer, belongs to another quorum, or does not vote. Nothing
///   is changed, except that a restarted node is registered.
/// * [`AdminError::OldSilent`] if the old node did not answer, and is not [gone](Replacement::old_is_gone). The new
///   server is not opened, so it gives no vote.
/// * [`AdminError::OtherQuorum`] if the old node belongs to another quorum, or is closed for a move, and
///   [`AdminError::AlreadyReplaced`] if another server stands in for the old node. Nothing is changed.
/// * [`AdminError::NotEmpty`] if the new server was in a quorum. Nothing is changed.
/// * [`AdminError::Incomplete`] if the new server does not answer.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call.
///
/// After an error or an interruption, the same call continues the replacement.
///
/// # Cancel safety
///
/// The steps until then are done. Repeat the call. Until the new server is opened, it votes for no client.
pub async fn replace(quorum: &QuorumBuilder, replacement: &Replacement) -> Result<Vec<String>, AdminError> {
    let lists = quorum.replacing(replacement)?;
    let (old, new) = (lists.before.start_to_change()?, lists.after.start_to_change()?);
    replace_with(&old, &new, lists.node, replacement.is_old_gone).await?;
    Ok(lists.after.shown_nodes()?)
}

/// The lists of nodes before and after a replacement, which differ in one node.
pub(super) struct NodeLists {
    pub(super) before: QuorumBuilder,
    pub(super) after: QuorumBuilder,
    /// The index of the old node in the first list, and of the new server in the second list.
    pub(super) node: usize,
}

/// Replaces the node with this index, as [`replace`].
pub(super) async fn replace_with(
    old: &Client,
    new: &Client,
    node: usize,
    is_old_gone: bool,
) -> Result<(), AdminError> {
    let (before, after) = (&*old.context, &*new.context);
    let replacing = Replacing { before, after, node, ours: fingerprint_of(after), is_old_gone };
    while_open(old, while_open(new, replacing.run())).await
}

struct Replacing<'a> {
    before: &'a ClientContext,
    after: &'a ClientContext,
    /// The index of the old node in `before`, and of the new server in `after`.
    node: usize,
    ours: Fingerprint,
    is_old_gone: bool,
}

/// The state of the old node.
enum OldNode {
    /// The node did not answer, and is gone for good.
    Gone,
    /// The node has no metadata, and may join the quorum at the registration of any client.
    Empty,
    /// The node has this fingerprint, which allows it to vote now or later.
    Open(Fingerprint),
    /// The new server stands in for the node already.
    Retired,
}

/// The state of the new server.
enum NewServer {
    /// The server has no metadata.
    Empty,
    /// The server belongs to the quorum, and has to begin its quarantine again after the end of the old node.
    Member,
    /// The server is closed, with this fingerprint, until the old node is retired.
    Joining(Fingerprint),
    /// The server was opened after the old node was retired.
    Joined,
}

/// Returns the operation that reads the fingerprint of a node.
fn inspection() -> Operation {
    let resource = Resource::internal(names::INIT.as_bytes());
    Operation::Inspect(Inspect { resource, max_readers: 0, max_details: 0 })
}

impl Replacing<'_> {
    async fn run(&self) -> Result<(), AdminError> {
        self.check_settings()?;
        let inspected = inspect_started(self.after).await?;
        self.check_others(&inspected).await?;
        let old = self.inspect_old(&inspected).await?;
        let new = self.check_new(&inspected, &old).await?;
        if !matches!(new, NewServer::Joined) {
            let joining = self.close_new(new).await?;
            if mutation::altered(Mutation::JoinBesideOld, true, |_| false) {
                self.retire(old).await?;
            }
            self.change_new(Reconfigure { from: joining, to: self.ours.clone() }).await?;
        }
        self.wait_until_new_votes().await
    }

    /// Returns an error if the running clients could not go on without the old node, or if the new server could vote
    /// before the leases of the old node have ended.
    fn check_settings(&self) -> Result<(), ConfigError> {
        let settings = &self.after.settings;
        let (nodes, needed) = (settings.electorate.nodes(), settings.electorate.needed());
        if nodes <= needed {
            let expected = format!(
                "more nodes than the {needed} votes needed, because the other nodes have to be a quorum during the \
                 replacement; move this quorum by `redquorum reconfigure` or `admin::reconfigure`"
            );
            return Err(out_of_range("nodes", nodes, expected));
        }
        if settings.parameters.guard == RestartGuard::Off {
            let expected = "a restart guard, because the new server must not vote before the leases of the old node \
                            have ended";
            return Err(out_of_range("restart_guard", "off", expected));
        }
        Ok(())
    }

    /// Returns an error unless every other node belongs to the quorum, and votes.
    async fn check_others(&self, inspected: &[Answer]) -> Result<(), AdminError> {
        let is_ours = |answer: &Answer| matches!(answer, Answer::Inspected(inspection) if inspection.fingerprint.as_ref() == Some(&self.ours));
        self.ensure_others(
            inspected.iter().map(|answer| (!is_ours(answer)).then(|| reply_of_absent(self.after, answer))),
        )?;
        let time = self.after.clock.time_of_day();
        let register = Register { new_nodes: NewNodes::Ignore, time };
        let registered =
            ask_each(self.after, |node| (node != self.node).then(|| Operation::Register(register.clone())));
        let quarantine = |answer: Option<Answer>| match answer {
            Some(Answer::Registered(Registration { quarantine: None, .. })) => None,
            Some(Answer::Registered(Registration { quarantine, .. })) => {
                Some(NodeReply::Refused(Refusal::Quarantined { remaining: quarantine }))
            }
            answer => answer.as_ref().map(NodeReply::from),
        };
        self.ensure_others(registered.await.into_iter().map(quarantine))
    }

    /// Returns an error if another node has a reply, which is the reason why it does not vote.
    fn ensure_others(&self, replies: impl Iterator<Item = Option<NodeReply>>) -> Result<(), AdminError> {
        let others = |(node, reply): (usize, Option<NodeReply>)| reply.filter(|_| node != self.node);
        let replies: Vec<Option<NodeReply>> = replies.enumerate().map(others).collect();
        if replies.iter().all(Option::is_none) {
            return Ok(());
        }
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(NodeReply::NotAsked));
        Err(AdminError::OthersNeeded(self.after.replies(replies)))
    }

    /// Inspects the old node, and waits for a node that is starting.
    async fn inspect_old(&self, others: &[Answer]) -> Result<OldNode, AdminError> {
        let connect_timeout = self.before.settings.connect_timeout;
        let timeout = if self.is_old_gone { connect_timeout.min(GONE_TIMEOUT) } else { connect_timeout };
        let inspected = self.ask_until_answered(self.before, timeout, inspection()).await;
        let Answer::Inspected(inspection) = &inspected else {
            let Answer::Error(error) = inspected else { return Err(self.incomplete_old(&inspected)) };
            return if self.is_old_gone { Ok(OldNode::Gone) } else { Err(self.old_silent(error)) };
        };
        self.refuse_same_server(&inspected, others)?;
        let replaced = self.ours.replaced_by(&self.address(self.after));
        match &inspection.fingerprint {
            None => Ok(OldNode::Empty),
            Some(theirs) if *theirs == self.ours || theirs.is_joining(&self.ours) => {
                Ok(OldNode::Open(theirs.clone()))
            }
            Some(theirs) if *theirs == replaced => Ok(OldNode::Retired),
            Some(theirs) => {
                let node = self.address(self.before);
                Err(match theirs.replacement() {
                    Some(by) => AdminError::AlreadyReplaced { node, by: by.into() },
                    None => AdminError::OtherQuorum { node, metadata: theirs.to_string().into() },
                })
            }
        }
    }

    /// Returns an error if the addresses of the old node and of any node of the new list lead to one server.
    fn refuse_same_server(&self, old: &Answer, others: &[Answer]) -> Result<(), ConfigError> {
        let incarnation = |answer: &Answer| match answer {
            Answer::Inspected(inspection) => inspection.incarnation.clone(),
            _ => None,
        };
        let Some(incarnation_of_old) = incarnation(old) else { return Ok(()) };
        let mut nodes = self.after.nodes.iter().zip(others);
        match nodes.find(|(_, answer)| incarnation(answer).as_ref() == Some(&incarnation_of_old)) {
            Some((other, _)) => {
                let other = Arc::clone(other.address());
                let reason = NodeError::SameServer { other, incarnation: incarnation_of_old };
                Err(ConfigError::Server { node: self.address(self.before), reason })
            }
            None => Ok(()),
        }
    }

    /// Returns the state of the new server. Returns an error if the server did not answer, or may have been in a quorum
    /// before.
    async fn check_new(&self, inspected: &[Answer], old: &OldNode) -> Result<NewServer, AdminError> {
        let Some(Answer::Inspected(inspection)) = inspected.get(self.node) else {
            return Err(self.incomplete(inspected.get(self.node)));
        };
        let Some(theirs) = &inspection.fingerprint else {
            self.check_clock().await?;
            return Ok(NewServer::Empty);
        };
        if theirs.is_joining_for(&self.address(self.before), &self.ours) {
            return Ok(NewServer::Joining(theirs.clone()));
        }
        let is_member = *theirs == self.ours;
        match old {
            OldNode::Retired if is_member => Ok(NewServer::Joined),
            // An earlier call may have opened the server, or a client with the new list has registered the server
            // before. Then its quarantine may have begun before the end of the old node.
            OldNode::Gone if is_member => Ok(NewServer::Member),
            // A client with the new list has registered the server, which has given no vote.
            _ if is_member && self.check_clock().await?.is_some_and(|answer| is_done(&answer)) => {
                Ok(NewServer::Member)
            }
            _ => {
                let (node, metadata) = (self.address(self.after), theirs.to_string().into());
                Err(AdminError::NotEmpty { node, metadata })
            }
        }
    }

    /// Returns the answer of the new server to the dry run of an `init`, which is done if the server is new. Returns an
    /// error if the clock of a node is wrong.
    async fn check_clock(&self) -> Result<Option<Answer>, AdminError> {
        Ok(dry_run(self.after).await?.into_iter().nth(self.node))
    }

    /// Closes the new server, so that no client registers it or gets its votes before the old node is retired. Returns
    /// the fingerprint of the closed server.
    async fn close_new(&self, new: NewServer) -> Result<Fingerprint, AdminError> {
        match new {
            NewServer::Joining(joining) => return Ok(joining),
            NewServer::Empty => {
                let registered = self.ask(self.after, register(self.after)).await;
                if !is_done(&registered) {
                    return Err(self.incomplete(Some(&registered)));
                }
            }
            NewServer::Member | NewServer::Joined => {}
        }
        let request = self.after.lease_ids.client().to_string();
        let joining = self.ours.joining_by(&self.address(self.before), &request);
        self.change_new(Reconfigure { from: self.ours.clone(), to: joining.clone() }).await?;
        Ok(joining)
    }

    /// Closes the old node for good.
    async fn retire(&self, old: OldNode) -> Result<(), AdminError> {
        let from = match old {
            OldNode::Gone | OldNode::Retired => return Ok(()),
            OldNode::Open(theirs) => theirs,
            OldNode::Empty => {
                let registered = self.ask(self.before, register(self.before)).await;
                if !is_done(&registered) {
                    return Err(self.incomplete_old(&registered));
                }
                self.ours.clone()
            }
        };
        let to = self.ours.replaced_by(&self.address(self.after));
        let retired = self.ask(self.before, Operation::Reconfigure(Reconfigure { from, to })).await;
        if is_done(&retired) { Ok(()) } else { Err(self.incomplete_old(&retired)) }
    }

    async fn change_new(&self, change: Reconfigure) -> Result<(), AdminError> {
        let changed = self.ask(self.after, Operation::Reconfigure(change)).await;
        if is_done(&changed) { Ok(()) } else { Err(self.incomplete(Some(&changed))) }
    }

    /// Waits until the new server votes. A server that restarts in the meantime begins its quarantine again.
    async fn wait_until_new_votes(&self) -> Result<(), AdminError> {
        let connect_timeout = self.after.settings.connect_timeout;
        loop {
            let answer = self.ask_until_answered(self.after, connect_timeout, register(self.after)).await;
            match &answer {
                Answer::Registered(Registration { quarantine: None, .. }) => return Ok(()),
                Answer::Registered(Registration { quarantine: Some(rest), .. }) => {
                    self.after.clock.sleep_until(self.after.now() + (*rest).max(RETRY_DELAY)).await;
                }
                answer => return Err(self.incomplete(Some(answer))),
            }
        }
    }

    /// Sends an operation to the old node or to the new server, and repeats the operation after an error until the
    /// timeout. The operation must be one that a node may execute twice.
    async fn ask_until_answered(
        &self,
        context: &ClientContext,
        timeout: Duration,
        operation: Operation,
    ) -> Answer {
        let deadline = context.now() + timeout;
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.ask(context, operation.clone()) => answer,
                () = context.clock.sleep_until(deadline) => Answer::Error(NodeError::TimedOut),
            };
            if !matches!(answer, Answer::Error(_)) || context.now() + RETRY_DELAY >= deadline {
                return answer;
            }
            context.clock.sleep_until(context.now() + RETRY_DELAY).await;
        }
    }

    /// Sends an operation to the old node (`before`) or to the new server (`after`).
    async fn ask(&self, context: &ClientContext, operation: Operation) -> Answer {
        let answers = ask_each(context, |node| (node == self.node).then(|| operation.clone())).await;
        answers.into_iter().nth(self.node).flatten().unwrap_or(Answer::Error(NodeError::TimedOut))
    }

    /// Returns the address of the old node (`before`) or of the new server (`after`).
    fn address(&self, context: &ClientContext) -> Arc<str> {
        context.nodes.get(self.node).map(|node| Arc::clone(node.address())).unwrap_or_default()
    }

    fn old_silent(&self, error: NodeError) -> AdminError {
        AdminError::OldSilent { node: self.address(self.before), error }
    }

    /// Returns the error of an old node that could not be retired.
    fn incomplete_old(&self, answer: &Answer) -> AdminError {
        let node = self.address(self.before);
        match answer {
            Answer::WrongQuorum { fingerprint } => match fingerprint.replacement() {
                Some(by) => AdminError::AlreadyReplaced { node, by: by.into() },
                None => AdminError::OtherQuorum { node, metadata: fingerprint.to_string().into() },
            },
            Answer::Error(error) => AdminError::OldSilent { node, error: error.clone() },
            answer => {
                let reply = |other: usize| {
                    if other == self.node {
                        reply_of_absent(self.before, answer)
                    } else {
                        NodeReply::NotAsked
                    }
                };
                AdminError::Incomplete(self.before.replies((0..self.before.nodes.len()).map(reply)))
            }
        }
    }

    /// Returns the error of a new server that did not take part.
    fn incomplete(&self, answer: Option<&Answer>) -> AdminError {
        let of_new = answer.map_or(NodeReply::Pending, |answer| reply_of_absent(self.after, answer));
        let reply = |node: usize| if node == self.node { of_new.clone() } else { NodeReply::NotAsked };
        AdminError::Incomplete(self.after.replies((0..self.after.nodes.len()).map(reply)))
    }
}
