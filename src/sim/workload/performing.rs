//! The programs of a case, as its clients perform them.

use std::{pin::pin, time::Duration};

use futures::future::{Either, join, select};

use super::{DRIFT, Ending, How, Step, TTL, What};
use crate::{
    LockOptions, RestartGuard,
    error::{ConnectError, LockError},
    lock::{LockGuard, MultiLock, MultiLockGuard, Owner, RedLock},
    quorum::Quorum,
    sim::{Client, Store},
};

/// The program of one client.
pub(super) async fn run(client: &Client, guard: RestartGuard, steps: &[Step]) -> Result<(), ConnectError> {
    let builder = Quorum::builder().ttl(TTL).max_ttl(2 * TTL).drift(DRIFT);
    let quorum = builder.restart_guard(guard).simulated(client)?;
    let store = client.store("r").map_err(ConnectError::Config)?;
    for step in steps {
        client.sleep(step.rest).await;
        join(step.perform(client, &quorum, &store), step.keep_company(client, &quorum)).await;
    }
    Ok(())
}

impl Step {
    async fn perform(&self, client: &Client, quorum: &Quorum, store: &Store) {
        let owner = Owner::new();
        if let Ok(Some(guard)) = self.enter(client, quorum, &owner).await {
            self.work(client, quorum, &owner, store, guard).await;
        }
    }

    async fn keep_company(&self, client: &Client, quorum: &Quorum) {
        if self.has_company
            && let Ok(Some(guard)) = self.enter(client, quorum, &Owner::new()).await
        {
            client.sleep(self.hold / 4).await;
            let _is_valid = client.look(&guard);
        }
    }

    async fn enter(
        &self,
        client: &Client,
        quorum: &Quorum,
        owner: &Owner,
    ) -> Result<Option<LockGuard>, LockError> {
        match self.what {
            What::Both => {
                let locks = [What::One, What::Other].map(|resource| self.lock_on(resource, quorum));
                let lock = MultiLock::new(locks).options(self.options());
                let locked = match self.how {
                    How::Lock => lock.lock().await.map(Some),
                    How::TryLock => lock.try_lock().await,
                    How::TryLockFor(wait) => lock.try_lock_for(wait).await.map(Some),
                    How::Cancel(after) => or_cancel(client, lock.lock(), after).await,
                };
                locked.map(|guard| guard.and_then(MultiLockGuard::into_only))
            }
            What::One | What::Other => {
                let lock = self.lock(quorum, owner);
                match self.how {
                    How::Lock => lock.lock().await.map(Some),
                    How::TryLock => lock.try_lock().await,
                    How::TryLockFor(wait) => lock.try_lock_for(wait).await.map(Some),
                    How::Cancel(after) => or_cancel(client, lock.lock(), after).await,
                }
            }
        }
    }

    fn lock(&self, quorum: &Quorum, owner: &Owner) -> RedLock {
        let lock = self.lock_on(self.what, quorum).options(self.options());
        if self.reenters { lock.owned_by(owner) } else { lock }
    }

    /// One of its locks: to read or to write.
    fn lock_on(&self, resource: What, quorum: &Quorum) -> RedLock {
        let lock = quorum.red_lock(if resource == What::Other { "s" } else { "r" });
        if self.only_reads(resource) { lock.shared() } else { lock }
    }

    fn only_reads(&self, resource: What) -> bool {
        self.reads.is_some_and(|reads| reads == What::Both || reads == resource)
    }

    fn options(&self) -> LockOptions {
        let options = LockOptions::new();
        if self.is_renewed { options } else { options.without_renewal() }
    }

    async fn work(&self, client: &Client, quorum: &Quorum, owner: &Owner, store: &Store, guard: LockGuard) {
        let token = guard.fencing_token();
        let is_about_store = self.what != What::Other;
        let only_reads = self.only_reads(What::One);
        let value = match (is_about_store, only_reads) {
            (false, _) => None,
            (true, false) => store.read(token).await,
            (true, true) => store.read_shared(token).await,
        };
        if self.reenters
            && self.what != What::Both
            && let Ok(Some(inner)) = self.lock(quorum, owner).try_lock().await
        {
            client.reentered(&guard, &inner);
            client.sleep(self.hold / 4).await;
            drop(inner);
        }
        let held = pin!(client.sleep(self.hold));
        if let Either::Right(_) = select(held, pin!(client.lost(&guard))).await {
            assert!(!client.look(&guard), "a lease that is announced as lost looks valid");
        }
        let is_valid = client.look(&guard);
        if self.verifies {
            drop(client.verify(&guard).await);
        }
        if is_about_store && only_reads {
            let _again = store.read_shared(token).await;
        } else if let Some(value) = value {
            // Valid or not: refusing what comes too late is the store's business.
            let _is_accepted = store.write(token, value + 1).await;
        }
        if !self.downgrades {
            return self.leave(client, guard, is_valid).await;
        }
        // It fails where the lease is over, and where no quorum answers in time.
        if let Ok(guard) = client.downgrade(guard).await {
            if is_about_store {
                let _written = store.read_shared(guard.fencing_token()).await;
            }
            client.sleep(self.hold / 4).await;
            let is_valid = client.look(&guard);
            self.leave(client, guard, is_valid).await;
        }
    }

    async fn leave(&self, client: &Client, guard: LockGuard, is_valid: bool) {
        match self.ending {
            Ending::Overstay if !self.is_renewed => {
                client.lost(&guard).await;
                assert!(!client.look(&guard), "a lease that is announced as lost looks valid");
            }
            Ending::Drop => drop(guard),
            Ending::Unlock | Ending::Overstay => {
                let unlocked = guard.unlock().await;
                assert!(is_valid || unlocked.is_err(), "a lease that was over was unlocked");
            }
        }
    }
}

/// Waits so long for the lock, and then drops the future.
async fn or_cancel<T>(
    client: &Client,
    lock: impl Future<Output = Result<T, LockError>>,
    after: Duration,
) -> Result<Option<T>, LockError> {
    match select(pin!(lock), pin!(client.sleep(after))).await {
        Either::Left((locked, _)) => locked.map(Some),
        Either::Right(_) => Ok(None),
    }
}
