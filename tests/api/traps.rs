//! Mistakes that compile, and that the documents of the library describe. Most tests show the effect of a mistake, and
//! one test the right form, on in-memory nodes.

use std::time::Duration;

use redquorum::{LockOptions, Quorum, RedLock, error::LossReason};

/// Longer than an unlock takes on in-memory nodes.
const SOON: Duration = Duration::from_secs(10);

fn lock() -> RedLock {
    Quorum::in_memory(3).unwrap().red_lock("a")
}

/// Whether the lock becomes free within [`SOON`].
async fn becomes_free(lock: &RedLock) -> bool {
    lock.try_lock_for(SOON).await.unwrap().is_some()
}

async fn is_held(lock: &RedLock) -> bool {
    lock.try_lock().await.unwrap().is_none()
}

#[tokio::test]
async fn a_condition_with_is_some_drops_the_guard_before_the_block() {
    let lock = lock();
    if lock.try_lock().await.unwrap().is_some() {
        assert!(becomes_free(&lock).await);
    } else {
        panic!("a free lock was refused");
    }
}

#[tokio::test]
async fn a_binding_keeps_the_guard_for_the_block() {
    let lock = lock();
    if let Some(_guard) = lock.try_lock().await.unwrap() {
        assert!(is_held(&lock).await);
    } else {
        panic!("a free lock was refused");
    }
    assert!(becomes_free(&lock).await);
}

#[tokio::test]
async fn a_binding_to_an_underscore_drops_the_guard_at_once() {
    let lock = lock();
    #[expect(let_underscore_drop, reason = "the mistake of this test")]
    let _ = lock.lock().await.unwrap();
    assert!(becomes_free(&lock).await);
    let _guard = lock.lock().await.unwrap();
    assert!(is_held(&lock).await);
}

#[tokio::test]
async fn a_lease_does_not_keep_the_lock() {
    let lock = lock();
    let lease = lock.lock().await.unwrap().lease();
    assert!(becomes_free(&lock).await);
    assert!(!lease.is_valid());
    assert_eq!(lease.lost().await.reason, LossReason::Unlocked);
}

#[tokio::test]
async fn options_replace_earlier_options() {
    const TTL: Duration = Duration::from_secs(2);
    let short = lock().options(LockOptions::new().ttl(TTL));
    assert!(short.lock().await.unwrap().remaining() <= TTL);
    let default = short.options(LockOptions::new().without_renewal());
    assert!(default.lock().await.unwrap().remaining() > TTL);
}

#[tokio::test]
async fn a_future_that_is_not_polled_does_not_lock() {
    let lock = lock();
    let future = lock.lock();
    assert!(!is_held(&lock).await);
    drop(future);
}
