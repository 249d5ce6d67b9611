//! The list of all locks and latches.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use futures::{FutureExt, StreamExt, future::join_all, stream};

#[cfg(feature = "__command")]
use crate::quorum::QuorumBuilder;
use crate::{
    client::{
        broadcast::{collect_with_times, send_inspect_with_details_to, send_to},
        context::ClientContext,
        fanout::FanoutEvent,
    },
    clock::Instant,
    error::{Error, Goal, NoQuorum},
    lock::{
        NodeInspection,
        inspection::{Inspection, by_node},
    },
    node::{Answer, List, Operation, names},
    quorum::Quorum,
    values::{NodeError, NodeReply, Resource},
};

/// The largest number of resources that are inspected at the same time.
const MAX_CONCURRENT: usize = 64;

/// All locks and latches that nodes list, from [`admin::list`](crate::admin::list).
///
/// The list describes the locks and latches at the time of the answers, and may be out of date on return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    locks: Vec<(LockName, Inspection)>,
    latches: Vec<(LockName, Inspection)>,
    silent: BTreeMap<Arc<str>, NodeError>,
}

/// The kind of lock or latch that a key on a node belongs to, with its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum LockName {
    /// A resource of a lock, an election, or readers and writers.
    Resource(Resource),
    /// A slot of a semaphore. A lease on the slot is a permit.
    #[non_exhaustive]
    Slot {
        /// The semaphore.
        semaphore: Resource,
        /// The number of the slot, from 0.
        slot: usize,
    },
    /// The lock of a semaphore by which clients that acquire several permits take turns.
    #[non_exhaustive]
    MultiPermit {
        /// The semaphore.
        semaphore: Resource,
    },
    /// The lock of the release watcher: the one client that listens for the release of all slots of a semaphore, or of
    /// all resources of an [`AnyOf`](crate::AnyOf).
    #[non_exhaustive]
    ReleaseWatcher {
        /// The semaphore, or the first resource of the `AnyOf` in the order of the names.
        name: Resource,
        /// The number of slots or resources. Clients with different numbers have different release watchers.
        candidates: usize,
    },
    /// A latch, which is no lock, and has no holder.
    #[non_exhaustive]
    Latch {
        /// The name of the latch.
        name: Resource,
    },
}

impl LockName {
    /// Returns the name of the lock or latch with this key.
    fn of_key(key: Resource) -> Self {
        if let Some((semaphore, index)) = names::read_slot(&key) {
            return Self::Slot { semaphore, slot: index as usize };
        }
        if let Some((name, candidates)) = names::read_release_watcher(&key) {
            return Self::ReleaseWatcher { name, candidates };
        }
        if let Some(name) = names::read_latch(&key) {
            return Self::Latch { name };
        }
        names::read_multi_permit(&key)
            .map_or(Self::Resource(key), |semaphore| Self::MultiPermit { semaphore })
    }

    /// Returns the name of the resource, semaphore or latch; for an `AnyOf`, the name of its first resource.
    #[must_use]
    pub fn name(&self) -> &Resource {
        match self {
            Self::Resource(name)
            | Self::Slot { semaphore: name, .. }
            | Self::MultiPermit { semaphore: name }
            | Self::ReleaseWatcher { name, .. }
            | Self::Latch { name } => name,
        }
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) => name.fmt(f),
            Self::Slot { semaphore, slot } => write!(f, "slot {slot} of {semaphore}"),
            Self::MultiPermit { semaphore } => write!(f, "multi-permit lock of {semaphore}"),
            Self::ReleaseWatcher { name, candidates } => {
                write!(f, "release watcher of {name} ({candidates} candidates)")
            }
            Self::Latch { name } => write!(f, "latch {name}"),
        }
    }
}

