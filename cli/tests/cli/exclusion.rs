//! The mutual exclusion of runs with the same name, and the permits of semaphores.

use futures::future::join_all;
use redquorum_tests::Cluster;

use super::{
    redquorum::{command_on, exit_code, output, run, stderr, stdout},
    scratch::Scratch,
};

#[tokio::test]
async fn concurrent_runs_do_not_overlap_and_tokens_grow() {
    const RUNS: usize = 16;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let notes = scratch.file("notes");
    // The sleep lets runs that are not excluded overlap.
    let script = format!(
        "echo b $REDQUORUM_FENCING_TOKEN >> {notes}; sleep 0.02; echo e $REDQUORUM_FENCING_TOKEN >> {notes}"
    );
    let runs = (0..RUNS).map(|_| output(run(&cluster, &["job"], &script)));
    for run in join_all(runs).await {
        assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
    }
    let lines = scratch.lines("notes", 2 * RUNS).await;
    let mut last = 0;
    for pair in lines.chunks(2) {
        let token: u64 = pair[0].strip_prefix("b ").expect("a run begins").parse().unwrap();
        assert_eq!(pair[1], format!("e {token}"), "the run ends before the next run begins: {lines:?}");
        assert!(token > last, "{lines:?}");
        last = token;
    }
}

/// Each shared run waits until both have started, so they end only if they overlap. The exclusive
/// run fails if a shared run is active.
#[tokio::test]
async fn shared_runs_overlap_and_an_exclusive_run_does_not() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [met, inside] = ["met", "inside"].map(|name| scratch.file(name));
    let together = format!(
        "echo 1 >> {met}; echo 1 >> {inside}; while [ $(wc -l < {met}) -lt 2 ]; do sleep 0.01; done; echo 0 >> {inside}"
    );
    let alone = format!("[ $(grep -c 1 {inside}) = $(grep -c 0 {inside}) ]");
    let shared = |number: u32| output(run(&cluster, &["job", "--shared"], &format!("{together} # {number}")));
    let (first, second) = futures::future::join(shared(1), shared(2)).await;
    let last = output(run(&cluster, &["job"], &alone)).await;
    for run in [first, second, last] {
        assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
    }
}

/// Each run counts the active runs in a file, under a file lock.
#[tokio::test]
async fn concurrent_runs_never_exceed_the_permits() {
    const PERMITS: usize = 4;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [active, counts_seen, slots] = ["at_work", "seen", "slots"].map(|name| scratch.file(name));
    std::fs::write(&active, "0\n").unwrap();
    let change = |by: &str| {
        format!(
            "flock {active} sh -c 'n=$(($(cat {active}) {by})); echo $n > {active}; echo $n >> {counts_seen}'"
        )
    };
    let script = format!("{}; echo $REDQUORUM_SLOT >> {slots}; sleep 0.01; {}", change("+ 1"), change("- 1"));
    let process = async || {
        for _ in 0..13 {
            let run = output(run(&cluster, &["-n", "4", "job"], &script)).await;
            assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
        }
    };
    join_all((0..16).map(|_| process())).await;
    let counts: Vec<usize> =
        scratch.lines("seen", 2 * 16 * 13).await.iter().map(|line| line.parse().unwrap()).collect();
    assert!(counts.iter().all(|count| *count <= PERMITS), "{counts:?}");
    assert!(counts.contains(&2), "no two runs overlapped: {counts:?}");
    let slots: std::collections::BTreeSet<String> =
        scratch.lines("slots", 16 * 13).await.into_iter().collect();
    assert_eq!(slots, ["0", "1", "2", "3"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_run_without_waiting_reports_that_all_permits_are_in_use() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [begun, end] = ["begun", "end"].map(|name| scratch.file(name));
    let held = output(run(
        &cluster,
        &["-n", "1", "job"],
        &format!("echo 1 >> {begun}; while [ ! -e {end} ]; do sleep 0.01; done"),
    ));
    let other = async {
        scratch.lines("begun", 1).await;
        let refused = output(run(&cluster, &["-n", "1", "--wait", "0", "job"], "true")).await;
        let late = output(run(&cluster, &["-n", "1", "--wait", "300ms", "job"], "true")).await;
        assert_eq!(exit_code(&late), 75, "{}", stderr(&late));
        let shown = output(command_on(&cluster, ["inspect", "-n", "1", "job"])).await;
        let unlocked = output(command_on(&cluster, ["force-unlock", "--yes", "--slot", "0", "job"])).await;
        std::fs::write(&end, "").unwrap();
        (refused, shown, unlocked)
    };
    let (_, (refused, shown, unlocked)) = futures::future::join(held, other).await;
    assert_eq!(
        (exit_code(&refused), &*stderr(&refused)),
        (
            75,
            "redquorum: job has 1 permit, and all are in use: --wait 0 makes one attempt, and a longer --wait \
          waits\n"
        )
    );
    assert!(stdout(&shown).contains("slot 0 of job is held by "), "{}", stdout(&shown));
    assert!(stdout(&unlocked).contains("unlocked on 3 of 3 nodes"), "{}", stdout(&unlocked));
}

#[tokio::test]
async fn permits_of_several_names_or_out_of_range_are_refused() {
    let cluster = Cluster::start(1).await;
    for permits in ["0", "2000"] {
        let refused = output(run(&cluster, &["-n", permits, "a"], "true")).await;
        assert_eq!(exit_code(&refused), 64, "{}", stderr(&refused));
    }
    let refused = output(command_on(&cluster, ["force-unlock", "--yes", "--slot", "1024", "a"])).await;
    assert_eq!(exit_code(&refused), 64, "{}", stderr(&refused));
    let refused = output(run(&cluster, &["-n", "4", "a", "b"], "true")).await;
    assert_eq!(exit_code(&refused), 64);
    assert!(
        stderr(&refused).contains("-n 4 with 2 names: a semaphore cannot be part of a group; give one name"),
        "{}",
        stderr(&refused)
    );
}
