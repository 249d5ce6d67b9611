//! `redquorum latch`.

use redquorum::{Quorum, admin, unstable_redis::redis::cmd};
use redquorum_tests::{Cluster, eventually};
use tokio::io::AsyncWriteExt;

use super::{
    pty::Pty,
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, json, output, stderr, stdout,
        wait_for_output, without_patience,
    },
    terminal::on_a_terminal_of,
};

/// Returns `redquorum latch` with these arguments.
fn latch(cluster: &Cluster, arguments: &[&str]) -> tokio::process::Command {
    let mut command = command_admitting_new_nodes(cluster, ["latch"]);
    command.args(arguments);
    command
}

#[tokio::test]
async fn a_wait_in_one_process_ends_with_the_last_arrival_of_another() {
    let cluster = Cluster::start(3).await;
    let first = output(latch(&cluster, &["deploy:7", "--count", "2", "arrive"])).await;
    assert_eq!((exit_code(&first), stderr(&first)), (0, String::new()));
    assert!(stdout(&first).starts_with("latch deploy:7 is closed: 1 of 2 arrivals"), "{}", stdout(&first));
    let waiting = latch(&cluster, &["deploy:7", "--count", "2", "wait"]).spawn().unwrap();
    // One of three nodes is down for the rest of the test.
    cluster.server(2).kill().await;
    let again = ["deploy:7", "--count", "2", "--id", "job 1", "arrive"];
    for _ in 0..2 {
        assert_eq!(exit_code(&output(latch(&cluster, &again)).await), 0, "an id arrives again");
    }
    let waited = wait_for_output(waiting).await;
    assert_eq!(
        (exit_code(&waited), stdout(&waited)),
        (0, "latch deploy:7 is open: 2 of 2 arrivals\n".into())
    );
    // A latch stays open.
    let later = output(latch(&cluster, &["deploy:7", "--count", "2", "wait", "--wait", "20s"])).await;
    assert_eq!(exit_code(&later), 0, "{}", stderr(&later));
}