/// Returns all locks and latches for which `is_wanted` returns true. The call gets the names of all locks and latches
/// from every node, and then inspects each wanted one like [`Quorum::inspect`].
///
/// A node goes through all of its keys by `SCAN`, in steps of about a hundred keys, so the Redis user needs [that
/// permission](crate::error::NodeError::ScanForbidden). Each step may take a node timeout. The list contains every
/// wanted lock that an answering node has during the whole call. A lock that is acquired or unlocked during the call
/// may be missing.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::{Quorum, admin};
///
/// let quorum = Quorum::in_memory(5)?;
/// let guard = quorum.red_lock("invoice:42").lock().await?;
/// let listing = admin::list(&quorum, |lock| lock.name().as_bytes().starts_with(b"invoice:")).await?;
/// for (name, inspection) in listing.locks() {
///     println!("{name} is held by {:?}", inspection.holder());
/// }
/// # assert_eq!(listing.locks().next().unwrap().1.holder(), Some(guard.id()));
/// # guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// [`Error::NoQuorum`] if fewer nodes than a quorum listed all of their locks; [`Error::Closed`].
///
/// # Cancel safety
///
/// Dropping the future has no effect on the nodes.
pub async fn list(quorum: &Quorum, is_wanted: impl Fn(&LockName) -> bool) -> Result<Listing, Error> {
    let context = &*quorum.client().context;
    context.ensure_open()?;
    list_with(context, context.settings.electorate.needed(), is_wanted).await
}

/// Returns the locks like [`list`], as far as the nodes that answer have them, even if these nodes are no quorum. No
/// client of the quorum needs to be connected.
///
/// # Errors
///
/// [`Error::NoQuorum`] if no node listed all of its locks; [`Error::Config`] if the settings are invalid.
#[cfg(feature = "__command")]
pub async fn list_answering(
    quorum: &QuorumBuilder,
    is_wanted: impl Fn(&LockName) -> bool,
) -> Result<Listing, Error> {
    list_with(&quorum.start_to_change()?.context, 1, is_wanted).await
}

/// Returns the locks of the nodes that answer, which have to be at least `needed` nodes.
async fn list_with(
    context: &ClientContext,
    needed: usize,
    is_wanted: impl Fn(&LockName) -> bool,
) -> Result<Listing, Error> {
    let scanning = join_all((0..context.nodes.len()).map(|node| scan(context, node)));
    let scans = context.in_process(scanning.map(Ok)).await?;
    let mut silent = BTreeMap::new();
    for (node, (_, error)) in context.nodes.iter().zip(&scans) {
        silent.extend(error.clone().map(|error| (Arc::clone(node.address()), error)));
    }
    let reply = |error: &Option<NodeError>| error.clone().map_or(NodeReply::Done, NodeReply::Failed);
    let replies = context.replies(scans.iter().map(|(_, error)| reply(error)));
    if replies.done() < needed {
        return Err(context.no_quorum(NoQuorum::new(Goal::List, replies)));
    }
    let (keys, errors): (Vec<_>, Vec<_>) = scans.into_iter().unzip();
    let names = merged(&keys).into_iter().filter(|(name, _)| is_wanted(name));
    let inspections =
        names.map(|(name, key)| inspect_listed(context, &errors, name, key)).collect::<Vec<_>>();
    let inspecting = stream::iter(inspections).buffered(MAX_CONCURRENT).collect::<Vec<_>>();
    let locks = context.in_process(inspecting.map(Ok)).await?;
    // The nodes of a closed client do not answer, and a lock without answers would be missing in the list.
    context.ensure_running()?;
    for node in locks.iter().flat_map(|(_, _, inspection)| inspection.nodes()) {
        if let Err(error) = node.holder() {
            silent.entry(node.address().into()).or_insert_with(|| error.clone());
        }
    }
    let locks = locks.into_iter().filter(|(name, key, inspection)| may_exist(name, key, inspection, &keys));
    let locks = locks.map(|(name, _, inspection)| (name, inspection));
    let (latches, locks) = locks.partition(|(name, _)| matches!(name, LockName::Latch { .. }));
    Ok(Listing { locks, latches, silent })
}

/// Returns the keys that the nodes have listed, each once, in the order of the names.
fn merged(keys: &[BTreeSet<Resource>]) -> BTreeSet<(LockName, Resource)> {
    // The key distinguishes release watchers of the same name. Two sets of resources have such watchers if their first
    // resource and number of resources are the same.
    keys.iter().flatten().map(|key| (LockName::of_key(key.clone()), key.clone())).collect()
}

