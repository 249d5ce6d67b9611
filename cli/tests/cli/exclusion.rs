//! The mutual exclusion of `redquorum run` under one name, shared runs, and the permits of semaphores.

use futures::future::join_all;
use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, eventually};

use super::{
    redquorum::{TIME_LIMIT, command_on, exit_code, output, run, stderr, stdout, wait_for_output},
    scratch::Scratch,
};

#[tokio::test]
async fn concurrent_runs_do_not_overlap_and_tokens_grow() {
    const RUNS: usize = 16;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let notes = scratch.file("notes");
    // Without exclusion, the sleep would let the runs overlap.
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
        assert_eq!(pair[1], format!("e {token}"), "another run began before the end of this run: {lines:?}");
        assert!(token > last, "{lines:?}");
        last = token;
    }
}

/// Each shared run notes its beginning, and ends when the file `end` exists. The exclusive run waits in the queue
/// before this file is written, and fails if a shared run has not ended.
#[tokio::test]
async fn shared_runs_overlap_and_an_exclusive_run_does_not() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [begun, ended, end] = ["begun", "ended", "end"].map(|name| scratch.file(name));
    let together =
        format!("echo >> {begun}; while [ ! -e {end} ]; do sleep 0.01; done; sleep 0.1; echo >> {ended}");
    let alone = format!("[ $(wc -l < {ended}) = 2 ]");
    let shared = || output(run(&cluster, &["job", "--shared"], &together));
    let exclusive = async {
        scratch.lines("begun", 2).await;
        let refused = output(run(&cluster, &["job", "--wait", "0"], "true")).await;
        assert_eq!(exit_code(&refused), 75, "{}", stderr(&refused));
        let waiting = run(&cluster, &["job"], &alone).spawn().unwrap();
        wait_for_queue_entry(&cluster, "job").await;
        std::fs::write(&end, "").unwrap();
        wait_for_output(waiting).await
    };
    let (first, second, last) = futures::join!(shared(), shared(), exclusive);
    for run in [first, second, last] {
        assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
    }
}

/// Waits until the wait queue of a resource has an entry.
async fn wait_for_queue_entry(cluster: &Cluster, resource: &str) {
    let queue = format!("redquorum:queue:{{{resource}}}");
    eventually(TIME_LIMIT, "a run waits in the queue", async || {
        for server in cluster.servers() {
            if server.query::<u64>(cmd("ZCARD").arg(&queue)).await > 0 {
                return true;
            }
        }
        false
    })
    .await;
}

/// At its beginning and its end, each run changes the number of active runs in a file, under a file lock. The run also
/// appends the new number to the file `seen`.
#[tokio::test]
async fn concurrent_runs_never_exceed_the_permits() {
    const PERMITS: usize = 4;
    const CALLERS: usize = 16;
    const RUNS_PER_CALLER: usize = 13;
    const RUNS: usize = CALLERS * RUNS_PER_CALLER;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [active, counts_seen, slots] = ["active", "seen", "slots"].map(|name| scratch.file(name));
    std::fs::write(&active, "0\n").unwrap();
    let change_active = |by: &str| {
        format!(
            "flock {active} sh -c 'n=$(($(cat {active}) {by})); echo $n > {active}; echo $n >> {counts_seen}'"
        )
    };
    let script = format!(
        "{}; echo $REDQUORUM_SLOT >> {slots}; sleep 0.01; {}",
        change_active("+ 1"),
        change_active("- 1")
    );
    let run_repeatedly = async || {
        for _ in 0..RUNS_PER_CALLER {
            let run = output(run(&cluster, &["-n", &PERMITS.to_string(), "job"], &script)).await;
            assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
        }
    };
    join_all((0..CALLERS).map(|_| run_repeatedly())).await;
    let counts: Vec<usize> =
        scratch.lines("seen", 2 * RUNS).await.iter().map(|line| line.parse().unwrap()).collect();
    assert!(counts.iter().all(|count| *count <= PERMITS), "{counts:?}");
    assert!(counts.contains(&2), "no two runs overlapped: {counts:?}");
    let slots: std::collections::BTreeSet<String> = scratch.lines("slots", RUNS).await.into_iter().collect();
    assert_eq!(slots, ["0", "1", "2", "3"].map(str::to_owned).into());
}

#[tokio::test]
async fn a_run_is_refused_while_another_run_has_the_only_permit() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [begun, end] = ["begun", "end"].map(|name| scratch.file(name));
    let holder = output(run(
        &cluster,
        &["-n", "1", "job"],
        &format!("echo 1 >> {begun}; while [ ! -e {end} ]; do sleep 0.01; done"),
    ));
    let checks = async {
        scratch.lines("begun", 1).await;
        let refused = output(run(&cluster, &["-n", "1", "--wait", "0", "job"], "true")).await;
        let late = output(run(&cluster, &["-n", "1", "--wait", "300ms", "job"], "true")).await;
        assert_eq!(exit_code(&late), 75, "{}", stderr(&late));
        let shown = output(command_on(&cluster, ["inspect", "-n", "1", "job"])).await;
        let unlocked = output(command_on(&cluster, ["force-unlock", "--yes", "--slot", "0", "job"])).await;
        std::fs::write(&end, "").unwrap();
        (refused, shown, unlocked)
    };
    let (_, (refused, shown, unlocked)) = futures::future::join(holder, checks).await;
    assert_eq!(exit_code(&refused), 75);
    assert!(
        stderr(&refused).starts_with(
            "redquorum: the permit of job is in use: --wait 0 makes one attempt, and a longer --wait waits; \
             slot 0 of job is held by "
        ),
        "{}",
        stderr(&refused)
    );
    let rows = stdout(&shown);
    assert!(rows.lines().any(|row| row.starts_with("slot 0 of job ") && row.contains(" held ")), "{rows}");
    assert!(rows.ends_with("1 of 1 permit of job in use\n"), "{rows}");
    assert!(stdout(&unlocked).contains("unlocked on 3 of 3 nodes"), "{}", stdout(&unlocked));
}

#[tokio::test]
async fn an_invalid_number_of_permits_or_a_second_name_is_refused() {
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
        stderr(&refused).contains("-n 4 takes one name, the name of a semaphore, but 2 names are given"),
        "{}",
        stderr(&refused)
    );
}
