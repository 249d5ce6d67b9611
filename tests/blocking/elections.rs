//! Leaders on threads.

use std::{sync::mpsc, thread, time::Duration};

use redquorum::{MemoryCluster, blocking::Quorum, error::LossReason};

use super::patience::{DEADLINE, finishes};

#[test]
fn a_candidate_on_another_thread_leads_when_the_leader_resigns() {
    finishes(|| {
        let cluster = MemoryCluster::new(3);
        let quorum = || Quorum::connect_in_memory(redquorum::Quorum::builder(), &cluster).unwrap();
        let first = quorum().election("scheduler").value("first").campaign().unwrap();
        let mut leaders = quorum().election("scheduler").observe().unwrap();
        assert_eq!(leaders.next().unwrap().value_str(), "first");

        let second = quorum().election("scheduler").value("second");
        assert!(second.try_campaign().unwrap().is_none());
        let (elected, told) = mpsc::channel();
        let candidate = thread::spawn(move || elected.send(second.campaign().unwrap()).unwrap());
        assert!(told.try_recv().is_err(), "one leads at a time");
        let term = first.term();
        first.resign().unwrap();

        let second = told.recv_timeout(DEADLINE).unwrap();
        candidate.join().unwrap();
        assert!(second.is_leader() && second.term() > term);
        let seen = leaders.next().unwrap();
        assert_eq!((seen.value_str(), seen.term()), ("second".into(), second.term()));
        assert!(leaders.next_within(Duration::from_millis(5)).is_none(), "nothing is new");
    });
}

#[test]
fn a_leader_that_is_removed_by_force_is_deposed() {
    finishes(|| {
        let quorum = Quorum::in_memory(3).unwrap();
        let election = quorum.election("scheduler").value("v").ttl(Duration::from_millis(300));
        let leadership = election.campaign().unwrap();
        assert!(leadership.lost_within(Duration::from_millis(1)).is_none());
        quorum.red_lock("scheduler").force_unlock().unwrap();
        assert_eq!(leadership.lost().reason, LossReason::TakenAway);
        assert!(!leadership.is_leader() && leadership.ensure().is_err() && leadership.remaining().is_zero());
    });
}
