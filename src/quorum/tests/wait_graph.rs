//! The cycles of clients that wait for each other, on in-memory nodes in virtual time.

use std::time::Duration;

use futures::future::BoxFuture;

use crate::{
    MemoryCluster, Permit, Quorum, admin,
    lock::tests::{client, pass, server},
    node::memory::Behaviour,
    quorum::{AwaitedLock, WaitGraph, WaitStep},
};

/// A call that waits for a lock.
type Call = BoxFuture<'static, ()>;

/// Starts the calls, one after the other, and returns the cycles of one look: for each step, the index of the waiting
/// client and the lock.
async fn cycles_of(cluster: &MemoryCluster, clients: &[Quorum], calls: Vec<Call>) -> Vec<String> {
    let mut waiting = Vec::new();
    for call in calls {
        waiting.push(tokio::spawn(call));
        pass(Duration::from_secs(1)).await;
    }
    let graph = look(&client(cluster)).await;
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    shown(&graph, clients)
}

async fn look(quorum: &Quorum) -> WaitGraph {
    WaitGraph::new(&admin::list(quorum, |_| true).await.unwrap())
}

fn shown(graph: &WaitGraph, clients: &[Quorum]) -> Vec<String> {
    let index = |name: &str| {
        let is_named = |client: &Quorum| client.client().context.lease_ids.name() == name.as_bytes();
        clients.iter().position(is_named).unwrap()
    };
    let step = |step: &WaitStep| match &step.lock {
        AwaitedLock::Lock(name) => format!("{} {name}", index(&step.client())),
        AwaitedLock::Permit(semaphore) => format!("{} any {semaphore}", index(&step.client())),
    };
    let mut cycles: Vec<String> = graph
        .cycles()
        .iter()
        .map(|cycle| {
            let mut steps: Vec<String> = cycle.iter().map(step).collect();
            // The ids of clients are random, so the first client of a cycle is, too.
            let first = (0..steps.len()).min_by_key(|at| steps[*at].clone()).unwrap();
            steps.rotate_left(first);
            steps.join(", ")
        })
        .collect();
    cycles.sort();
    cycles
}

fn clients(cluster: &MemoryCluster, number: usize) -> Vec<Quorum> {
    (0..number).map(|_| client(cluster)).collect()
}

fn lock(quorum: &Quorum, name: &str) -> Call {
    let lock = quorum.red_lock(name);
    Box::pin(async move { drop(lock.lock().await) })
}

#[tokio::test(start_paused = true)]
async fn clients_that_wait_for_locks_of_each_other_are_a_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 4);
    let mut held = Vec::new();
    for (client, name) in clients.iter().zip(["a", "b", "c"]) {
        held.push(client.red_lock(name).lock().await.unwrap());
    }
    // The last client waits for a client of the cycle, and is no part of it.
    let calls =
        vec![lock(&clients[0], "b"), lock(&clients[1], "c"), lock(&clients[3], "a"), lock(&clients[2], "a")];
    assert_eq!(cycles_of(&cluster, &clients, calls).await, ["0 b, 1 c, 2 a"]);
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_waits_and_a_wait_for_the_own_lock_are_no_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 3);
    let _held =
        [clients[0].red_lock("a").lock().await.unwrap(), clients[1].red_lock("b").lock().await.unwrap()];
    let calls = vec![lock(&clients[0], "a"), lock(&clients[1], "a"), lock(&clients[2], "b")];
    assert_eq!(cycles_of(&cluster, &clients, calls).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn readers_and_writers_that_wait_for_each_other_are_a_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 3);
    // The writer waits for both readers, and one of them waits for the writer.
    let _read =
        [clients[0].rw_lock("r").read().await.unwrap(), clients[1].rw_lock("r").read().await.unwrap()];
    let _held = clients[2].red_lock("a").lock().await.unwrap();
    let (writer, reader) = (clients[2].rw_lock("r"), lock(&clients[1], "a"));
    let write: Call = Box::pin(async move { drop(writer.write().await) });
    assert_eq!(cycles_of(&cluster, &clients, vec![write, reader]).await, ["1 a, 2 r"]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_behind_a_writer_waits_for_the_writer() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 3);
    let _read = clients[0].rw_lock("r").read().await.unwrap();
    let _held = clients[1].red_lock("a").lock().await.unwrap();
    let (writer, reader) = (clients[2].rw_lock("r"), clients[1].rw_lock("r"));
    let calls: Vec<Call> = vec![
        Box::pin(async move { drop(writer.write().await) }),
        Box::pin(async move { drop(reader.read().await) }),
        lock(&clients[0], "a"),
    ];
    // Client 0 waits for client 1, which waits behind client 2, which waits for the reader.
    assert_eq!(cycles_of(&cluster, &clients, calls).await, ["0 a, 1 r, 2 r"]);
}

