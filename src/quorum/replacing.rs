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
//! it finds.
//!
//! Before the first step, the call records the replacement on all other nodes, each by one atomic comparison and change.
//! Any two sets of N - 1 nodes share a node, so a second replacement finds the record of the first. The record also shows
//! which server stands in for a node that is gone, and that a member of the quorum is the new server of an earlier call.
//! An error before the first step withdraws the record.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    client::context::ClientContext,
    clock::Instant,
    error::{AdminError, ConfigError, out_of_range},
    lock::client::Client,
    mutation::{self, Mutation},
    node::{
        Answer, Inspect, NewNodes, Operation, ReadClock, Reconfigure, RecordReplacements, Register,
        Registration, Request, RestartGuard, names,
    },
    quorum::{
        QuorumBuilder,
        admin::{dry_run, fingerprint_of, inspect_started, is_done, register, while_open},
        moving::{ask_each, reply_of_absent},
        replacement_record::{Pair, Progress, ReplacementRecord},
    },
    values::{Fingerprint, NodeError, NodeReply, Refusal, Resource},
};

/// The time for which a call waits for an old node that is said to be gone. If the node answers, it is retired.
const GONE_TIMEOUT: Duration = Duration::from_secs(3);

/// The interval at which the call looks, during the wait for the new server, whether the old node votes again.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The largest rounding of the rest of a quarantine in an answer.
const ROUNDING: Duration = Duration::from_millis(2);

/// The delay after which a node without an answer is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The largest difference between the clock of the new server and the latest clock of the other nodes.
const LARGEST_CLOCK_GAP: Duration = Duration::from_secs(1);

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

    /// States that the old node is gone for good if it does not answer: its address is the address that the running
    /// clients have, nothing starts the server again with its data or without, or the address leads nowhere, and no other
    /// server stands in for the node. Also states that a server
    /// without node metadata at the address of the old node is the old node, which has lost its data. Default: a node
    /// that does not answer, or has no metadata, is not replaced.
    ///
    /// If the statement is wrong, two servers vote in place of one, and two clients may hold one lock. If the old node
    /// answers with its metadata, the statement changes nothing. A server that answers with an error, such as a refused
    /// password, is not gone.
    pub fn old_is_gone(self) -> Self {
        Self { is_old_gone: true, ..self }
    }
}

/// The outcome of [`replace`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Replaced {
    /// The address of the old node.
    pub old: Arc<str>,
    /// The address of the new server, which votes.
    pub new: Arc<str>,
    /// The nodes that the clients are to get, as urls without users and passwords: `***` stands for them.
    pub nodes: Vec<String>,
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
/// the clients are to get.
///
/// `quorum` has the nodes and settings of the running clients. To continue a replacement, the list may also name the new
/// server in place of the old node already. The new server has to be a master without node metadata, whose clock differs
/// by at most a second from the latest clock of the other nodes. Keys of applications on the new server do no harm. Every
/// other node has to answer and vote. The call records the replacement on the other nodes, which refuse a second one at the same time.
/// Then the call retires the old node, which never votes again: its fingerprint names the address of the new server.
/// The call returns when the new server votes, after a quarantine of slightly more than `max_ttl`.
///
/// Running clients continue with the other nodes. Their logs have one warning, and
/// [`Quorum::health`](crate::Quorum::health) has the address of the new server, if the old node still answers. Give each
/// client the new list and restart it. Meanwhile both lists may be in use. Stop the old server for good directly after
/// the call: until every client has the new list, no server may answer at its address. If the old server comes back with
/// older data or without data, a client that starts with the old list registers it as a node that has lost its data, and
/// it votes again, and two clients may hold one lock. The same call retires it again. Replace one node at a time.
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
/// * [`AdminError::OthersNeeded`] if another node did not answer, belongs to another quorum, does not vote, or refuses
///   writes. No node is closed. A restarted node is registered.
/// * [`AdminError::OldSilent`] if the old node did not answer, and is not [gone](Replacement::old_is_gone), and
///   [`AdminError::OldRefuses`] if it answered with an error. The new server is not opened, so it gives no vote.
/// * [`AdminError::OldEmpty`] if the server at the address of the old node has no metadata. Nothing is changed.
/// * [`AdminError::OtherQuorum`] if the old node belongs to another quorum, or is closed for a move,
///   [`AdminError::AlreadyReplaced`] if another server stands in for the old node, and
///   [`AdminError::UnfinishedReplacement`] if another replacement has not ended. Nothing is changed.
/// * [`AdminError::NotEmpty`] if the new server belongs to a quorum, and no earlier call has opened it,
///   [`AdminError::NewIsReplica`] if it is a replica, and [`AdminError::ClockDiffers`] if its clock differs. Nothing is
///   changed.
/// * [`AdminError::NotListed`] if the old node does not answer or has no metadata, and the other nodes have recorded a
///   server that stands in for a node and is not in the list. Nothing is changed.
/// * [`AdminError::Incomplete`] if the new server does not answer, and [`AdminError::NewNeeded`] if the old node is
///   already retired or gone.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call.
///
/// After an error or an interruption, the same call continues the replacement. An error before the first change of a
/// node withdraws the record of the replacement, so that another node can be replaced first.
///
/// # Cancel safety
///
/// The steps until then are done. Repeat the call. Until the new server is opened, it votes for no client.
pub async fn replace(quorum: &QuorumBuilder, replacement: &Replacement) -> Result<Replaced, AdminError> {
    let lists = quorum.replacing(replacement)?;
    let nodes = lists.after.shown_nodes()?;
    let (old, new) = (lists.before.start_to_change()?, lists.after.start_to_change()?);
    let is_old_listed = lists.is_old_listed;
    replace_with(&old, &new, lists.node, is_old_listed, replacement.is_old_gone).await?;
    let [old, new] = [old, new].map(|client| address_of(&client.context, lists.node));
    Ok(Replaced { old, new, nodes })
}

