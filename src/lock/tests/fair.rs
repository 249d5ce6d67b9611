//! Waiting in the queue.

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

/// Locks in the background.
fn wait(quorum: &Quorum) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = quorum.red_lock(R);
    tokio::spawn(async move { lock.lock().await })
}

/// Lets all tasks proceed, in a short time.
async fn settle() {
    pass(Duration::from_millis(5)).await;
}

/// Lets a waiter and all other tasks proceed.
async fn keeps_waiting(waiting: &mut (impl Future + Unpin)) {
    tokio::select! {
        biased;
        _ = waiting => panic!("it has the lock"),
        () = settle() => {}
    }
}

/// Returns the length of the wait queue at each node.
fn queued(cluster: &MemoryCluster) -> Vec<usize> {
    cluster.servers().iter().map(|server| server.waiters(R)).collect()
}

fn total(cluster: &MemoryCluster) -> usize {
    queued(cluster).iter().sum()
}

/// The requests to lock or for a turn that the nodes have executed since the last time.
fn attempts(cluster: &MemoryCluster) -> Vec<usize> {
    let is_attempt = |operation: &Operation| matches!(operation, Operation::Lock(_) | Operation::Enqueue(_));
    let of_server = |server: &Arc<MemoryServer>| {
        server.take_log().iter().filter(|operation| is_attempt(operation)).count()
    };
    cluster.servers().iter().map(of_server).collect()
}

#[tokio::test(start_paused = true)]
async fn a_lock_of_a_free_resource_leaves_no_queue_entry() {
    let cluster = MemoryCluster::new(5);
    let quorum = client(&cluster);
    let guard = quorum.red_lock(R).lock().await.unwrap();
    assert_eq!(total(&cluster), 0);
    guard.unlock().await.unwrap();
    drop(quorum.red_lock(R).try_lock().await.unwrap().expect("nobody holds it"));
}

#[tokio::test(start_paused = true)]
async fn clients_are_served_in_the_order_in_which_they_came() {
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
        assert_eq!(total(&cluster), number + 1);
    }
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    for task in tasks {
        task.await.unwrap();
    }
    assert!(order.lock().unwrap().iter().copied().eq(0..10));
    assert_eq!((total(&cluster), start.elapsed()), (0, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn a_release_moves_one_waiter_and_no_other() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let clients: Vec<Quorum> = (0..20).map(|_| client(&cluster)).collect();
    let mut waiting = Vec::new();
    for client in &clients {
        waiting.push(wait(client));
        settle().await;
    }
    attempts(&cluster);
    guard.unlock().await.unwrap();
    settle().await;
    assert_eq!(attempts(&cluster), [1; 5]);
    assert_eq!(waiting.iter().filter(|task| task.is_finished()).count(), 1);
    waiting.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_gives_up_leaves_the_queue_and_the_next_is_woken() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let (first, second) = (client(&cluster), client(&cluster));
    let lock = first.red_lock(R);
    let waiting = lock.try_lock_for(Duration::from_secs(1));
    let meanwhile = async {
        settle().await;
        let waiting = [wait(&second)];
        settle().await;
        assert_eq!(total(&cluster), 2);
        waiting
    };
    let (outcome, [second]) = tokio::join!(waiting, meanwhile);
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    settle().await;
    assert_eq!(total(&cluster), 1);
    guard.unlock().await.unwrap();
    drop(second.await.unwrap().unwrap());
}

/// Dropped between the wake and the attempt that it asks for: nothing else would wake the next for
/// a while.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_woken_and_gives_up_wakes_the_next() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let first = client(&cluster);
    let lock = first.red_lock(R);
    let mut waiting = Box::pin(lock.lock());
    keeps_waiting(&mut waiting).await;
    let second = wait(&client(&cluster));
    settle().await;
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    drop(waiting);
    drop(second.await.unwrap().unwrap());
    assert!(start.elapsed() < Duration::from_millis(10), "{:?}", start.elapsed());
    assert_eq!(total(&cluster), 0);
}

