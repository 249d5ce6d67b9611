//! `redquorum reconfigure`.

use std::time::{Duration, Instant};

use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    redquorum::{
        TIME_LIMIT, exit_code, json, output, redquorum, send_signal, stderr, stdout, wait_for_output,
    },
    scratch::Scratch,
    terminal::on_a_terminal,
};

/// Four servers, of which the first three are a quorum, and the configuration files of a move to
/// the last three.
struct Fixture {
    cluster: Cluster,
    scratch: Scratch,
}

impl Fixture {
    async fn start() -> Self {
        let fixture = Self { cluster: Cluster::start(4).await, scratch: Scratch::new() };
        let urls = fixture.cluster.urls();
        for (name, urls) in [("old", &urls[..3]), ("new", &urls[1..])] {
            fixture.write(name, urls);
        }
        let init = output(redquorum(["--config", &fixture.scratch.file("old.toml"), "init"])).await;
        assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
        fixture
    }

    /// Writes the file of a configuration, with its name.
    fn write(&self, name: &str, urls: &[String]) {
        // The ttl is short, because a move waits for the longest lease.
        let text = format!(
            "name = {name:?}\nnodes = {urls:?}\nttl = '1s'\nmax_ttl = '1s'\nattempt_timeout = '600ms'\n\
             connect_timeout = '2s'\n"
        );
        std::fs::write(self.scratch.file(&format!("{name}.toml")), text).unwrap();
    }

    fn reconfigure(&self, arguments: &[&str]) -> Command {
        self.reconfigure_between("old", "new", arguments)
    }

    fn reconfigure_between(&self, from: &str, to: &str, arguments: &[&str]) -> Command {
        let [old, new] = [from, to].map(|name| self.scratch.file(&format!("{name}.toml")));
        let mut command = redquorum(["reconfigure", "--from", &old, "--to", &new]);
        command.args(arguments);
        // These variables must not affect the two configurations.
        command.env("REDQUORUM_NODES", "redis://127.0.0.1:1").env("REDQUORUM_NAME", "environment");
        command
    }

    /// Locks with the settings of this file, and returns the exit status.
    async fn run_status(&self, name: &str) -> i32 {
        let config = self.scratch.file(&format!("{name}.toml"));
        exit_code(&output(redquorum(["--config", &config, "run", "job", "--wait", "0", "-c", "true"])).await)
    }

    fn node(&self, number: usize) -> String {
        self.cluster.server(number).address()
    }
}

#[tokio::test]
async fn a_confirmed_move_succeeds_and_refuses_old_clients() {
    let fixture = Fixture::start().await;
    let refused = output(fixture.reconfigure(&[])).await;
    assert_eq!(exit_code(&refused), 64);
    assert!(stderr(&refused).contains("give --yes to move the quorum"), "{}", stderr(&refused));
    assert_eq!(fixture.run_status("old").await, 0);

    let moved = output(fixture.reconfigure(&["--json", "--yes"])).await;
    assert_eq!(exit_code(&moved), 0, "{}", stderr(&moved));
    let result = &json(&moved)[0];
    for (side, nodes) in [("from", [0, 1, 2]), ("to", [1, 2, 3])] {
        let nodes: Vec<String> = nodes.iter().map(|number| fixture.node(*number)).collect();
        assert_eq!(result[side]["nodes"], serde_json::Value::from(nodes), "{result}");
    }
    assert!(
        result["to"]["fingerprint"].as_str().unwrap().starts_with("name=new nodes=3 needed=2"),
        "{result}"
    );
    assert!(stderr(&moved).contains(&format!("{} leaves", fixture.node(0))), "{}", stderr(&moved));
    assert_eq!((fixture.run_status("new").await, fixture.run_status("old").await), (0, 78));

    let again = output(fixture.reconfigure(&["--yes"])).await;
    assert_eq!(exit_code(&again), 0, "{}", stderr(&again));
    let nothing = "nothing was moved: the nodes belong to the new configuration (--to) already";
    assert!(stdout(&again).contains(nothing), "{}", stdout(&again));
    assert!(!stdout(&again).contains("the quorum was moved"), "{}", stdout(&again));
}