/// Returns the address of the node with this index.
fn address_of(context: &ClientContext, node: usize) -> Arc<str> {
    context.nodes.get(node).map(|node| Arc::clone(node.address())).unwrap_or_default()
}

/// The lists of nodes before and after a replacement, which differ in one node.
pub(super) struct NodeLists {
    pub(super) before: QuorumBuilder,
    pub(super) after: QuorumBuilder,
    /// The index of the old node in the first list, and of the new server in the second list.
    pub(super) node: usize,
    /// Whether the settings name the old node, and not the new server.
    pub(super) is_old_listed: bool,
}

/// Replaces the node with this index, as [`replace`].
pub(crate) async fn replace_with(
    old: &Client,
    new: &Client,
    node: usize,
    is_old_listed: bool,
    is_old_gone: bool,
) -> Result<(), AdminError> {
    let (before, after) = (&*old.context, &*new.context);
    let [from, to] = [before, after].map(|context| address_of(context, node).to_string());
    let pair = Pair { old: from, new: to };
    let replacing = Replacing {
        before,
        after,
        node,
        pair,
        call: after.lease_ids.client().to_string(),
        ours: fingerprint_of(after),
        is_old_listed,
        is_old_gone,
    };
    while_open(old, while_open(new, replacing.run())).await
}

struct Replacing<'a> {
    before: &'a ClientContext,
    after: &'a ClientContext,
    /// The index of the old node in `before`, and of the new server in `after`.
    node: usize,
    pair: Pair,
    /// The id of this call.
    call: String,
    ours: Fingerprint,
    is_old_listed: bool,
    is_old_gone: bool,
}

/// The state of the old node.
#[derive(Clone)]
enum OldNode {
    /// The node did not answer, and is gone for good.
    Gone,
    /// The node has lost its metadata, and may join the quorum at the registration of any client.
    Empty,
    /// The node belongs to the quorum, so it votes now or later.
    Open,
    /// The new server stands in for the node already.
    Retired,
}

/// The nodes beside the old node and the new server.
struct Others {
    /// The replacements that these nodes have recorded.
    record: ReplacementRecord,
    /// For each node, the reason why it does not vote. The new server has a reply, too.
    replies: Vec<Option<NodeReply>>,
}

impl Others {
    /// Returns the indices of the nodes that record replacements.
    fn answering(&self) -> impl Iterator<Item = usize> {
        self.replies.iter().enumerate().filter(|(_, reply)| records(reply.as_ref())).map(|(node, _)| node)
    }
}

