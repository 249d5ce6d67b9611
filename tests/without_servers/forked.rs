//! Clients in a forked copy of their process, clients whose runtime has ended, and runtimes without IO or timers.

use std::{
    fmt::Debug,
    net::TcpListener,
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, executor::block_on};
use redquorum::{
    Error, LockOptions, MemoryCluster, MultiLock, Owner, Quorum, admin,
    error::{AdminError, ClosedReason, ConfigError, LossReason, NodeError, NodeReply},
};
use redquorum_tests::ForkedProcess;
use tokio::runtime::{Builder, Runtime};

/// The longest wait of calls. Each call has to return much earlier.
const WAIT: Duration = Duration::from_secs(5);

/// Returns the result of a call that must not wait.
#[track_caller]
fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never().expect("the call does not wait")
}

/// Asserts that a call returns `Closed` at once.
#[track_caller]
fn assert_closed<T: Debug>(reason: ClosedReason, call: impl Future<Output = Result<T, Error>>) {
    assert_eq!(at_once(call).unwrap_err(), Error::Closed(reason));
}

/// Asserts that a call returns the loss of its lease at once.
#[track_caller]
fn assert_lost<T: Debug>(reason: ClosedReason, call: impl Future<Output = Result<T, Error>>) {
    let Error::LeaseLost(lost) = at_once(call).unwrap_err() else { panic!("not the loss of a lease") };
    assert_eq!(lost.reason, LossReason::Closed(reason));
}

/// Asserts that each call that needs no lease returns `Closed` at once.
fn assert_no_call_works(quorum: &Quorum, reason: ClosedReason) {
    let lock = quorum.red_lock("free");
    assert_closed(reason, lock.lock());
    assert_closed(reason, lock.try_lock());
    assert_closed(reason, lock.try_lock_for(WAIT));
    assert_closed(reason, lock.run(async |_| panic!("the lock is held")));
    assert_closed(reason, lock.clone().owned_by(&Owner::new()).lock());
    let rw_lock = quorum.rw_lock("free");
    assert_closed(reason, rw_lock.read());
    assert_closed(reason, rw_lock.try_read_for(WAIT));
    assert_closed(reason, rw_lock.write());
    assert_closed(reason, quorum.multi_lock(["a", "b"]).lock());
    assert_closed(reason, MultiLock::across([quorum.multi_lock(["a"])]).lock());
    assert_closed(reason, MultiLock::across([quorum.multi_lock(["a"])]).try_lock_for(WAIT));
    assert_closed(reason, quorum.any_of(["a", "b"]).lock());
    assert_closed(reason, quorum.any_of(["a", "b"]).try_lock());
    let semaphore = quorum.semaphore("s", 3);
    assert_closed(reason, semaphore.acquire());
    assert_closed(reason, semaphore.try_acquire());
    assert_closed(reason, semaphore.try_acquire_for(WAIT));
    assert_closed(reason, semaphore.acquire_many(2));
    assert_closed(reason, semaphore.try_acquire_many(2));
    assert_closed(reason, semaphore.try_acquire_many_for(2, WAIT));
    assert_closed(reason, semaphore.available_permits());
    let latch = quorum.latch("l", 2);
    assert_closed(reason, latch.arrive());
    assert_closed(reason, latch.wait());
    assert_closed(reason, latch.wait_for(WAIT));
    assert_closed(reason, latch.arrivals());
    let election = quorum.election("e");
    assert_closed(reason, election.campaign("v"));
    assert_closed(reason, election.try_campaign("v"));
    assert_closed(reason, election.try_campaign_for("v", WAIT));
    assert_closed(reason, election.leader());
    assert_eq!(election.observe().unwrap_err(), Error::Closed(reason));
    assert_closed(reason, quorum.inspect("held"));
    assert_closed(reason, admin::list(quorum, |_| true));
    assert_closed(reason, admin::force_unlock(quorum, "held"));
    let health = at_once(quorum.health());
    assert_eq!(health.nodes().count(), 3);
    assert!(health.nodes().all(|node| node.holder() == Err(&NodeError::Closed(reason))), "{health}");
    assert!(health.to_string().contains(&reason.to_string()), "{health}");
    at_once(quorum.shutdown());
    assert_closed(reason, lock.lock());
}

