//! The keys that a benchmark leaves on nodes, and their deletion.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use redquorum::{__command::connectors, LockGuard, error::NodeReply, unstable_redis::redis::cmd};

use crate::{connect::NodeConnection, settings::Settings, stopwatch};

/// The number of keys per DEL. The number is small, so that a command does not occupy a server for long.
const KEYS_PER_COMMAND: usize = 500;

/// The names of the tombstones that nodes may have. A name is removed when its tombstone must have expired.
///
/// An unlock leaves a tombstone on a node that was sent the lock, did not answer, and has no key. Few unlocks do so,
/// and most of the recorded tombstones do not exist.
#[derive(Debug)]
pub(crate) struct Residue {
    tombstone_ttl: Duration,
    tombstones: VecDeque<(Instant, Tombstone)>,
}

/// The tombstone of a lease on a resource.
#[derive(Debug)]
struct Tombstone {
    resource: String,
    lease_id: String,
}

impl Residue {
    /// Creates an empty list for tombstones with this ttl.
    pub(crate) fn new(tombstone_ttl: Duration) -> Self {
        Self { tombstone_ttl, tombstones: VecDeque::new() }
    }

    /// Records the tombstone that the unlock of this guard may leave on a node.
    pub(crate) fn record(&mut self, resource: &str, guard: &LockGuard) {
        if guard.node_replies().iter().all(|(_, reply)| *reply == NodeReply::Done) {
            return;
        }
        let now = stopwatch::now();
        while self.tombstones.front().is_some_and(|(at, _)| now.duration_since(*at) > self.tombstone_ttl) {
            self.tombstones.pop_front();
        }
        let tombstone = Tombstone { resource: resource.to_owned(), lease_id: guard.id().to_string() };
        self.tombstones.push_back((now, tombstone));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.tombstones.extend(other.tombstones);
    }

    /// Deletes the tombstones, and the fencing counters of the resources. Keys on an unreachable node
    /// end by their ttl.
    pub(crate) async fn delete(self, settings: &Settings, resources: &[String]) {
        let nodes = connectors(&settings.builder()).unwrap_or_default();
        for node in &nodes {
            let Ok(mut connection) = NodeConnection::open(node, settings.effective.connect_timeout).await
            else {
                continue;
            };
            // In a Redis Cluster, the names are in one slot, so one command may have several names.
            let braced = |resource: &str| braced(resource, connection.hash_tag());
            let counters =
                resources.iter().map(|resource| format!("redisson_lock_token:{}", braced(resource)));
            let tombstones = self.tombstones.iter().map(|(_, Tombstone { resource, lease_id })| {
                format!("redquorum:tombstone:{}:{lease_id}", braced(resource))
            });
            let names: Vec<String> = counters.chain(tombstones).collect();
            for names in names.chunks(KEYS_PER_COMMAND) {
                if connection.query::<i64>(cmd("DEL").arg(names)).await.is_err() {
                    break;
                }
            }
        }
    }
}

/// Returns the resource in the braces of derived keys, or behind the hash tag of a node in a Redis Cluster.
fn braced(resource: &str, hash_tag: Option<&str>) -> String {
    match hash_tag {
        Some(tag) => format!("{tag}{resource}"),
        None if resource.contains('{') => resource.to_owned(),
        None => format!("{{{resource}}}"),
    }
}
