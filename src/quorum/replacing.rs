//! The replacement of one node by a new server, while the other nodes vote.
//!
//! ```text
//!  new server   no metadata ──1 close──► joining ────────────────────7 open──► F, in quarantine ──8──► votes
//!
//!  other nodes       2 begin, in order    4 confirm             6 retired                        9 done
//!
//!  old node     F         3 begin               5 retire──► replaced by the new server, for good
//! ```
//!
//! F is the fingerprint of the quorum, which does not contain addresses. The new server counts as the old node after a
//! loss of its data: the new server begins its quarantine after the last vote of the old node. Therefore the old node is
//! retired, or is gone for good, before the new server is opened. Until then, the new server is closed, so that no client
//! with the new list of nodes begins an earlier quarantine.
//!
//! Each node executes each step atomically, and compares its fingerprint or its whole record of replacements. The rules
//! for the records are in [`replacement_record`](super::replacement_record). Each attempt of a call has a new id, which
//! its begins and the fingerprint of the closed server contain. So a late step of an earlier attempt finds another id,
//! and changes nothing.
//!
//! Another call continues from the fingerprints and records that it finds. The argument for the order of the steps is in
//! GUARANTEES, "Why leases do not overlap while a node is replaced".

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    client::context::ClientContext,
    clock::Instant,
    error::{AdminError, ConfigError, out_of_range},
    lock::client::Client,
    mutation::{self, Mutation},
    node::{
        Answer, Inspect, InspectAnswer, NewNodes, Operation, ReadClock, Reconfigure, RecordReplacements,
        RecordStep, Register, Registration, Request, RestartGuard, names,
    },
    quorum::{
        QuorumBuilder,
        admin::{fingerprint_of, inspect_started, register, while_open},
        moving::{ask_each, reply_of_absent},
        replacement_record::{Conflict, Pair, ReplacementRecord},
    },
    values::{Fingerprint, NodeError, NodeReplies, NodeReply, Refusal, Resource},
};

/// The time for which a call waits for an old node that is said to be gone. If the node answers, it is retired.
const GONE_TIMEOUT: Duration = Duration::from_secs(3);

/// The interval at which the call looks, during the wait for the new server, whether the old node votes again.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// The delay after which a node without an answer is asked again.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The largest difference between the clock of the new server and the latest clock of the other nodes.
const LARGEST_CLOCK_GAP: Duration = Duration::from_secs(1);

/// The replacement of one node of a quorum by a new server, for [`replace`] and
/// [`abandon_replacement`].
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
    /// server stands in for the node. Also states that a server without node metadata at the address of the old node is
    /// the old node, which has lost its data. Default: a node that does not answer, or has no metadata, is not replaced.
    /// Each call needs the statement anew.
    ///
    /// If the statement is wrong, two servers vote in place of one, and two clients may hold one lock. If the old node
    /// answers with its metadata, the statement changes nothing. A server that answers with an error, such as a refused
    /// password, or that closes the connection, is not gone. A refused connection, an unknown or unreachable host, and a
    /// timeout are no answer. A firewall or a load balancer may refuse connections to a server that runs.
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

/// The outcome of [`abandon_replacement`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abandoned {
    /// The address of the old node, which stays.
    pub old: Arc<str>,
    /// The address of the server that was to stand in for the old node.
    pub new: Arc<str>,
    /// The replies of the other nodes: `Done` if the node has no begin of the replacement any more.
    pub replies: NodeReplies,
    /// Whether a node had recorded the replacement, or the new server was closed for it. If not, the call has changed
    /// nothing, and may have named other servers than the call that began the replacement.
    pub was_begun: bool,
    /// The addresses of the old node and of the new server of another replacement that was begun, by the record of a node,
    /// and has neither ended nor been abandoned.
    pub unfinished: Option<(Arc<str>, Arc<str>)>,
}

/// What [`abandon_with`] has found and done.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AbandonedRecords {
    pub(super) replies: NodeReplies,
    /// As [`Abandoned::was_begun`].
    pub(super) was_begun: bool,
    /// As [`Abandoned::unfinished`].
    pub(super) unfinished: Option<Pair>,
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
/// other node has to answer and vote. The call closes the new server, and records the replacement on the other nodes,
/// which refuse a second one at the same time. Then the call retires the old node, which never votes again: its
/// fingerprint names the address of the new server. The call returns when the new server votes, after a quarantine that
/// is 2 s longer than that of a restarted node (slightly more than `max_ttl`).
///
/// Running clients continue with the other nodes. Their logs have one warning, and
/// [`Quorum::health`](crate::Quorum::health) has the address of the new server, if the old node still answers. Give each
/// client the new list and restart it. Meanwhile both lists may be in use. Stop the old server for good directly after
/// the call: until every client has the new list, no server may answer at its address. If the old server comes back with
/// older data or without data, a client that starts with the old list registers it as a node that has lost its data, and
/// it votes again, and two clients may hold one lock. The same call retires it again. Replace one node at a time.
///
/// The call refuses a quorum in which the other nodes are no quorum (one node, two nodes, or as many votes needed as
/// nodes), because running clients would acquire no lock. It also refuses an old node or a new server behind Sentinels or
/// in a Redis Cluster, because a failover may lose the retirement; such a node changes its servers by a failover, at the
/// same address.
/// [`reconfigure`](crate::admin::reconfigure) moves a quorum in all of these cases.
///
/// # Errors
///
/// * [`AdminError::Config`] if the settings are invalid, if neither or both of the servers are in the list of nodes, in
///   the cases above, if the restart guard is off, or if both addresses lead to one server. Nothing is changed.
/// * [`AdminError::OthersNeeded`] if another node did not answer, belongs to another quorum, does not vote, or refuses
///   writes. The old node is not retired.
/// * [`AdminError::OldSilent`] if the old node did not answer, and is not [gone](Replacement::old_is_gone), and
///   [`AdminError::OldRefuses`] if it answered with an error. The call opens no server, and closes a server again that it
///   has opened.
/// * [`AdminError::OldEmpty`] if the server at the address of the old node has no metadata. Nothing is changed.
/// * [`AdminError::OtherQuorum`] if the old node belongs to another quorum, or is closed for a move, and
///   [`AdminError::AlreadyReplaced`] if another server stands in for the old node, or for the new server.
/// * [`AdminError::UnfinishedReplacement`] if another replacement has neither ended nor been
///   [abandoned](abandon_replacement), and [`AdminError::ReplacementSuperseded`] if another call has continued, ended or
///   abandoned this replacement in the meantime.
/// * [`AdminError::NotEmpty`] if the new server belongs to a quorum, and no earlier call has opened it,
///   [`AdminError::NewIsReplica`] if it is a replica, and [`AdminError::ClockDiffers`] if its clock differs. Nothing is
///   changed.
/// * [`AdminError::NotListed`] if the old node does not answer or has no metadata, and the other nodes have recorded a
///   server that stands in for a node and is not in the list. Nothing is changed.
/// * [`AdminError::Incomplete`] if the new server does not answer, and [`AdminError::NewNeeded`] if the old node is
///   already retired or gone.
/// * [`AdminError::Closed`] if the tokio runtime ends during the call.
///
/// After an error or an interruption, the same call continues the replacement. If an error comes before the call has
/// asked the old node to retire, or has recorded that this node is gone, the call withdraws its own begin from the nodes
/// that it reaches, so that another node can be replaced first. If a call has left its begin, [`abandon_replacement`]
/// removes it.
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

