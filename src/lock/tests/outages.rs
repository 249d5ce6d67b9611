//! Calls of one client that wait for each other while there is no quorum.

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

/// An attempt at the end of the quorum timeout may be awaited for so long, and a semaphore listens
/// for so long before its first attempt.
const LATE: Duration = Duration::from_millis(1100);

/// A call that has not ended by then never ends.
const NEVER: Duration = Duration::from_secs(3600);

/// A lock call with this quorum timeout.
type Call = fn(&Quorum, &Owner, LockOptions) -> BoxFuture<'static, Result<(), Error>>;

fn lock(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.red_lock("r").options(options);
    async move { lock.lock().await.map(drop) }.boxed()
}

fn group(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let group = quorum.multi_lock(["r", "s"]).options(options);
    async move { group.lock().await.map(drop) }.boxed()
}

fn read(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.rw_lock("r").options(options);
    async move { lock.read().await.map(drop) }.boxed()
}

fn own(quorum: &Quorum, owner: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.red_lock("r").owned_by(owner).options(options);
    async move { lock.lock().await.map(drop) }.boxed()
}

fn own_read(quorum: &Quorum, owner: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let lock = quorum.rw_lock("r").owned_by(owner).options(options);
    async move { lock.read().await.map(drop) }.boxed()
}

fn permit(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let semaphore = quorum.semaphore("s", 2).options(options);
    async move { semaphore.acquire().await.map(drop) }.boxed()
}

fn any(quorum: &Quorum, _: &Owner, options: LockOptions) -> BoxFuture<'static, Result<(), Error>> {
    let any = quorum.any_of(["a", "b"]).options(options);
    async move { any.lock().await.map(drop) }.boxed()
}

/// Runs a call in the background, to the outcome and how long it took.
fn timed<T: Send + 'static>(call: impl Future<Output = T> + Send + 'static) -> JoinHandle<(T, Duration)> {
    let start = Instant::now();
    tokio::spawn(async move {
        tokio::select! {
            outcome = call => (outcome, start.elapsed()),
            () = pass(NEVER) => panic!("the call never ends"),
        }
    })
}

fn within(timeout: Duration) -> LockOptions {
    LockOptions::new().quorum_timeout(timeout)
}

fn down() -> Behaviour {
    Behaviour::Failing(NodeError::Unreachable("down".into()))
}

