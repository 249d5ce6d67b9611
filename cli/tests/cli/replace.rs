//! `redquorum replace`.

use std::time::Duration;

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, process::Command, time::sleep};

use super::{
    redquorum::{
        TIME_LIMIT, exit_code, json, output, redquorum, send_signal, stderr, stdout, wait_for_output,
    },
    scratch::Scratch,
    terminal::on_a_terminal_of,
};

/// Four servers, of which the first three are a quorum, with short leases.
struct Fixture {
    cluster: Cluster,
    scratch: Scratch,
}

impl Fixture {
    async fn start() -> Self {
        let fixture = Self { cluster: Cluster::start(4).await, scratch: Scratch::new() };
        fixture.write("old", [0, 1, 2]);
        fixture.write("new", [0, 1, 3]);
        let init = output(redquorum(["--config", &fixture.config("old"), "init"])).await;
        assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
        fixture
    }

    /// Writes the file of a configuration with these servers.
    fn write(&self, name: &str, servers: [usize; 3]) {
        let urls = servers.map(|number| self.url(number));
        let text = format!(
            "nodes = {urls:?}\nttl = '1s'\nmax_ttl = '1s'\nattempt_timeout = '600ms'\nconnect_timeout = '2s'\n"
        );
        std::fs::write(self.config(name), text).unwrap();
    }

    fn config(&self, name: &str) -> String {
        self.scratch.file(&format!("{name}.toml"))
    }

    /// Returns the url of a server with a user, whose password must not be shown.
    fn url(&self, number: usize) -> String {
        format!("redis://default:secret@127.0.0.1:{}", self.cluster.server(number).port())
    }

    fn node(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.cluster.server(number).port())
    }

    fn replace(&self, arguments: &[&str]) -> Command {
        let mut command = redquorum(["--config", &self.config("old"), "replace"]);
        command.args(["--old", &self.url(2), "--new", &self.url(3)]).args(arguments);
        command
    }

    async fn run_status(&self, name: &str) -> i32 {
        exit_code(&output(redquorum(["--config", &self.config(name), "run", "job", "-c", "true"])).await)
    }

    async fn fingerprint(&self, number: usize) -> Option<String> {
        let server = self.cluster.server(number);
        server.query(cmd("HGET").arg("redquorum:node").arg("fingerprint")).await
    }
}

#[tokio::test]
async fn a_replacement_prints_the_nodes_for_the_clients_and_retires_the_old_node() {
    let fixture = Fixture::start().await;
    let replaced = output(fixture.replace(&["--json"])).await;
    assert_eq!(exit_code(&replaced), 0, "{}", stderr(&replaced));
    let nodes = [0, 1, 3].map(|number| format!("redis://***@{}", fixture.node(number)));
    let printed = serde_json::json!({ "old": fixture.node(2), "new": fixture.node(3), "nodes": nodes });
    assert_eq!(json(&replaced)[0], printed);
    let of_old = fixture.fingerprint(2).await.unwrap();
    assert!(of_old.ends_with(&format!(" replaced by {}", fixture.node(3))), "{of_old}");
    assert_eq!((fixture.run_status("old").await, fixture.run_status("new").await), (0, 0));

    let again = output(fixture.replace(&[])).await;
    assert_eq!(exit_code(&again), 0, "{}", stderr(&again));
    let line = format!("{} was replaced by {}, which votes", fixture.node(2), fixture.node(3));
    assert!(stdout(&again).contains(&line), "{}", stdout(&again));
    assert!(nodes.iter().all(|node| stdout(&again).lines().any(|line| line == node)), "{}", stdout(&again));
    let doctor = output(redquorum(["--config", &fixture.config("old"), "doctor", "--watch", "0"])).await;
    let shown = stdout(&doctor).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains(&format!("the node was replaced by {}", fixture.node(3))), "{shown}");
    for shown in [&replaced, &again, &doctor] {
        assert!(!format!("{}{}", stdout(shown), stderr(shown)).contains("secret"), "{}", stderr(shown));
    }
}