/// Abandons a replacement that was begun and has retired no node, so that another node can be replaced, or the same node
/// by another server. Closes the new server again, if it was closed, and removes the begin of the replacement from the old
/// node, and then from each other node that answers. A call that has begun the replacement and still runs can open no
/// server afterwards. Such a call can still retire the old node if the new server did not answer; then the same call again
/// ends the replacement.
///
/// `quorum` has the nodes of the running clients, as for [`replace`]. Repeat the call when the nodes that did not answer
/// are back: a begin that stays on one of them prevents other replacements. The new server stays closed: run `FLUSHALL`
/// before another use.
///
/// # Errors
///
/// * [`AdminError::Config`] as for [`replace`]. Nothing is changed.
/// * [`AdminError::AlreadyReplaced`] if the old node is retired, or a node or the new server has recorded its end: finish
///   this replacement by [`replace`].
/// * [`AdminError::OldSilent`] if the old node did not answer, and is not [gone](Replacement::old_is_gone), and
///   [`AdminError::OldRefuses`] if it answered with an error.
/// * [`AdminError::OtherQuorum`] if a move has closed the old node.
/// * [`AdminError::Incomplete`] if the new server belongs to the quorum and does not show its record, or if the old node
///   does not show its record.
/// * [`AdminError::ReplacementSuperseded`] if another call changes the new server at the same time.
///
/// An error changes no record of a node, but the new server may be closed again, so that a call which still runs ends
/// with [`AdminError::ReplacementSuperseded`].
///
/// * [`AdminError::Closed`] if the tokio runtime ends during the call.
///
/// # Cancel safety
///
/// The nodes until then have no begin any more. Repeat the call.
pub async fn abandon_replacement(
    quorum: &QuorumBuilder,
    replacement: &Replacement,
) -> Result<Abandoned, AdminError> {
    let lists = quorum.replacing(replacement)?;
    let (old, new) = (lists.before.start_to_change()?, lists.after.start_to_change()?);
    let AbandonedRecords { replies, was_begun, unfinished } =
        abandon_with(&old, &new, lists.node, replacement.is_old_gone).await?;
    let unfinished = unfinished.map(|Pair { old, new }| (old.into(), new.into()));
    let [old, new] = [old, new].map(|client| address_of(&client.context, lists.node));
    Ok(Abandoned { old, new, replies, was_begun, unfinished })
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
    let replacing = Replacing::new(old, new, node, is_old_listed, is_old_gone);
    while_open(old, while_open(new, replacing.run())).await
}

/// Abandons the replacement of the node with this index, as [`abandon_replacement`].
pub(super) async fn abandon_with(
    old: &Client,
    new: &Client,
    node: usize,
    is_old_gone: bool,
) -> Result<AbandonedRecords, AdminError> {
    let replacing = Replacing::new(old, new, node, true, is_old_gone);
    while_open(old, while_open(new, replacing.abandon())).await
}

struct Replacing<'a> {
    before: &'a ClientContext,
    after: &'a ClientContext,
    /// The index of the old node in `before`, and of the new server in `after`.
    node: usize,
    pair: Pair,
    ours: Fingerprint,
    is_old_listed: bool,
    /// Whether the call was told that the old node is gone.
    is_old_gone: bool,
    /// Whether the old node has answered to this call without the mark of a retired node. Then it is not gone, whatever
    /// the call was told, and another attempt accepts no silence either.
    has_old_answered: AtomicBool,
}

/// The state of the old node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OldNode {
    /// The node did not answer, and is gone for good.
    Gone,
    /// The node has lost its metadata, and may join the quorum at the registration of any client.
    Empty,
    /// The node belongs to the quorum, so it votes now or later.
    Open,
    /// The node was replaced by the new server.
    Retired,
}

/// The state of the new server.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NewServer {
    /// The server has no metadata.
    Empty,
    /// The server is closed, with this fingerprint, until the old node is retired.
    Joining(Fingerprint),
    /// A call has opened the server after the end of the old node, as its record with this text shows.
    Opened(Arc<str>),
    /// The server with this record belongs to the quorum. The other nodes show that it stands in for the old node, so it
    /// has lost its data since. Its quarantine may have begun before the old node was retired again.
    Member(Arc<str>),
    /// The server does not answer, for this reason. The old node is retired or gone, so the call records this on the other
    /// nodes. Then the new server can be replaced in turn.
    Unfit(AdminError),
}

/// A node beside the old node and the new server.
#[derive(Clone)]
struct OtherNode {
    /// The index in the list.
    index: usize,
    /// The record of replacements, if the node has returned it.
    record: Option<ReplacementRecord>,
    /// The reason why the node does not vote, if there is one.
    reply: Option<NodeReply>,
}

/// One attempt of a call.
struct Attempt<'a> {
    replacing: &'a Replacing<'a>,
    /// The id of the attempt.
    id: String,
    old: OldNode,
    /// Whether the old node is retired, or another node shows that it is retired or gone.
    is_ended: bool,
    new: NewServer,
    /// Whether the remaining steps only add a vote although the old node was not gone: it is retired, and an earlier call
    /// has closed the new server, or the new server does not answer.
    is_continued: bool,
    /// Whether the attempt opens the new server: an earlier call has not, and the server answers.
    opens: bool,
    /// Whether the old node may be retired by a request of this attempt.
    has_sent_retirement: bool,
    /// The other nodes, in an order that is the same in every call.
    others: Vec<OtherNode>,
}

/// The end of an attempt without an error.
enum Outcome {
    /// The new server votes.
    Ended,
    /// The old node may vote, although it was retired or gone before, or the new server has lost its data.
    Again,
}

/// The error of one step on one node.
enum StepError {
    /// The node did not answer, or does not belong to the quorum.
    Absent(AdminError),
    /// The record of the node excludes the step.
    Excluded(AdminError),
}

