//! What a benchmark leaves on nodes, and how it is deleted.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use redquorum::{__command::connectors, LockGuard, error::NodeReply, unstable_redis::redis::cmd};

use crate::{connect::NodeConnection, settings::Settings, stopwatch};

/// How many keys one command deletes, so that none keeps a server for long.
const AT_ONCE: usize = 500;

/// Tombstones that nodes may have. They end by themselves after a while, and are forgotten here as
/// well.
///
/// An unlock leaves one where it finds no key though the node was sent the lock and has not
/// answered it: rarely, so that most of these names are of none.
#[derive(Debug)]
pub(crate) struct Residue {
    lasts: Duration,
    tombstones: VecDeque<(Instant, String)>,
}

impl Residue {
    /// Of tombstones that last so long.
    pub(crate) fn new(lasts: Duration) -> Self {
        Self { lasts, tombstones: VecDeque::new() }
    }

    /// Notes what the unlock of this guard may leave.
    pub(crate) fn note(&mut self, resource: &str, guard: &LockGuard) {
        if guard.node_replies().iter().all(|(_, reply)| *reply == NodeReply::Done) {
            return;
        }
        let now = stopwatch::now();
        while self.tombstones.front().is_some_and(|(at, _)| now.duration_since(*at) > self.lasts) {
            self.tombstones.pop_front();
        }
        let name = format!("redquorum:gone:{}:{}", braced(resource), guard.id());
        self.tombstones.push_back((now, name));
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.tombstones.extend(other.tombstones);
    }

    /// Deletes these, and the fencing counters of these resources. What is on a node that is not
    /// reached ends by itself.
    pub(crate) async fn delete(self, settings: &Settings, resources: &[String]) {
        let counters = resources.iter().map(|resource| format!("redisson_lock_token:{}", braced(resource)));
        let names: Vec<String> = counters.chain(self.tombstones.into_iter().map(|(_, name)| name)).collect();
        let nodes = connectors(&settings.builder()).unwrap_or_default();
        for node in &nodes {
            let Ok(mut connection) = NodeConnection::open(node, settings.effective.connect_timeout).await
            else {
                continue;
            };
            for names in names.chunks(AT_ONCE) {
                if connection.ask::<i64>(cmd("DEL").arg(names)).await.is_err() {
                    break;
                }
            }
        }
    }
}

/// As names that are derived from a resource have it.
fn braced(resource: &str) -> String {
    if resource.contains('{') { resource.to_owned() } else { format!("{{{resource}}}") }
}
