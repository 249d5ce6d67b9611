//! Calls of one client that wait in one local queue while no quorum answers. Each call has a quorum timeout of its own.

use std::{future::Future, time::Duration};

use futures::future::{BoxFuture, FutureExt, join_all};
use tokio::{task::JoinHandle, time::Instant};

use super::{all_behave, client, pass, server, thaw_all};
use crate::{
    LockOptions, MemoryCluster, Owner, Quorum,
    error::{Error, NodeError},
    node::{Operation, memory::Behaviour},
    values::NodeReply,
};

const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(8);

/// The longest time by which a call may exceed its quorum timeout. At the end of the quorum timeout, a call waits for
/// the attempt in progress. A call for a permit may also wait for a query of vacant slots.
const MAX_EXCESS: Duration = Duration::from_millis(1100);

/// The time after which a test regards a call as hung.
const HUNG_AFTER: Duration = Duration::from_secs(3600);

/// A call that acquires and then releases, with these options. Calls without an owner ignore the owner.
type Call = fn(&Quorum, &Owner, LockOptions) -> BoxFuture<'static, Result<(), Error>>;

fn lock(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.red_lock("r").options(options);
    async move { lock.lock().await.map(drop) }.boxed()
}

fn lock_group(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let group = quorum.multi_lock(["r", "s"]).options(options);
    async move { group.lock().await.map(drop) }.boxed()
}

fn read(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.rw_lock("r").options(options);
    async move { lock.read().await.map(drop) }.boxed()
}

fn lock_as_owner(
    quorum: &Quorum,
    owner: &Owner,
    options: LockOptions,
) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.red_lock("r").owned_by(owner).options(options);
    async move { lock.lock().await.map(drop) }.boxed()
}

fn read_as_owner(
    quorum: &Quorum,
    owner: &Owner,
    options: LockOptions,
) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.rw_lock("r").owned_by(owner).options(options);
    async move { lock.read().await.map(drop) }.boxed()
}

fn acquire_permit(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let semaphore = quorum.semaphore("s", 2).options(options);
    async move { semaphore.acquire().await.map(drop) }.boxed()
}

fn lock_any_of(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let any_of = quorum.any_of(["a", "b"]).options(options);
    async move { any_of.lock().await.map(drop) }.boxed()
}

/// Spawns a call. The task returns the outcome and the duration of the call, and panics if the call hangs.
fn timed<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> JoinHandle<(T, Duration)> {
    let start = Instant::now();
    tokio::spawn(async move {
        tokio::select! {
            outcome = call => (outcome, start.elapsed()),
            () = pass(HUNG_AFTER) => panic!("the call did not end within {HUNG_AFTER:?}"),
        }
    })
}

fn with_quorum_timeout(timeout: Duration) -> LockOptions {
    LockOptions::new().quorum_timeout(timeout)
}

/// Returns the behaviour of a node that cannot be reached.
fn down() -> Behaviour {
    Behaviour::Failing(NodeError::Unreachable("down".into()))
}