#[tokio::test]
async fn a_replacement_that_is_killed_at_any_time_is_continued_by_the_same_command() {
    let fixture = Fixture::start().await;
    let mut patience = Duration::from_millis(4);
    loop {
        let mut replace = fixture.replace(&[]);
        let mut replacing = replace.kill_on_drop(true).spawn().unwrap();
        tokio::select! {
            biased;
            ended = replacing.wait() => {
                assert_eq!(ended.unwrap().code(), Some(0));
                break;
            }
            () = sleep(patience) => replacing.kill().await.unwrap(),
        }
        patience = patience * 3 / 2;
    }
    assert_eq!(fixture.run_status("new").await, 0);
    assert!(fixture.fingerprint(2).await.unwrap().contains(" replaced by "));
}

#[tokio::test]
async fn a_signal_ends_a_replacement_and_names_the_way_to_go_on() {
    let fixture = Fixture::start().await;
    let replacing = fixture.replace(&[]).spawn().unwrap();
    let is_open = async || fixture.fingerprint(3).await.is_some_and(|of_new| of_new.starts_with("name="));
    eventually(TIME_LIMIT, "the new server is in its quarantine", is_open).await;
    send_signal(replacing.id().unwrap(), Signal::INT);
    let replacing = wait_for_output(replacing).await;
    assert_eq!(exit_code(&replacing), 128 + 2, "{}", stderr(&replacing));
    assert!(stderr(&replacing).contains("run the same command again"), "{}", stderr(&replacing));
    assert_eq!(exit_code(&output(fixture.replace(&[])).await), 0);
}

#[tokio::test]
async fn a_dead_node_is_replaced_after_the_user_says_that_it_is_gone() {
    let fixture = Fixture::start().await;
    fixture.cluster.server(2).kill().await;
    let refused = output(fixture.replace(&[])).await;
    assert_eq!(exit_code(&refused), 69, "{}", stderr(&refused));
    for words in [&*fixture.node(2), "add `--old-is-gone`; otherwise start it"] {
        assert!(stderr(&refused).contains(words), "{words}: {}", stderr(&refused));
    }
    for (answer, status) in [("n\n", 83), ("y\n", 0)] {
        let mut replacing = on_a_terminal_of(24, 80, &fixture.replace(&[])).spawn().unwrap();
        replacing.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
        let replacing = wait_for_output(replacing).await;
        let printed = stdout(&replacing);
        assert_eq!(replacing.status.code(), Some(status), "{printed}");
        assert!(printed.contains("gone for good") && !printed.contains("secret"), "{printed}");
    }
    assert_eq!(fixture.run_status("new").await, 0);
    let again = output(fixture.replace(&["--old-is-gone"])).await;
    assert_eq!(exit_code(&again), 0, "{}", stderr(&again));
}