/// Whether a node has the listed lock or latch, or a node that listed it did not answer the inspection. Otherwise the
/// lock was unlocked, or the latch was deleted, after it was listed.
fn may_exist(
    name: &LockName,
    key: &Resource,
    inspection: &Inspection,
    listed: &[BTreeSet<Resource>],
) -> bool {
    let is_latch = matches!(name, LockName::Latch { .. });
    let exists = |node: &NodeInspection| if is_latch { node.arrivals().is_some() } else { node.is_held() };
    let mut nodes = inspection.nodes().zip(listed);
    nodes.any(|(node, listed)| exists(node) || (node.holder().is_err() && listed.contains(key)))
}

/// Returns all keys that a node lists step by step, and the error if one ended the list early.
async fn scan(context: &ClientContext, node: usize) -> (BTreeSet<Resource>, Option<NodeError>) {
    let (mut keys, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let deadline = deadline(context);
        let mut fanout = send_to(context, [node], Operation::List(List { cursor }), deadline);
        let answer = match fanout.next(&*context.clock, deadline).await {
            FanoutEvent::Answer { answer, .. } => answer,
            FanoutEvent::DeadlineReached => Answer::Error(NodeError::TimedOut),
        };
        match answer {
            Answer::Listed(listed) => {
                keys.extend(listed.resources);
                cursor = listed.cursor;
            }
            Answer::Error(error) => return (keys, Some(error)),
            other => {
                return (keys, Some(NodeError::Protocol(format!("{other:?} is no list").into())));
            }
        }
        if cursor == 0 {
            return (keys, None);
        }
    }
}

/// Inspects a resource at the nodes that listed all of their keys. For each remaining node, the answer is the error of
/// its list.
async fn inspect_listed(
    context: &ClientContext,
    errors: &[Option<NodeError>],
    name: LockName,
    key: Resource,
) -> (LockName, Resource, Inspection) {
    let (start, deadline) = (context.now(), deadline(context));
    let listed = errors.iter().enumerate().filter(|(_, error)| error.is_none()).map(|(node, _)| node);
    let resource = if let LockName::Latch { name } = &name { name } else { &key };
    let fanout = send_inspect_with_details_to(context, listed, resource, deadline);
    let mut answers = collect_with_times(context, fanout, deadline).await;
    for ((answer, _), error) in answers.iter_mut().zip(errors) {
        if let Some(error) = error {
            *answer = Answer::Error(error.clone());
        }
    }
    let needed = context.settings.electorate.needed();
    (name, key, Inspection::new(by_node(context, start, answers), needed))
}

fn deadline(context: &ClientContext) -> Instant {
    let settings = &context.settings;
    context.now() + settings.node_timeout_for(settings.ttl)
}

impl Listing {
    /// Returns the locks that at least one node has, in the order of the names. [`Inspection::state`] shows whether a
    /// quorum has the lock. A lock is also listed if a node with the key did not answer the inspection. Such a lock may
    /// have no holder on any node that answered.
    pub fn locks(&self) -> impl Iterator<Item = (&LockName, &Inspection)> {
        self.locks.iter().map(|(name, inspection)| (name, inspection))
    }

    /// Returns the latches of which at least one node has a record, in the order of the names, with the inspections of
    /// these names. [`Inspection::latch`] has the state of the latch. If a node with a record did not answer the
    /// inspection, and no other node has a record, the inspection has no latch.
    pub fn latches(&self) -> impl Iterator<Item = (&Resource, &Inspection)> {
        self.latches.iter().map(|(name, inspection)| (name.name(), inspection))
    }

    /// Returns the addresses and errors of the nodes that did not list all of their keys, or did not answer an
    /// inspection.
    pub fn silent(&self) -> impl Iterator<Item = (&str, &NodeError)> {
        self.silent.iter().map(|(node, error)| (&**node, error))
    }
}