/// Checks that a call behind one with a longer quorum timeout ends by its own, as a call alone does,
/// and that the longer one goes on.
async fn each_ends_by_its_own_quorum_timeout(before: Call, behind: Call) {
    let ends_in_time = |(outcome, took): (Result<(), Error>, Duration), timeout: Duration| {
        assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?} after {took:?}");
        assert!(took >= timeout && took <= timeout + LATE, "{took:?} instead of {timeout:?}");
    };
    for behaviour in [down(), Behaviour::Hanging] {
        let cluster = MemoryCluster::new(3);
        let (quorum, owner) = (client(&cluster), Owner::new());
        all_behave(&cluster, &behaviour);
        let alone = timed(behind(&quorum, &owner, within(SHORT)));
        ends_in_time(alone.await.unwrap(), SHORT);
        for patience in [LONG, Duration::MAX] {
            let patient = timed(before(&quorum, &owner, within(patience)));
            pass(Duration::from_millis(500)).await;
            let middle = timed(behind(&quorum, &owner, within(2 * SHORT)));
            let impatient = timed(behind(&quorum, &owner, within(SHORT)));
            ends_in_time(impatient.await.unwrap(), SHORT);
            ends_in_time(middle.await.unwrap(), 2 * SHORT);
            assert!(!patient.is_finished());
            if patience == LONG {
                ends_in_time(patient.await.unwrap(), LONG);
            } else {
                pass(10 * LONG).await;
                thaw_all(&cluster);
                patient.await.unwrap().0.unwrap();
                all_behave(&cluster, &behaviour);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_ends_by_its_own_quorum_timeout() {
    each_ends_by_its_own_quorum_timeout(lock, lock).await;
    each_ends_by_its_own_quorum_timeout(group, group).await;
}

#[tokio::test(start_paused = true)]
async fn each_task_that_reads_ends_by_its_own_quorum_timeout() {
    each_ends_by_its_own_quorum_timeout(read, read).await;
}

#[tokio::test(start_paused = true)]
async fn each_task_of_an_owner_ends_by_its_own_quorum_timeout() {
    each_ends_by_its_own_quorum_timeout(own, own).await;
    each_ends_by_its_own_quorum_timeout(own_read, own).await;
    each_ends_by_its_own_quorum_timeout(own, own_read).await;
}

#[tokio::test(start_paused = true)]
async fn each_call_for_a_permit_ends_by_its_own_quorum_timeout() {
    each_ends_by_its_own_quorum_timeout(permit, permit).await;
    each_ends_by_its_own_quorum_timeout(any, any).await;
}

/// The turn passes from a task that gives up to one with more time, which has waited as long.
#[tokio::test(start_paused = true)]
async fn a_task_that_gets_the_turn_counts_the_time_before() {
    for (before, behind) in [(lock as Call, lock as Call), (read, read), (own, own), (own_read, own)] {
        let cluster = MemoryCluster::new(3);
        let (quorum, owner) = (client(&cluster), Owner::new());
        all_behave(&cluster, &down());
        let first = timed(before(&quorum, &owner, within(SHORT)));
        tokio::task::yield_now().await;
        let second = timed(behind(&quorum, &owner, within(LONG)));
        assert_eq!(first.await.unwrap().1, SHORT);
        assert_eq!(second.await.unwrap().1, LONG);
    }
}

/// Readers and writers wait in different queues.
#[tokio::test(start_paused = true)]
async fn a_task_of_an_owner_sees_the_outage_that_each_task_before_it_meets() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let mut calls = Vec::new();
    for (call, timeout) in
        [(own_read as Call, SHORT), (own, Duration::MAX), (own_read, 2 * SHORT), (own, 3 * SHORT)]
    {
        calls.push(timed(call(&quorum, &owner, within(timeout))));
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
async fn a_call_that_ends_behind_another_has_the_replies_to_that_one() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    all_behave(&cluster, &down());
    server(&cluster, 1).behave(Behaviour::Granting);
    let _patient = timed(lock(&quorum, &Owner::new(), within(Duration::MAX)));
    pass(SHORT).await;
    let (outcome, took) = timed(lock(&quorum, &Owner::new(), within(SHORT))).await.unwrap();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    let replies = error.node_replies();
    let unreachable = |reply: &&NodeReply| matches!(reply, NodeReply::Failed(NodeError::Unreachable(_)));
    assert_eq!((replies.done(), replies.all().iter().filter(unreachable).count()), (1, 2), "{replies}");
    assert_eq!(took, SHORT);
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_time_ends_behind_another_in_an_outage_has_no_quorum() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let calls = [lock, read, own, own_read].map(|call| timed(call(&quorum, &owner, within(Duration::MAX))));
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
async fn a_call_behind_another_waits_while_a_quorum_says_that_the_resource_is_held() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let held = client(&cluster).red_lock("r").lock().await.unwrap();
    let poll = Duration::from_millis(100);
    let patient =
        timed(lock(&quorum, &Owner::new(), within(Duration::MAX).poll_interval(poll).first_poll(poll)));
    pass(poll).await;
    let behind = timed(lock(&quorum, &Owner::new(), within(SHORT)));
    pass(Duration::from_secs(60)).await;
    // Of an outage that is over before the quorum timeout, nothing counts for the next.
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

/// After many failures, the call with the turn makes pauses of 8 s, but makes an attempt when the call behind it needs
/// one.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_back_just_in_time_are_asked_before_a_call_behind_another_gives_up() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let patient = timed(lock(&quorum, &owner, within(Duration::MAX).poll_interval(LONG).first_poll(LONG)));
    let failing = Duration::from_secs(60);
    pass(failing).await;
    let behind = timed(lock(&quorum, &owner, within(SHORT)));
    pass(SHORT - Duration::from_millis(1)).await;
    all_behave(&cluster, &Behaviour::Granting);
    let (outcome, took) = patient.await.unwrap();
    assert_eq!((outcome, took), (Ok(()), failing + SHORT));
    behind.await.unwrap().0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_does_not_wait_for_answers_by_the_node_timeout_of_another() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &Behaviour::Hanging);
    let slow = within(Duration::MAX).node_timeout(Duration::from_secs(3));
    let _patient = timed(lock(&quorum, &owner, slow));
    pass(Duration::from_millis(3500)).await;
    let quick = within(SHORT).node_timeout(Duration::from_millis(100));
    let (outcome, took) = timed(lock(&quorum, &owner, quick)).await.unwrap();
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, SHORT + Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn a_call_behind_another_waits_out_a_quarantine_unless_its_quorum_timeout_was_set() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    cluster.servers().iter().for_each(|server| server.forget());
    let patient = timed(lock(&quorum, &Owner::new(), within(Duration::MAX)));
    tokio::task::yield_now().await;
    let set = timed(lock(&quorum, &Owner::new(), within(SHORT)));
    let by_default = timed(lock(&quorum, &Owner::new(), LockOptions::new()));
    let (outcome, took) = set.await.unwrap();
    let Err(Error::NoQuorum(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(took, SHORT);
    let remaining = error.retry_after();
    assert!(remaining > Some(Duration::from_secs(55)), "{remaining:?}");
    patient.await.unwrap().0.unwrap();
    by_default.await.unwrap().0.unwrap();
}

#[tokio::test(start_paused = true)]
async fn many_calls_behind_one_do_not_make_a_busy_loop() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &down());
    let _patient = timed(lock(&quorum, &owner, within(Duration::MAX)));
    tokio::task::yield_now().await;
    let calls = (0..1000).map(|_| timed(lock(&quorum, &owner, within(SHORT))));
    let ends = join_all(calls.collect::<Vec<_>>()).await;
    assert!(ends.into_iter().all(|end| end.unwrap().1 == SHORT));
    let is_attempt = |operation: &&Operation| matches!(operation, Operation::Lock(_) | Operation::Enqueue(_));
    let asked = server(&cluster, 0).take_log().iter().filter(is_attempt).count();
    assert!((2..=20).contains(&asked), "{asked} attempts in {SHORT:?}");
}

/// A call behind another has made no attempt, and the first attempt of the other has no result yet.
#[tokio::test(start_paused = true)]
async fn a_call_whose_time_ends_while_no_node_has_answered_the_call_before_it_has_no_quorum() {
    let cluster = MemoryCluster::new(3);
    let (quorum, owner) = (client(&cluster), Owner::new());
    all_behave(&cluster, &Behaviour::Hanging);
    let _calls = [lock, read, own, own_read].map(|call| timed(call(&quorum, &owner, within(Duration::MAX))));
    tokio::task::yield_now().await;
    let wait = Duration::from_millis(300);
    let (red_lock, rw_lock) = (quorum.red_lock("r"), quorum.rw_lock("r"));
    let (own_lock, own_rw_lock) = (red_lock.clone().owned_by(&owner), rw_lock.clone().owned_by(&owner));
    let outcomes = tokio::join!(
        red_lock.try_lock_for(wait),
        rw_lock.try_read_for(wait),
        own_lock.try_lock_for(wait),
        own_rw_lock.try_read_for(wait),
    );
    assert!(matches!(outcomes.0, Err(Error::NoQuorum(_))), "{:?}", outcomes.0);
    assert!(matches!(outcomes.1, Err(Error::NoQuorum(_))), "{:?}", outcomes.1);
    assert!(matches!(outcomes.2, Err(Error::NoQuorum(_))), "{:?}", outcomes.2);
    assert!(matches!(outcomes.3, Err(Error::NoQuorum(_))), "{:?}", outcomes.3);
}

/// The first try found the permit held by a quorum; since then, only the call before this one makes attempts.
#[tokio::test(start_paused = true)]
async fn a_call_for_a_permit_whose_time_ends_behind_another_in_an_outage_has_no_quorum() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = quorum.semaphore("s", 1);
    let _held = client(&cluster).semaphore("s", 1).try_acquire().await.unwrap().unwrap();
    let _patient = timed(permit_of_one(&quorum));
    pass(Duration::from_millis(100)).await;
    let behind = timed(async move { semaphore.try_acquire_for(LONG).await.map(|permit| permit.is_some()) });
    pass(Duration::from_secs(1)).await;
    all_behave(&cluster, &down());
    let (outcome, took) = behind.await.unwrap();
    assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}");
    assert_eq!(took, LONG);
}

fn permit_of_one(quorum: &Quorum) -> impl Future<Output = Result<(), Error>> + Send + 'static {
    let semaphore = quorum.semaphore("s", 1).options(within(Duration::MAX));
    async move { semaphore.acquire().await.map(drop) }
}
