//! The reports of a command that waits for a quorum, and a run with a silent node.

use std::time::Duration;

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr},
};

use super::{
    redquorum::{TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, output, run, stderr},
    scratch::Scratch,
};

fn lines(child: &mut Child) -> Lines<BufReader<ChildStderr>> {
    BufReader::new(child.stderr.take().unwrap()).lines()
}

/// Returns the next line on standard error.
async fn next(lines: &mut Lines<BufReader<ChildStderr>>) -> String {
    let line =
        tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.expect("a line within the time limit");
    line.unwrap().expect("the output has not ended")
}

/// Returns the next line that is no warning of the library. With `-v`, the library also warns about the missing
/// quorum.
async fn next_notice(lines: &mut Lines<BufReader<ChildStderr>>) -> String {
    loop {
        let line = next(lines).await;
        if !line.contains(": waiting without a quorum ") {
            return line;
        }
    }
}

#[tokio::test]
async fn a_wait_reports_quarantines_once_and_again_after_a_change() {
    let cluster = Cluster::start(3).await;
    // The nodes are not initialised.
    let job = ["--json", "run", "job", "--quorum-timeout", "50s", "--", "true"];
    let mut waiter = command_on(&cluster, job).spawn().unwrap();
    let mut lines_of_waiter = lines(&mut waiter);
    let mut message = async || {
        let line: serde_json::Value = serde_json::from_str(&next(&mut lines_of_waiter).await).unwrap();
        line["notice"]["message"].as_str().unwrap().to_owned()
    };
    let first = message().await;
    let [dead, quarantined] = [0, 1].map(|node| cluster.server(node).address());
    assert!(first.starts_with("no quorum: 0 of 3 nodes vote, 2 needed; "), "{first}");
    assert!(first.contains(&format!("{quarantined}: in quarantine for ")), "{first}");
    cluster.server(0).kill().await;
    // Inspections between the two reports find a shorter remaining quarantine, which is not reported.
    let second = message().await;
    assert!(second.contains(&format!("; {dead}: ")), "{second}");
    assert!(!second.contains(&format!("; {dead}: in quarantine")), "{second}");
    assert!(second.contains(&format!("{quarantined}: in quarantine for ")), "{second}");
    // Now only one node answers, and this node is still in quarantine.
    cluster.server(1).kill().await;
    let third = message().await;
    assert!(third.starts_with("no quorum: 0 of 3 nodes vote, 2 needed; "), "{third}");
    assert!(third.contains(&format!("{}: in quarantine for ", cluster.server(2).address())), "{third}");
}

#[tokio::test]
async fn a_wait_reports_the_loss_and_return_of_the_quorum() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let holder = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let holder = run(&cluster, &["job", "--ttl", "50s"], &holder).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let candidate = ["-v", "elect", "job", "--value", "v", "--quorum-timeout", "50s", "--", "true"];
    let mut waiter = command_admitting_new_nodes(&cluster, candidate).spawn().unwrap();
    let mut lines_of_waiter = lines(&mut waiter);
    let waiting_line = next(&mut lines_of_waiter).await;
    assert!(
        waiting_line.contains("waiting: held by another client") && waiting_line.contains("resource=job id="),
        "{waiting_line}"
    );
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let frozen = cluster.server(0).address();
    let lost = next_notice(&mut lines_of_waiter).await;
    assert!(
        lost.starts_with(&format!("redquorum: no quorum: 1 of 3 nodes votes, 2 needed; {frozen}: ")),
        "{lost}"
    );
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    let mut back = next_notice(&mut lines_of_waiter).await;
    if back.starts_with("redquorum: no quorum: ") {
        // The command may report a change when the first node answers, before the second node answers.
        back = next_notice(&mut lines_of_waiter).await;
    }
    assert_eq!(back, "redquorum: there is a quorum again: enough nodes vote");
    drop(holder);
}

#[tokio::test]
async fn a_silent_node_does_not_delay_a_run() {
    let cluster = Cluster::start(5).await;
    let init = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    cluster.server(4).freeze().await;
    let watch = Stopwatch::start();
    let run = output(command_admitting_new_nodes(&cluster, ["run", "job", "--", "true"])).await;
    // If the command waited for the silent node at its end, the command would report this.
    assert_eq!((exit_code(&run), stderr(&run)), (0, String::new()), "{watch:?}");
    assert!(watch.undelayed() < Duration::from_secs(2), "{watch:?}");
}

#[tokio::test]
async fn an_observer_reports_the_loss_and_return_of_the_quorum() {
    let cluster = Cluster::start(3).await;
    let init = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    let mut observer = command_on(&cluster, ["observe", "job"]).spawn().unwrap();
    let mut lines_of_observer = lines(&mut observer);
    // The observer has connected once a node has its subscription.
    eventually(TIME_LIMIT, "the observer subscribes", async || {
        let channels: Vec<String> = cluster.server(2).query(cmd("PUBSUB").arg("CHANNELS")).await;
        channels.iter().any(|channel| channel.contains("job"))
    })
    .await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let lost = next(&mut lines_of_observer).await;
    assert!(lost.starts_with("redquorum: no quorum: 1 of 3 nodes votes, 2 needed; "), "{lost}");
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    let mut back = next(&mut lines_of_observer).await;
    if back.starts_with("redquorum: no quorum: ") {
        // The nodes may return one by one, and with other reasons.
        back = next(&mut lines_of_observer).await;
    }
    assert_eq!(back, "redquorum: there is a quorum again: enough nodes vote");
}

