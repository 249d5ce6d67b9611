//! `redquorum init`.

use redquorum_tests::{Cluster, ServerOptions, eventually};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, json, output, stderr, stdout,
        wait_for_output, without_patience,
    },
    scratch::Scratch,
    terminal::on_a_terminal,
};

#[tokio::test]
async fn new_nodes_are_initialised_once_and_vote_at_once() {
    let cluster = Cluster::start(3).await;
    let init = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    assert_eq!(stdout(&init).matches("new: votes from now on").count(), 3);
    assert!(stdout(&init).contains("name=redquorum nodes=3 needed=2"), "{}", stdout(&init));
    let run = output(command_on(&cluster, ["run", "--wait", "0", "job", "--", "true"])).await;
    assert_eq!(exit_code(&run), 0, "{}", stderr(&run));

    let again = output(command_on(&cluster, ["init"])).await;
    assert_eq!((exit_code(&again), stdout(&again)), (78, String::new()));
    assert!(stderr(&again).contains("has node metadata already"), "{}", stderr(&again));
    assert!(stderr(&again).contains("no node was changed: with --if-needed, "), "{}", stderr(&again));
}

#[tokio::test]
async fn init_names_a_missing_node_and_changes_no_node() {
    let cluster = Cluster::start(3).await;
    cluster.server(1).kill().await;
    let failed = output(without_patience(command_on(&cluster, ["init"]))).await;
    assert_eq!(exit_code(&failed), 69);
    let message = stderr(&failed);
    for words in [&*cluster.server(1).address(), "unreachable", "no node was changed"] {
        assert!(message.contains(words), "{words:?} is not in {message}");
    }
    for server in [cluster.server(0), cluster.server(2)] {
        assert!(server.keys().await.is_empty());
    }
}

