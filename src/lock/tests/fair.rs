//! The wait queue: its order, its wakes, and waiters that leave the queue.

use std::{sync::Mutex, time::Duration};

use super::*;
use crate::{
    LockGuard, Quorum,
    error::ClosedReason,
    error::{Error, NodeError},
    node::Operation,
};
use tokio::task::JoinHandle;

const R: &str = "r";

/// Starts a task that locks `r`.
fn spawn_lock(quorum: &Quorum) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = quorum.red_lock(R);
    tokio::spawn(async move { lock.lock().await })
}

/// Sleeps for 5 ms, so that the other tasks run until they wait.
async fn settle() {
    pass(Duration::from_millis(5)).await;
}

/// Polls a waiting call for 5 ms, while the other tasks run. Panics if the call ends.
async fn poll_waiting(waiting: &mut (impl Future + Unpin)) {
    tokio::select! {
        biased;
        _ = waiting => panic!("the waiting call has ended"),
        () = settle() => {}
    }
}

/// Returns the length of the wait queue at each node.
fn queue_lengths(cluster: &MemoryCluster) -> Vec<usize> {
    cluster.servers().iter().map(|server| server.waiters(R)).collect()
}

fn total_waiters(cluster: &MemoryCluster) -> usize {
    queue_lengths(cluster).iter().sum()
}

/// Returns the number of `Lock` and `Enqueue` operations at each node since the last call of this function.
fn take_attempts(cluster: &MemoryCluster) -> Vec<usize> {
    let is_attempt = |operation: &Operation| matches!(operation, Operation::Lock(_) | Operation::Enqueue(_));
    let of_server = |server: &Arc<MemoryServer>| {
        server.take_log().iter().filter(|operation| is_attempt(operation)).count()
    };
    cluster.servers().iter().map(of_server).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_a_free_resource_makes_no_queue_entry() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let guard = quorum.red_lock(R).lock().await.unwrap();
    assert_eq!(total_waiters(&cluster), 0);
    guard.unlock().await.unwrap();
    drop(quorum.red_lock(R).try_lock().await.unwrap().expect("the resource is free"));
}

#[tokio::test(start_paused = true)]
async fn waiters_get_the_lock_in_order_of_arrival() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let (lock, order) = (client(&cluster).red_lock(R), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            order.lock().unwrap().push(number);
            guard.unlock().await.unwrap();
        }));
        settle().await;
        assert_eq!(total_waiters(&cluster), number + 1);
    }
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(order.lock().unwrap().iter().copied().eq(0..10));
    assert_eq!((total_waiters(&cluster), start.elapsed()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_release_wakes_only_the_first_waiter() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let clients: Vec<Quorum> = (0..20).map(|_| client(&cluster)).collect();
    let mut waiting = Vec::new();
    for client in &clients {
        waiting.push(spawn_lock(client));
        settle().await;
    }
    take_attempts(&cluster);
    guard.unlock().await.unwrap();
    settle().await;
    assert_eq!(take_attempts(&cluster), [1; 5]);
    assert_eq!(waiting.iter().filter(|task| task.is_finished()).count(), 1);
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_the_queue_and_the_next_waiter_is_woken() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let (first, second) = (client(&cluster), client(&cluster));
    let lock = first.red_lock(R);
    let waiting = lock.try_lock_for(Duration::from_secs(1));
    let meanwhile = async {
        settle().await;
        let waiting = [spawn_lock(&second)];
        settle().await;
        assert_eq!(total_waiters(&cluster), 2);
        waiting
    };
    let (outcome, [second]) = tokio::join!(waiting, meanwhile);
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    settle().await;
    assert_eq!(total_waiters(&cluster), 1);
    guard.unlock().await.unwrap();
    drop(second.await.unwrap().unwrap());
}

/// The first waiter is dropped after its wake and before its attempt. Only the removal of its queue entry can make the
/// queue node wake the next waiter soon.
#[tokio::test(start_paused = true)]
async fn the_next_waiter_is_woken_if_a_woken_waiter_gives_up() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let first = client(&cluster);
    let lock = first.red_lock(R);
    let mut waiting = Box::pin(lock.lock());
    poll_waiting(&mut waiting).await;
    let second = spawn_lock(&client(&cluster));
    settle().await;
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    drop(waiting);
    drop(second.await.unwrap().unwrap());
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    assert_eq!(total_waiters(&cluster), 0);
}

