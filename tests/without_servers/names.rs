//! Names on in-memory nodes, in virtual time: each name is a resource of its own, whatever the names have in common.

use std::time::Duration;

use redquorum::{MemoryCluster, Quorum};

/// Names that are equal except for their case or their ends.
const SIMILAR: [&str; 9] = ["job", "Job", "JOB", "jo", "job1", "job:1", "job/", " job", "{job}"];

fn clients(cluster: &MemoryCluster) -> [Quorum; 2] {
    [(), ()].map(|()| Quorum::builder().connect_in_memory(cluster).unwrap())
}

/// Each name is locked while all names before are locked, and is then refused to another client.
#[tokio::test(start_paused = true)]
async fn similar_names_are_locked_independently() {
    let [quorum, other] = clients(&MemoryCluster::new(3));
    let longest = ["a".repeat(512), "a".repeat(511) + "A", "A".to_owned() + &"a".repeat(511)];
    let mut guards = Vec::new();
    for name in SIMILAR.into_iter().chain(longest.iter().map(String::as_str)) {
        guards.push(quorum.red_lock(name).try_lock().await.unwrap().expect(name));
        assert!(other.red_lock(name).try_lock().await.unwrap().is_none(), "{name}");
    }
    assert!(guards.iter().all(|guard| guard.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn similar_names_have_separate_permits_leaders_and_latches() {
    let [quorum, other] = clients(&MemoryCluster::new(3));
    let (mut permits, mut leaderships) = (Vec::new(), Vec::new());
    for name in SIMILAR {
        permits.push(quorum.semaphore(name, 1).try_acquire().await.unwrap().expect(name));
        assert_eq!(other.semaphore(name, 1).available_permits().await.unwrap(), 0, "{name}");
        assert!(other.election(name).leader().await.unwrap().is_none(), "{name}");
        leaderships.push(quorum.election(name).try_campaign(name).await.unwrap().expect(name));
        assert!(!other.latch(name, 1).wait_for(Duration::from_millis(1)).await.unwrap(), "{name}");
        quorum.latch(name, 1).arrive().await.unwrap();
        assert!(other.latch(name, 1).wait_for(Duration::from_millis(1)).await.unwrap(), "{name}");
    }
    for (name, leadership) in SIMILAR.iter().zip(&leaderships) {
        let leader = other.election(name).leader().await.unwrap().expect(name);
        assert_eq!((leader.value(), leader.term()), (name.as_bytes(), leadership.term()));
    }
    assert!(permits.iter().all(|permit| permit.is_valid()));
}

#[tokio::test(start_paused = true)]
async fn a_lock_a_semaphore_and_a_latch_of_one_name_are_independent() {
    let [quorum, other] = clients(&MemoryCluster::new(3));
    let guard = quorum.red_lock("job").lock().await.unwrap();
    let permit = other.semaphore("job", 1).try_acquire().await.unwrap().expect("the lock holds no permit");
    other.latch("job", 1).arrive().await.unwrap();
    assert!(other.red_lock("job").try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    assert!(permit.is_valid());
    assert!(quorum.semaphore("job", 1).try_acquire().await.unwrap().is_none());
    assert!(quorum.red_lock("job").try_lock().await.unwrap().is_some());
}
