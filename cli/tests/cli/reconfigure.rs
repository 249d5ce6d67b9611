//! `redquorum reconfigure`.

use redquorum_tests::Cluster;
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    redquorum::{code, ended, json, output, redquorum, stderr, stdout},
    scratch::Scratch,
    terminal::on_a_terminal,
};

/// Four servers, the first three of which are a quorum, and the files of a move to the last three.
struct Scene {
    cluster: Cluster,
    scratch: Scratch,
}

impl Scene {
    async fn start() -> Self {
        let scene = Self { cluster: Cluster::start(4).await, scratch: Scratch::new() };
        let urls = scene.cluster.urls();
        for (name, urls) in [("old", &urls[..3]), ("new", &urls[1..])] {
            // The ttl is short, because a move waits for the longest lease.
            let text = format!(
                "name = {name:?}\nnodes = {urls:?}\nttl = '1s'\nmax_ttl = '1s'\n\
                 attempt_timeout = '600ms'\n"
            );
            std::fs::write(scene.scratch.file(&format!("{name}.toml")), text).unwrap();
        }
        let made = output(redquorum(["--config", &scene.scratch.file("old.toml"), "init"])).await;
        assert_eq!(code(&made), 0, "{}", stderr(&made));
        scene
    }

    fn reconfigure(&self, arguments: &[&str]) -> Command {
        let (old, new) = (self.scratch.file("old.toml"), self.scratch.file("new.toml"));
        let mut command = redquorum(["reconfigure", "--from", &old, "--to", &new]);
        command.args(arguments);
        // The variables have no effect on the two configurations.
        command.env("REDQUORUM_NODES", "redis://127.0.0.1:1").env("REDQUORUM_NAME", "environment");
        command
    }

    /// Returns the exit status of a run with the settings of this file.
    async fn locks(&self, name: &str) -> i32 {
        let config = self.scratch.file(&format!("{name}.toml"));
        code(&output(redquorum(["--config", &config, "run", "job", "--wait", "0", "-c", "true"])).await)
    }

    fn node(&self, number: usize) -> String {
        format!("127.0.0.1:{}", self.cluster.server(number).port())
    }
}

#[tokio::test]
async fn a_confirmed_move_succeeds_and_refuses_old_clients() {
    let scene = Scene::start().await;
    let refused = output(scene.reconfigure(&[])).await;
    assert_eq!(code(&refused), 64);
    assert!(stderr(&refused).contains("give --yes to move the quorum"), "{}", stderr(&refused));
    assert_eq!(scene.locks("old").await, 0);

    let moved = output(scene.reconfigure(&["--json", "--yes"])).await;
    assert_eq!(code(&moved), 0, "{}", stderr(&moved));
    let told = &json(&moved)[0];
    for (which, nodes) in [("from", [0, 1, 2]), ("to", [1, 2, 3])] {
        let nodes: Vec<String> = nodes.iter().map(|number| scene.node(*number)).collect();
        assert_eq!(told[which]["nodes"], serde_json::Value::from(nodes), "{told}");
    }
    assert!(told["to"]["fingerprint"].as_str().unwrap().starts_with("name=new nodes=3 needed=2"), "{told}");
    assert!(stderr(&moved).contains(&format!("{} leaves", scene.node(0))), "{}", stderr(&moved));
    assert_eq!((scene.locks("new").await, scene.locks("old").await), (0, 78));

    let again = output(scene.reconfigure(&["--yes"])).await;
    assert_eq!(code(&again), 0, "{}", stderr(&again));
}

#[tokio::test]
async fn reconfigure_shows_the_changes_and_moves_after_yes_only() {
    let scene = Scene::start().await;
    for (answer, status, names) in [("no\n", 83, ("old", "new")), ("yes\n", 0, ("new", "old"))] {
        let mut asked = on_a_terminal(&scene.reconfigure(&[])).spawn().unwrap();
        asked.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
        let asked = ended(asked).await;
        let said = stdout(&asked);
        assert_eq!(asked.status.code(), Some(status), "{said}");
        let question = said.find("[y/N]").unwrap();
        for words in ["from: name=old nodes=3", "to: name=new nodes=3", &scene.node(0), &scene.node(3)] {
            assert!(said.find(words).is_some_and(|place| place < question), "{words}: {said}");
        }
        assert_eq!(scene.locks(names.0).await, 0, "{said}");
        assert_ne!(scene.locks(names.1).await, 0, "{said}");
    }
}

/// The node has no vote to lose, but the move would stop after the old nodes are closed.
#[tokio::test]
async fn a_node_of_another_quorum_is_refused_before_any_change() {
    let scene = Scene::start().await;
    let url = scene.cluster.server(3).url();
    let first = ["--node", &url, "run", "job", "--quorum-timeout", "0s", "--", "true"];
    assert_eq!(code(&output(redquorum(first)).await), 69);
    let refused = output(scene.reconfigure(&["--yes"])).await;
    assert_eq!(code(&refused), 78, "{}", stderr(&refused));
    let named = format!("{} has node metadata already (name=redquorum nodes=1", scene.node(3));
    assert!(stderr(&refused).contains(&named), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("no node was changed"), "{}", stderr(&refused));
    assert_eq!(scene.locks("old").await, 0);
}

#[tokio::test]
async fn invalid_moves_are_refused_before_any_change() {
    let scene = Scene::start().await;
    let (old, empty) = (scene.scratch.file("old.toml"), scene.scratch.file("empty.toml"));
    std::fs::write(&empty, "name = 'empty'\n").unwrap();
    let other = std::fs::read_to_string(&old).unwrap().replace(&scene.node(0), &scene.node(3));
    let same_name = scene.scratch.file("same-name.toml");
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
        assert_eq!(code(&refused), exit, "{to} {arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(named), "{to} {arguments:?}: {}", stderr(&refused));
    }
    assert_eq!(scene.locks("old").await, 0);
}

#[tokio::test]
async fn a_move_without_a_new_node_continues_with_the_next_call() {
    let scene = Scene::start().await;
    scene.cluster.server(3).kill().await;
    let failed = output(scene.reconfigure(&["--yes"])).await;
    assert_eq!(code(&failed), 69, "{}", stderr(&failed));
    let said = stderr(&failed);
    assert!(said.contains(&scene.node(3)) && said.contains("run it again: it continues from here"), "{said}");
}