/// Checks that each call ends at its own quorum timeout: a call of the kind `behind` alone, and two calls of this kind
/// behind a call of the kind `before` with a longer quorum timeout. The call with the longer timeout has to continue.
async fn check_quorum_timeouts(before: Call, behind: Call) {
    let assert_no_quorum_after = |(outcome, took): (Result<(), Error>, Duration), timeout: Duration| {
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?} after {took:?}");
        assert!(took >= timeout && took <= timeout + MAX_EXCESS, "{took:?} instead of {timeout:?}");
    };
    for behaviour in [down(), Behaviour::Hanging] {
        let cluster = MemoryCluster::new(3);
        let (quorum, owner) = (client(&cluster), Owner::new());
        all_behave(&cluster, &behaviour);
        let alone = timed(behind(&quorum, &owner, with_quorum_timeout(SHORT)));
        assert_no_quorum_after(alone.await.unwrap(), SHORT);
        for longer_timeout in [LONG, Duration::MAX] {
            let longer = timed(before(&quorum, &owner, with_quorum_timeout(longer_timeout)));
            pass(Duration::from_millis(500)).await;
            let middle = timed(behind(&quorum, &owner, with_quorum_timeout(2 * SHORT)));
            let shorter = timed(behind(&quorum, &owner, with_quorum_timeout(SHORT)));
            assert_no_quorum_after(shorter.await.unwrap(), SHORT);
            assert_no_quorum_after(middle.await.unwrap(), 2 * SHORT);
            assert!(!longer.is_finished());
            if longer_timeout == LONG {
                assert_no_quorum_after(longer.await.unwrap(), LONG);
            } else {
                pass(10 * LONG).await;
                thaw_all(&cluster);
                longer.await.unwrap().0.unwrap();
                all_behave(&cluster, &behaviour);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_lock_call_ends_at_its_own_quorum_timeout() {
    check_quorum_timeouts(lock, lock).await;
    check_quorum_timeouts(lock_group, lock_group).await;
}

#[tokio::test(start_paused = true)]
async fn each_read_call_ends_at_its_own_quorum_timeout() {
    check_quorum_timeouts(read, read).await;
}

#[tokio::test(start_paused = true)]
async fn each_call_of_an_owner_ends_at_its_own_quorum_timeout() {
    check_quorum_timeouts(lock_as_owner, lock_as_owner).await;
    check_quorum_timeouts(read_as_owner, lock_as_owner).await;
    check_quorum_timeouts(lock_as_owner, read_as_owner).await;
}

#[tokio::test(start_paused = true)]
async fn each_permit_call_ends_at_its_own_quorum_timeout() {
    check_quorum_timeouts(acquire_permit, acquire_permit).await;
    check_quorum_timeouts(lock_any_of, lock_any_of).await;
}

/// When the first call gives up, the second call in the local queue makes the attempts. The quorum
/// timeout of the second call includes its wait behind the first call.
#[tokio::test(start_paused = true)]
async fn the_quorum_timeout_includes_the_wait_behind_another_call() {
    for (before, behind) in [
        (lock as Call, lock as Call),
        (read, read),
        (lock_as_owner, lock_as_owner),
        (read_as_owner, lock_as_owner),
    ] {
        let cluster = MemoryCluster::new(3);
        let (quorum, owner) = (client(&cluster), Owner::new());
        all_behave(&cluster, &down());
        let first = timed(before(&quorum, &owner, with_quorum_timeout(SHORT)));
        tokio::task::yield_now().await;
        let second = timed(behind(&quorum, &owner, with_quorum_timeout(LONG)));
        assert_eq!(first.await.unwrap().1, SHORT);
        assert_eq!(second.await.unwrap().1, LONG);
    }
}

/// Readers and writers of one owner use different local queues, but enter the queues one after the other.
#[tokio::test(start_paused = true)]
async fn calls_of_an_owner_in_both_queues_end_at_their_quorum_timeouts() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let mut calls = Vec::new();
    for (call, timeout) in [
        (read_as_owner as Call, SHORT),
        (lock_as_owner, Duration::MAX),
        (read_as_owner, 2 * SHORT),
        (lock_as_owner, 3 * SHORT),
    ] {
        calls.push(timed(call(&quorum, &owner, with_quorum_timeout(timeout))));
        tokio::task::yield_now().await;
    }
    let patient = calls.remove(1);
    for (call, timeout) in calls.into_iter().zip([SHORT, 2 * SHORT, 3 * SHORT]) {
        assert_eq!(call.await.unwrap().1, timeout);
    }
    thaw_all(&cluster);
    patient.await.unwrap().0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_returns_the_node_replies_to_the_call_before_it() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    all_behave(&cluster, &down());
    server(&cluster, 1).behave(Behaviour::Granting);
    let _patient = timed(lock(&quorum, &Owner::new(), with_quorum_timeout(Duration::MAX)));
    pass(SHORT).await;
    let (outcome, took) = timed(lock(&quorum, &Owner::new(), with_quorum_timeout(SHORT))).await.unwrap();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    let replies = error.node_replies();
    let unreachable = |reply: &&NodeReply| matches!(reply, NodeReply::Failed(NodeError::Unreachable(_)));
    assert_eq!((replies.done(), replies.all().iter().filter(unreachable).count()), (1, 2), "{replies}");
    assert_eq!(took, SHORT);
}

#[tokio::test(start_paused = true)]
async fn try_calls_behind_another_call_return_no_quorum_in_an_outage() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let calls = [lock, read, lock_as_owner, read_as_owner]
        .map(|call| timed(call(&quorum, &owner, with_quorum_timeout(Duration::MAX))));
    pass(SHORT).await;
    let (red_lock, rw_lock) = (quorum.red_lock("r"), quorum.rw_lock("r"));
    let outcomes = [
        red_lock.try_lock_for(SHORT).await.map(|_| ()),
        rw_lock.try_read_for(SHORT).await.map(|_| ()),
        red_lock.clone().owned_by(&owner).try_lock_for(SHORT).await.map(|_| ()),
        red_lock.owned_by(&owner).try_lock().await.map(|_| ()),
        rw_lock.owned_by(&owner).try_read_for(SHORT).await.map(|_| ()),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    }
    assert!(calls.iter().all(|call| !call.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_continues_while_a_quorum_answers_that_the_resource_is_held() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let held = client(&cluster).red_lock("r").lock().await.unwrap();
    let poll = Duration::from_millis(100);
    let patient = timed(lock(
        &quorum,
        &Owner::new(),
        with_quorum_timeout(Duration::MAX).poll_interval(poll).first_poll(poll),
    ));
    pass(poll).await;
    let behind = timed(lock(&quorum, &Owner::new(), with_quorum_timeout(SHORT)));
    pass(Duration::from_secs(60)).await;
    // Each outage ends before the quorum timeout, and the next outage starts a new quorum timeout.
    for _ in 0..3 {
        all_behave(&cluster, &down());
        pass(SHORT - Duration::from_millis(500)).await;
        assert!(!behind.is_finished());
        all_behave(&cluster, &Behaviour::Granting);
        pass(Duration::from_secs(1)).await;
    }
    held.unlock().await.unwrap();
    patient.await.unwrap().0.unwrap();
    behind.await.unwrap().0.unwrap();
}

/// After many failures, the first call pauses for up to 8 s between its attempts. The call behind needs the
/// result of an attempt before it gives up, so the first call makes an attempt early.
#[tokio::test(start_paused = true)]
async fn an_attempt_is_made_before_a_waiting_call_gives_up() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let patient =
        timed(lock(&quorum, &owner, with_quorum_timeout(Duration::MAX).poll_interval(LONG).first_poll(LONG)));
    let outage = Duration::from_secs(60);
    pass(outage).await;
    let behind = timed(lock(&quorum, &owner, with_quorum_timeout(SHORT)));
    pass(SHORT - Duration::from_millis(1)).await;
    all_behave(&cluster, &Behaviour::Granting);
    let (outcome, took) = patient.await.unwrap();
    assert_eq!((outcome, took), (Ok(()), outage + SHORT));
    behind.await.unwrap().0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_uses_its_own_node_timeout() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &Behaviour::Hanging);
    let slow = with_quorum_timeout(Duration::MAX).node_timeout(Duration::from_secs(3));
    let _patient = timed(lock(&quorum, &owner, slow));
    pass(Duration::from_millis(3500)).await;
    let quick = with_quorum_timeout(SHORT).node_timeout(Duration::from_millis(100));
    let (outcome, took) = timed(lock(&quorum, &owner, quick)).await.unwrap();
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, SHORT + Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_without_a_set_quorum_timeout_waits_for_the_end_of_quarantines() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    cluster.servers().iter().for_each(|server| server.forget());
    let patient = timed(lock(&quorum, &Owner::new(), with_quorum_timeout(Duration::MAX)));
    tokio::task::yield_now().await;
    let with_set_timeout = timed(lock(&quorum, &Owner::new(), with_quorum_timeout(SHORT)));
    let with_default_timeout = timed(lock(&quorum, &Owner::new(), LockOptions::new()));
    let (outcome, took) = with_set_timeout.await.unwrap();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(took, SHORT);
    let remaining = error.retry_after();
    assert!(remaining > Some(Duration::from_secs(55)), "{remaining:?}");
    patient.await.unwrap().0.unwrap();
    with_default_timeout.await.unwrap().0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_thousand_waiting_calls_cause_few_attempts() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let _patient = timed(lock(&quorum, &owner, with_quorum_timeout(Duration::MAX)));
    tokio::task::yield_now().await;
    let calls = (0..1000).map(|_| timed(lock(&quorum, &owner, with_quorum_timeout(SHORT))));
    let ends = join_all(calls.collect::<Vec<_>>()).await;
    assert!(ends.into_iter().all(|end| end.unwrap().1 == SHORT));
    let is_attempt = |operation: &&Operation| matches!(operation, Operation::Lock(_) | Operation::Enqueue(_));
    let attempts = server(&cluster, 0).take_log().iter().filter(is_attempt).count();
    assert!((2..=20).contains(&attempts), "{attempts} attempts in {SHORT:?}");
}

/// The calls with a limit have made no attempts, and the attempts of the calls ahead have no result.
#[tokio::test(start_paused = true)]
async fn try_calls_behind_an_unanswered_call_return_no_quorum() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &Behaviour::Hanging);
    let _calls = [lock, read, lock_as_owner, read_as_owner]
        .map(|call| timed(call(&quorum, &owner, with_quorum_timeout(Duration::MAX))));
    tokio::task::yield_now().await;
    let wait = Duration::from_millis(300);
    let (red_lock, rw_lock) = (quorum.red_lock("r"), quorum.rw_lock("r"));
    let (owner_lock, owner_rw_lock) = (red_lock.clone().owned_by(&owner), rw_lock.clone().owned_by(&owner));
    let outcomes = tokio::join!(
        red_lock.try_lock_for(wait),
        rw_lock.try_read_for(wait),
        owner_lock.try_lock_for(wait),
        owner_rw_lock.try_read_for(wait),
    );
    assert!(matches!(outcomes.0, Err(Error::NoQuorum(_))), "{:?}", outcomes.0);
    assert!(matches!(outcomes.1, Err(Error::NoQuorum(_))), "{:?}", outcomes.1);
    assert!(matches!(outcomes.2, Err(Error::NoQuorum(_))), "{:?}", outcomes.2);
    assert!(matches!(outcomes.3, Err(Error::NoQuorum(_))), "{:?}", outcomes.3);
}