impl OtherNode {
    /// Returns the index of a node that does not vote, and the reason.
    fn absence(&self) -> Option<(usize, NodeReply)> {
        Some((self.index, self.reply.clone()?))
    }
}

impl From<StepError> for AdminError {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Absent(error) | StepError::Excluded(error) => error,
        }
    }
}

/// Returns the operation that reads the fingerprint of a node.
fn inspection() -> Operation {
    let resource = Resource::internal(names::INIT.as_bytes());
    Operation::Inspect(Inspect { resource, max_readers: 0, max_details: 0 })
}

/// Returns the operation that reads the record of a node, and shows that the node accepts writes.
fn reading() -> Operation {
    Operation::RecordReplacements(RecordReplacements { from: "".into(), to: "".into() })
}

impl<'a> Replacing<'a> {
    fn new(old: &'a Client, new: &'a Client, node: usize, is_old_listed: bool, is_old_gone: bool) -> Self {
        let (before, after) = (&*old.context, &*new.context);
        let [from, to] = [before, after].map(|context| address_of(context, node).to_string());
        let (pair, ours) = (Pair { old: from, new: to }, fingerprint_of(after));
        let has_old_answered = AtomicBool::new(false);
        Self { before, after, node, pair, ours, is_old_listed, is_old_gone, has_old_answered }
    }

    async fn run(&self) -> Result<(), AdminError> {
        self.check_settings()?;
        let client = self.after.lease_ids.client();
        for number in 0_u64.. {
            let attempt = self.check(format!("{client}-{number}")).await?;
            if let Outcome::Ended = attempt.run().await? {
                break;
            }
        }
        Ok(())
    }

