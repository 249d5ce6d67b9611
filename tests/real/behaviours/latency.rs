//! What a node that hangs costs.

use std::time::{Duration, Instant};

use redquorum::RedLock;

use super::{SOON, TTL, client, unlocked_everywhere};
use crate::support::{Cluster, eventually};

/// Healthy and hung are measured by turns, so that what else the machine does meets both alike.
const TURNS: usize = 6;
const ROUNDS: usize = 60;
/// That of a long ttl: whoever waits for a hung node waits for so long.
const NODE_TIMEOUT: Duration = Duration::from_secs(1);
/// One node of five does not decide, so it should cost nothing; this leaves room for noise.
const MOST: f64 = 1.5;

/// Row O: nobody waits for a node that does not decide.
#[tokio::test]
async fn a_hung_node_of_five_does_not_change_the_latency_of_lock_and_unlock() {
    let cluster = Cluster::start(5).await;
    let quorum = client(&cluster).await;
    let lock = quorum.red_lock("r").ttl(TTL);
    lock_and_unlock(&lock).await;
    let (mut healthy, mut hung) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        let all_five = async || lock_all_five(&lock).await;
        eventually(SOON, "all five nodes vote", all_five).await;
        healthy.extend(lock_and_unlock(&lock).await);
        cluster.server(2).freeze().await;
        hung.extend(lock_and_unlock(&lock).await);
        cluster.server(2).thaw().await;
    }
    let longest = *hung.iter().max().unwrap();
    let (healthy, hung) = (median(healthy), median(hung));
    let ratio = hung.as_secs_f64() / healthy.as_secs_f64();
    eprintln!("lock and unlock: healthy {healthy:?}, one hung {hung:?}, ratio {ratio:.2}");
    assert!(ratio <= MOST, "healthy {healthy:?}, one of five hung {hung:?}");
    assert!(longest < NODE_TIMEOUT / 2, "the hung node was waited for: {longest:?}");
    unlocked_everywhere(&cluster, "r").await;
}

async fn lock_all_five(lock: &RedLock) -> bool {
    let guard = lock.lock().await.unwrap();
    // Every node is asked, and answers before the renewal is through or not at all.
    let is_renewed = guard.renew().await.is_ok();
    let votes = guard.votes().granted();
    guard.unlock().await.unwrap();
    is_renewed && votes == 5
}

async fn lock_and_unlock(lock: &RedLock) -> Vec<Duration> {
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(begin.elapsed());
    }
    took
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}
