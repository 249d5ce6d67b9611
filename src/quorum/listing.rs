//! What is locked, asked without changing anything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use futures::{StreamExt, future::join_all, stream};

use crate::{
    client::{
        asking::{ask_some, ask_those, hear_with_times},
        environment::Environment,
        fanout::Heard,
    },
    clock::Instant,
    error::ListError,
    lock::{
        inspection::{Inspection, NodeHolder, by_node},
        node_inspection::NodeInspection,
    },
    node::{Answer, List, Operation, names},
    quorum::Quorum,
    values::{NodeError, Resource, Vote},
};

/// So many resources are asked about at once.
const AT_ONCE: usize = 64;

/// What is locked, from [`Quorum::list`].
///
/// It was so when the nodes answered; by the time it is read it may be otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    locks: Vec<ListedLock>,
    silent: BTreeMap<Arc<str>, NodeError>,
}

/// A lock that some node at least has, from [`Listing::locks`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedLock {
    name: LockName,
    inspection: Inspection,
}

/// What is locked, by the name that people gave it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LockName {
    /// A resource: of a lock, an election, or readers and writers.
    Resource(Resource),
    /// One slot of a semaphore: a permit.
    Slot {
        /// The semaphore.
        semaphore: Resource,
        /// Which slot, from 0.
        index: u32,
    },
    /// The turn to acquire several permits of a semaphore.
    Turn {
        /// The semaphore.
        semaphore: Resource,
    },
    /// The turn to look out for released slots of a semaphore, or for the others of an
    /// [`AnyOf`](crate::AnyOf).
    LookOut {
        /// The semaphore; of an `AnyOf`, the names of its resources, with commas between.
        name: Resource,
    },
}

impl LockName {
    fn read(key: Resource) -> Self {
        if let Some((semaphore, index)) = names::read_slot(&key) {
            return Self::Slot { semaphore, index };
        }
        if let Some(name) = names::read_look_out(&key) {
            return Self::LookOut { name };
        }
        names::read_many(&key).map_or(Self::Resource(key), |semaphore| Self::Turn { semaphore })
    }

    /// The resource's, or the semaphore's.
    #[must_use]
    pub fn name(&self) -> &Resource {
        match self {
            Self::Resource(name)
            | Self::Slot { semaphore: name, .. }
            | Self::Turn { semaphore: name }
            | Self::LookOut { name } => name,
        }
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(name) => name.fmt(f),
            Self::Slot { semaphore, index } => write!(f, "slot {index} of {semaphore}"),
            Self::Turn { semaphore } => write!(f, "turn at {semaphore}"),
            Self::LookOut { name } => write!(f, "look-out for {name}"),
        }
    }
}

impl Quorum {
    /// Asks every node what is locked there, and then about each resource that is wanted, as
    /// [`RedLock::inspect`](crate::RedLock::inspect) does.
    ///
    /// A node looks through all of its keys, in steps of about a hundred, by `SCAN`: the user needs
    /// [that permission](crate::error::NodeError::ScanForbidden). Each step is waited for as long as
    /// a node timeout. What is locked or unlocked meanwhile may be there or not; what is locked all
    /// the while, at a node that answers, is there.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let quorum = redquorum::Quorum::in_memory(5)?;
    /// let guard = quorum.red_lock("invoice:42").lock().await?;
    /// let listing = quorum.list(|what| what.name().as_bytes().starts_with(b"invoice:")).await?;
    /// for lock in listing.locks() {
    ///     println!("{} is held by {:?}", lock.name(), lock.inspection().owner());
    /// }
    /// # assert_eq!(listing.locks().next().unwrap().inspection().owner(), Some(guard.owner()));
    /// # guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ListError::NoQuorum`] if fewer nodes than a quorum told all that they know.
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn list(&self, is_wanted: impl Fn(&LockName) -> bool) -> Result<Listing, ListError> {
        let environment = &*self.client().environment;
        let scans = join_all((0..environment.nodes.len()).map(|node| scan(environment, node))).await;
        let needed = environment.settings.electorate.needed();
        let mut silent = BTreeMap::new();
        for (node, (_, error)) in environment.nodes.iter().zip(&scans) {
            silent.extend(error.clone().map(|error| (Arc::clone(node.address()), error)));
        }
        if environment.nodes.len() - silent.len() < needed {
            let vote = |error: &Option<NodeError>| error.clone().map_or(Vote::Granted, Vote::Unknown);
            let votes = environment.votes(scans.iter().map(|(_, error)| vote(error)));
            return Err(ListError::NoQuorum { needed, votes });
        }
        let errors: Vec<_> = scans.iter().map(|(_, error)| error.clone()).collect();
        let names = merged(scans.into_iter().map(|(keys, _)| keys)).filter(|(name, _)| is_wanted(name));
        let looks = names.map(|(name, key)| look(environment, &errors, name, key));
        let locks: Vec<_> = stream::iter(looks).buffered(AT_ONCE).collect().await;
        let locks: Vec<ListedLock> = locks.into_iter().filter(ListedLock::is_held_anywhere).collect();
        for node in locks.iter().flat_map(|lock| lock.inspection.nodes()) {
            if let NodeHolder::Unknown(error) = node.holder() {
                silent.entry(node.address().into()).or_insert_with(|| error.clone());
            }
        }
        Ok(Listing { locks, silent })
    }
}