/// Dropped when the queue node has voted for it: the vote is given back, and that wakes nobody by
/// itself.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_has_the_vote_of_the_queue_node_and_gives_up_wakes_the_next() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let first = client(&cluster);
    let lock = first.red_lock(R);
    let mut waiting = Box::pin(lock.lock());
    keeps_waiting(&mut waiting).await;
    let second = wait(&client(&cluster));
    settle().await;
    let queue_node = queued(&cluster).iter().position(|waiters| *waiters > 0).unwrap();
    for node in (0..5).filter(|node| *node != queue_node) {
        server(&cluster, node).behave(Behaviour::Hanging);
    }
    drop(guard);
    keeps_waiting(&mut waiting).await;
    assert_eq!(queued(&cluster)[queue_node], 1, "the first has the queue node's vote");
    let start = tokio::time::Instant::now();
    drop(waiting);
    settle().await;
    thaw_all(&cluster);
    drop(second.await.unwrap().unwrap());
    assert!(start.elapsed() < Duration::from_millis(50), "{:?}", start.elapsed());
    assert_eq!(total(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_more_tasks_goes_to_the_end_of_the_queue_after_each_of_them() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let [many, one] = [client(&cluster), client(&cluster)];
    let mut tasks = Vec::new();
    for (name, quorum) in [("many", &many), ("many", &many), ("many", &many), ("one", &one)] {
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
    assert_eq!(*order.lock().unwrap(), ["many", "one", "many", "many"]);
    assert_eq!(total(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn try_lock_yields_to_waiters_and_enters_no_queue() {
    let cluster = MemoryCluster::new(3);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let other = client(&cluster);
    assert!(other.red_lock(R).try_lock().await.unwrap().is_none());
    assert_eq!(total(&cluster), 0);
    drop(guard);
    drop(other.red_lock(R).try_lock().await.unwrap().expect("nobody holds it"));
}

/// Each client of its own: what only one of them would do for all, it does not do.
#[tokio::test(start_paused = true)]
async fn a_shutdown_leaves_the_queue() {
    let cluster = MemoryCluster::new(3);
    let _guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let quorum = client(&cluster);
    let waiting = wait(&quorum);
    settle().await;
    assert_eq!(total(&cluster), 1);
    quorum.shutdown().await;
    assert!(matches!(waiting.await.unwrap(), Err(Error::Closed(ClosedReason::ShutDown))));
    assert_eq!(total(&cluster), 0);
}

/// Whichever node is the queue node: when it fails, the next one does.
#[tokio::test(start_paused = true)]
async fn a_node_that_fails_hands_the_queue_to_the_next() {
    for failing in 0..5 {
        let cluster = MemoryCluster::new(5);
        server(&cluster, failing).behave(Behaviour::Failing(NodeError::OutOfMemory));
        let guard = client(&cluster).red_lock(R).lock().await.unwrap();
        let waiting = wait(&client(&cluster));
        settle().await;
        assert_eq!(total(&cluster), 1);
        guard.unlock().await.unwrap();
        settle().await;
        assert!(waiting.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_waits_in_the_queue_of_the_resource_that_refused_it() {
    let cluster = MemoryCluster::new(5);
    let holder = client(&cluster);
    let guard = holder.red_lock("s").lock().await.unwrap();
    let group = client(&cluster).multi_lock(["s", R]);
    let waiting = tokio::spawn(async move { group.lock().await.map(drop) });
    settle().await;
    let queued = |name| cluster.servers().iter().map(|server| server.waiters(name)).sum::<usize>();
    assert_eq!((queued("s"), queued(R)), (1, 0));
    drop(client(&cluster).red_lock(R).try_lock().await.unwrap().expect("nobody waits for it"));
    let start = tokio::time::Instant::now();
    guard.unlock().await.unwrap();
    waiting.await.unwrap().unwrap();
    assert_eq!((start.elapsed(), queued("s")), (Duration::ZERO, 0));
}

/// The queue node belongs to a bare quorum.
#[tokio::test(start_paused = true)]
async fn a_lease_with_waiters_is_renewed_by_a_bare_quorum() {
    let cluster = MemoryCluster::new(5);
    let guard = client(&cluster).red_lock(R).lock().await.unwrap();
    let waiting = wait(&client(&cluster));
    settle().await;
    let queue_node = queued(&cluster).iter().position(|waiters| *waiters > 0).unwrap();
    for node in (0..5).filter(|node| *node != queue_node).take(2) {
        server(&cluster, node).behave(Behaviour::Hanging);
    }
    pass(Duration::from_secs(120)).await;
    guard.ensure().unwrap();
    assert!(guard.verify().await.is_ok());
    waiting.abort();
}