#[tokio::test]
async fn a_replacement_that_cannot_succeed_names_the_server_and_the_remedy() {
    let fixture = Fixture::start().await;
    let config = fixture.config("old");
    let [old, new, other] = [2, 3, 1].map(|number| fixture.url(number));
    for (arguments, exit, words) in [
        (["--old", &old, "--new", &other], 78, "expected an empty server beside the nodes of the settings"),
        (["--old", &new, "--new", "redis://127.0.0.1:1"], 78, "expected one of the nodes of the settings"),
        (["--old", &old, "--new", "redis+sentinel://s/m"], 78, "a failover may lose the mark"),
        (
            ["--old", &old, "--new", "redis://default:secret@d:port"],
            78,
            "--new, redis://***: its port is no number",
        ),
        (["--old", "127.0.0.1", "--new", &new], 78, "--old, ***: "),
        (["--old", &old, "--new", "redis://127.0.0.1:1"], 69, "start the nodes that did not answer"),
    ] {
        let mut command = redquorum(["--config", &config, "replace"]);
        command.args(arguments);
        let refused = output(command).await;
        assert_eq!(exit_code(&refused), exit, "{arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(words), "{words}: {}", stderr(&refused));
        assert!(!stderr(&refused).contains("secret"), "{}", stderr(&refused));
    }
    fixture.cluster.server(1).kill().await;
    let refused = output(fixture.replace(&[])).await;
    assert_eq!(exit_code(&refused), 69, "{}", stderr(&refused));
    for words in ["every other node has to answer and vote", "has retired no node"] {
        assert!(stderr(&refused).contains(words), "{words}: {}", stderr(&refused));
    }
    let mut single = redquorum(["--node", &other, "replace"]);
    single.args(["--old", &other, "--new", &new]);
    let refused = output(single).await;
    assert_eq!(exit_code(&refused), 78, "{}", stderr(&refused));
    assert!(stderr(&refused).contains("`redquorum reconfigure`"), "{}", stderr(&refused));
    assert!(!stderr(&refused).contains("admin::"), "{}", stderr(&refused));
    assert_eq!(fixture.fingerprint(3).await, None);
}

#[tokio::test]
async fn a_replacement_that_was_interrupted_is_abandoned() {
    let fixture = Fixture::start().await;
    let begun = format!("{} by {} begun x", fixture.node(2), fixture.node(3));
    for number in [0, 1] {
        let server = fixture.cluster.server(number);
        server.query::<()>(cmd("HSET").arg("redquorum:node").arg("replacements").arg(&begun)).await;
    }
    let replace_another = async || {
        let mut command = redquorum(["--config", &fixture.config("old"), "replace"]);
        command.args(["--old", &fixture.url(1), "--new", &fixture.url(3)]);
        output(command).await
    };
    let refused = replace_another().await;
    assert_eq!(exit_code(&refused), 78, "{}", stderr(&refused));
    for words in [&*fixture.node(2), "`redquorum replace --abandon`"] {
        assert!(stderr(&refused).contains(words), "{words}: {}", stderr(&refused));
    }
    assert!(!stderr(&refused).contains("admin::"), "{}", stderr(&refused));
    let mut mistyped = redquorum(["--config", &fixture.config("old"), "replace", "--abandon"]);
    mistyped.args(["--old", &fixture.url(2), "--new", "redis://127.0.0.1:1"]);
    let mistyped = output(mistyped).await;
    assert_eq!(exit_code(&mistyped), 78, "{}", stderr(&mistyped));
    let lines = format!(
        "no node has recorded a replacement of {} by 127.0.0.1:1\nanother replacement was begun: of {} by {}\n",
        fixture.node(2),
        fixture.node(2),
        fixture.node(3)
    );
    assert_eq!(stdout(&mistyped), lines);
    let abandoned = output(fixture.replace(&["--abandon"])).await;
    assert_eq!(exit_code(&abandoned), 0, "{}", stderr(&abandoned));
    let line = format!("the replacement of {} by {} is abandoned\n", fixture.node(2), fixture.node(3));
    assert_eq!(stdout(&abandoned), line);
    let replaced = replace_another().await;
    assert_eq!(exit_code(&replaced), 0, "{}", stderr(&replaced));
    let late = output(fixture.replace(&["--abandon", "--json"])).await;
    assert_eq!(exit_code(&late), 69, "{}", stderr(&late));
    let missed = json(&late)[0]["missed"].to_string();
    assert!(missed.contains(&fixture.node(1)) && missed.contains("replaced by"), "{missed}");
    assert_eq!(json(&late)[0]["was_begun"], false);
    // The node is retired.
    let mut ended = redquorum(["--config", &fixture.config("old"), "replace", "--abandon"]);
    ended.args(["--old", &fixture.url(1), "--new", &fixture.url(3)]);
    let ended = output(ended).await;
    assert_eq!(exit_code(&ended), 78, "{}", stderr(&ended));
    assert!(stderr(&ended).contains("without `--abandon`"), "{}", stderr(&ended));
}