#[tokio::test]
async fn the_json_of_init_names_nodes_without_passwords() {
    let options = ServerOptions::default().password("secret");
    let cluster = Cluster::start_with(3, options).await;
    let init = output(command_on(&cluster, ["--json", "init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    assert!(!stdout(&init).contains("secret"));
    let ports = cluster.servers().iter().map(|server| server.address());
    let nodes: serde_json::Value = ports.collect::<Vec<String>>().into();
    assert_eq!(json(&init)[0]["nodes"], nodes);
}

#[tokio::test]
async fn init_if_needed_initialises_once_and_admits_empty_nodes_with_a_quarantine() {
    let cluster = Cluster::start(3).await;
    let init = output(command_on(&cluster, ["init", "--if-needed"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    assert_eq!(stdout(&init).matches("new: votes from now on").count(), 3);
    let again = output(command_on(&cluster, ["init", "--if-needed"])).await;
    assert_eq!(exit_code(&again), 0, "{}", stderr(&again));
    assert_eq!(stdout(&again).matches("initialised before").count(), 3);
    cluster.server(1).restart_empty().await;
    let joined = output(command_on(&cluster, ["--json", "init", "--if-needed"])).await;
    assert_eq!(exit_code(&joined), 0, "{}", stderr(&joined));
    let node = cluster.server(1).address();
    let result = &json(&joined)[0];
    assert_eq!(result["was_made"], false);
    assert!(result["absent"][&node].as_str().unwrap().contains("in quarantine for"), "{result}");
}

/// Replication copies the metadata of the master, and silent nodes do not deny that they belong to the quorum.
#[tokio::test]
async fn init_if_needed_fails_unless_a_quorum_of_an_existing_quorum_takes_part() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, "connect_timeout = \"2s\"\n").unwrap();
    let if_needed = async || output(command_on(&cluster, ["--config", &file, "init", "--if-needed"])).await;
    let init = if_needed().await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    let node = |number: usize| format!("{}: ", cluster.server(number).address());
    let port = cluster.server(0).port().to_string();
    let follow = async |number: usize| {
        let replica = cluster.server(number);
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).await;
        eventually(TIME_LIMIT, "the replica follows", async || {
            replica.info_field("replication", "master_link_status").await == "up"
        })
        .await;
    };
    follow(1).await;
    let one_replica = if_needed().await;
    assert_eq!(exit_code(&one_replica), 0, "{}", stderr(&one_replica));
    assert!(stdout(&one_replica).contains("READONLY"), "{}", stdout(&one_replica));
    follow(2).await;
    let two_replicas = if_needed().await;
    assert_eq!((exit_code(&two_replicas), stdout(&two_replicas)), (69, String::new()));
    for words in ["of its 3 nodes only 1 can vote, 2 needed", &node(1), &node(2), "READONLY"] {
        assert!(stderr(&two_replicas).contains(words), "{words:?} is not in {}", stderr(&two_replicas));
    }
    for number in [1, 2] {
        cluster.server(number).kill().await;
    }
    let two_down = if_needed().await;
    assert_eq!((exit_code(&two_down), stdout(&two_down)), (69, String::new()));
    for words in ["only 1 can vote, 2 needed", &node(1), &node(2), "unreachable"] {
        assert!(stderr(&two_down).contains(words), "{words:?} is not in {}", stderr(&two_down));
    }
    cluster.server(1).restart_empty().await;
    let one_joins = if_needed().await;
    assert_eq!(exit_code(&one_joins), 0, "{}", stderr(&one_joins));
}

#[tokio::test]
async fn init_names_the_node_that_it_waits_for() {
    let cluster = Cluster::start(3).await;
    cluster.server(1).freeze().await;
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, "connect_timeout = \"20s\"\n").unwrap();
    for arguments in [&["--config", &file, "init"][..], &["--config", &file, "init", "--if-needed"]] {
        let mut init = command_on(&cluster, arguments).spawn().unwrap();
        let mut lines = BufReader::new(init.stderr.as_mut().unwrap()).lines();
        let line = tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
        let silent = format!(
            "{}: unreachable: connected, but no answer to HELLO within ",
            cluster.server(1).address()
        );
        assert!(
            line.starts_with("redquorum: `init` needs every node: 2 of 3 nodes answer, 3 needed; "),
            "{line}"
        );
        assert!(line.contains(&silent), "{line}");
        assert!(init.try_wait().unwrap().is_none(), "init has ended before the node answers");
    }
}

/// A user may call other commands before `init`.
#[tokio::test]
async fn new_nodes_can_be_initialised_after_any_command() {
    let cluster = Cluster::start(3).await;
    for arguments in [
        &["inspect", "job"][..],
        &["observe", "e", "--once"],
        &["force-unlock", "job", "--yes"],
        &["doctor", "--watch", "0"],
    ] {
        drop(output(command_on(&cluster, arguments)).await);
        for server in cluster.servers() {
            assert!(!server.keys().await.contains(&"redquorum:node".to_owned()), "{arguments:?}");
            assert!(!server.keys().await.contains(&"redquorum:quarantine".to_owned()), "{arguments:?}");
        }
    }
    let run = output(command_on(&cluster, ["run", "job", "--quorum-timeout", "0s", "--", "true"])).await;
    assert_eq!(exit_code(&run), 69, "{}", stderr(&run));
    assert_eq!(stderr(&run).matches("`redquorum init`").count(), 1, "{}", stderr(&run));
    assert_eq!(stderr(&run).matches("init`").count(), 1, "the advice is repeated: {}", stderr(&run));
    let init = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    let run = output(command_on(&cluster, ["run", "job", "--wait", "0", "--", "true"])).await;
    assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
}

/// A first command with other nodes or settings begins a quarantine of the new nodes, and finds no quorum. `init` with
/// the right configuration still makes the quorum. Afterwards the first configuration is refused.
#[tokio::test]
async fn a_refused_first_contact_does_not_prevent_init() {
    const RUN: [&str; 6] = ["run", "job", "--quorum-timeout", "0s", "--", "true"];
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, "max_ttl = \"90s\"\n").unwrap();
    for has_other_nodes in [true, false] {
        for init in [&["init"][..], &["init", "--if-needed"]] {
            let cluster = Cluster::start(3).await;
            let url = cluster.server(0).url();
            let other = if has_other_nodes { ["--node", &url] } else { ["--config", &file] };
            let first = [&other[..], &RUN].concat();
            let refused = output(command_on(&cluster, &first)).await;
            assert_eq!(exit_code(&refused), 69, "{}", stderr(&refused));
            assert!(cluster.server(0).keys().await.contains(&"redquorum:quarantine".to_owned()));
            let made = output(command_on(&cluster, init)).await;
            assert_eq!(exit_code(&made), 0, "{first:?}: {}", stderr(&made));
            let run = output(command_on(&cluster, ["run", "job", "--wait", "0", "--", "true"])).await;
            assert_eq!(exit_code(&run), 0, "{first:?}: {}", stderr(&run));
            let refused = output(command_on(&cluster, &first)).await;
            assert_eq!(exit_code(&refused), 78, "the first configuration is wrong now: {}", stderr(&refused));
        }
    }
}

/// A client with another configuration registers with an empty node. This node may have lost votes of the quorum.
#[tokio::test]
async fn init_takes_over_no_claimed_node_of_an_existing_quorum() {
    let cluster = Cluster::start(3).await;
    let made = output(command_on(&cluster, ["init"])).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    cluster.server(1).restart_empty().await;
    let url = cluster.server(1).url();
    let claimed = ["--node", &url, "run", "job", "--quorum-timeout", "0s", "--", "true"];
    assert_eq!(exit_code(&output(command_on(&cluster, claimed)).await), 69);
    for arguments in [&["init", "--if-needed"][..], &["init"]] {
        let refused = output(command_on(&cluster, arguments)).await;
        assert_eq!(exit_code(&refused), 78, "{}", stdout(&refused));
        assert!(stderr(&refused).contains("no node was changed"), "{}", stderr(&refused));
    }
}

/// Starts a command, and waits until the command reports an unreachable node.
async fn started_without_nodes(mut command: Command) -> Child {
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.as_mut().unwrap()).lines();
    let is_refused = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("node unreachable") {
                return;
            }
        }
        panic!("the command has ended");
    };
    tokio::time::timeout(TIME_LIMIT, is_refused).await.unwrap();
    child
}

