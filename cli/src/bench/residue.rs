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
    tombstones: VecDeque<(Instant, String)>,
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
        let name = format!("redquorum:tombstone:{}:{}", braced(resource), guard.id());
        self.tombstones.push_back((now, name));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.tombstones.extend(other.tombstones);
    }

    /// Deletes the tombstones, and the fencing counters of the resources. Keys on an unreachable node
    /// end by their ttl.
    pub(crate) async fn delete(self, settings: &Settings, resources: &[String]) {
        let counters = resources.iter().map(|resource| format!("redisson_lock_token:{}", braced(resource)));
        let names: Vec<String> = counters.chain(self.tombstones.into_iter().map(|(_, name)| name)).collect();
        let nodes = connectors(&settings.builder()).unwrap_or_default();
        for node in &nodes {
            let Ok(mut connection) = NodeConnection::open(node, settings.effective.connect_timeout).await
            else {
                continue;
            };
            for names in names.chunks(KEYS_PER_COMMAND) {
                if connection.query::<i64>(cmd("DEL").arg(names)).await.is_err() {
                    break;
                }
            }
        }
    }
}

/// Returns the resource in the braces of derived keys.
fn braced(resource: &str) -> String {
    if resource.contains('{') { resource.to_owned() } else { format!("{{{resource}}}") }
}
