//! Elections with blocking calls, on in-memory nodes.

use std::{sync::mpsc, thread, time::Duration};

use redquorum::{
    LockOptions, MemoryCluster,
    blocking::{Quorum, TimedOut, admin},
    error::LossReason,
};

use super::deadlines::{DEADLINE, run_with_deadline};

#[test]
fn a_candidate_on_another_thread_leads_when_the_leader_resigns() {
    run_with_deadline(|| {
        let cluster = MemoryCluster::new(3);
        let quorum = || Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        let first = quorum().election("scheduler").campaign("first").unwrap();
        let mut leaders = quorum().election("scheduler").observe().unwrap();
        assert_eq!(leaders.next().unwrap().value_str(), "first");

        let second = quorum().election("scheduler");
        assert!(second.try_campaign("second").unwrap().is_none());
        let (elected, receiver) = mpsc::channel();
        let candidate = thread::spawn(move || elected.send(second.campaign("second").unwrap()).unwrap());
        assert!(receiver.try_recv().is_err(), "two leaders at once");
        let term = first.term();
        first.resign().unwrap();

        let second = receiver.recv_timeout(DEADLINE).unwrap();
        candidate.join().unwrap();
        assert!(second.is_valid() && second.term() > term);
        let seen = leaders.next().unwrap();
        assert_eq!((seen.value_str(), seen.term()), ("second".into(), second.term()));
        let TimedOut { .. } = leaders.next_within(Duration::from_millis(5)).unwrap_err();
    });
}

#[test]
fn a_force_unlocked_leader_is_deposed() {
    run_with_deadline(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let short = LockOptions::new().ttl(Duration::from_millis(300));
        let leadership = quorum.election("scheduler").options(short).campaign("v").unwrap();
        assert!(leadership.lost_within(Duration::from_millis(1)).is_none());
        admin::force_unlock(&quorum, "scheduler").unwrap();
        assert_eq!(leadership.lost().reason, LossReason::Revoked);
        assert!(!leadership.is_valid() && leadership.ensure().is_err() && leadership.remaining().is_zero());
    });
}
