//! How the command ends, as its exit status tells.

use super::redquorum::{code, on, output, redquorum, stderr};
use crate::support::Cluster;

#[tokio::test]
async fn what_the_command_ends_with_is_passed_on() {
    let cluster = Cluster::start(3).await;
    for expected in [0, 7] {
        let shell = format!("exit {expected}");
        let run = output(on(&cluster, ["--admit-new-nodes", "run", "job", "--", "sh", "-c", &shell])).await;
        assert_eq!(code(&run), expected, "{}", stderr(&run));
        assert_eq!(stderr(&run), "");
    }
}

#[tokio::test]
async fn arguments_that_nobody_understands_are_a_usage_error() {
    let run = output(redquorum(["run", "--no-such-option"])).await;
    assert_eq!(code(&run), 64);
    assert!(stderr(&run).contains("--no-such-option"), "{}", stderr(&run));
}

#[tokio::test]
async fn without_nodes_it_is_a_configuration_error() {
    let run = output(redquorum(["run", "job", "--", "true"])).await;
    assert_eq!(code(&run), 78, "{}", stderr(&run));
}
