//! Two runs of one name never overlap.

use futures::future::join_all;
use redquorum_tests::Cluster;

use super::{
    redquorum::{code, output, run, stderr},
    scratch::Scratch,
};

#[tokio::test]
async fn of_many_runs_at_once_none_overlaps_another_and_tokens_grow() {
    const RUNS: usize = 16;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let notes = scratch.file("notes");
    // The sleep lets others in, if anything does.
    let script = format!(
        "echo b $REDQUORUM_FENCING_TOKEN >> {notes}; sleep 0.02; echo e $REDQUORUM_FENCING_TOKEN >> {notes}"
    );
    let runs = (0..RUNS).map(|_| output(run(&cluster, &["job"], &script)));
    for run in join_all(runs).await {
        assert_eq!(code(&run), 0, "{}", stderr(&run));
    }
    let lines = scratch.lines("notes", 2 * RUNS).await;
    let mut last = 0;
    for pair in lines.chunks(2) {
        let token: u64 = pair[0].strip_prefix("b ").expect("one begins").parse().unwrap();
        assert_eq!(pair[1], format!("e {token}"), "and ends before the next: {lines:?}");
        assert!(token > last, "{lines:?}");
        last = token;
    }
}

/// Those that share wait for each other, which ends only if they run at once; the one that does not
/// finds none of them.
#[tokio::test]
async fn runs_that_share_a_name_run_together_and_one_that_does_not_runs_alone() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let [met, inside] = ["met", "inside"].map(|name| scratch.file(name));
    let together = format!(
        "echo 1 >> {met}; echo 1 >> {inside}; while [ $(wc -l < {met}) -lt 2 ]; do sleep 0.01; done; echo 0 >> {inside}"
    );
    let alone = format!("[ $(grep -c 1 {inside}) = $(grep -c 0 {inside}) ]");
    let shared = |number: u32| output(run(&cluster, &["job", "--shared"], &format!("{together} # {number}")));
    let (one, other) = futures::future::join(shared(1), shared(2)).await;
    let last = output(run(&cluster, &["job"], &alone)).await;
    for run in [one, other, last] {
        assert_eq!(code(&run), 0, "{}", stderr(&run));
    }
}
