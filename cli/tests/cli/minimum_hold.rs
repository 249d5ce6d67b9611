//! `redquorum run --hold-at-least`: a job that several hosts start runs once.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redquorum_tests::Cluster;

use super::{
    redquorum::{command_on, exit_code, output, run, stderr, wait_until_free},
    scratch::Scratch,
};

/// The time from the first start of the job to the last start.
const STARTS: Duration = Duration::from_secs(2);

#[tokio::test]
async fn ten_hosts_that_start_a_short_job_within_two_seconds_run_it_once() {
    const HOSTS: u32 = 10;
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let job = format!("echo $REDQUORUM_FENCING_TOKEN >> {}; sleep 0.01", scratch.file("ran"));
    let hosts = (0..HOSTS).map(|host| {
        let (cluster, job) = (&cluster, &job);
        async move {
            tokio::time::sleep(STARTS * host / HOSTS).await;
            output(run(cluster, &["job", "--wait", "0", "--hold-at-least", "30s"], job)).await
        }
    });
    let ended = join_all(hosts).await;
    let mut codes: Vec<i32> = ended.iter().map(exit_code).collect();
    codes.sort_unstable();
    assert_eq!(codes[0], 0, "{}", stderr(&ended[0]));
    assert!(codes[1..].iter().all(|code| *code == 75), "{codes:?}");
    assert_eq!(scratch.lines("ran", 1).await.len(), 1);
    let unlocked = output(command_on(&cluster, ["force-unlock", "job", "--yes"])).await;
    assert_eq!(exit_code(&unlocked), 0, "{}", stderr(&unlocked));
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_job_does_not_wait_for_the_end_of_its_minimum_hold() {
    let cluster = Cluster::start(3).await;
    let start = Instant::now();
    let ended = output(run(&cluster, &["job", "--hold-at-least", "3s"], "true")).await;
    assert_eq!(exit_code(&ended), 0, "{}", stderr(&ended));
    let next = output(run(&cluster, &["job"], "true")).await;
    assert_eq!(exit_code(&next), 0, "{}", stderr(&next));
    assert!(start.elapsed() >= Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_minimum_hold_beyond_the_longest_ttl_or_of_readers_is_refused() {
    let cluster = Cluster::start(1).await;
    let longer = output(run(&cluster, &["job", "--hold-at-least", "61s"], "true")).await;
    assert_eq!(exit_code(&longer), 78, "{}", stderr(&longer));
    assert!(stderr(&longer).contains("hold_at_least is 61s"), "{}", stderr(&longer));
    let shared = output(run(&cluster, &["job", "--shared", "--hold-at-least", "1s"], "true")).await;
    assert_eq!(exit_code(&shared), 64, "{}", stderr(&shared));
}