#[tokio::test]
async fn reconfigure_shows_the_changes_and_moves_only_after_yes() {
    let fixture = Fixture::start().await;
    for (answer, status, names) in [("no\n", 83, ("old", "new")), ("yes\n", 0, ("new", "old"))] {
        let mut reconfigure = on_a_terminal(&fixture.reconfigure(&[])).spawn().unwrap();
        reconfigure.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
        let reconfigure = wait_for_output(reconfigure).await;
        let printed = stdout(&reconfigure);
        assert_eq!(reconfigure.status.code(), Some(status), "{printed}");
        let question = printed.find("[y/N]").unwrap();
        for words in ["from: name=old nodes=3", "to: name=new nodes=3", &fixture.node(0), &fixture.node(3)] {
            assert!(printed.find(words).is_some_and(|place| place < question), "{words}: {printed}");
        }
        assert_eq!(fixture.run_status(names.0).await, 0, "{printed}");
        assert_ne!(fixture.run_status(names.1).await, 0, "{printed}");
    }
}

#[tokio::test]
async fn invalid_moves_are_refused_before_any_change() {
    let fixture = Fixture::start().await;
    let (old, empty) = (fixture.scratch.file("old.toml"), fixture.scratch.file("empty.toml"));
    std::fs::write(&empty, "name = 'empty'\n").unwrap();
    let [first, last] = [0, 3].map(|number| fixture.cluster.server(number).port().to_string());
    let other = std::fs::read_to_string(&old).unwrap().replace(&first, &last);
    let same_name = fixture.scratch.file("same-name.toml");
    std::fs::write(&same_name, other).unwrap();
    for (to, arguments, exit, named) in [
        (&*empty, &[][..], 78, "empty.toml: no nodes"),
        ("/nowhere.toml", &[], 74, "/nowhere.toml: "),
        (&same_name, &[], 78, "expected a name of its own for the new configuration"),
        (&empty, &["--node", "redis://a"], 64, "leave out --node and --config"),
        (&empty, &["--config", "a.toml"], 64, "leave out --node and --config"),
    ] {
        let mut command = redquorum(["reconfigure", "--yes", "--from", &old, "--to", to]);
        command.args(arguments);
        let refused = output(command).await;
        assert_eq!(exit_code(&refused), exit, "{to} {arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(named), "{to} {arguments:?}: {}", stderr(&refused));
    }
    assert_eq!(fixture.run_status("old").await, 0);
}

#[tokio::test]
async fn a_move_closes_no_node_until_each_new_node_answers() {
    let fixture = Fixture::start().await;
    fixture.cluster.server(3).kill().await;
    let failed = output(fixture.reconfigure(&["--yes"])).await;
    assert_eq!(exit_code(&failed), 69, "{}", stderr(&failed));
    let printed = stderr(&failed);
    let advice = "no node is closed: start the nodes that did not answer, or correct their addresses, and run the command again";
    assert!(printed.contains(&fixture.node(3)) && printed.trim_end().ends_with(advice), "{printed}");
    assert_eq!(fixture.run_status("old").await, 0);
    fixture.cluster.server(3).restart_empty().await;
    let moved = output(fixture.reconfigure(&["--yes"])).await;
    assert_eq!(exit_code(&moved), 0, "{}", stderr(&moved));
    assert_eq!((fixture.run_status("new").await, fixture.run_status("old").await), (0, 78));
}

#[tokio::test]
async fn a_move_from_servers_without_metadata_suggests_to_check_their_addresses() {
    let (fixture, wrong) = (Fixture::start().await, Cluster::start(2).await);
    let urls: Vec<String> = wrong.urls().into_iter().chain([fixture.cluster.urls().swap_remove(0)]).collect();
    fixture.write("old", &urls);
    for arguments in [&["--yes"][..], &["--give-up"]] {
        let refused = output(fixture.reconfigure(arguments)).await;
        let printed = stderr(&refused);
        assert_eq!(exit_code(&refused), 69, "{printed}");
        assert!(printed.contains("check the addresses of the nodes without metadata"), "{printed}");
    }
}

#[tokio::test]
async fn a_new_node_of_another_quorum_or_without_answers_prevents_the_move() {
    let fixture = Fixture::start().await;
    // A server that accepts connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let urls = fixture.cluster.urls();
    fixture.write("other", &urls[3..]);
    let init = output(redquorum(["--config", &fixture.scratch.file("other.toml"), "init"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    fixture.write("silent", &[urls[1].clone(), urls[2].clone(), format!("redis://{silent}")]);
    for (to, status, words) in [
        ("new", 78, [&*fixture.node(3), "name=other nodes=1"]),
        ("silent", 69, [&*silent, "start the nodes that did not answer"]),
    ] {
        let begin = Instant::now();
        let refused = output(fixture.reconfigure_between("old", to, &["--yes"])).await;
        let printed = stderr(&refused);
        assert_eq!(exit_code(&refused), status, "{printed}");
        assert!(words.iter().all(|word| printed.contains(word)), "{printed}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{to}: {:?}", begin.elapsed());
        assert_eq!(fixture.run_status("old").await, 0);
    }
}

#[tokio::test]
async fn the_advice_of_an_incomplete_move_follows_from_the_replies() {
    let fixture = Fixture::start().await;
    let urls = fixture.cluster.urls();
    fixture.write("fresh", &urls[3..]);
    let failed = output(fixture.reconfigure_between("fresh", "fresh", &["--yes"])).await;
    let printed = stderr(&failed);
    assert_eq!(exit_code(&failed), 69, "{printed}");
    assert!(
        printed.contains("no node is closed: check the addresses of the nodes without metadata"),
        "{printed}"
    );
    assert!(
        printed.contains("new nodes need `redquorum init`") && !printed.contains("start the nodes"),
        "{printed}"
    );
    // The new node refuses every client without a password.
    fixture.cluster.server(3).command(&["CONFIG", "SET", "requirepass", "secret"]).await;
    let failed = output(fixture.reconfigure(&["--yes"])).await;
    let printed = stderr(&failed);
    assert_eq!(exit_code(&failed), 69, "{printed}");
    let advice = "no node is closed: correct the errors that nodes answered with, and run the command again";
    assert!(printed.trim_end().ends_with(advice), "{printed}");
    let config = fixture.scratch.file("fresh.toml");
    let failed = output(redquorum(["--config", &config, "init"])).await;
    let printed = stderr(&failed);
    assert_eq!(exit_code(&failed), 69, "{printed}");
    assert!(
        printed.contains("no node was changed: correct the errors that nodes answered with"),
        "{printed}"
    );
}

/// The first client of the new node had another configuration, and was refused because the node is in quarantine.
#[tokio::test]
async fn a_move_takes_over_a_node_that_only_a_refused_client_has_registered() {
    let fixture = Fixture::start().await;
    // The quarantine of the node is longer than the move.
    let alone =
        ["--node", &fixture.cluster.urls()[3], "run", "x", "--wait", "0", "-c", "true"].map(str::to_owned);
    assert_ne!(exit_code(&output(redquorum(&alone)).await), 0);
    let moved = output(fixture.reconfigure(&["--yes"])).await;
    assert_eq!(exit_code(&moved), 0, "{}", stderr(&moved));
    assert_eq!((fixture.run_status("new").await, fixture.run_status("old").await), (0, 78));
}

#[tokio::test]
async fn a_killed_move_is_given_up_and_then_repeated() {
    let fixture = Fixture::start().await;
    // The longer pause leaves time to kill the command and to give the move up.
    let new = fixture.scratch.file("new.toml");
    let text = std::fs::read_to_string(&new).unwrap().replace("max_ttl = '1s'", "max_ttl = '10s'");
    std::fs::write(&new, text).unwrap();
    let mut killed = fixture.reconfigure(&["--yes"]).spawn().unwrap();
    let is_closed = async || fixture.run_status("old").await == 78;
    eventually(Duration::from_secs(8), "the old nodes are closed", is_closed).await;
    killed.kill().await.unwrap();
    let given_up = output(fixture.reconfigure(&["--give-up"])).await;
    assert_eq!(exit_code(&given_up), 0, "{}", stderr(&given_up));
    assert!(stdout(&given_up).contains("the move was given up"), "{}", stdout(&given_up));
    assert_eq!(fixture.run_status("old").await, 0);
    let moved = output(fixture.reconfigure(&["--yes"])).await;
    assert_eq!(exit_code(&moved), 0, "{}", stderr(&moved));
    assert_eq!((fixture.run_status("new").await, fixture.run_status("old").await), (0, 78));
    let late = output(fixture.reconfigure(&["--give-up"])).await;
    assert_eq!(exit_code(&late), 78, "{}", stderr(&late));
    assert!(stderr(&late).contains("can no longer be given up"), "{}", stderr(&late));
    assert_eq!(fixture.run_status("new").await, 0);
}

#[tokio::test]
async fn an_interrupted_move_names_both_ways_to_go_on() {
    let fixture = Fixture::start().await;
    let new = fixture.scratch.file("new.toml");
    let text = std::fs::read_to_string(&new).unwrap().replace("max_ttl = '1s'", "max_ttl = '60s'");
    std::fs::write(&new, text).unwrap();
    for (signal, status) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let interrupted = fixture.reconfigure(&["--yes"]).spawn().unwrap();
        let is_closed = async || fixture.run_status("old").await == 78;
        eventually(TIME_LIMIT, "the old nodes are closed", is_closed).await;
        send_signal(interrupted.id().unwrap(), signal);
        let interrupted = wait_for_output(interrupted).await;
        assert_eq!(exit_code(&interrupted), status, "{}", stderr(&interrupted));
        for words in ["the old nodes may be closed", "run the same command again", "--give-up"] {
            assert!(stderr(&interrupted).contains(words), "{words:?} is not in {}", stderr(&interrupted));
        }
        let config = |name: &str| ["--config".to_owned(), fixture.scratch.file(&format!("{name}.toml"))];
        let inspect =
            output(redquorum([&config("old")[..], &["inspect", "job"].map(str::to_owned)].concat())).await;
        let printed = stderr(&inspect);
        assert_eq!(exit_code(&inspect), 78, "{printed}");
        assert!(printed.contains("`--give-up`") && !printed.contains("moves a quorum"), "{printed}");
        assert!(!printed.contains("admin::"), "{printed}");
        let doctor = ["doctor", "--watch", "0"].map(str::to_owned);
        let doctor = output(redquorum([&config("new")[..], &doctor].concat())).await;
        assert_eq!(exit_code(&doctor), 81, "{}", stdout(&doctor));
        assert!(stdout(&doctor).contains("end the move or give it up"), "{}", stdout(&doctor));
        assert!(!stdout(&doctor).contains("redquorum init"), "{}", stdout(&doctor));
        let given_up = output(fixture.reconfigure(&["--give-up"])).await;
        assert_eq!(exit_code(&given_up), 0, "{}", stderr(&given_up));
    }
}

#[tokio::test]
async fn a_move_between_settings_that_nodes_do_not_check_only_asks_every_node() {
    let fixture = Fixture::start().await;
    let (old, ttl) = (fixture.scratch.file("old.toml"), fixture.scratch.file("ttl.toml"));
    let text = std::fs::read_to_string(&old).unwrap().replace("\nttl = '1s'", "\nttl = '900ms'");
    std::fs::write(&ttl, text).unwrap();
    let checked = output(fixture.reconfigure_between("old", "ttl", &["--yes"])).await;
    assert_eq!(exit_code(&checked), 0, "{}", stderr(&checked));
    assert!(stdout(&checked).contains("nothing was moved"), "{}", stdout(&checked));
    for number in 0..3 {
        fixture.cluster.server(number).kill().await;
    }
    let failed = output(fixture.reconfigure_between("old", "ttl", &["--yes"])).await;
    assert_eq!(exit_code(&failed), 69, "{}", stderr(&failed));
}