/// Whether a node with this reply records replacements. A record is no vote, so a node in quarantine does.
fn records(reply: Option<&NodeReply>) -> bool {
    matches!(reply, None | Some(NodeReply::Refused(Refusal::Quarantined { .. })))
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

/// Returns the error of a replacement that has to end first.
fn unfinished(Pair { old, new }: &Pair) -> AdminError {
    AdminError::UnfinishedReplacement { node: (**new).into(), old: (**old).into() }
}

impl Replacing<'_> {
    async fn run(&self) -> Result<(), AdminError> {
        self.check_settings()?;
        let inspected = inspect_started(self.after).await?;
        let others = self.read_others(&inspected).await;
        let mut old = self.find_old(&inspected, &others).await?;
        let mut new = match self.prepare(&inspected, &old, &others).await {
            Ok(new) => new,
            Err(error) => {
                self.withdraw(&old, &others).await;
                return Err(error);
            }
        };
        let mut is_returned = false;
        loop {
            while !matches!(new, NewServer::Joined) {
                new = self.stand_in(&old, new, &others, is_returned).await?;
            }
            // An earlier call may have ended before it recorded this on every node.
            self.record_answering(Progress::Done, &others).await.ok();
            match self.wait_until_new_votes().await.map_err(|error| self.after_retirement(error))? {
                None => return Ok(()),
                Some(returned) => (old, new, is_returned) = (returned, NewServer::Member, true),
            }
        }
    }

    /// Returns the state of the old node. An error has changed nothing.
    async fn find_old(&self, inspected: &[Answer], others: &Others) -> Result<OldNode, AdminError> {
        self.refuse_other_server(&others.record)?;
        let old = self.inspect_old(inspected, others.record.progress(&self.pair)).await?;
        self.refuse_other_list(&old, &others.record)?;
        Ok(old)
    }

    /// Checks all nodes, and records the replacement on the other nodes. An error has changed nothing but records.
    async fn prepare(
        &self,
        inspected: &[Answer],
        old: &OldNode,
        others: &Others,
    ) -> Result<NewServer, AdminError> {
        let is_retired = matches!(old, OldNode::Retired);
        let new = self.check_new(inspected, old, &others.record).await;
        let new = match new {
            Ok(new) if !matches!(new, NewServer::Joined) => self.check_clocks(old).await.map(|()| new),
            new => new,
        };
        let new = new.map_err(|error| if is_retired { self.after_retirement(error) } else { error })?;
        // If the old node is retired, and the new server does not vote, the remaining steps only add a vote. For an old
        // node that is gone, they need the records of all other nodes.
        let only_adds_a_vote = match (old, &new) {
            (_, NewServer::Member) => false,
            (OldNode::Retired, _) | (OldNode::Gone, NewServer::Joined) => true,
            _ => false,
        };
        if !only_adds_a_vote {
            self.refuse_second_replacement(&others.record)?;
            self.ensure_others(others.replies.clone())?;
            self.begin(old, &others.record).await?;
        }
        Ok(new)
    }

    /// Retires the old node, and opens the new server. Returns the new state of the new server.
    async fn stand_in(
        &self,
        old: &OldNode,
        new: NewServer,
        others: &Others,
        is_returned: bool,
    ) -> Result<NewServer, AdminError> {
        let joining = self.close_new(new).await?;
        if mutation::altered(Mutation::JoinBesideOld, true, |_| false) {
            self.retire(old, is_returned).await?;
        }
        // A node records one server only as the server that stands in for the old node. If the old node is gone, all other
        // nodes have to record the new server. If the old node is retired, its fingerprint excludes a second retirement,
        // and one record excludes every call that was told later that the old node is gone.
        match old {
            OldNode::Gone => self.record_all_retired(&others.record).await?,
            _ => self.record_answering(Progress::Retired, others).await?,
        }
        let open = Reconfigure { from: joining, to: self.ours.clone(), record: None };
        let lasts = open.quarantine(&self.after.settings.parameters).lasts;
        let open = Operation::Reconfigure(open);
        let opened = self.change_new([open]).await.map_err(|error| self.after_retirement(error))?;
        // A server that lost its data while it was closed may have been registered before the old node was retired.
        let is_whole = matches!(opened, Answer::Registered(Registration { quarantine: Some(rest), .. }) if rest + ROUNDING >= lasts);
        if !mutation::altered(Mutation::JoinWithoutQuarantine, is_whole, |_| true) {
            return Ok(NewServer::Member);
        }
        Ok(NewServer::Joined)
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
        for (setting, address) in [("old", &self.pair.old), ("new", &self.pair.new)] {
            if address.contains(char::is_whitespace) {
                let expected = "an address without spaces, because nodes record the address in a text";
                return Err(out_of_range(setting, address, expected));
            }
        }
        if settings.parameters.guard == RestartGuard::Off {
            let expected = "a restart guard, because the new server must not vote before the leases of the old node \
                            have ended";
            return Err(out_of_range("restart_guard", "off", expected));
        }
        Ok(())
    }

    /// Returns the record of the other nodes, and for each of them the reason why it does not vote, if there is one.
    async fn read_others(&self, inspected: &[Answer]) -> Others {
        let is_ours = |answer: &Answer| matches!(answer, Answer::Inspected(inspection) if inspection.fingerprint.as_ref() == Some(&self.ours));
        let absent = |answer: &Answer| (!is_ours(answer)).then(|| reply_of_absent(self.after, answer));
        let mut replies: Vec<Option<NodeReply>> = inspected.iter().map(absent).collect();
        if let Some(of_new) = replies.get_mut(self.node) {
            *of_new = Some(NodeReply::NotAsked);
        }
        let time = self.after.clock.time_of_day();
        let register = Operation::Register(Register { new_nodes: NewNodes::Ignore, time });
        // A node that refuses writes, such as one with a full memory, answers a registration, and not this request.
        let read = Operation::RecordReplacements(RecordReplacements { from: "".into(), to: "".into() });
        let mut record = ReplacementRecord::default();
        for operation in [register, read] {
            let is_asked = |node: usize| replies.get(node).is_some_and(|reply| records(reply.as_ref()));
            let answers = ask_each(self.after, |node| is_asked(node).then(|| operation.clone())).await;
            for (reply, answer) in replies.iter_mut().zip(answers) {
                *reply = match answer {
                    None | Some(Answer::Registered(Registration { quarantine: None, .. })) => continue,
                    Some(Answer::Recorded { text }) => {
                        record.merge(&ReplacementRecord::read(&text));
                        continue;
                    }
                    Some(Answer::Registered(Registration { quarantine, .. })) => {
                        Some(NodeReply::Refused(Refusal::Quarantined { remaining: quarantine }))
                    }
                    Some(answer) => Some(NodeReply::from(&answer)),
                };
            }
        }
        Others { record, replies }
    }

    /// Returns an error if another node has a reply, which is the reason why it does not vote.
    fn ensure_others(&self, replies: Vec<Option<NodeReply>>) -> Result<(), AdminError> {
        let of_others = |(node, reply): (usize, Option<NodeReply>)| reply.filter(|_| node != self.node);
        let replies: Vec<Option<NodeReply>> = replies.into_iter().enumerate().map(of_others).collect();
        if replies.iter().all(Option::is_none) {
            return Ok(());
        }
        let replies = replies.into_iter().map(|reply| reply.unwrap_or(NodeReply::NotAsked));
        Err(AdminError::OthersNeeded(self.after.replies(replies)))
    }

    /// Returns an error if the record names another server that stands in for the old node.
    fn refuse_other_server(&self, record: &ReplacementRecord) -> Result<(), AdminError> {
        match record.successor(&self.pair.old) {
            Some(by) if record.progress(&self.pair).is_none_or(|progress| progress == Progress::Begun) => {
                let (node, by) = (self.address(self.before), by.into());
                Err(AdminError::AlreadyReplaced { node, by })
            }
            _ => Ok(()),
        }
    }

    /// Returns an error if a server that stands in for a node is not in the list: the list may name the old node by
    /// another address than an earlier replacement, or be out of date. An old node that answers with its metadata shows
    /// itself whether another server stands in for it.
    fn refuse_other_list(&self, old: &OldNode, record: &ReplacementRecord) -> Result<(), AdminError> {
        if !matches!(old, OldNode::Gone | OldNode::Empty) {
            return Ok(());
        }
        let is_listed = |address: &str| {
            address == self.pair.old || self.after.nodes.iter().any(|node| **node.address() == *address)
        };
        match record.standing_in().find(|pair| !is_listed(&pair.new)) {
            Some(Pair { old, new }) => {
                Err(AdminError::NotListed { node: (**old).into(), by: (**new).into() })
            }
            None => Ok(()),
        }
    }

    /// Returns an error if another replacement was begun and its old node may vote.
    fn refuse_second_replacement(&self, record: &ReplacementRecord) -> Result<(), AdminError> {
        record.begun_beside(&self.pair).map_or(Ok(()), |pair| Err(unfinished(pair)))
    }

    /// Records the begin of the replacement on every other node. The order of the nodes is the same in every call, so one
    /// of two calls that begin at the same time succeeds.
    async fn begin(&self, old: &OldNode, known: &ReplacementRecord) -> Result<(), AdminError> {
        let is_open = matches!(old, OldNode::Open);
        for node in self.others_in_order() {
            let change = |record: ReplacementRecord| {
                let mut merged = known.only_ended();
                merged.merge(&record);
                self.refuse_other_server(&merged)?;
                self.refuse_other_list(old, &merged)?;
                self.refuse_second_replacement(&merged)?;
                Ok(merged.with(&self.pair, Progress::Begun, &self.call))
            };
            self.change_record(self.after, node, change).await?;
        }
        if !is_open {
            return Ok(());
        }
        let change = |record: ReplacementRecord| {
            let mut merged = known.only_ended();
            merged.merge(&record);
            self.refuse_second_replacement(&merged)?;
            Ok(record.with(&self.pair, Progress::Begun, &self.call))
        };
        self.change_record(self.before, self.node, change).await?;
        // Between both passes, every node has the record of this call at one time, so two calls that pass follow each
        // other on every node.
        for node in self.others_in_order() {
            self.change_record(self.after, node, |record| self.continued(record)).await?;
        }
        Ok(())
    }

    /// Returns the other nodes in an order that is the same in every call.
    fn others_in_order(&self) -> Vec<usize> {
        let mut others: Vec<usize> = (0..self.after.nodes.len()).filter(|node| *node != self.node).collect();
        others.sort_by_key(|node| self.after.nodes.get(*node).map(|node| Arc::clone(node.address())));
        others
    }

    /// Returns the record of a node if no other call has changed the record of this replacement.
    fn continued(&self, record: ReplacementRecord) -> Result<ReplacementRecord, AdminError> {
        if record.is_continued_by(&self.pair, &self.call) { Ok(record) } else { Err(unfinished(&self.pair)) }
    }

    /// Returns an error if a node has recorded another server for the old node.
    fn refuse_other_record(&self, record: &ReplacementRecord) -> Result<(), AdminError> {
        match record.other_server(&self.pair) {
            Some(by) => Err(AdminError::AlreadyReplaced { node: self.address(self.before), by: by.into() }),
            None => Ok(()),
        }
    }

    /// Records on all other nodes, in order, that the old node is gone. Stops at the first node that does not record this,
    /// so of two calls with different servers, the one that fails at the first node records nothing.
    async fn record_all_retired(&self, known: &ReplacementRecord) -> Result<(), AdminError> {
        for node in self.others_in_order() {
            let change = |record: ReplacementRecord| {
                self.refuse_other_record(&record)?;
                Ok(self.recorded(known, &self.continued(record)?, Progress::Retired))
            };
            self.change_record(self.after, node, change).await?;
        }
        Ok(())
    }

    /// Records the progress of the replacement on each other node that has answered before. Returns an error if no node
    /// has recorded it.
    async fn record_answering(&self, progress: Progress, others: &Others) -> Result<(), AdminError> {
        let mut recorded = Err(unfinished(&self.pair));
        for node in others.answering() {
            let change = |record: ReplacementRecord| {
                self.refuse_other_record(&record)?;
                Ok(self.recorded(&others.record, &record, progress))
            };
            match (self.change_record(self.after, node, change).await, &recorded) {
                (Ok(_), _) => recorded = Ok(()),
                (Err(error), Err(_)) => recorded = Err(error),
                (Err(_), Ok(())) => {}
            }
        }
        recorded
    }

    /// Returns the record of a node with this progress, and with the ended replacements that another node has recorded.
    fn recorded(
        &self,
        known: &ReplacementRecord,
        of_node: &ReplacementRecord,
        progress: Progress,
    ) -> ReplacementRecord {
        let mut record = known.only_ended();
        record.merge(of_node);
        record.with(&self.pair, progress, &self.call)
    }

    /// Withdraws the begin of the replacement from each node that answers. On each node, this takes the record of a killed
    /// call over and withdraws it in one step. The call has found that the old node votes, or was told that it is gone.
    async fn withdraw(&self, old: &OldNode, others: &Others) {
        if matches!(old, OldNode::Retired) {
            return;
        }
        let withdrawn = |record: ReplacementRecord| Ok(record.without_begun(&self.pair));
        for node in others.answering() {
            self.change_record(self.after, node, withdrawn).await.ok();
        }
        if matches!(old, OldNode::Open) {
            self.change_record(self.before, self.node, withdrawn).await.ok();
        }
    }

    /// Changes the record of one of the other nodes, and repeats the change if another call has changed the record in the
    /// meantime.
    async fn change_record(
        &self,
        context: &ClientContext,
        other: usize,
        change: impl Fn(ReplacementRecord) -> Result<ReplacementRecord, AdminError>,
    ) -> Result<Arc<str>, AdminError> {
        let (mut from, mut to): (Arc<str>, Option<Arc<str>>) = ("".into(), None);
        loop {
            let record = RecordReplacements { from: Arc::clone(&from), to: to.clone().unwrap_or_default() };
            let record = Operation::RecordReplacements(record);
            let answers = ask_each(context, |node| (node == other).then(|| record.clone())).await;
            let answer = answers.into_iter().nth(other).flatten();
            let Some(Answer::Recorded { text }) = answer else {
                if other == self.node {
                    return Err(self.incomplete_old(&answer.unwrap_or(Answer::Error(NodeError::TimedOut))));
                }
                let mut replies = vec![None; self.after.nodes.len()];
                if let Some(reply) = replies.get_mut(other) {
                    *reply = Some(answer.as_ref().map_or(NodeReply::Pending, NodeReply::from));
                }
                self.ensure_others(replies)?;
                return Err(unfinished(&self.pair));
            };
            if to.as_ref() == Some(&text) {
                return Ok(text);
            }
            let changed: Arc<str> = change(ReplacementRecord::read(&text))?.to_string().into();
            if changed == text {
                return Ok(text);
            }
            (from, to) = (text, Some(changed));
        }
    }

    /// Inspects the old node, and waits for a node that is starting.
    async fn inspect_old(
        &self,
        others: &[Answer],
        progress: Option<Progress>,
    ) -> Result<OldNode, AdminError> {
        // A record of an earlier call is no statement: a node that was set back to older data has old records.
        let is_ended = self.is_old_gone;
        let connect_timeout = self.before.settings.connect_timeout;
        let timeout = if is_ended { connect_timeout.min(GONE_TIMEOUT) } else { connect_timeout };
        let inspected = self.ask_until_answered(self.before, timeout, inspection()).await;
        let old = match &inspected {
            Answer::Inspected(inspection) => {
                self.refuse_same_server(&inspected, others)?;
                self.old_node(inspection.fingerprint.as_ref())?
            }
            Answer::Error(error) if error.is_silence() && is_ended => OldNode::Gone,
            answer => return Err(self.incomplete_old(answer)),
        };
        // Without a record, nothing shows that this node was in the quorum: a node of another quorum with the same
        // settings has the same fingerprint.
        if !self.is_old_listed && progress.is_none() && !matches!(old, OldNode::Retired) {
            let expected = "a node of the settings, or a node whose replacement by the new server was begun: call this \
                            with the nodes of the running clients";
            return Err(out_of_range("old", self.address(self.before), expected).into());
        }
        match old {
            OldNode::Empty if !is_ended => Err(AdminError::OldEmpty { node: self.address(self.before) }),
            old => Ok(old),
        }
    }

    /// Returns the state of an old node with this fingerprint.
    fn old_node(&self, fingerprint: Option<&Fingerprint>) -> Result<OldNode, AdminError> {
        let Some(theirs) = fingerprint else { return Ok(OldNode::Empty) };
        if *theirs == self.ours {
            return Ok(OldNode::Open);
        }
        if *theirs == self.ours.replaced_by(&self.address(self.after)) {
            return Ok(OldNode::Retired);
        }
        Err(self.wrong_old(theirs))
    }

    /// Returns the error of an old node that is not open for the quorum.
    fn wrong_old(&self, theirs: &Fingerprint) -> AdminError {
        let node = self.address(self.before);
        if let Some(by) = theirs.replacement() {
            return AdminError::AlreadyReplaced { node, by: by.into() };
        }
        // The node that it was to stand in for may vote.
        if let Some(old) = theirs.joining_for(&self.ours) {
            return AdminError::UnfinishedReplacement { node, old: old.into() };
        }
        AdminError::OtherQuorum { node, metadata: theirs.to_string().into() }
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
    async fn check_new(
        &self,
        inspected: &[Answer],
        old: &OldNode,
        record: &ReplacementRecord,
    ) -> Result<NewServer, AdminError> {
        let Some(Answer::Inspected(inspection)) = inspected.get(self.node) else {
            return Err(self.incomplete(inspected.get(self.node)));
        };
        let initialised = self.check_role().await?;
        let Some(theirs) = &inspection.fingerprint else { return Ok(NewServer::Empty) };
        let node = self.address(self.after);
        match theirs.joining_for(&self.ours) {
            Some(joining) if *joining == *self.pair.old => return Ok(NewServer::Joining(theirs.clone())),
            // If another server stands in for that node, the server was closed in vain, and has given no vote.
            Some(old) if record.successor(old).is_none() => {
                return Err(AdminError::UnfinishedReplacement { node, old: old.into() });
            }
            _ => {}
        }
        if *theirs != self.ours {
            return Err(AdminError::NotEmpty { node, metadata: theirs.to_string().into() });
        }
        match (old, record.progress(&self.pair)) {
            (OldNode::Retired | OldNode::Gone, Some(Progress::Done)) => Ok(NewServer::Joined),
            // The server of an earlier call. Its quarantine may have begun before the end of the old node, or the old
            // node has lost the mark of its retirement.
            (OldNode::Retired, _) | (_, Some(Progress::Retired | Progress::Done)) => Ok(NewServer::Member),
            // A client with the new list has registered the server, which has given no vote.
            _ if is_done(&initialised) => Ok(NewServer::Member),
            // A voter of this quorum, or of another quorum with the same settings.
            _ => Err(AdminError::NotEmpty { node, metadata: theirs.to_string().into() }),
        }
    }

    /// Returns the answer of the new server to the dry run of an `init`, which is done if the server is new. Returns an
    /// error if the server is a replica or refuses the call, or if the clock of a node is off by more than an hour.
    async fn check_role(&self) -> Result<Answer, AdminError> {
        let initialised = dry_run(self.after).await?.into_iter().nth(self.node);
        let time = self.after.clock.time_of_day();
        // A replica has the metadata of its master, so it answers the dry run like a node. A closed server answers neither
        // call, and can be no replica until the call opens it.
        let register = Operation::Register(Register { new_nodes: NewNodes::Ignore, time });
        let registered = self.ask(self.after, register).await;
        for answer in initialised.iter().chain([&registered]) {
            let Answer::Error(error) = answer else { continue };
            let error = if let NodeError::Handshake(error) = error { error } else { error };
            return Err(match error {
                NodeError::ReadOnly => AdminError::NewIsReplica { node: self.address(self.after) },
                _ => self.incomplete(Some(answer)),
            });
        }
        initialised.ok_or_else(|| self.incomplete(None))
    }

    /// Returns an error if the clock of the new server differs too much from the latest clock of the other nodes and of
    /// the old node, because the votes of the new server begin at its clock and have to exceed all earlier tokens.
    async fn check_clocks(&self, old: &OldNode) -> Result<(), AdminError> {
        let read = || Operation::ReadClock(ReadClock);
        let of_old = async {
            match old {
                OldNode::Gone => None,
                _ => Some((self.address(self.before), self.ask(self.before, read()).await)),
            }
        };
        // The clock of the new server is read first: a slow answer makes the server seem to be behind, never ahead.
        let of_new = self.ask(self.after, read()).await;
        let Answer::Clock { time: of_new } = &of_new else { return Err(self.incomplete(Some(&of_new))) };
        let of_others = ask_each(self.after, |node| (node != self.node).then(read));
        let (clocks, of_old) = tokio::join!(of_others, of_old);
        let others = self.after.nodes.iter().zip(&clocks).enumerate().filter(|(node, _)| *node != self.node);
        let others =
            others.filter_map(|(_, (node, clock))| Some((Arc::clone(node.address()), clock.as_ref()?)));
        let clocks = others.chain(of_old.as_ref().map(|(old, clock)| (Arc::clone(old), clock)));
        let clocks = clocks.filter_map(|(node, clock)| match clock {
            Answer::Clock { time } => Some((*time, node)),
            _ => None,
        });
        let Some((latest, other)) = clocks.max() else { return Ok(()) };
        let (gap, is_node_ahead) = (of_new.abs_diff(latest), *of_new > latest);
        if gap <= LARGEST_CLOCK_GAP {
            return Ok(());
        }
        Err(AdminError::ClockDiffers { node: self.address(self.after), other, gap, is_node_ahead })
    }

    /// Closes the new server, so that no client registers it or gets its votes before the old node is retired. Returns
    /// the fingerprint of the closed server.
    async fn close_new(&self, new: NewServer) -> Result<Fingerprint, AdminError> {
        let request = self.after.lease_ids.client().to_string();
        let joining = self.ours.joining_by(&self.address(self.before), &request);
        let close = Operation::Reconfigure(Reconfigure {
            from: self.ours.clone(),
            to: joining.clone(),
            record: None,
        });
        match new {
            NewServer::Joining(joining) => return Ok(joining),
            // One message, so that no interruption leaves a server that is registered and not closed.
            NewServer::Empty => self.change_new([register(self.after), close]).await?,
            NewServer::Member | NewServer::Joined => self.change_new([close]).await?,
        };
        Ok(joining)
    }

    /// Closes the old node for good.
    async fn retire(&self, old: &OldNode, is_returned: bool) -> Result<(), AdminError> {
        let to = self.ours.replaced_by(&self.address(self.after));
        // An old node that returned during the wait has not begun. Any other one refuses a call whose record was changed.
        let change = |record: ReplacementRecord| {
            let is_first = is_returned && record.progress(&self.pair).is_none();
            let begun = || record.with(&self.pair, Progress::Begun, &self.call);
            self.continued(if is_first { begun() } else { record.clone() })
        };
        let record = match old {
            OldNode::Open => self.change_record(self.before, self.node, change).await?,
            _ => "".into(),
        };
        let retire =
            Operation::Reconfigure(Reconfigure { from: self.ours.clone(), to, record: Some(record) });
        let retired = match old {
            OldNode::Gone | OldNode::Retired => return Ok(()),
            OldNode::Open => self.ask_in_order(self.before, [retire]).await,
            OldNode::Empty => self.ask_in_order(self.before, [register(self.before), retire]).await,
        };
        if is_done(&retired) { Ok(()) } else { Err(self.incomplete_old(&retired)) }
    }

    /// Sends operations to the new server, and returns the last answer.
    async fn change_new<const N: usize>(&self, operations: [Operation; N]) -> Result<Answer, AdminError> {
        let changed = self.ask_in_order(self.after, operations).await;
        if is_done(&changed) { Ok(changed) } else { Err(self.incomplete(Some(&changed))) }
    }

    /// Waits until the new server votes. A server that restarts in the meantime begins its quarantine again. Returns the
    /// old node if it can vote again, because it was not gone, or has lost the mark of its retirement.
    async fn wait_until_new_votes(&self) -> Result<Option<OldNode>, AdminError> {
        let connect_timeout = self.after.settings.connect_timeout;
        loop {
            let answer = self.ask_until_answered(self.after, connect_timeout, register(self.after)).await;
            match &answer {
                Answer::Registered(Registration { quarantine: None, .. }) => return Ok(None),
                Answer::Registered(Registration { quarantine: Some(rest), .. }) => {
                    let end = self.after.now() + (*rest).clamp(RETRY_DELAY, WATCH_INTERVAL);
                    let returned = self.returned_old(end).await;
                    if returned.is_some() {
                        return Ok(returned);
                    }
                }
                answer => return Err(self.incomplete(Some(answer))),
            }
        }
    }

    /// Inspects the old node once, and waits until `end`. Returns the old node if it can vote.
    async fn returned_old(&self, end: Instant) -> Option<OldNode> {
        let inspected = tokio::select! {
            biased;
            answer = self.ask(self.before, inspection()) => Some(answer),
            () = self.after.clock.sleep_until(end) => None,
        };
        let is_asked = mutation::altered(Mutation::IgnoreReturnedOld, true, |_| false)
            && mutation::altered(Mutation::JoinBesideOld, true, |_| false);
        if let Some(Answer::Inspected(inspection)) = &inspected
            && is_asked
            && let Ok(old @ (OldNode::Open | OldNode::Empty)) = self.old_node(inspection.fingerprint.as_ref())
        {
            return Some(old);
        }
        self.after.clock.sleep_until(end).await;
        None
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

    /// Sends operations in one message to the old node (`before`) or to the new server (`after`), and returns the last
    /// answer. The node executes all of them, or none.
    async fn ask_in_order<const N: usize>(
        &self,
        context: &ClientContext,
        operations: [Operation; N],
    ) -> Answer {
        let timed_out = Answer::Error(NodeError::TimedOut);
        let Some(node) = context.nodes.get(self.node) else { return timed_out };
        let deadline = context.now() + context.settings.connect_timeout;
        tokio::select! {
            biased;
            answers = node.call(Request::new(operations, deadline)) => answers.into_iter().last().unwrap_or(timed_out),
            () = context.clock.sleep_until(deadline) => timed_out,
        }
    }

    /// Returns the address of the old node (`before`) or of the new server (`after`).
    fn address(&self, context: &ClientContext) -> Arc<str> {
        address_of(context, self.node)
    }

    /// Returns the error of an old node that could not be inspected or retired.
    fn incomplete_old(&self, answer: &Answer) -> AdminError {
        let node = self.address(self.before);
        match answer {
            Answer::WrongQuorum { fingerprint } => self.wrong_old(fingerprint),
            Answer::Error(error) if error.is_silence() => {
                AdminError::OldSilent { node, error: error.clone() }
            }
            Answer::Error(error) => AdminError::OldRefuses { node, error: error.clone() },
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

    /// Returns the error of a new server that did not take part after the old node was retired.
    fn after_retirement(&self, error: AdminError) -> AdminError {
        match error {
            AdminError::Incomplete(replies) => {
                let (node, old) = (self.address(self.after), self.address(self.before));
                AdminError::NewNeeded { node, old, replies }
            }
            error => error,
        }
    }

    /// Returns the error of a new server that did not take part.
    fn incomplete(&self, answer: Option<&Answer>) -> AdminError {
        let of_new = answer.map_or(NodeReply::Pending, |answer| reply_of_absent(self.after, answer));
        let reply = |node: usize| if node == self.node { of_new.clone() } else { NodeReply::NotAsked };
        AdminError::Incomplete(self.after.replies((0..self.after.nodes.len()).map(reply)))
    }
}