/// Every key that any of the nodes has told, once, in the order of the names.
fn merged(keys: impl Iterator<Item = BTreeSet<Resource>>) -> impl Iterator<Item = (LockName, Resource)> {
    let named: BTreeMap<_, _> = keys.flatten().map(|key| (LockName::read(key.clone()), key)).collect();
    named.into_iter()
}

/// All that a node tells, step by step, and why it does not go on.
async fn scan(environment: &Environment, node: usize) -> (BTreeSet<Resource>, Option<NodeError>) {
    let (mut keys, mut cursor) = (BTreeSet::new(), 0);
    loop {
        let deadline = deadline(environment);
        let mut asked = ask_some(environment, [node], Operation::List(List { cursor }), deadline);
        let answer = match asked.next(&*environment.clock, deadline).await {
            Heard::Answer { answer, .. } => answer,
            Heard::Silence => Answer::Error(NodeError::TimedOut),
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

/// Asks those nodes about a resource that told all that they know. Of the others it is known why not.
async fn look(
    environment: &Environment,
    errors: &[Option<NodeError>],
    name: LockName,
    key: Resource,
) -> ListedLock {
    let (start, deadline) = (environment.now(), deadline(environment));
    let able = errors.iter().enumerate().filter(|(_, error)| error.is_none()).map(|(node, _)| node);
    let asked = ask_those(environment, able, &key, deadline);
    let mut heard = hear_with_times(environment, asked, deadline).await;
    for ((answer, _), error) in heard.iter_mut().zip(errors) {
        if let Some(error) = error {
            *answer = Answer::Error(error.clone());
        }
    }
    let needed = environment.settings.electorate.needed();
    ListedLock { name, inspection: Inspection::new(by_node(environment, start, heard), needed) }
}

fn deadline(environment: &Environment) -> Instant {
    let settings = &environment.settings;
    environment.now() + settings.node_timeout_for(settings.ttl)
}

impl Listing {
    /// What some node at least has, in the order of the names: also where no quorum has it, as
    /// [`Inspection::state`] tells.
    pub fn locks(&self) -> impl Iterator<Item = &ListedLock> {
        self.locks.iter()
    }

    /// The nodes that did not tell all that they know, by their addresses, and why.
    pub fn silent(&self) -> impl Iterator<Item = (&str, &NodeError)> {
        self.silent.iter().map(|(node, error)| (&**node, error))
    }
}

impl ListedLock {
    /// What is locked.
    #[must_use]
    pub fn name(&self) -> &LockName {
        &self.name
    }

    /// What the nodes say of it.
    #[must_use]
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// It may have been unlocked since it was listed.
    fn is_held_anywhere(&self) -> bool {
        let is_held = |node: &NodeInspection| matches!(node.holder(), NodeHolder::Held { .. });
        self.inspection.nodes().any(is_held)
    }
}
