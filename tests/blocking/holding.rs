//! Leases of threads in the blocking API, on in-memory nodes: exclusion, renewal, loss, re-entry, groups,
//! permits, latches, readers and tickets.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use redquorum::{
    Error, LockOptions, MemoryCluster, Owner, Ticket,
    blocking::{MultiLock, Quorum},
    error::{ConfigError, LeaseLost, LossReason},
    inspection::LockState,
};

use super::deadlines::{eventually, run_with_deadline};

/// The ttl of a lease that has to expire in the test, and the duration of a wait that must not succeed.
const SHORT: Duration = Duration::from_millis(200);

/// The ttl of a lease that has to be renewed in time, on a machine that delays threads.
const RENEWED: Duration = Duration::from_secs(2);

#[test]
fn threads_of_several_clients_exclude_each_other() {
    const CLIENTS: u64 = 2;
    const THREADS: u64 = 3;
    /// The number of locks of each thread.
    const TIMES: u64 = 20;
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(5);
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                let quorum = Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
                for _ in 0..THREADS {
                    let (lock, count) = (quorum.red_lock("counter"), &count);
                    scope.spawn(move || {
                        for _ in 0..TIMES {
                            let guard = lock.lock().unwrap();
                            // Two concurrent holders would lose an update.
                            let before = count.load(Ordering::SeqCst);
                            thread::yield_now();
                            count.store(before + 1, Ordering::SeqCst);
                            guard.unlock().unwrap();
                        }
                    });
                }
            }
        });
        assert_eq!(count.into_inner(), CLIENTS * THREADS * TIMES);
    });
}

#[test]
fn a_lease_is_renewed_while_its_holder_computes() {
    run_with_deadline(|| {
        let guard = Quorum::in_memory(3)
            .unwrap()
            .red_lock("r")
            .options(LockOptions::new().ttl(RENEWED))
            .lock()
            .unwrap();
        let locked_by = Instant::now();
        eventually("the lease outlives its first validity by a ttl", || {
            let is_later = locked_by.elapsed() > 2 * RENEWED;
            assert!(guard.is_valid());
            is_later
        });
        guard.unlock().unwrap();
    });
}

#[test]
fn every_call_reports_the_end_of_a_lease_in_time() {
    run_with_deadline(|| {
        let lock = Quorum::in_memory(3)
            .unwrap()
            .red_lock("r")
            .options(LockOptions::new().ttl(SHORT).without_renewal());
        let guard = lock.lock().unwrap();
        let lease = guard.lease();
        let watcher = thread::spawn(move || lease.lost());
        eventually("the lease ends", || !guard.is_valid());
        let lost = guard.lost_within(Duration::ZERO).unwrap();
        assert_eq!(lost.reason, LossReason::Expired);
        assert_eq!(guard.ensure(), Err(Error::LeaseLost(lost.clone())));
        assert!(guard.remaining().is_zero());
        assert_eq!(guard.lost(), watcher.join().unwrap());
        assert_eq!(guard.unlock().unwrap_err(), Error::LeaseLost(lost));
    });
}

#[test]
fn a_wait_for_the_loss_ends_at_its_deadline_or_at_the_loss() {
    run_with_deadline(|| {
        let lock = Quorum::in_memory(3).unwrap().red_lock("r");
        let guard = lock.lock().unwrap();
        assert_eq!(guard.lost_within(Duration::from_millis(5)), None);
        let lease = guard.lease();
        let watcher = thread::spawn(move || lease.lost_within(Duration::MAX));
        guard.unlock().unwrap();
        assert_eq!(watcher.join().unwrap().unwrap().reason, LossReason::Unlocked);
    });
}

#[test]
fn a_panic_unlocks_the_locks_of_its_thread() {
    run_with_deadline(|| {
        let lock = Quorum::in_memory(3).unwrap().red_lock("r");
        let held = lock.clone();
        let holder = thread::spawn(move || {
            let _guard = held.lock().unwrap();
            panic!("this panic is part of the test");
        });
        holder.join().unwrap_err();
        lock.try_lock().unwrap().expect("the panic did not unlock the resource").unlock().unwrap();

        let ran = lock.clone();
        let runner = thread::spawn(move || ran.run(|_| panic!("this panic, too, is part of the test")));
        runner.join().unwrap_err();
        lock.try_lock().unwrap().expect("the panic did not unlock the resource").unlock().unwrap();
    });
}

#[test]
fn a_loss_drops_the_value_of_a_closure_that_continues() {
    run_with_deadline(|| {
        let lock = Quorum::in_memory(3)
            .unwrap()
            .red_lock("r")
            .options(LockOptions::new().ttl(SHORT).without_renewal());
        let mut is_at_its_end = false;
        let outcome = lock.run(|guard| {
            guard.ensure().unwrap();
            eventually("the lease is lost", || !guard.is_valid());
            is_at_its_end = true;
        });
        assert!(is_at_its_end);
        let Err(Error::LeaseLost(LeaseLost { reason, .. })) = outcome else { panic!("{outcome:?}") };
        assert_eq!(reason, LossReason::Expired);
    });
}