/// The first waiter is dropped after the queue node has voted for this waiter, and before the other nodes have voted.
/// No unlock of a lease follows, so the rollback has to wake the next waiter.
#[tokio::test(start_paused = true)]
async fn the_next_waiter_is_woken_if_a_waiter_with_one_vote_gives_up() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let first = client(&cluster);
    let lock = first.red_lock(R);
    let mut waiting = Box::pin(lock.lock());
    poll_waiting(&mut waiting).await;
    let second = spawn_lock(&client(&cluster));
    settle().await;
    let queue_node = queue_lengths(&cluster).iter().position(|waiters| *waiters > 0).unwrap();
    for node in (0..5).filter(|node| *node != queue_node) {
        server(&cluster, node).behave(Behaviour::Hanging);
    }
    drop(guard);
    poll_waiting(&mut waiting).await;
    assert_eq!(queue_lengths(&cluster)[queue_node], 1, "the first waiter has the queue node's vote");
    let start = tokio::time::Instant::now();
    drop(waiting);
    settle().await;
    thaw_all(&cluster);
    drop(second.await.unwrap().unwrap());
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
    assert_eq!(total_waiters(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_several_tasks_queues_again_at_the_end_after_each_lease() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let [several_tasks, one_task] = [(); 2].map(|()| client(&cluster));
    let mut tasks = Vec::new();
    for (name, quorum) in [
        ("several", &several_tasks),
        ("several", &several_tasks),
        ("several", &several_tasks),
        ("one", &one_task),
    ] {
        let (lock, order) = (quorum.red_lock(R), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            order.lock().unwrap().push(name);
            settle().await;
            guard.unlock().await.unwrap();
        }));
        settle().await;
    }
    guard.unlock().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), ["several", "one", "several", "several"]);
    assert_eq!(total_waiters(&cluster), 0);
}

/// The waiter is not polled between the unlock and the attempt of the newcomer, so no lease holds the resource at the
/// time of the attempt.
#[tokio::test(start_paused = true)]
async fn try_lock_yields_to_waiters_and_enters_no_queue() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let newcomer = client(&cluster).red_lock(R);
    assert!(newcomer.try_lock().await.unwrap().is_none());
    assert_eq!(total_waiters(&cluster), 0);
    let lock = client(&cluster).red_lock(R);
    let mut waiting = Box::pin(lock.lock());
    poll_waiting(&mut waiting).await;
    guard.unlock().await.unwrap();
    assert!(newcomer.try_lock().await.unwrap().is_none(), "the newcomer overtakes the waiter");
    assert_eq!(total_waiters(&cluster), 1);
    drop(waiting.await.unwrap());
    drop(newcomer.try_lock().await.unwrap().expect("the resource is free"));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_the_queue() {
    let cluster = MemoryCluster::new(3);
    let _guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let quorum = client(&cluster);
    let waiting = spawn_lock(&quorum);
    settle().await;
    assert_eq!(total_waiters(&cluster), 1);
    quorum.shutdown().await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown))));
    assert_eq!(total_waiters(&cluster), 0);
}

/// One node fails in each run, so the queue node fails in one of the runs.
#[tokio::test(start_paused = true)]
async fn waiters_use_the_next_queue_node_if_a_node_fails() {
    for failing in 0..5 {
        let cluster = MemoryCluster::new(5);
        server(&cluster, failing).behave(Behaviour::Failing(NodeError::OutOfMemory));
        let guard = client(&cluster).red_lock(R).lock().await.unwrap();
        let waiting = spawn_lock(&client(&cluster));
        settle().await;
        assert_eq!(total_waiters(&cluster), 1);
        guard.unlock().await.unwrap();
        settle().await;
        assert!(waiting.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_waits_only_in_the_queue_of_the_held_resource() {
    let cluster = MemoryCluster::new(5);
    let holder = client(&cluster);
    let guard = holder.red_lock("s").lock().await.unwrap();
    let group = client(&cluster).multi_lock(["s", R]);
    let waiting = tokio::spawn(async move { group.lock().await.map(drop) });
    settle().await;
    let waiters_for = |name| cluster.servers().iter().map(|server| server.waiters(name)).sum::<usize>();
    assert_eq!((waiters_for("s"), waiters_for(R)), (1, 0));
    drop(
        client(&cluster).red_lock(R).try_lock().await.unwrap().expect("no waiter is queued for the resource"),
    );
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!((start.elapsed(), waiters_for("s")), (Duration::ZERO, 0));
}

/// Two nodes hang. The remaining three nodes, among them the queue node, are exactly a quorum.
#[tokio::test(start_paused = true)]
async fn a_lease_with_waiters_is_renewed_by_the_smallest_quorum() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let waiting = spawn_lock(&client(&cluster));
    settle().await;
    let queue_node = queue_lengths(&cluster).iter().position(|waiters| *waiters > 0).unwrap();
    for node in (0..5).filter(|node| *node != queue_node).take(2) {
        server(&cluster, node).behave(Behaviour::Hanging);
    }
    pass(Duration::from_secs(120)).await;
    guard.ensure().unwrap();
    assert!(guard.verify().await.is_ok());
    waiting.abort();
}
