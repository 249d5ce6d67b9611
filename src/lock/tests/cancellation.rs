//! The drop of futures of the public API, after each number of polls. No key may be left.

use std::{pin::pin, time::Duration};

use futures::{FutureExt, future::BoxFuture};

use super::{NONE, all_behave, client, locked_nodes, pass, thaw_all};
use crate::{LockGuard, MemoryCluster, Quorum, node::memory::Behaviour};

/// A call of the public API. Its arguments are a client, and a guard of the lock `own` of that client.
type Call = fn(Quorum, LockGuard) -> BoxFuture<'static, ()>;

/// The calls, by name. Each future owns the argument that its call uses. The other argument is dropped before the first
/// poll. `shutdown` does not wait, since in-memory nodes have no undelivered unlocks.
const CALLS: [(&str, Call); 14] = [
    ("lock", |quorum, _guard| async move { drop(quorum.red_lock("free").lock().await) }.boxed()),
    ("lock of a held resource", |quorum, _guard| {
        async move { drop(quorum.red_lock("held").lock().await) }.boxed()
    }),
    ("try_lock", |quorum, _guard| async move { drop(quorum.red_lock("free").try_lock().await) }.boxed()),
    ("try_lock_for", |quorum, _guard| {
        async move { drop(quorum.red_lock("free").try_lock_for(Duration::from_millis(30)).await) }.boxed()
    }),
    ("force_unlock", |quorum, _guard| {
        async move { drop(crate::admin::force_unlock(&quorum, "free").await) }.boxed()
    }),
    ("inspect", |quorum, _guard| async move { drop(quorum.inspect("held").await) }.boxed()),
    ("run", |quorum, _guard| {
        async move {
            let lock = quorum.red_lock("free");
            drop(lock.run(async |_| pass(Duration::from_millis(10)).await).await)
        }
        .boxed()
    }),
    ("lock of a group", |quorum, _guard| {
        async move { drop(quorum.multi_lock(["free", "too"]).lock().await) }.boxed()
    }),
    ("lock by an owner that holds", |quorum, _guard| {
        let owner = crate::Owner::new();
        async move {
            let lock = quorum.red_lock("free").owned_by(&owner);
            let _outer = lock.lock().await;
            drop(lock.lock().await);
        }
        .boxed()
    }),
    ("unlock", |_quorum, guard| async move { drop(guard.unlock().await) }.boxed()),
    ("renew", |_quorum, guard| async move { drop(guard.renew().await) }.boxed()),
    ("verify", |_quorum, guard| async move { drop(guard.verify().await) }.boxed()),
    ("lost", |_quorum, guard| async move { drop(guard.lost().await) }.boxed()),
    ("shutdown", |quorum, _guard| async move { drop(quorum.shutdown().await) }.boxed()),
];

/// The limit of the number of polls before a drop. All calls end by then on five nodes, except `lost` and the lock of a
/// held resource.
const MAX_POLLS: usize = 60;

/// Makes one hanging node execute and answer the oldest request of this node. If no request is pending, sleeps for 7
/// ms.
async fn answer_one_request(cluster: &MemoryCluster) {
    if !cluster.servers().iter().any(|server| server.answer_next()) {
        pass(Duration::from_millis(7)).await;
    }
}

/// Polls the call at most `polls` times, drops the call, and checks that no key is left. Returns whether the call had
/// ended by itself before the drop.
async fn drop_after(polls: usize, name: &str, call: Call) -> bool {
    let cluster = MemoryCluster::new(5);
    let holder = client(&cluster);
    let holding = holder.red_lock("held").lock().await.unwrap();
    let quorum = client(&cluster);
    let guard = quorum.red_lock("own").lock().await.unwrap();
    all_behave(&cluster, &Behaviour::Hanging);
    let mut has_ended = false;
    {
        let mut future = pin!(call(quorum, guard));
        for _ in 0..polls {
            if futures::poll!(future.as_mut()).is_ready() {
                has_ended = true;
                break;
            }
            answer_one_request(&cluster).await;
        }
    }
    thaw_all(&cluster);
    drop(holding);
    assert_eq!(locked_nodes(&cluster), NONE, "{name} dropped after {polls} polls");
    pass(Duration::from_secs(120)).await;
    assert_eq!(locked_nodes(&cluster), NONE, "two minutes after {name} was dropped after {polls} polls");
    has_ended
}

/// Each call is dropped after 0, 1, 2 ... polls, until the call ends by itself.
#[tokio::test(start_paused = true)]
async fn a_dropped_public_future_leaves_no_key_on_any_node() {
    for (name, call) in CALLS {
        let mut most_polls_pending = 0;
        for polls in 0..MAX_POLLS {
            if drop_after(polls, name, call).await {
                break;
            }
            most_polls_pending = polls;
        }
        assert!(
            most_polls_pending > 0 || name == "shutdown",
            "{name} never waited, so no drop during a wait was tested"
        );
    }
}