#[test]
fn an_owner_re_enters_and_other_calls_are_refused() {
    run_with_deadline(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let (owner, lock) = (Owner::new(), quorum.red_lock("r"));
        let outer = lock.clone().owned_by(&owner).lock().unwrap();
        let inner = owner.sync_scope(|| lock.lock()).unwrap();
        assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
        assert!(lock.try_lock().unwrap().is_none(), "the owner of the scope applies after its end");
        inner.unlock().unwrap();
        assert!(outer.is_valid() && outer.holds() == 1);
        outer.unlock().unwrap();
        assert!(lock.try_lock().unwrap().is_some());
    });
}

#[test]
fn an_async_scope_applies_to_blocking_calls_in_it() {
    run_with_deadline(|| {
        let lock = Quorum::in_memory(3).unwrap().red_lock("r");
        let owner = Owner::new();
        let holds = futures::executor::block_on(owner.scope(async {
            let _outer = lock.lock().unwrap();
            lock.lock().unwrap().holds()
        }));
        assert_eq!(holds, 2);
    });
}

#[test]
fn a_group_over_two_quorums_is_all_or_nothing() {
    run_with_deadline(|| {
        let of = |name| {
            Quorum::connect_in_memory(redquorum::Quorum::builder().name(name), &MemoryCluster::new(3))
                .unwrap()
        };
        let (eu, us) = (of("eu"), of("us"));
        let both = MultiLock::across([eu.red_lock("a"), us.red_lock("b")]);
        let guard = both.lock().unwrap();
        let resources: Vec<String> = guard.leases().map(|lease| lease.resource().to_string()).collect();
        assert_eq!(resources, ["a", "b"]);
        assert!(eu.red_lock("a").try_lock().unwrap().is_none());
        assert!(us.red_lock("b").try_lock().unwrap().is_none());
        guard.unlock().unwrap();
        let held = us.red_lock("b").lock().unwrap();
        assert!(both.try_lock().unwrap().is_none());
        assert!(both.try_lock_for(SHORT).unwrap().is_none());
        assert!(eu.red_lock("a").try_lock().unwrap().is_some(), "the refused group holds a resource");
        held.unlock().unwrap();
    });
}

#[test]
fn a_guard_across_quorums_keeps_their_clients() {
    run_with_deadline(|| {
        let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
        let of = |name, cluster| {
            Quorum::connect_in_memory(redquorum::Quorum::builder().name(name), cluster).unwrap()
        };
        let both = MultiLock::across([
            of("eu", &clusters[0]).red_lock("a").options(LockOptions::new().ttl(RENEWED)),
            of("us", &clusters[1]).red_lock("b").options(LockOptions::new().ttl(RENEWED)),
        ]);
        let guard = both.lock().unwrap();
        drop(both);
        let begin = Instant::now();
        eventually("the lease outlives its first validity by a ttl", || {
            assert!(guard.is_valid(), "a client stopped its renewals");
            begin.elapsed() > RENEWED * 2
        });
        assert!(of("us", &clusters[1]).red_lock("b").try_lock().unwrap().is_none());
    });
}

#[test]
fn threads_share_permits_and_lock_any_of_several_resources() {
    run_with_deadline(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let semaphore = quorum.semaphore("s", 2);
        let permits = [semaphore.acquire().unwrap(), semaphore.try_acquire_for(SHORT).unwrap().unwrap()];
        assert!(semaphore.try_acquire().unwrap().is_none() && permits[0].slot() != permits[1].slot());
        let waiting = thread::spawn({
            let semaphore = semaphore.clone();
            move || semaphore.run(|permit| permit.is_valid() && permit.slot() < 2).unwrap()
        });
        for permit in permits {
            permit.renew().unwrap();
            permit.release().unwrap();
        }
        assert!(waiting.join().unwrap());
        assert_eq!(semaphore.available_permits().unwrap(), 2);

        let any = quorum.any_of(["a", "b"]);
        let guards = [any.lock().unwrap(), any.try_lock_for(SHORT).unwrap().unwrap()];
        assert!(any.try_lock().unwrap().is_none());
        drop(guards);
        assert!(any.run(|guard| guard.is_valid()).unwrap());
    });
}