/// Asserts that the lease is not valid, and that each call of the lease returns at once.
fn assert_not_valid(lease: &redquorum::Lease, reason: ClosedReason) {
    assert!(!lease.is_valid() && lease.remaining().is_zero());
    assert_lost(reason, async { lease.ensure() });
    assert_eq!(at_once(lease.lost()).reason, LossReason::Closed(reason));
    at_once(lease.expiring_within(Duration::ZERO));
    assert_lost(reason, lease.renew());
    assert_lost(reason, lease.verify());
    assert_lost(reason, lease.while_valid(async { panic!("the work begins") }));
    assert!(!format!("{lease:?} {}", lease.holds()).is_empty());
    let (replies, closed) = (lease.node_replies(), NodeReply::Failed(NodeError::Closed(reason)));
    assert!(replies.iter().count() == 3 && replies.iter().all(|(_, reply)| *reply == closed), "{replies}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_works_and_no_lease_is_valid_in_a_forked_process() {
    const REASON: ClosedReason = ClosedReason::Forked;
    let cluster = MemoryCluster::new(3);
    let quorum = Quorum::builder().connect_in_memory(&cluster).unwrap();
    let guard = quorum.red_lock("held").lock().await.unwrap();
    let second = quorum.red_lock("second").lock().await.unwrap();
    let reader = quorum.rw_lock("read").read().await.unwrap();
    let group = quorum.multi_lock(["x", "y"]).lock().await.unwrap();
    let across = MultiLock::across([quorum.multi_lock(["z"])]).lock().await.unwrap();
    let permit = quorum.semaphore("s", 3).acquire().await.unwrap();
    let leadership = quorum.election("e").campaign("v").await.unwrap();
    let mut leaders = quorum.election("e").observe().unwrap();
    assert_eq!(leaders.next().await.unwrap().value_str(), "v");
    let lease = guard.lease();
    let child = ForkedProcess::start(|| {
        let leases: [&redquorum::Lease; 6] = [&guard, &group, &lease, &reader, &permit, &leadership];
        leases.into_iter().for_each(|lease| assert_not_valid(lease, REASON));
        assert!(!across.is_valid());
        assert_eq!(at_once(across.lost()).reason, LossReason::Closed(REASON));
        assert_lost(REASON, across.renew());
        assert_lost(REASON, leadership.proclaim("w"));
        assert!(at_once(leaders.next()).is_none());
        assert_no_call_works(&quorum, REASON);
        assert_lost(REASON, guard.unlock());
        assert_lost(REASON, second.downgrade());
        assert_lost(REASON, reader.unlock());
        assert_lost(REASON, permit.release());
        assert_lost(REASON, leadership.resign());
        assert_lost(REASON, across.unlock());
        drop((group, lease, leaders, quorum));
        // A client that the child connects works.
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let locked = std::thread::spawn(move || {
            runtime.block_on(async { Quorum::in_memory(3).unwrap().red_lock("r").lock().await.map(drop) })
        });
        locked.join().unwrap().unwrap();
    });
    child.wait();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_were_pending_at_a_fork_end_only_in_the_child() {
    let cluster = MemoryCluster::new(3);
    let quorum = Quorum::builder().connect_in_memory(&cluster).unwrap();
    let other = Quorum::builder().connect_in_memory(&cluster).unwrap();
    let held = other.red_lock("held").lock().await.unwrap();
    let permit = other.semaphore("s", 1).acquire().await.unwrap();
    let leadership = other.election("e").campaign("v").await.unwrap();
    let own = quorum.red_lock("own").lock().await.unwrap();
    let (lock, semaphore, election) =
        (quorum.red_lock("held"), quorum.semaphore("s", 1), quorum.election("e"));
    let latch = quorum.latch("l", 2);
    let mut locking = Box::pin(lock.lock());
    let mut acquiring = Box::pin(semaphore.try_acquire_many_for(1, WAIT));
    let mut campaign = Box::pin(election.campaign("w"));
    let mut waiting = Box::pin(latch.wait());
    let mut lost = Box::pin(own.lost());
    let mut expiring = Box::pin(own.expiring_within(Duration::ZERO));
    let mut work = Box::pin(own.while_valid(std::future::pending::<()>()));
    let mut leaders = election.observe().unwrap();
    assert_eq!(leaders.next().await.unwrap().value_str(), "v");
    // After these polls, the calls make attempts, or wait in queues.
    for _ in 0..3 {
        assert!((&mut locking).now_or_never().is_none() && (&mut acquiring).now_or_never().is_none());
        assert!((&mut campaign).now_or_never().is_none() && (&mut waiting).now_or_never().is_none());
        assert!((&mut lost).now_or_never().is_none() && (&mut expiring).now_or_never().is_none());
        assert!((&mut work).now_or_never().is_none() && leaders.next().now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let child = ForkedProcess::start(|| {
        assert_closed(ClosedReason::Forked, &mut locking);
        assert_closed(ClosedReason::Forked, &mut acquiring);
        assert_closed(ClosedReason::Forked, &mut campaign);
        assert_closed(ClosedReason::Forked, &mut waiting);
        assert_eq!(at_once(&mut lost).reason, LossReason::Closed(ClosedReason::Forked));
        at_once(&mut expiring);
        assert_lost(ClosedReason::Forked, &mut work);
        assert!(at_once(leaders.next()).is_none());
    });
    child.wait();
    // A second child drops the same calls without a poll.
    let child = ForkedProcess::start(|| {
        let pending = (locking, acquiring, campaign, waiting);
        drop((pending, lost, expiring, work, leaders));
    });
    child.wait();
    assert!(own.is_valid());
    held.unlock().await.unwrap();
    permit.release().await.unwrap();
    leadership.resign().await.unwrap();
    assert!(quorum.red_lock("held").lock().await.unwrap().is_valid());
    assert!(own.unlock().await.unwrap().has_quorum());
}

fn single_threaded() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

#[test]
fn no_call_works_and_no_lease_is_valid_after_the_end_of_the_runtime() {
    const REASON: ClosedReason = ClosedReason::RuntimeEnded;
    let cluster = MemoryCluster::new(3);
    let runtime = single_threaded();
    let (quorum, guard) = runtime.block_on(async {
        let quorum = Quorum::builder().connect_in_memory(&cluster).unwrap();
        let guard = quorum.red_lock("held").lock().await.unwrap();
        (quorum, guard)
    });
    drop(runtime);
    let second = single_threaded();
    let _entered = second.enter();
    assert_not_valid(&guard, REASON);
    assert_no_call_works(&quorum, REASON);
    let report = at_once(quorum.shutdown());
    assert!(!report.is_complete(), "{report}");
    assert!(report.unconfirmed().all(|(_, resources)| resources.len() == 1), "{report}");
    assert_lost(REASON, guard.unlock());
}

#[test]
fn calls_that_wait_elsewhere_end_with_the_runtime_of_their_client() {
    let cluster = MemoryCluster::new(3);
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (quorum, other) = runtime.block_on(async {
        let quorum = Quorum::builder().connect_in_memory(&cluster).unwrap();
        (quorum, Quorum::builder().connect_in_memory(&cluster).unwrap())
    });
    let second = single_threaded();
    second.block_on(async {
        let guard = quorum.red_lock("own").lock().await.unwrap();
        let held = other.red_lock("held").lock().await.unwrap();
        let lock = quorum.red_lock("held");
        let latch = quorum.latch("l", 2);
        let (mut locking, mut waiting, mut lost) =
            (Box::pin(lock.lock()), Box::pin(latch.wait()), Box::pin(guard.lost()));
        assert!((&mut locking).now_or_never().is_none() && (&mut waiting).now_or_never().is_none());
        assert!((&mut lost).now_or_never().is_none());
        let ended = Error::Closed(ClosedReason::RuntimeEnded);
        std::thread::spawn(move || drop(runtime));
        assert_eq!(locking.await.unwrap_err(), ended);
        assert_eq!(waiting.await.unwrap_err(), ended);
        assert_eq!(lost.await.reason, LossReason::Closed(ClosedReason::RuntimeEnded));
        drop(held);
    });
}

/// Returns the address of a server that accepts connections and sends nothing.
fn silent_server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    (listener, address)
}

/// Asserts that each call of an administrator that waits for silent nodes ends with the reason, once the client of the
/// call is closed by `close`. The calls are polled first on the runtime that `close` receives.
fn assert_admin_calls_end(reason: ClosedReason, close: impl FnOnce(Runtime, &mut dyn FnMut())) {
    let [(_listening, from), (_also_listening, to)] = [silent_server(), silent_server()];
    let [from, to] = [("old", from), ("new", to)]
        .map(|(name, url)| Quorum::builder().name(name).nodes([url]).connect_timeout(WAIT));
    let runtime = single_threaded();
    let mut calls = [
        admin::init(&from).boxed_local(),
        admin::init_if_needed(&from).map(|outcome| outcome.map(drop)).boxed_local(),
        admin::reconfigure(&from, &to).boxed_local(),
        admin::give_up_reconfigure(&from, &to).boxed_local(),
    ];
    runtime.block_on(async {
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
    });
    close(runtime, &mut || {
        for call in &mut calls {
            assert_eq!(at_once(call), Err(AdminError::Closed(reason)));
        }
    });
}

#[test]
fn admin_calls_that_were_pending_at_a_fork_end_in_the_child() {
    assert_admin_calls_end(ClosedReason::Forked, |_runtime, assert_ended| {
        ForkedProcess::start(assert_ended).wait();
    });
}

#[test]
fn admin_calls_end_with_their_runtime() {
    assert_admin_calls_end(ClosedReason::RuntimeEnded, |runtime, assert_ended| {
        drop(runtime);
        let second = single_threaded();
        let _entered = second.enter();
        assert_ended();
    });
}

fn missing_driver(outcome: Result<Quorum, Error>) -> String {
    match outcome.unwrap_err() {
        Error::Config(ConfigError::NoRuntime { reason, .. }) => reason.to_string(),
        error => panic!("{error}"),
    }
}

#[test]
fn a_runtime_without_io_or_timers_is_an_error_of_the_connect() {
    let without_io = Builder::new_current_thread().enable_time().build().unwrap();
    let builder = || Quorum::builder().nodes(["redis://127.0.0.1:1"]).connect_timeout(WAIT);
    let start = Instant::now();
    let reason = missing_driver(without_io.block_on(builder().connect()));
    assert!(reason.contains("IO") && reason.contains("`enable_io`"), "{reason}");
    let without_timers = Builder::new_current_thread().enable_io().build().unwrap();
    let reason = missing_driver(without_timers.block_on(async { Quorum::in_memory(3) }));
    assert!(reason.contains("timers") && reason.contains("`enable_time`"), "{reason}");
    // Nodes on servers need no timers of tokio.
    let refused = without_timers.block_on(builder().connect_timeout(Duration::ZERO).connect());
    assert!(matches!(refused, Err(Error::NoQuorum(_))), "{refused:?}");
    assert!(start.elapsed() < WAIT, "a call waited");
}

#[test]
fn a_connect_on_a_runtime_that_has_ended_fails_at_once() {
    let runtime = single_threaded();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _entered = handle.enter();
    let ended = Error::Closed(ClosedReason::RuntimeEnded);
    assert_eq!(Quorum::in_memory(3).unwrap_err(), ended);
    let connect = Quorum::builder().nodes(["redis://127.0.0.1:1"]).connect();
    assert_eq!(block_on(connect).unwrap_err(), ended);
}

#[test]
fn leaders_end_with_the_runtime() {
    let runtime = single_threaded();
    let mut leaders = runtime.block_on(async {
        let quorum = Quorum::in_memory(3).unwrap();
        quorum.election("e").options(LockOptions::new()).observe().unwrap()
    });
    drop(runtime);
    assert!(at_once(StreamExt::next(&mut leaders)).is_none());
}