    /// Checks all nodes. An error has changed nothing.
    async fn check(&self, id: String) -> Result<Attempt<'_>, AdminError> {
        let inspected = inspect_started(self.after).await?;
        let others = self.read_others(&inspected).await;
        let records = || others.iter().filter_map(|other| other.record.as_ref());
        for record in records() {
            record.begin(&self.pair, &id).map_err(|conflict| self.excluded(conflict))?;
        }
        let absent: Vec<(usize, NodeReply)> = others.iter().filter_map(OtherNode::absence).collect();
        // The other nodes are needed in most cases, so their absence is the more useful error.
        let needed = |error: AdminError| match error {
            AdminError::OldSilent { .. } | AdminError::Incomplete(_) if !absent.is_empty() => {
                self.others_needed(&absent)
            }
            error => error,
        };
        let merged = ReplacementRecord::merged(records());
        let is_recorded = merged.is_ended(&self.pair);
        let old = match self.ask_old(&inspected).await {
            Ok(old) => old,
            Err(error) if is_recorded || self.may_have_opened_new(&inspected).await => {
                return Err(needed(perhaps_retired(error)));
            }
            Err(error) => return Err(needed(error)),
        };
        self.check_old(old, &merged)?;
        let is_ended = old == OldNode::Retired || is_recorded;
        let new = match self.check_new(&inspected, old, is_ended).await {
            Ok(new) => new,
            Err(error @ AdminError::Incomplete(_)) if is_ended => {
                NewServer::Unfit(self.after_retirement(error))
            }
            Err(error) => return Err(needed(error)),
        };
        let is_closed = matches!(new, NewServer::Joining(_) | NewServer::Unfit(_));
        let is_closed = mutation::altered(Mutation::NeedOneOther, is_closed, |_| true);
        let is_continued = old == OldNode::Retired && is_closed;
        let opens = !is_opened(old, &new) && !matches!(new, NewServer::Unfit(_));
        let has_sent_retirement = false;
        let attempt = Attempt {
            replacing: self,
            id,
            old,
            is_ended,
            new,
            is_continued,
            opens,
            has_sent_retirement,
            others,
        };
        attempt.ensure_others()?;
        Ok(attempt)
    }

    /// Abandons the replacement.
    async fn abandon(&self) -> Result<AbandonedRecords, AdminError> {
        self.check_settings()?;
        let order = self.others_in_order();
        let ask = |node: usize| Some(if node == self.node { inspection() } else { reading() });
        let answers = ask_each(self.after, ask).await;
        let reply = |(node, answer): (usize, &Option<Answer>)| match answer {
            _ if node == self.node => NodeReply::NotAsked,
            // A node without metadata has no record.
            None | Some(Answer::Abstains(_)) => NodeReply::Done,
            Some(answer) => reply_of_absent(self.after, answer),
        };
        let mut replies: Vec<NodeReply> = answers.iter().enumerate().map(reply).collect();
        let records = answers.iter().flatten().filter_map(|answer| match answer {
            Answer::Recorded { text } => Some(ReplacementRecord::read(text)),
            _ => None,
        });
        let records: Vec<ReplacementRecord> = records.collect();
        let mut was_begun = records.iter().any(|record| record.contains(&self.pair));
        let unfinished = records.iter().find_map(|record| record.unfinished_beside(&self.pair)).cloned();
        let abandoned = |record: &ReplacementRecord| record.abandon(&self.pair);
        for record in &records {
            abandoned(record).map_err(|conflict| self.excluded(conflict))?;
        }
        // The new server comes first: a call that has not yet begun on every node finds another fingerprint there.
        if let Some(Some(Answer::Inspected(InspectAnswer { fingerprint: Some(theirs), .. }))) =
            answers.get(self.node)
            && theirs.joining_for(&self.ours) == Some(&*self.pair.old)
        {
            let by = format!("{}-abandoned", self.after.lease_ids.client());
            let to = self.ours.joining_by(&self.pair.old, &by);
            let close = Operation::Reconfigure(Reconfigure { from: theirs.clone(), to, record: None });
            self.change_new([close]).await?;
            was_begun = true;
        }
        // The record of an open server shows that the replacement has ended, although other nodes may have lost this.
        if let Some(Some(Answer::Inspected(InspectAnswer { fingerprint: Some(theirs), .. }))) =
            answers.get(self.node)
            && *theirs == self.ours
        {
            let timeout = self.after.settings.connect_timeout;
            match self.ask_until_answered(self.after, timeout, reading()).await {
                Answer::Recorded { text } if ReplacementRecord::read(&text).is_ended(&self.pair) => {
                    return Err(self.excluded(self.replaced()));
                }
                Answer::Recorded { .. } => {}
                answer => return Err(self.incomplete(Some(&answer))),
            }
        }
        // Then the old node: a call that has not retired it can no longer do so.
        match self.ask_old(&[]).await {
            Ok(OldNode::Open) => {
                if let Answer::Recorded { text } = self.ask(self.before, reading()).await {
                    was_begun |= ReplacementRecord::read(&text).contains(&self.pair);
                }
                self.change_record(self.before, self.node, abandoned).await?;
            }
            Ok(OldNode::Retired) => return Err(self.excluded(self.replaced())),
            // A node of another quorum is never retired in this one. A give-up of a move may open its nodes again.
            Err(AdminError::OtherQuorum { metadata, .. })
                if !Fingerprint::new(&metadata).is_closed_from(&self.ours) => {}
            Err(AdminError::UnfinishedReplacement { .. }) => {}
            Ok(OldNode::Gone | OldNode::Empty)
            | Err(AdminError::OldEmpty { .. } | AdminError::AlreadyReplaced { .. }) => {}
            Err(error) => return Err(error),
        }
        for node in order {
            if !matches!(answers.get(node), Some(Some(Answer::Recorded { .. }))) {
                continue;
            }
            let changed = self.change_record(self.after, node, abandoned).await;
            let reply = match changed {
                Ok(_) => NodeReply::Done,
                Err(StepError::Absent(_)) => NodeReply::Failed(NodeError::TimedOut),
                Err(StepError::Excluded(error)) => return Err(error),
            };
            if let Some(slot) = replies.get_mut(node) {
                *slot = reply;
            }
        }
        Ok(AbandonedRecords { replies: self.after.replies(replies), was_begun, unfinished })
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

    /// Returns the nodes beside the old node and the new server. A node that cannot write its record does not vote, because
    /// a node that refuses writes, such as one with a full memory, answers a registration.
    async fn read_others(&self, inspected: &[Answer]) -> Vec<OtherNode> {
        let is_ours = |answer: &Answer| matches!(answer, Answer::Inspected(inspection) if inspection.fingerprint.as_ref() == Some(&self.ours));
        let time = self.after.clock.time_of_day();
        let is_asked = |node: usize| node != self.node && inspected.get(node).is_some_and(is_ours);
        let ask = |operation: Operation| {
            ask_each(self.after, move |node| is_asked(node).then(|| operation.clone()))
        };
        let registered = ask(Operation::Register(Register { new_nodes: NewNodes::Ignore, time })).await;
        let read = ask(reading()).await;
        let other = |index: usize| {
            let registered = match registered.get(index) {
                Some(Some(answer)) => absence(answer),
                _ => inspected.get(index).map(|answer| reply_of_absent(self.after, answer)),
            };
            let (record, read) = match read.get(index) {
                Some(Some(Answer::Recorded { text })) => (Some(ReplacementRecord::read(text)), None),
                Some(Some(answer)) => (None, Some(NodeReply::from(answer))),
                _ => (None, None),
            };
            OtherNode { index, record, reply: registered.or(read) }
        };
        self.others_in_order().into_iter().map(other).collect()
    }

    /// Returns the indices of the other nodes in an order that is the same in every call.
    fn others_in_order(&self) -> Vec<usize> {
        let mut others: Vec<usize> = (0..self.after.nodes.len()).filter(|node| *node != self.node).collect();
        others.sort_by_key(|node| address_of(self.after, *node));
        others
    }

    /// Returns the error of a step that the record of a node excludes.
    fn excluded(&self, conflict: Conflict) -> AdminError {
        match conflict {
            Conflict::Unfinished(Pair { old, new }) => {
                AdminError::UnfinishedReplacement { node: new.into(), old: old.into() }
            }
            Conflict::Replaced { node, by } => {
                AdminError::AlreadyReplaced { node: node.into(), by: by.into() }
            }
            Conflict::Superseded => AdminError::ReplacementSuperseded {
                node: self.address(self.after),
                old: self.address(self.before),
            },
        }
    }

    /// Returns the reason why a replacement whose old node is retired cannot be abandoned.
    fn replaced(&self) -> Conflict {
        Conflict::Replaced { node: self.pair.old.clone(), by: self.pair.new.clone() }
    }

    /// Changes the record of a node, and repeats the change if another call has changed the record in the meantime. Returns
    /// the record that the node has then.
    async fn change_record(
        &self,
        context: &ClientContext,
        node: usize,
        change: impl Fn(&ReplacementRecord) -> Result<ReplacementRecord, Conflict>,
    ) -> Result<ReplacementRecord, StepError> {
        let (mut from, mut to): (Arc<str>, Option<Arc<str>>) = ("".into(), None);
        loop {
            let record = RecordReplacements { from: Arc::clone(&from), to: to.clone().unwrap_or_default() };
            let record = Operation::RecordReplacements(record);
            let answers = ask_each(context, |other| (other == node).then(|| record.clone())).await;
            let answer =
                answers.into_iter().nth(node).flatten().unwrap_or(Answer::Error(NodeError::TimedOut));
            let Answer::Recorded { text } = answer else {
                return Err(StepError::Absent(if node == self.node {
                    self.incomplete_old(&answer)
                } else {
                    self.others_needed(&[(node, NodeReply::from(&answer))])
                }));
            };
            let record = ReplacementRecord::read(&text);
            if to.as_ref() == Some(&text) {
                return Ok(record);
            }
            let changed = change(&record).map_err(|conflict| StepError::Excluded(self.excluded(conflict)))?;
            if changed == record {
                return Ok(record);
            }
            (from, to) = (text, Some(changed.to_string().into()));
        }
    }

    /// Returns the error of other nodes that do not vote, with their replies.
    fn others_needed(&self, absent: &[(usize, NodeReply)]) -> AdminError {
        let reply = |node: usize| {
            let of_node = absent.iter().find(|(other, _)| *other == node);
            of_node.map_or(NodeReply::NotAsked, |(_, reply)| reply.clone())
        };
        AdminError::OthersNeeded(self.after.replies((0..self.after.nodes.len()).map(reply)))
    }

    /// Whether the new server belongs to the quorum, and has the record of the end of the replacement or does not show its
    /// record.
    async fn may_have_opened_new(&self, inspected: &[Answer]) -> bool {
        let Some(Answer::Inspected(inspection)) = inspected.get(self.node) else { return false };
        if inspection.fingerprint.as_ref() != Some(&self.ours) {
            return false;
        }
        match self.ask(self.after, reading()).await {
            Answer::Recorded { text } => ReplacementRecord::read(&text).is_ended(&self.pair),
            _ => true,
        }
    }

    /// Returns the state of the old node. Waits for a node that is starting. Only a node that does not answer at all counts
    /// as gone, and only if this call was told so, and the node has not answered to this call before. The address must not lead to one of the servers with these answers.
    async fn ask_old(&self, others: &[Answer]) -> Result<OldNode, AdminError> {
        let connect_timeout = self.before.settings.connect_timeout;
        let timeout = if self.is_old_gone { connect_timeout.min(GONE_TIMEOUT) } else { connect_timeout };
        let inspected = self.ask_until_answered(self.before, timeout, inspection()).await;
        let old = match &inspected {
            Answer::Inspected(inspection) => {
                self.refuse_same_server(&inspected, others)?;
                self.old_node(inspection.fingerprint.as_ref())?
            }
            Answer::Error(error)
                if error.is_silence()
                    && mutation::altered(Mutation::AssumeGone, self.accepts_silence(), |_| true) =>
            {
                OldNode::Gone
            }
            answer => return Err(self.incomplete_old(answer)),
        };
        if matches!(old, OldNode::Open | OldNode::Empty) {
            self.has_old_answered.store(true, Ordering::Relaxed);
        }
        match old {
            OldNode::Empty if !self.is_old_gone => {
                Err(AdminError::OldEmpty { node: self.address(self.before) })
            }
            old => Ok(old),
        }
    }

    /// Whether an old node that does not answer is gone.
    fn accepts_silence(&self) -> bool {
        self.is_old_gone && !self.has_old_answered.load(Ordering::Relaxed)
    }

    /// Returns an error if the list of nodes does not show that the call names the right node, by the records of all other
    /// nodes.
    fn check_old(&self, old: OldNode, record: &ReplacementRecord) -> Result<(), AdminError> {
        // Without a record, nothing shows that this node was in the quorum: a node of another quorum with the same
        // settings has the same fingerprint.
        if !self.is_old_listed && !record.contains(&self.pair) && old != OldNode::Retired {
            let expected = "a node of the settings, or a node whose replacement by the new server was begun: call this \
                            with the nodes of the running clients";
            return Err(out_of_range("old", self.address(self.before), expected).into());
        }
        // The new server was replaced in turn. A new server whose address is used again has a begin of this replacement, or
        // its old node votes.
        if old != OldNode::Open
            && !record.contains(&self.pair)
            && let Some(by) = record.successor(&self.pair.new)
        {
            return Err(AdminError::AlreadyReplaced { node: self.address(self.after), by: by.into() });
        }
        // The list may name the old node by another address than an earlier replacement, or be out of date. An old node
        // that answers with its metadata shows itself whether another server stands in for it.
        if old == OldNode::Open {
            return Ok(());
        }
        let is_listed = |address: &str| {
            address == self.pair.old || self.after.nodes.iter().any(|node| **node.address() == *address)
        };
        let unlisted = record.standing_in().find(|pair| !is_listed(&pair.new));
        match mutation::altered(Mutation::ForgetReplacements, unlisted, |_| None) {
            Some(Pair { old, new }) => {
                Err(AdminError::NotListed { node: (**old).into(), by: (**new).into() })
            }
            None => Ok(()),
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
        // A node that was replaced in another quorum shows a wrong address, or a move since.
        if let Some(by) = self.ours.replacement_of(theirs.as_str()) {
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
        old: OldNode,
        is_ended: bool,
    ) -> Result<NewServer, AdminError> {
        let Some(Answer::Inspected(inspection)) = inspected.get(self.node) else {
            return Err(self.incomplete(inspected.get(self.node)));
        };
        self.check_role().await?;
        let new = self.new_server(inspection, is_ended).await?;
        if !is_opened(old, &new) {
            self.check_clocks(old).await?;
        }
        Ok(new)
    }

    /// Returns the state of the new server with this answer.
    async fn new_server(&self, inspection: &InspectAnswer, is_ended: bool) -> Result<NewServer, AdminError> {
        let Some(theirs) = &inspection.fingerprint else { return Ok(NewServer::Empty) };
        if theirs.joining_for(&self.ours) == Some(&*self.pair.old) {
            return Ok(NewServer::Joining(theirs.clone()));
        }
        let not_empty =
            || AdminError::NotEmpty { node: self.address(self.after), metadata: theirs.to_string().into() };
        if *theirs != self.ours {
            return Err(not_empty());
        }
        let text = match self.ask(self.after, reading()).await {
            Answer::Recorded { text } => text,
            answer => return Err(self.incomplete(Some(&answer))),
        };
        let is_known = mutation::altered(Mutation::AcceptAnyVoter, is_ended, |_| true);
        match ReplacementRecord::read(&text) {
            record if record.is_ended(&self.pair) => Ok(NewServer::Opened(text)),
            _ if is_known => Ok(NewServer::Member(text)),
            // A voter of this quorum, or of another quorum with the same settings, or a server that a client with the new
            // list has registered.
            _ => Err(not_empty()),
        }
    }

    /// Returns an error if the new server is a replica or refuses the call, or if its clock is off by more than an hour.
    async fn check_role(&self) -> Result<(), AdminError> {
        // A replica has the metadata of its master, so it answers an inspection like a node. A closed server can be no
        // replica until the call opens it.
        let time = self.after.clock.time_of_day();
        let register = Operation::Register(Register { new_nodes: NewNodes::Ignore, time });
        let answer = self.ask(self.after, register).await;
        let Answer::Error(error) = &answer else { return Ok(()) };
        let error = if let NodeError::Handshake(error) = error { error } else { error };
        Err(match error {
            NodeError::ReadOnly => AdminError::NewIsReplica { node: self.address(self.after) },
            NodeError::ClockOff { .. } => {
                ConfigError::Server { node: self.address(self.after), reason: error.clone() }.into()
            }
            _ => self.incomplete(Some(&answer)),
        })
    }

    /// Returns an error if the clock of the new server differs too much from the latest clock of the other nodes and of
    /// the old node, because the votes of the new server begin at its clock and have to exceed all earlier tokens.
    async fn check_clocks(&self, old: OldNode) -> Result<(), AdminError> {
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

    /// Sends operations to the new server, and returns the last answer.
    async fn change_new<const N: usize>(&self, operations: [Operation; N]) -> Result<(), AdminError> {
        match self.ask_in_order(self.after, operations).await {
            Answer::Registered(_) => Ok(()),
            Answer::Recorded { .. } => Err(self.excluded(Conflict::Superseded)),
            Answer::WrongQuorum { fingerprint } if fingerprint.is_joining(&self.ours) => {
                Err(self.excluded(Conflict::Superseded))
            }
            answer => Err(self.incomplete(Some(&answer))),
        }
    }

    /// Inspects the old node once, and waits until `end`. Returns whether the old node may vote: it belongs to the quorum or
    /// has no metadata, or it was said to be gone, and answers with an error.
    async fn has_old_returned(&self, old: OldNode, end: Instant) -> bool {
        let inspected = tokio::select! {
            biased;
            answer = self.ask(self.before, inspection()) => Some(answer),
            () = self.after.clock.sleep_until(end) => None,
        };
        let is_asked = mutation::altered(Mutation::IgnoreReturnedOld, true, |_| false)
            && mutation::altered(Mutation::JoinBesideOld, true, |_| false);
        let may_vote = match &inspected {
            Some(Answer::Inspected(inspection)) => {
                matches!(self.old_node(inspection.fingerprint.as_ref()), Ok(OldNode::Open | OldNode::Empty))
            }
            Some(Answer::Error(error)) => old == OldNode::Gone && !error.is_silence(),
            _ => false,
        };
        if may_vote && is_asked {
            self.has_old_answered.store(true, Ordering::Relaxed);
            return true;
        }
        self.after.clock.sleep_until(end).await;
        false
    }

    /// Sends an operation to the old node or to the new server, and repeats the operation after an error until the
    /// timeout. The operation must be one that a node may execute twice. If the server has answered anything, returns the
    /// last such answer.
    async fn ask_until_answered(
        &self,
        context: &ClientContext,
        timeout: Duration,
        operation: Operation,
    ) -> Answer {
        let deadline = context.now() + timeout;
        let mut last = Answer::Error(NodeError::TimedOut);
        loop {
            let answer = tokio::select! {
                biased;
                answer = self.ask(context, operation.clone()) => answer,
                () = context.clock.sleep_until(deadline) => Answer::Error(NodeError::TimedOut),
            };
            let Answer::Error(error) = &answer else { return answer };
            let is_silent_again = error.is_silence() && !is_silent(&last);
            if !is_silent_again {
                last = answer;
            }
            if context.now() + RETRY_DELAY >= deadline {
                return last;
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
                AdminError::OldSilent { node, error: error.clone(), may_be_retired: false }
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

/// Returns the reason why a node with this answer to its registration does not vote, if there is one.
fn absence(registered: &Answer) -> Option<NodeReply> {
    match registered {
        Answer::Registered(Registration { quarantine: None, .. }) => None,
        Answer::Registered(Registration { quarantine, .. }) => {
            Some(NodeReply::Refused(Refusal::Quarantined { remaining: *quarantine }))
        }
        answer => Some(NodeReply::from(answer)),
    }
}

/// Whether the new server was opened by an earlier call, and the old node has not voted since.
fn is_opened(old: OldNode, new: &NewServer) -> bool {
    matches!(old, OldNode::Retired | OldNode::Gone) && matches!(new, NewServer::Opened(_))
}

/// Returns the error of an old node that may be retired already.
fn perhaps_retired(error: AdminError) -> AdminError {
    match error {
        AdminError::OldSilent { node, error, .. } => {
            AdminError::OldSilent { node, error, may_be_retired: true }
        }
        error => error,
    }
}

/// Whether nothing has answered.
fn is_silent(answer: &Answer) -> bool {
    matches!(answer, Answer::Error(error) if error.is_silence())
}

impl Attempt<'_> {
    fn is_opened(&self) -> bool {
        is_opened(self.old, &self.new)
    }

    /// Whether the old node cannot vote any more, so that the remaining steps only add a vote. If the old node is gone,
    /// this is so only after the new server was opened.
    fn only_adds_a_vote(&self) -> bool {
        self.is_continued || self.is_opened()
    }

    /// Returns the error of a server that is needed, if the old node is retired or gone.
    fn explained(&self, error: AdminError) -> AdminError {
        if self.is_ended { self.replacing.after_retirement(perhaps_retired(error)) } else { error }
    }

    /// Returns an error if another node does not vote that is needed.
    fn ensure_others(&self) -> Result<(), AdminError> {
        let absent: Vec<(usize, NodeReply)> = self.others.iter().filter_map(OtherNode::absence).collect();
        let may_miss = if self.only_adds_a_vote() { self.others.len() - 1 } else { 0 };
        if absent.len() <= may_miss { Ok(()) } else { Err(self.replacing.others_needed(&absent)) }
    }

    async fn run(mut self) -> Result<Outcome, AdminError> {
        if let Err(error) = self.begin().await {
            if self.old != OldNode::Retired {
                self.withdraw().await;
            }
            return Err(self.explained(self.unless_superseded(error)));
        }
        if !self.is_opened() {
            match self.end_old().await {
                Ok(Some(old)) => self.old = old,
                // After the request, a late request may retire the old node, so the begins stay.
                ended => {
                    if !self.has_sent_retirement && self.old != OldNode::Retired {
                        self.withdraw().await;
                    }
                    let may_be_retired = self.has_sent_retirement || self.is_ended;
                    return ended.map(|_| Outcome::Again).map_err(|error| {
                        self.unless_superseded(if may_be_retired { perhaps_retired(error) } else { error })
                    });
                }
            }
        }
        let is_needed_on_all = self.old == OldNode::Gone && !self.is_opened();
        self.record_retired(is_needed_on_all).await.map_err(|error| self.after_end(error))?;
        if let NewServer::Unfit(error) = self.new {
            return Err(error);
        }
        if !self.is_opened() && !self.open_new().await? {
            return Ok(Outcome::Again);
        }
        if self.wait_until_new_votes().await? {
            // The new server is closed first, because the next attempt may fail at another node.
            self.close_opened().await?;
            return Ok(Outcome::Again);
        }
        self.record_done().await?;
        Ok(Outcome::Ended)
    }

    /// Closes the new server, and records the begin on each other node and then on the old node. Returns an error if the
    /// begin of this attempt is missing on any of them afterwards. So at one instant all nodes have this begin, and no
    /// begin of another replacement.
    async fn begin(&mut self) -> Result<(), AdminError> {
        let Replacing { before, node, ref pair, .. } = *self.replacing;
        if !self.is_opened() {
            self.close_new().await?;
        }
        let id = self.id.clone();
        self.change_others(|record| record.begin(pair, &id)).await?;
        if self.old == OldNode::Open {
            self.replacing.change_record(before, node, |record| record.begin(pair, &id)).await?;
        }
        self.change_others(|record| record.confirm(pair, &id).map(|()| record.clone())).await?;
        self.ensure_others_vote().await
    }

    /// Returns an error if another node does not vote any more that has to, such as after a restart.
    async fn ensure_others_vote(&self) -> Result<(), AdminError> {
        if self.only_adds_a_vote() {
            return Ok(());
        }
        let Replacing { after, node, .. } = *self.replacing;
        let time = after.clock.time_of_day();
        let register = Operation::Register(Register { new_nodes: NewNodes::Ignore, time });
        let answers = ask_each(after, |other| (other != node).then(|| register.clone())).await;
        let absent: Vec<(usize, NodeReply)> = answers
            .iter()
            .enumerate()
            .filter_map(|(other, answer)| Some((other, absence(answer.as_ref()?)?)))
            .collect();
        if absent.is_empty() { Ok(()) } else { Err(self.replacing.others_needed(&absent)) }
    }

    /// Returns the error of an old node that another call has retired for the same new server in the meantime.
    fn unless_superseded(&self, error: AdminError) -> AdminError {
        let Pair { old, new } = &self.replacing.pair;
        let is_same =
            matches!(&error, AdminError::AlreadyReplaced { node, by } if **node == **old && **by == **new);
        if is_same { self.replacing.excluded(Conflict::Superseded) } else { error }
    }

    /// Returns the error of other nodes that are needed after the end of the old node.
    fn after_end(&self, error: AdminError) -> AdminError {
        match error {
            AdminError::OthersNeeded(replies) => AdminError::Incomplete(replies),
            error => error,
        }
    }

    /// Changes the record of each other node that votes, in order. Nodes whose vote is not needed may be absent, but one
    /// node at least must not.
    async fn change_others(
        &mut self,
        change: impl Fn(&ReplacementRecord) -> Result<ReplacementRecord, Conflict>,
    ) -> Result<(), AdminError> {
        let may_miss = self.only_adds_a_vote();
        let (mut is_changed, mut absent) = (false, None);
        for other in self.others.iter_mut().filter(|other| other.reply.is_none()) {
            match self.replacing.change_record(self.replacing.after, other.index, &change).await {
                Ok(record) => {
                    other.record = Some(record);
                    is_changed = true;
                }
                Err(StepError::Absent(error)) if may_miss => absent = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        match absent {
            Some(error) if !is_changed => Err(error),
            _ => Ok(()),
        }
    }

    /// Withdraws the begin of this attempt, on the old node first, from each node that answers.
    async fn withdraw(&self) {
        let Replacing { before, after, node, ref pair, .. } = *self.replacing;
        let withdrawn = |record: &ReplacementRecord| Ok(self.withdrawn(record, pair));
        if self.old == OldNode::Open {
            self.replacing.change_record(before, node, withdrawn).await.ok();
        }
        for other in self.others.iter().filter(|other| other.reply.is_none()) {
            self.replacing.change_record(after, other.index, withdrawn).await.ok();
        }
    }

    fn withdrawn(&self, record: &ReplacementRecord, pair: &Pair) -> ReplacementRecord {
        let withdrawn = record.withdraw(pair, &self.id);
        mutation::altered(Mutation::WithdrawAny, withdrawn, |_| ReplacementRecord::default())
    }

    /// Returns the fingerprint by which this attempt closes the new server.
    fn joining(&self) -> Fingerprint {
        let Replacing { ours, pair, .. } = self.replacing;
        ours.joining_by(&pair.old, &self.id)
    }

    /// Closes the new server with a fingerprint of this attempt, so that no client registers it or gets its votes before
    /// the end of the old node, and no earlier attempt can open it.
    async fn close_new(&mut self) -> Result<(), AdminError> {
        let replacing = self.replacing;
        let Replacing { ours, pair, after, .. } = replacing;
        let joining = self.joining();
        let close = |from: &Fingerprint, record: Option<RecordStep>| {
            Operation::Reconfigure(Reconfigure { from: from.clone(), to: joining.clone(), record })
        };
        match &self.new {
            NewServer::Unfit(_) => return Ok(()),
            // One message, so that no interruption leaves a server that is registered and not closed.
            NewServer::Empty => {
                // A server that another call has opened in the meantime has a record.
                let record = Some(RecordStep::Requires("".into()));
                replacing.change_new([register(after), close(ours, record)]).await?;
            }
            NewServer::Joining(earlier) if mutation::is_on(Mutation::KeepEarlierClose) => {
                self.new = NewServer::Joining(earlier.clone());
                return Ok(());
            }
            NewServer::Joining(earlier) => replacing.change_new([close(earlier, None)]).await?,
            // A voter is closed only while no replacement of another node needs it.
            NewServer::Opened(record) | NewServer::Member(record) => {
                let unfinished = ReplacementRecord::read(record).unfinished_beside(pair).cloned();
                if let Some(other) = unfinished {
                    return Err(replacing.excluded(Conflict::Unfinished(other)));
                }
                let record = RecordStep::Requires(Arc::clone(record));
                replacing.change_new([close(ours, Some(record))]).await?;
            }
        }
        self.new = NewServer::Joining(joining);
        Ok(())
    }

    /// Closes the new server, which this attempt or an earlier call has opened. The server may have lost its data, and so its
    /// record, since the call has read the record.
    async fn close_opened(&mut self) -> Result<(), AdminError> {
        let Replacing { after, .. } = *self.replacing;
        if !matches!(self.new, NewServer::Joining(_)) {
            match self.replacing.ask(after, reading()).await {
                Answer::Recorded { text } if text.is_empty() => self.new = NewServer::Member(text),
                Answer::Abstains(_) => self.new = NewServer::Empty,
                // If the record has changed, another call needs the server, and the close fails.
                _ => {}
            }
        }
        self.close_new().await
    }

    /// Ends the old node after the begin: the node is retired, or is gone, or was retired before. Returns `None` if the node
    /// answers now, and has no begin because it did not answer before.
    async fn end_old(&mut self) -> Result<Option<OldNode>, AdminError> {
        let replacing = self.replacing;
        self.ensure_new_is_closed().await?;
        if mutation::is_on(Mutation::JoinBesideOld) {
            return Ok(Some(OldNode::Retired));
        }
        if mutation::is_on(Mutation::KeepFirstSilence) && self.old == OldNode::Gone {
            return Ok(Some(OldNode::Gone));
        }
        let old = replacing.ask_old(&[]).await?;
        match (old, self.old) {
            // The node has confirmed its retirement to this attempt.
            (OldNode::Gone, OldNode::Retired) => Ok(Some(OldNode::Retired)),
            (OldNode::Gone | OldNode::Retired, _) => Ok(Some(old)),
            (OldNode::Open, OldNode::Open) => self.retire().await.map(|()| Some(OldNode::Retired)),
            // The next attempt finds a node in quarantine, which has a record.
            (OldNode::Empty, _) => {
                let registered = replacing.ask(replacing.before, register(replacing.before)).await;
                self.retired(registered).map(|()| None)
            }
            (OldNode::Open, _) => Ok(None),
        }
    }

    /// Returns an error unless the new server still has the fingerprint of this attempt: the old node is not retired for a
    /// server that another call has closed, that was flushed, or that does not answer.
    async fn ensure_new_is_closed(&self) -> Result<(), AdminError> {
        let NewServer::Joining(joining) = &self.new else { return Ok(()) };
        if mutation::is_on(Mutation::KeepEarlierClose) {
            return Ok(());
        }
        let replacing = self.replacing;
        match replacing.ask(replacing.after, inspection()).await {
            Answer::Inspected(inspection) if inspection.fingerprint.as_ref() == Some(joining) => Ok(()),
            Answer::Inspected(_) => Err(replacing.excluded(Conflict::Superseded)),
            answer => Err(self.explained(replacing.incomplete(Some(&answer)))),
        }
    }

    /// Retires an old node with the begin of this attempt. The node compares its whole record, so an abandoned begin, or
    /// the begin of a replacement that needs this node, prevents the retirement.
    async fn retire(&mut self) -> Result<(), AdminError> {
        let replacing = self.replacing;
        let Replacing { before, node, ref pair, .. } = *replacing;
        let has_begun = |record: &ReplacementRecord| {
            record.confirm(pair, &self.id)?;
            Ok(record.clone())
        };
        let record = replacing.change_record(before, node, has_begun).await?.to_string().into();
        let record = Some(RecordStep::Requires(record));
        let record = mutation::altered(Mutation::RetireWithoutRecord, record, |_| None);
        self.has_sent_retirement = true;
        self.retired(replacing.ask_in_order(before, [self.retirement(record)]).await)
    }

    fn retirement(&self, record: Option<RecordStep>) -> Operation {
        let Replacing { ours, pair, .. } = self.replacing;
        Operation::Reconfigure(Reconfigure { from: ours.clone(), to: ours.replaced_by(&pair.new), record })
    }

    fn retired(&self, answer: Answer) -> Result<(), AdminError> {
        match answer {
            Answer::Registered(_) => Ok(()),
            Answer::Recorded { .. } => Err(self.replacing.excluded(Conflict::Superseded)),
            answer => Err(self.replacing.incomplete_old(&answer)),
        }
    }

    /// Records that the old node is retired or gone. If the node is gone, all other nodes have to record the new server,
    /// and the call stops at the first node that does not. If the node is retired, its fingerprint names one server, and
    /// the record of one node excludes every call that was told later that the node is gone.
    async fn record_retired(&mut self, is_needed_on_all: bool) -> Result<(), AdminError> {
        let is_needed_on_all = mutation::altered(Mutation::RecordGoneOnOne, is_needed_on_all, |_| false);
        let (pair, id) = (&self.replacing.pair, &self.id);
        let opens = self.opens;
        let (mut is_recorded, mut first_error) = (false, None);
        for other in self.others.iter_mut().filter(|other| other.reply.is_none()) {
            let retire = |record: &ReplacementRecord| record.retire(pair, id, opens);
            match self.replacing.change_record(self.replacing.after, other.index, retire).await {
                Ok(record) => {
                    other.record = Some(record);
                    is_recorded = true;
                }
                Err(error) if is_needed_on_all => return Err(error.into()),
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        match first_error {
            Some(error) if !is_recorded => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Opens the new server, which this attempt has closed. Returns false if the server does not show afterwards that a call
    /// has opened it: the server has lost its data while it was closed, and a client has registered it.
    async fn open_new(&mut self) -> Result<bool, AdminError> {
        let replacing = self.replacing;
        let Replacing { ours, pair, after, .. } = replacing;
        let NewServer::Joining(joining) = &self.new else { return Ok(true) };
        let records = self.others.iter().filter_map(|other| other.record.as_ref());
        let record = ReplacementRecord::of_opened(pair, records).to_string().into();
        let record = Some(RecordStep::Writes(record));
        let open = Reconfigure { from: joining.clone(), to: ours.clone(), record };
        let opened = replacing.change_new([Operation::Reconfigure(open)]).await;
        opened.map_err(|error| replacing.after_retirement(error))?;
        match replacing.ask(after, reading()).await {
            Answer::Recorded { text } => {
                let is_opened = ReplacementRecord::read(&text).is_ended(pair);
                self.new = NewServer::Opened(text);
                Ok(is_opened)
            }
            answer => Err(replacing.after_retirement(replacing.incomplete(Some(&answer)))),
        }
    }

    /// Waits until the new server votes. A server that restarts in the meantime begins its quarantine again. Returns whether
    /// another attempt is needed: the old node may vote again, because it was not gone or has lost the mark of its
    /// retirement, or the new server has lost its opening.
    async fn wait_until_new_votes(&mut self) -> Result<bool, AdminError> {
        let replacing = self.replacing;
        let after = replacing.after;
        let connect_timeout = after.settings.connect_timeout;
        loop {
            let answer = replacing.ask_until_answered(after, connect_timeout, register(after)).await;
            match &answer {
                Answer::Registered(Registration { quarantine: None, .. }) => {
                    match replacing.ask_until_answered(after, connect_timeout, reading()).await {
                        // A server that has lost its data since its opening has no record, and begins again.
                        Answer::Recorded { text } => {
                            return Ok(!ReplacementRecord::read(&text).is_ended(&replacing.pair));
                        }
                        // Another call has closed the server, or the server was flushed. The registration shows it.
                        Answer::WrongQuorum { .. } | Answer::Abstains(_) => {}
                        answer => {
                            return Err(replacing.after_retirement(replacing.incomplete(Some(&answer))));
                        }
                    }
                }
                Answer::Registered(Registration { quarantine: Some(rest), .. }) => {
                    let end = after.now() + (*rest).clamp(RETRY_DELAY, WATCH_INTERVAL);
                    if replacing.has_old_returned(self.old, end).await {
                        return Ok(true);
                    }
                }
                // The server has restarted with data from before its opening.
                Answer::WrongQuorum { fingerprint } if *fingerprint == self.joining() => {
                    self.new = NewServer::Joining(fingerprint.clone());
                    return Ok(true);
                }
                Answer::WrongQuorum { fingerprint } if fingerprint.is_joining(&replacing.ours) => {
                    return Err(replacing.excluded(Conflict::Superseded));
                }
                answer => return Err(replacing.after_retirement(replacing.incomplete(Some(answer)))),
            }
        }
    }

    /// Records on each other node that the new server votes. A node that does not answer may miss this.
    async fn record_done(&self) -> Result<(), AdminError> {
        let Replacing { after, ref pair, .. } = *self.replacing;
        let mut recorded = Ok(());
        for other in self.others.iter().filter(|other| other.reply.is_none()) {
            let complete = |record: &ReplacementRecord| record.complete(pair, &self.id, self.opens);
            if let Err(StepError::Excluded(error)) =
                self.replacing.change_record(after, other.index, complete).await
            {
                recorded = Err(error);
            }
        }
        recorded
    }
}
