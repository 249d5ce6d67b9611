//! Tests of stores: an access arrives despite faults of its process, at a time that follows from the seed,
//! and changes no random number of a client.

use std::sync::{Arc, Mutex};

use super::*;
use crate::mutex;

/// Returns the time of the first write to a store.
fn written_at(report: &Report) -> Option<Duration> {
    let mut entries = report.history.entries().iter();
    entries.find(|entry| matches!(entry.event, Event::Written { .. })).map(|entry| entry.at)
}

/// Writes to a store at the start of the run.
async fn write(process: Process) {
    process.store("s").write_unfenced(1).await;
}

#[test]
fn an_access_arrives_even_if_its_process_stops() {
    let (process, lasts) = (0, SECOND);
    let without_fault = written_at(&Simulation::new(Schedule::without_faults(1, 1, 1)).run(write));
    assert!(without_fault.is_some());
    for fault in [Fault::Pause { process, lasts }, Fault::Freeze { process, lasts }, Fault::Kill { process }]
    {
        let at = Duration::from_micros(50);
        let report = Simulation::new(Schedule::without_faults(1, 1, 1).with(at, fault.clone())).run(write);
        assert_eq!((&report.end, written_at(&report)), (&End::Done, without_fault), "{fault}");
    }
}

#[test]
fn the_duration_of_an_access_follows_from_the_seed() {
    let run = |seed| written_at(&Simulation::new(Schedule::without_faults(seed, 1, 1)).run(write));
    assert_eq!(run(1), run(1));
    assert!((2..10).any(|seed| run(seed) != run(1)));
}

#[test]
fn an_access_to_a_store_does_not_change_the_lease_ids_of_a_client() {
    let lease_ids_of_run = |has_access: bool| {
        let lease_ids = Arc::new(Mutex::new(Vec::new()));
        let recorded = Arc::clone(&lease_ids);
        let report = Simulation::new(Schedule::without_faults(1, 1, 1)).run(move |process| {
            let recorded = Arc::clone(&recorded);
            async move {
                if has_access {
                    write(process.clone()).await;
                }
                let guard = process.quorum().unwrap().red_lock("r").lock().await.unwrap();
                mutex::lock(&recorded).push(guard.active_lease().terms.lease_id.clone());
            }
        });
        assert_eq!(report.end, End::Done);
        mutex::lock(&lease_ids).clone()
    };
    let (with_access, without_access) = (lease_ids_of_run(true), lease_ids_of_run(false));
    assert_eq!(with_access, without_access);
}