#[tokio::test(start_paused = true)]
async fn a_group_that_waits_for_a_holder_is_a_part_of_a_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 2);
    let _held =
        [clients[0].red_lock("a").lock().await.unwrap(), clients[1].red_lock("b").lock().await.unwrap()];
    let group = clients[1].multi_lock(["a", "c"]);
    let calls: Vec<Call> = vec![lock(&clients[0], "b"), Box::pin(async move { drop(group.lock().await) })];
    assert_eq!(cycles_of(&cluster, &clients, calls).await, ["0 b, 1 a"]);
}

#[tokio::test(start_paused = true)]
async fn permits_are_a_part_of_a_cycle_only_if_each_holder_waits() {
    for third_waits in [false, true] {
        let cluster = MemoryCluster::new(3);
        let clients = clients(&cluster, 3);
        let (_permits, acquire) = permits(&clients[..2], 2, &clients[2]).await;
        let _held = clients[2].red_lock("a").lock().await.unwrap();
        let mut calls = vec![acquire, lock(&clients[0], "a")];
        calls.extend(third_waits.then(|| lock(&clients[1], "a")));
        let cycles = cycles_of(&cluster, &clients, calls).await;
        assert_eq!(cycles.len(), usize::from(third_waits), "{cycles:?}");
        // The ids of clients are random, so either holder may be in the cycle.
        assert!(
            cycles.iter().all(|cycle| ["0 a, 2 any gpu", "1 a, 2 any gpu"].contains(&&**cycle)),
            "{cycles:?}"
        );
    }
}

/// Returns a permit of each holder, and a call by which the waiter waits for a permit.
async fn permits(holders: &[Quorum], permits: u32, waiter: &Quorum) -> (Vec<Permit>, Call) {
    let mut held = Vec::new();
    for holder in holders {
        held.push(holder.semaphore("gpu", permits).acquire().await.unwrap());
    }
    let gpu = waiter.semaphore("gpu", permits);
    (held, Box::pin(async move { drop(gpu.acquire().await) }))
}

#[tokio::test(start_paused = true)]
async fn services_with_tasks_that_hold_and_wait_for_permits_are_no_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 2);
    let (_permits, first) = permits(&clients, 2, &clients[0]).await;
    let (_none, second) = permits(&[], 2, &clients[1]).await;
    assert_eq!(cycles_of(&cluster, &clients, vec![first, second]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn candidates_of_two_elections_are_no_cycle() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 2);
    let campaign = async |client: &Quorum, name: &str| client.election(name).campaign("me").await.unwrap();
    let _leaders = [campaign(&clients[0], "e1").await, campaign(&clients[1], "e2").await];
    let stand_by = |client: &Quorum, name: &str| -> Call {
        let election = client.election(name);
        Box::pin(async move { drop(election.campaign("me").await) })
    };
    let calls = vec![stand_by(&clients[0], "e2"), stand_by(&clients[1], "e1")];
    assert_eq!(cycles_of(&cluster, &clients, calls).await, [""; 0]);
}

/// Each client tries again and again, with a short wait, so no wait is without an end.
#[tokio::test(start_paused = true)]
async fn a_later_call_of_the_same_client_is_another_wait() {
    let cluster = MemoryCluster::new(3);
    let clients = clients(&cluster, 2);
    let _held =
        [clients[0].red_lock("a").lock().await.unwrap(), clients[1].red_lock("b").lock().await.unwrap()];
    let mut looks = Vec::new();
    for _ in 0..2 {
        let waiting = [lock(&clients[0], "b"), lock(&clients[1], "a")].map(tokio::spawn);
        pass(Duration::from_secs(1)).await;
        looks.push(look(&client(&cluster)).await);
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(shown(&looks[1], &clients), ["0 b, 1 a"]);
    assert_eq!(shown(&looks[1].lasting_since(&looks[0]), &clients), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_cycle_counts_only_if_the_leases_last() {
    let cluster = MemoryCluster::new(3);
    server(&cluster, 2).behave(Behaviour::Hanging);
    let clients = clients(&cluster, 2);
    let held =
        [clients[0].red_lock("a").lock().await.unwrap(), clients[1].red_lock("b").lock().await.unwrap()];
    let mut waiting = [lock(&clients[0], "b"), lock(&clients[1], "a")].map(tokio::spawn);
    pass(Duration::from_secs(3)).await;
    let observer = client(&cluster);
    let first = look(&observer).await;
    pass(Duration::from_secs(1)).await;
    let second = look(&observer).await;
    let expected = ["0 b, 1 a"];
    assert_eq!(shown(&first, &clients), expected);
    assert_eq!(shown(&second.lasting_since(&first), &clients), expected);
    // The first client locks again, and the clients wait for each other again, but for another lease.
    waiting[1].abort();
    let [first_held, _second_held] = held;
    first_held.unlock().await.unwrap();
    let _held_again = clients[0].red_lock("a").lock().await.unwrap();
    waiting[1] = tokio::spawn(lock(&clients[1], "a"));
    pass(Duration::from_secs(3)).await;
    let third = look(&observer).await;
    assert_eq!(shown(&third, &clients), expected);
    assert_eq!(shown(&third.lasting_since(&second), &clients), [""; 0]);
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}