/// In the first attempt of the second call, a quorum answered that the permit is held. After that, only the
/// first call makes attempts, so the second call must use their results.
#[tokio::test(start_paused = true)]
async fn a_permit_call_behind_another_call_returns_no_quorum_in_an_outage() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 1);
    let _held = client(&cluster).semaphore("s", 1).try_acquire().await.unwrap().unwrap();
    let _first = timed(acquire_only_permit(&quorum));
    pass(Duration::from_millis(100)).await;
    let second = timed(async move { semaphore.try_acquire_for(LONG).await.map(|permit| permit.is_some()) });
    pass(Duration::from_secs(1)).await;
    all_behave(&cluster, &down());
    let (outcome, took) = second.await.unwrap();
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, LONG);
}

/// Acquires and releases the permit of a semaphore with one permit, and waits without a limit.
fn acquire_only_permit(quorum: &Quorum) -> impl Future<Output = Result<(), Error>> + Send + 'static {
    let semaphore = quorum.semaphore("s", 1).options(with_quorum_timeout(Duration::MAX));
    async move { semaphore.acquire().await.map(drop) }
}

/// The second call waits behind the first call of its client, and has no attempt of its own. A wait that ended at once
/// would be a loop without a pause, in which this test would hang.
#[tokio::test(start_paused = true)]
async fn a_quorum_timeout_of_zero_behind_another_call_is_no_loop() {
    let cluster = MemoryCluster::new(3);
    let holder = client(&cluster).red_lock("r").lock().await.unwrap();
    let quorum = client(&cluster);
    let options = LockOptions::new().quorum_timeout(Duration::ZERO);
    let calls = [(); 2].map(|()| tokio::spawn(lock(&quorum, &Owner::new(), options.clone())));
    pass(Duration::from_secs(3)).await;
    assert!(calls.iter().all(|call| !call.is_finished()), "the resource is held, and all nodes answer");
    holder.unlock().await.unwrap();
    for call in calls {
        call.await.unwrap().unwrap();
    }
}