#[tokio::test]
async fn a_closed_latch_ends_a_wait_with_82_and_the_arrivals() {
    let cluster = Cluster::start(3).await;
    let mut arrive = latch(&cluster, &["l", "--count", "3", "arrive"]);
    arrive.env("REDQUORUM_LABEL", "web-1");
    assert_eq!(exit_code(&output(arrive).await), 0);
    for (wait, words) in [("0", "checks once"), ("2s", "within --wait 2s")] {
        let closed = output(latch(&cluster, &["l", "--count", "3", "--wait", wait, "wait"])).await;
        let message = stderr(&closed);
        assert_eq!((exit_code(&closed), stdout(&closed)), (82, String::new()), "{message}");
        assert!(
            message.contains("latch l is closed (1 of 3 arrivals)") && message.contains(words),
            "{message}"
        );
        assert!(message.contains("arrived: web-1"), "{message}");
    }
    let closed = output(latch(&cluster, &["--json", "l", "--count", "3", "--wait", "2s", "wait"])).await;
    assert!(
        stderr(&closed).starts_with(r#"{"error":{"kind":"latch_closed","exit":82"#),
        "{}",
        stderr(&closed)
    );
}

#[tokio::test]
async fn show_has_the_arrivals_on_each_node_without_a_number() {
    let cluster = Cluster::start(3).await;
    let none = json(&output(latch(&cluster, &["--json", "l", "show"])).await).remove(0);
    assert_eq!(
        (&none["open"], &none["arrivals"], &none["count"]),
        (&false.into(), &0.into(), &None::<u32>.into())
    );
    for label in ["web-1", "web-2"] {
        let mut arrive = latch(&cluster, &["l", "--count", "3", "arrive"]);
        arrive.env("REDQUORUM_LABEL", label);
        assert_eq!(exit_code(&output(arrive).await), 0);
    }
    cluster.server(1).kill().await;
    let shown = json(&output(latch(&cluster, &["--json", "l", "show"])).await).remove(0);
    assert_eq!((&shown["latch"], &shown["open"]), (&"l".into(), &false.into()));
    assert_eq!((&shown["arrivals"], &shown["count"]), (&2.into(), &3.into()));
    let labels: Vec<_> =
        shown["arrived"].as_array().unwrap().iter().map(|arrival| &arrival["label"]).collect();
    assert_eq!(labels, ["web-1", "web-2"]);
    let nodes = shown["nodes"].as_array().unwrap();
    assert_eq!((&nodes[0]["arrivals"], &nodes[1]["arrivals"]), (&2.into(), &None::<u32>.into()));
    assert!(nodes[1]["error"].as_str().unwrap().contains("unreachable"), "{shown}");
    let pty = Pty::open(80);
    let mut show = pty.spawn(command_on(&cluster, ["latch", "l", "show"]));
    assert!(tokio::time::timeout(TIME_LIMIT, show.wait()).await.unwrap().unwrap().success());
    pty.wait_until_shown("latch l is closed: 2 of 3 arrivals").await;
    let text = pty.text();
    assert!(text.contains("arrived: web-1, web-2") && text.contains("(unknown)"), "{text}");
    assert!(text.lines().all(|line| line.trim_end().chars().count() <= 80), "{text}");
    let refused = output(latch(&cluster, &["l", "--count", "2", "show"])).await;
    assert_eq!(exit_code(&refused), 78);
    assert!(stderr(&refused).contains("opens at 3 arrivals, not at 2"), "{}", stderr(&refused));
}

#[tokio::test]
async fn open_asks_if_arrivals_are_missing() {
    let cluster = Cluster::start(3).await;
    let waiting = latch(&cluster, &["l", "--count", "3", "wait"]).spawn().unwrap();
    assert_eq!(exit_code(&output(latch(&cluster, &["l", "--count", "3", "--id", "a", "arrive"])).await), 0);
    let refused = output(latch(&cluster, &["l", "--count", "3", "open"])).await;
    assert_eq!(exit_code(&refused), 64);
    assert!(stderr(&refused).contains("--yes"), "{}", stderr(&refused));
    let ask = async |answer: &[u8]| {
        let open = command_on(&cluster, ["latch", "l", "--count", "3", "open"]);
        let mut open = on_a_terminal_of(24, 80, &open).spawn().unwrap();
        open.stdin.take().unwrap().write_all(answer).await.unwrap();
        wait_for_output(open).await
    };
    let declined = ask(b"n\n").await;
    assert_eq!(exit_code(&declined), 83);
    let question = stdout(&declined);
    assert!(question.contains("open latch l without 2 arrivals?"), "{question}");
    let opened = ask(b"y\n").await;
    assert_eq!(exit_code(&opened), 0, "{}", stdout(&opened));
    assert_eq!(exit_code(&wait_for_output(waiting).await), 0);
    let shown = stdout(&output(command_on(&cluster, ["latch", "l", "show"])).await);
    // A node records no later arrivals once the waiting client has told it that the latch is open.
    for row in shown.lines().filter(|line| line.starts_with("127.0.0.1:")) {
        let numbers: Vec<u32> =
            row.split_whitespace().skip(1).map(|number| number.parse().unwrap()).collect();
        assert!(matches!(numbers[..], [1..=3, 3]), "{shown}");
    }
    assert!(shown.contains("\narrived: a; opened by "), "{shown}");
    assert!(shown.ends_with("\nlatch l is open: 3 of 3 arrivals (2 by open)\n"), "{shown}");
    let listed = stdout(&output(command_on(&cluster, ["list"])).await);
    assert!(listed.contains(" 3 of 3 (2 by open) "), "{listed}");
    // Nothing is asked for an open latch.
    assert_eq!(exit_code(&output(latch(&cluster, &["l", "--count", "3", "open"])).await), 0);
}

/// Each of two nodes lacks one arrival.
#[tokio::test]
async fn show_counts_and_names_the_arrivals_of_all_nodes_if_there_are_many() {
    let cluster = Cluster::start(3).await;
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let client = builder().connect().await.unwrap();
    for number in 0..40 {
        client.latch("l", 100).arrive_as(format!("host-{number}")).await.unwrap();
    }
    client.shutdown().await;
    cluster.server(2).kill().await;
    for (server, id) in [(0, ":host-0"), (1, ":host-1")] {
        // The last arrival may be on its way to one node.
        eventually(TIME_LIMIT, "the node has all arrivals", async || {
            cluster.server(server).query::<u64>(cmd("HLEN").arg("redquorum:latch:{l}")).await == 41
        })
        .await;
        let removed: u64 = cluster.server(server).query(cmd("HDEL").arg("redquorum:latch:{l}").arg(id)).await;
        assert_eq!(removed, 1);
    }
    let listed = stdout(&output(command_on(&cluster, ["list"])).await);
    assert!(listed.contains(" 39+ of 100 "), "{listed}");
    let inspected = stdout(&output(command_on(&cluster, ["inspect", "l"])).await);
    assert!(inspected.contains("\nlatch l is closed: at least 39 of 100 arrivals"), "{inspected}");
    let show = |json: &[&'static str]| command_on(&cluster, [json, &["latch", "l", "show"]].concat());
    let shown = json(&output(show(&["--json"])).await).remove(0);
    assert_eq!((&shown["arrivals"], &shown["arrivals_may_be_more"]), (&40.into(), &serde_json::Value::Null));
    let mut ids: Vec<String> =
        shown["arrived"].as_array().unwrap().iter().map(|id| id["id"].to_string()).collect();
    ids.sort();
    let mut expected: Vec<String> = (0..40).map(|number| format!("\"host-{number}\"")).collect();
    expected.sort();
    assert_eq!(ids, expected);
    let shown = on_a_terminal_of(24, 80, &show(&[])).spawn().unwrap();
    let text = stdout(&wait_for_output(shown).await).replace('\r', "");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!((0..40).all(|number| text.contains(&format!("host-{number}"))), "{text}");
    assert!(text.contains("latch l is closed: 40 of 100 arrivals"), "{text}");
}

#[tokio::test]
async fn invalid_arguments_of_a_latch_are_refused() {
    let cluster = Cluster::start(1).await;
    for (arguments, exit, words) in [
        (&["l", "arrive"][..], 64, "--count <COUNT>"),
        (&["l", "--count", "0", "arrive"], 64, "from 1 to 1024"),
        (&["l", "--count", "2"], 64, "<ACTION>"),
        (&["l", "--count", "2", "close"], 64, "possible values"),
        (&["l", "--count", "2", "--wait", "1s", "arrive"], 64, "--wait is an option of `wait` only"),
        (&["l", "--count", "2", "--retention", "0", "arrive"], 78, "retention"),
    ] {
        let refused = output(latch(&cluster, arguments)).await;
        assert_eq!(exit_code(&refused), exit, "{arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(words), "{arguments:?}: {}", stderr(&refused));
    }
    let mut arrive = latch(&cluster, &["l", "--count", "1", "arrive"]);
    arrive.env("REDQUORUM_WAIT", "1s");
    assert_eq!(exit_code(&output(arrive).await), 0, "a variable of another action is ignored");
}

#[tokio::test]
async fn without_a_quorum_a_latch_command_ends_with_69() {
    let cluster = Cluster::start(3).await;
    assert_eq!(exit_code(&output(latch(&cluster, &["l", "--count", "2", "arrive"])).await), 0);
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    for arguments in [&["l", "--count", "2", "arrive"][..], &["l", "--count", "2", "wait"], &["l", "show"]] {
        let refused = output(without_patience(latch(&cluster, arguments))).await;
        assert_eq!((exit_code(&refused), stdout(&refused)), (69, String::new()), "{}", stderr(&refused));
        let missing = format!("{}: ", cluster.server(1).address());
        assert!(stderr(&refused).contains(&missing), "{}", stderr(&refused));
    }
}

#[tokio::test]
async fn list_and_inspect_show_latches() {
    let cluster = Cluster::start(3).await;
    assert_eq!(exit_code(&output(latch(&cluster, &["open:1", "--count", "1", "arrive"])).await), 0);
    assert_eq!(exit_code(&output(latch(&cluster, &["shut:1", "--count", "3", "arrive"])).await), 0);
    cluster.server(0).kill().await;
    let listed = output(command_on(&cluster, ["list"])).await;
    let text = stdout(&listed);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert_eq!(lines[1][..6], ["latch", "open:1", "open", "1", "of", "1"], "{text}");
    assert_eq!(lines[2][..6], ["latch", "shut:1", "closed", "1", "of", "3"], "{text}");
    assert!(text.lines().skip(1).all(|line| line.contains(" 2/3 ")), "{text}");
    let listing = json(&output(command_on(&cluster, ["--json", "list", "shut:*"])).await).remove(0);
    let [shut] = &**listing["latches"].as_array().unwrap() else { panic!("{listing}") };
    assert_eq!((&shut["latch"], &shut["count"], &shut["arrivals"]), (&"shut:1".into(), &3.into(), &1.into()));
    assert_eq!(listing["locks"], serde_json::json!([]));
    let inspected = output(command_on(&cluster, ["inspect", "shut:1"])).await;
    let text = stdout(&inspected);
    assert!(text.contains("\nlatch shut:1 is closed: 1 of 3 arrivals"), "{text}");
    assert_eq!(text.lines().last(), Some("shut:1 is free"));
    let inspected = json(&output(command_on(&cluster, ["--json", "inspect", "open:1"])).await).remove(0);
    assert_eq!(inspected["latch"]["open"], true);
    eventually(TIME_LIMIT, "the table fits a terminal", async || {
        let pty = Pty::open(80);
        let mut list = pty.spawn(command_on(&cluster, ["list"]));
        list.wait().await.unwrap();
        let text = pty.text();
        text.contains("latch shut:1") && text.lines().all(|line| line.trim_end().chars().count() <= 80)
    })
    .await;
}