#[tokio::test]
async fn a_wait_for_connections_names_silent_nodes() {
    let cluster = Cluster::start(3).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, "node_timeout = \"5s\"\nconnect_timeout = \"8s\"\n").unwrap();
    let run =
        output(command_admitting_new_nodes(&cluster, ["--config", &file, "run", "job", "--", "true"])).await;
    assert_eq!(exit_code(&run), 69, "{}", stderr(&run));
    let frozen = cluster.server(1).address();
    let lines_of_waiter: Vec<_> = stderr(&run).lines().map(str::to_owned).collect();
    assert_eq!(lines_of_waiter.len(), 2, "{lines_of_waiter:?}");
    assert!(
        lines_of_waiter[0].starts_with("redquorum: no quorum: 1 of 3 nodes answers, 2 needed; "),
        "{lines_of_waiter:?}"
    );
    assert!(
        lines_of_waiter[0]
            .contains(&format!("{frozen}: unreachable: connected, but no answer to HELLO within ")),
        "{lines_of_waiter:?}"
    );
}

/// With `--json`, the error has the nodes, because programs read each object by itself.
#[tokio::test]
async fn an_error_does_not_repeat_the_nodes_of_the_notice_before() {
    let cluster = Cluster::start(3).await;
    // The nodes are not initialised.
    let wait = &["run", "job", "--wait", "3s", "--", "true"][..];
    let check = async |arguments: &[&str], nodes: &[String]| {
        let mut command = command_on(&cluster, arguments);
        command.env("REDQUORUM_CONNECT_TIMEOUT", "3s");
        let failed = output(command).await;
        let text = stderr(&failed);
        let lines: Vec<&str> = text.lines().collect();
        let (Some(notice), Some(error)) = (lines.first(), lines.last()) else { panic!("no lines") };
        assert_eq!((exit_code(&failed), lines.len()), (69, 2), "{text}");
        let is_json = arguments[0] == "--json";
        for node in nodes {
            let node = format!("{node}: ");
            assert_eq!((notice.contains(&node), error.contains(&node)), (true, is_json), "{text}");
        }
        assert_eq!(error.contains("; the nodes are reported above"), !is_json, "{text}");
    };
    let nodes: Vec<String> = cluster.servers().iter().map(redquorum_tests::Server::address).collect();
    check(wait, &nodes).await;
    check(&[&["--json"], wait].concat(), &nodes).await;
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    for command in [
        &["run", "job", "--", "true"][..],
        &["list"],
        &["init"],
        &["elect", "job", "--value", "v", "-c", "true"],
    ] {
        check(command, &nodes[1..]).await;
        check(&[&["--json"], command].concat(), &nodes[1..]).await;
    }
}

#[tokio::test]
async fn a_wait_for_connections_reports_the_quorum() {
    let cluster = Cluster::start(3).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let job = ["run", "job", "--quorum-timeout", "50s", "--", "true"];
    let mut waiter = command_admitting_new_nodes(&cluster, job).spawn().unwrap();
    let mut lines_of_waiter = lines(&mut waiter);
    let first = next(&mut lines_of_waiter).await;
    assert!(first.starts_with("redquorum: no quorum: 1 of 3 nodes answers, 2 needed; "), "{first}");
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    assert_eq!(next(&mut lines_of_waiter).await, "redquorum: there is a quorum again: enough nodes answer");
    assert!(waiter.wait().await.unwrap().success());
}

/// Returns the numbers of connections that the servers have accepted since [`forget_connections`], without the
/// connection of this query.
async fn connections(cluster: &Cluster) -> Vec<u64> {
    let mut counts = Vec::new();
    for server in cluster.servers() {
        let received = server.info_field("stats", "total_connections_received").await;
        counts.push(received.parse::<u64>().unwrap() - 1);
    }
    counts
}

async fn forget_connections(cluster: &Cluster) {
    for server in cluster.servers() {
        server.command(&["CONFIG", "RESETSTAT"]).await;
    }
}

/// While a run connects, the command also tries the nodes with plain connections, but only after a second. A run on a
/// busy machine may need longer, so the run may be repeated.
#[tokio::test]
async fn a_run_that_connects_at_once_dials_each_node_once() {
    let cluster = Cluster::start(3).await;
    let init = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    eventually(TIME_LIMIT, "a run opens one connection to each node", async || {
        forget_connections(&cluster).await;
        let run = output(command_on(&cluster, ["run", "job", "--", "true"])).await;
        assert_eq!((exit_code(&run), stderr(&run)), (0, String::new()));
        connections(&cluster).await == [1, 1, 1]
    })
    .await;
}