#[test]
fn threads_acquire_several_permits_and_meet_at_a_latch() {
    run_with_deadline(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let semaphore = quorum.semaphore("s", 3);
        let permits = semaphore.acquire_many(2).unwrap();
        assert_eq!(permits.len(), 2);
        assert!(semaphore.try_acquire_many(2).unwrap().is_none());
        assert!(semaphore.try_acquire_many_for(2, SHORT).unwrap().is_none());
        let slot = semaphore.slot_resource(permits[0].slot()).unwrap();
        assert_eq!(quorum.inspect(slot).unwrap().holder(), Some(permits[0].id()));
        let multi_permit = semaphore.multi_permit_resource().unwrap();
        assert_eq!(quorum.inspect(multi_permit).unwrap().holder(), None);
        let beyond = semaphore.slot_resource(3).unwrap_err();
        assert!(matches!(beyond, ConfigError::OutOfRange { setting: "slot", .. }), "{beyond}");

        let latches: Vec<_> = (0..3).map(|_| quorum.latch("l", 3)).collect();
        assert!(!latches[0].wait_for(SHORT).unwrap());
        let meet = latches.into_iter().map(|latch| {
            thread::spawn(move || {
                latch.arrive().unwrap();
                latch.wait().unwrap();
                latch.arrivals().unwrap()
            })
        });
        let meet: Vec<_> = meet.collect();
        assert!(meet.into_iter().all(|thread| thread.join().unwrap() == 3));
        quorum.latch("l", 3).retention(Duration::from_secs(60)).arrive_as("late").unwrap();
    });
}

#[test]
fn threads_read_together_write_alone_and_downgrade() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let connect = || Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        let (quorum, other) = (connect(), connect());
        let (lock, others) = (quorum.rw_lock("r"), other.rw_lock("r"));
        let reader = lock.read().unwrap();
        others.read().unwrap().unlock().unwrap();
        assert_eq!(other.inspect("r").unwrap().state(), LockState::Shared);
        assert!(others.try_write().unwrap().is_none());
        reader.unlock().unwrap();
        let writer = others.write().unwrap();
        assert!(lock.try_read().unwrap().is_none());
        let reader = writer.downgrade().unwrap();
        assert!(lock.run_read(|guard| guard.is_valid()).unwrap());
        reader.unlock().unwrap();
        let reader = others.read().unwrap();
        let group = quorum.multi_lock(["s"]).and_read(["r"]).lock().unwrap();
        assert!(reader.is_valid() && group.is_valid());
    });
}

/// The ttl of a ticket, which does not end during a test.
const TICKET_TTL: Duration = Duration::from_secs(60);

#[test]
fn a_thread_of_another_client_redeems_a_ticket_once() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let connect = || Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        let (giver, worker, other) = (connect(), connect(), connect());
        let redeem = |quorum: &Quorum, text: &str| {
            let ticket: Ticket = text.parse().unwrap();
            quorum.redeem(&ticket, LockOptions::new()).unwrap()
        };
        let guard = giver.red_lock("r").lock().unwrap();
        let (lease, given) = (guard.lease(), guard.fencing_token());
        let ticket = guard.into_ticket(TICKET_TTL).unwrap();
        let text = ticket.to_string();
        assert_eq!(lease.lost().reason, LossReason::Unlocked);
        assert!(other.red_lock("r").try_lock().unwrap().is_none(), "the lock is free before the redemption");

        let guard = thread::scope(|scope| scope.spawn(|| redeem(&worker, &text)).join().unwrap());
        let guard = guard.expect("the ticket is good");
        assert!(given < ticket.fencing_token() && ticket.fencing_token() < guard.fencing_token());
        assert!(redeem(&other, &text).is_none() && redeem(&worker, &text).is_none());
        // The release of a redeemed ticket leaves the lease.
        assert!(giver.release(&ticket).unwrap().has_quorum());
        assert!(guard.verify().unwrap() && other.red_lock("r").try_lock().unwrap().is_none());
        guard.unlock().unwrap();
        assert!(redeem(&other, &text).is_none(), "the ticket is good again after the unlock");
        other.red_lock("r").try_lock().unwrap().expect("the resource is free").unlock().unwrap();
    });
}

#[test]
fn a_released_ticket_is_spent_and_a_lost_lease_becomes_no_ticket() {
    run_with_deadline(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let lock = quorum.red_lock("r");
        let ticket = lock.lock().unwrap().into_ticket(TICKET_TTL).unwrap();
        assert!(lock.try_lock().unwrap().is_none());
        assert!(quorum.release(&ticket).unwrap().has_quorum());
        assert!(quorum.redeem(&ticket, LockOptions::new()).unwrap().is_none());
        let guard = lock.options(LockOptions::new().ttl(SHORT).without_renewal()).try_lock().unwrap();
        let guard = guard.expect("the resource is free");
        eventually("the lease ends", || !guard.is_valid());
        let refused = guard.into_ticket(TICKET_TTL).unwrap_err();
        assert!(
            matches!(&refused, Error::LeaseLost(LeaseLost { reason: LossReason::Expired, .. })),
            "{refused:?}"
        );
    });
}