#[tokio::test]
async fn a_command_that_starts_before_its_nodes_waits() {
    let cluster = Cluster::start(3).await;
    for command in [
        command_on(&cluster, ["-vv", "init"]),
        command_admitting_new_nodes(&cluster, ["-vv", "run", "job", "--quorum-timeout", "20s", "--", "true"]),
    ] {
        for server in cluster.servers() {
            server.kill().await;
        }
        let waiting = started_without_nodes(command).await;
        for server in cluster.servers() {
            server.restart_empty().await;
        }
        let done = wait_for_output(waiting).await;
        assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    }
}

/// A client has registered with the empty nodes, so they are in quarantine. `init` cannot distinguish these nodes from
/// nodes that were flushed while a lease was held.
#[tokio::test]
async fn init_asks_on_a_terminal_before_it_admits_nodes_in_quarantine() {
    let cluster = Cluster::start(3).await;
    // New nodes without a quarantine are admitted without a question.
    let at_once = wait_for_output(on_a_terminal(&command_on(&cluster, ["init"])).spawn().unwrap()).await;
    assert!(!stdout(&at_once).contains("[y/N]"), "{}", stdout(&at_once));
    assert_eq!(exit_code(&at_once), 0, "{}", stdout(&at_once));
    for server in cluster.servers() {
        server.restart_empty().await;
    }
    let run = output(command_on(&cluster, ["run", "job", "--quorum-timeout", "0s", "--", "true"])).await;
    let hint = "only if no client has ever locked here; after a restart, a failover or a flush, wait";
    assert_eq!((exit_code(&run), stderr(&run).matches(hint).count()), (69, 1), "{}", stderr(&run));
    let ask = |arguments: &[&str], answer: &'static str| {
        let mut init = on_a_terminal(&command_on(&cluster, arguments));
        async move {
            let mut init = init.spawn().unwrap();
            init.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
            wait_for_output(init).await
        }
    };
    for arguments in [&["init"][..], &["init", "--if-needed"]] {
        let declined = ask(arguments, "no\n").await;
        assert_eq!(exit_code(&declined), 83, "{}", stdout(&declined));
        for words in ["3 of 3 nodes are in quarantine", "locked here", "[y/N]"] {
            assert!(stdout(&declined).contains(words), "{words:?} is not in {}", stdout(&declined));
        }
        let inspected = stdout(&output(command_on(&cluster, ["inspect", "job"])).await);
        assert_eq!(inspected.matches(": in quarantine for ").count(), 3, "{inspected}");
    }
    let confirmed = ask(&["init"], "yes\n").await;
    assert_eq!(exit_code(&confirmed), 0, "{}", stdout(&confirmed));
    assert_eq!(stdout(&confirmed).matches("new: votes from now on").count(), 3, "{}", stdout(&confirmed));
}

#[tokio::test]
async fn init_with_yes_does_not_ask() {
    let cluster = Cluster::start(1).await;
    let run = output(command_on(&cluster, ["run", "job", "--quorum-timeout", "0s", "--", "true"])).await;
    assert_eq!(exit_code(&run), 69, "{}", stderr(&run));
    let init = on_a_terminal(&command_on(&cluster, ["init", "--yes"])).spawn().unwrap();
    let init = wait_for_output(init).await;
    assert_eq!((exit_code(&init), stdout(&init).contains("[y/N]")), (0, false), "{}", stdout(&init));
}
