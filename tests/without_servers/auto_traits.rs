//! Everything public can go to another thread.

use std::time::Duration;

use redquorum::{
    Election, FencingToken, Leader, Leadership, Lease, LockGuard, LockOptions, MemoryCluster, MultiLock,
    MultiLockGuard, Observation, Owner, OwnerId, Quorum, QuorumBuilder, RedLock, Resource, RunOutput,
    Unlocked, Verification, Vote, Votes,
    admin::Fingerprint,
    error::{
        ConfigError, ConnectError, LeaseLost, LockError, LossReason, NodeError, ProclaimError, Refusal,
        RenewError, RunError, UnlockError,
    },
    inspection::{Inspection, LockState, NodeHolder},
};

fn is_send_and_sync<T: Send + Sync + 'static>() {}

fn is_send(future: impl Future + Send) {
    drop(future);
}

#[test]
fn all_public_types_are_send_and_sync() {
    is_send_and_sync::<(Quorum, QuorumBuilder, RedLock, LockGuard, MemoryCluster)>();
    is_send_and_sync::<(ConfigError, ConnectError, LockError, RenewError, UnlockError)>();
    is_send_and_sync::<(LeaseLost, LossReason)>();
    is_send_and_sync::<(Vote, Votes, Refusal, NodeError, Fingerprint, Unlocked, Verification)>();
    is_send_and_sync::<(MultiLock, MultiLockGuard, Owner, Lease, RunOutput<u8>, RunError)>();
    is_send_and_sync::<(Inspection, LockState, NodeHolder)>();
    is_send_and_sync::<(Election, Leader, Leadership, Observation, ProclaimError)>();
    is_send_and_sync::<(FencingToken, OwnerId, Resource, LockOptions)>();
}

#[tokio::test]
async fn all_public_futures_are_send() {
    let quorum = Quorum::in_memory(1).unwrap();
    let lock = quorum.red_lock("r");
    is_send(Quorum::builder().connect());
    is_send(quorum.shutdown());
    is_send(lock.lock());
    is_send(lock.try_lock());
    is_send(lock.try_lock_for(Duration::ZERO));
    is_send(lock.run(async |lease| lease.lost().await));
    is_send(lock.inspect());
    is_send(lock.force_unlock());
    is_send(Owner::new().scope(lock.lock()));
    let group = quorum.multi_lock(["a", "b"]);
    is_send(group.lock());
    is_send(group.try_lock());
    is_send(group.try_lock_for(Duration::ZERO));
    let guard = group.lock().await.unwrap();
    is_send(guard.lost());
    is_send(guard.renew());
    is_send(guard.verify());
    is_send(guard.unlock());
    let guard = lock.lock().await.unwrap();
    is_send(guard.lost());
    is_send(guard.renew());
    is_send(guard.verify());
    is_send(guard.unlock());
    let election = quorum.election("e").value("v");
    is_send(election.campaign());
    is_send(election.try_campaign());
    is_send(election.leader());
    is_send(election.observe().unwrap().next());
    let leadership = election.campaign().await.unwrap();
    is_send(leadership.lost());
    is_send(leadership.proclaim("w"));
    is_send(leadership.run(async |lease| lease.lost().await));
    is_send(leadership.resign());
}
