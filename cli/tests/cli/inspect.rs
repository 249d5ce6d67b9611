//! `redquorum inspect` and `redquorum force-unlock`.

use std::os::unix::process::ExitStatusExt;

use redquorum::{LockOptions, Quorum, admin};
use redquorum_tests::Cluster;
use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::ChildStdout,
};

use super::{
    redquorum::{SOON, code, ended, json, output, plainly, send, stderr, stdout},
    terminal::{on_a_terminal, on_a_terminal_of, screen},
};

/// Initialises the nodes as a quorum, and connects a client.
async fn client(cluster: &Cluster) -> Quorum {
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    builder().connect().await.unwrap()
}

#[tokio::test]
async fn a_lock_is_shown_by_node_with_a_conclusion() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    let shown = output(plainly(&cluster, ["inspect", "job"])).await;
    assert_eq!((code(&shown), stderr(&shown)), (0, String::new()));
    let text = stdout(&shown);
    let lines: Vec<&str> = text.lines().collect();
    let [head, nodes @ .., conclusion] = &*lines else { panic!("{text}") };
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["node", "owner", "holds", "remaining", "counter", "latency"]);
    for (line, server) in nodes.iter().zip(cluster.servers()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (owner, token) = (guard.id().to_string(), guard.fencing_token().to_string());
        assert_eq!(cells[..3], [&*format!("127.0.0.1:{}", server.port()), &*owner, "1"]);
        assert_eq!(cells[4], token);
    }
    assert_eq!(nodes.len(), 3);
    assert!(conclusion.starts_with(&format!("job is held by {}, for ", guard.id())), "{conclusion}");
}

#[tokio::test]
async fn the_json_of_a_lock_has_the_error_of_a_dead_node() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    cluster.server(2).kill().await;
    let shown = json(&output(plainly(&cluster, ["--json", "inspect", "job"])).await);
    let [seen] = &*shown else { panic!("{shown:?}") };
    assert_eq!(
        (&seen["resource"], &seen["state"], &seen["needed"]),
        (&"job".into(), &"held".into(), &2.into())
    );
    assert_eq!(seen["owner"], guard.id().to_string());
    let remaining = seen["remaining_ms"].as_f64().unwrap();
    assert!(remaining > 0.0 && remaining <= 30_000.0, "{remaining}");
    let states: Vec<&Value> = seen["nodes"].as_array().unwrap().iter().map(|node| &node["state"]).collect();
    assert_eq!(states, ["held", "held", "unknown"]);
    assert_eq!(seen["nodes"][0]["counter"], guard.fencing_token().as_u64());
    assert!(seen["nodes"][0]["latency_ms"].as_f64().unwrap() > 0.0);
    assert!(seen["nodes"][2]["error"].as_str().unwrap().contains("unreachable"), "{seen}");
}

#[tokio::test]
async fn readers_are_shown_without_their_internal_owner() {
    let cluster = Cluster::start(3).await;
    let one = client(&cluster).await;
    let other = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let readers = [one.rw_lock("job").read().await.unwrap(), other.rw_lock("job").read().await.unwrap()];
    let refused = output(plainly(&cluster, ["run", "job", "--wait", "50ms", "--", "true"])).await;
    assert_eq!(code(&refused), 75, "{}", stderr(&refused));
    let why = stderr(&refused);
    assert!(why.contains("held by readers for ") && !why.contains("redquorum:shared"), "{why}");
    // First all nodes have readers, then only one node.
    for deleted in [0..0, 0..2] {
        for server in cluster.some(deleted.clone()) {
            server.command(&["DEL", "job"]).await;
        }
        let inspected = output(plainly(&cluster, ["inspect", "job"])).await;
        let text = stdout(&inspected);
        let rows = text.lines().filter(|line| line.starts_with("127.0.0.1:"));
        let shared = rows.filter(|row| row.contains(" (readers) ")).count();
        assert_eq!((shared, text.contains("redquorum:shared")), (3 - deleted.len(), false), "{text}");
        let conclusion = text.lines().next_back().unwrap();
        let are_named = readers.iter().all(|reader| conclusion.contains(&reader.id().to_string()));
        assert_eq!(are_named, deleted.is_empty(), "{text}");
        let listed = stdout(&output(plainly(&cluster, ["list"])).await);
        assert!(listed.contains("2 readers") && !listed.contains("redquorum:shared"), "{listed}");
    }
    drop(readers);
}

/// Returns the next object on standard output.
async fn next_object(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap();
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn watch_prints_each_change_once_until_an_interrupt() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let mut watching = plainly(&cluster, ["--json", "inspect", "job", "--watch=50ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(next_object(&mut lines).await["state"], "free");
    for _ in 0..2 {
        let guard = quorum.red_lock("job").lock().await.unwrap();
        // An inspection may fall between the grants of two nodes.
        let (owner, mut seen) = (guard.id().to_string(), 0);
        let held = loop {
            let held = next_object(&mut lines).await;
            seen += 1;
            let is_whole = held["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .all(|node| node["owner"] == *owner && node["counter"] == guard.fencing_token().as_u64());
            if is_whole {
                break held;
            }
        };
        assert!(seen <= 7, "more changes than each of three nodes has: {seen}");
        assert_eq!(held["state"], "held", "{held}");
        guard.unlock().await.unwrap();
        while next_object(&mut lines).await["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["state"] != "free")
        {}
    }
    send(watching.id().unwrap(), Signal::INT);
    let rest = tokio::time::timeout(SOON, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(rest, None, "nothing has changed since");
    assert_eq!(ended(watching).await.status.signal(), Some(2));
}

#[tokio::test]
async fn watch_prints_changed_slots_and_waits_for_a_lost_quorum() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let mut watching =
        plainly(&cluster, ["--json", "inspect", "gpu", "-n", "3", "--watch=50ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for slot in 0..3 {
        assert_eq!(next_object(&mut lines).await["slot"], slot);
    }
    let permit = quorum.semaphore("gpu", 3).acquire().await.unwrap();
    let changed = next_object(&mut lines).await;
    assert_eq!((&changed["slot"], &changed["state"]), (&permit.slot().into(), &"held".into()));
    cluster.server(0).kill().await;
    let mut said = BufReader::new(watching.stderr.take().unwrap()).lines();
    let told = tokio::time::timeout(SOON, said.next_line()).await.unwrap().unwrap().unwrap();
    // The server may end before or during an inspection.
    let is_gone = told.contains("unreachable") || told.contains("the connection broke");
    assert!(told.starts_with("{\"notice\"") && is_gone, "{told}");
    assert!(watching.try_wait().unwrap().is_none(), "it waits for the node");
}

#[tokio::test]
async fn watch_redraws_on_a_terminal() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("job").lock().await.unwrap();
    let mut watching =
        on_a_terminal_of(24, 100, &plainly(&cluster, ["inspect", "job", "--watch=50ms"])).spawn().unwrap();
    let (mut keys, mut out) = (watching.stdin.take().unwrap(), watching.stdout.take().unwrap());
    let mut written = Vec::new();
    let until = async |written: &mut Vec<u8>, out: &mut ChildStdout, words: &str| {
        let drawn = async {
            while !screen(100, written).contains(words) {
                assert_ne!(out.read_buf(written).await.unwrap(), 0, "{words} is shown");
            }
        };
        tokio::time::timeout(SOON, drawn).await.unwrap();
    };
    until(&mut written, &mut out, "job is held by").await;
    guard.unlock().await.unwrap();
    until(&mut written, &mut out, "job is free").await;
    let shown = screen(100, &written);
    assert_eq!((shown.matches("owner").count(), shown.matches("job is").count()), (1, 1), "{shown}");
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(ended(watching).await.status.code(), Some(128 + 2));
}

#[tokio::test]
async fn a_lock_without_a_holder_is_free() {
    let cluster = Cluster::start(3).await;
    drop(client(&cluster).await);
    let shown = output(plainly(&cluster, ["inspect", "job"])).await;
    assert_eq!(stdout(&shown).lines().last(), Some("job is free"));
    assert_eq!(stdout(&shown).matches("(free)").count(), 3);
}

#[tokio::test]
async fn a_lock_is_unclear_by_a_silent_node_and_free_if_split() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    // A renewal would restore the deleted keys.
    let options = LockOptions::new().without_renewal();
    let _guard = quorum.red_lock("job").options(options).lock().await.unwrap();
    let conclusion = async || {
        let shown = output(plainly(&cluster, ["inspect", "job"])).await;
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown).lines().last().unwrap().to_owned()
    };
    for server in cluster.some(1..3) {
        server.command(&["DEL", "job"]).await;
    }
    // A hash with two fields is a lock of another kind.
    cluster.server(1).command(&["HSET", "job", "a", "1", "b", "1"]).await;
    assert_eq!(conclusion().await, "job is free: 2 of 3 nodes have a holder, but no 2 the same one");
    cluster.server(2).kill().await;
    assert!(conclusion().await.starts_with("job is unclear"), "{}", conclusion().await);
}

#[tokio::test]
async fn the_output_fits_a_terminal_of_80_columns() {
    let cluster = Cluster::start(5).await;
    let guard = client(&cluster).await.red_lock("nightly-report").lock().await.unwrap();
    cluster.server(4).kill().await;
    for command in ["inspect", "force-unlock"] {
        let arguments = [command, "nightly-report"];
        let mut shown = on_a_terminal_of(24, 80, &plainly(&cluster, arguments)).spawn().unwrap();
        shown.stdin.take().unwrap().write_all(b"no\n").await.unwrap();
        let shown = stdout(&ended(shown).await);
        assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 80), "{shown}");
        for server in cluster.servers() {
            let row = format!("127.0.0.1:{} ", server.port());
            assert_eq!(shown.lines().filter(|line| line.contains(&row)).count(), 1, "{shown}");
        }
        assert_eq!(shown.matches(&guard.id().to_string()).count(), 1, "{shown}");
        assert!(shown.contains(&format!("127.0.0.1:{}: ", cluster.server(4).port())), "{shown}");
        let says_how = shown.contains("`redquorum force-unlock nightly-report` ends it");
        assert_eq!(says_how, command == "inspect", "{shown}");
    }
}

#[tokio::test]
async fn a_node_in_quarantine_is_reported() {
    let cluster = Cluster::start(3).await;
    // The nodes are not initialised, and no client has registered.
    let shown = stdout(&output(plainly(&cluster, ["inspect", "job"])).await);
    assert_eq!(shown.matches(": abstains: no client has registered with it ").count(), 3, "{shown}");
    drop(Quorum::builder().nodes(cluster.urls()).connect().await.unwrap());
    let shown = stdout(&output(plainly(&cluster, ["inspect", "job"])).await);
    assert_eq!(shown.matches(": in quarantine for ").count(), 3, "{shown}");
    let told = json(&output(plainly(&cluster, ["--json", "inspect", "job"])).await);
    assert!(told[0]["nodes"][0]["abstains"].as_str().unwrap().starts_with("in quarantine for "), "{told:?}");
}

#[tokio::test]
async fn inspect_prints_no_result_without_a_quorum() {
    let cluster = Cluster::start(3).await;
    drop(client(&cluster).await);
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let shown = output(plainly(&cluster, ["inspect", "job"])).await;
    assert_eq!((code(&shown), stdout(&shown)), (69, String::new()));
}

#[tokio::test]
async fn force_unlock_needs_yes_without_a_terminal() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    let refused = output(plainly(&cluster, ["force-unlock", "job"])).await;
    assert_eq!(code(&refused), 64);
    assert!(stderr(&refused).contains("--yes"), "{}", stderr(&refused));
    assert!(guard.is_valid() && cluster.server(0).keys().await.contains(&"job".to_owned()));

    let done = output(plainly(&cluster, ["force-unlock", "--yes", "job"])).await;
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    assert_eq!(stdout(&done).matches("confirmed").count(), 3, "{}", stdout(&done));
    assert!(stdout(&done).contains(&guard.id().to_string()), "who held it: {}", stdout(&done));
    assert!(stderr(&done).contains("next renewal"), "{}", stderr(&done));
    for server in cluster.servers() {
        assert!(!server.keys().await.contains(&"job".to_owned()));
    }
    guard.renew().await.unwrap_err();
}

#[tokio::test]
async fn the_json_of_force_unlock_names_the_former_holder() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    let unlock = || output(plainly(&cluster, ["--json", "force-unlock", "-y", "job"]));
    let told = json(&unlock().await);
    assert_eq!(told[0]["before"]["owner"], guard.id().to_string());
    assert_eq!(told[0]["confirmed"].as_array().unwrap().len(), 3);
    let again = json(&unlock().await);
    assert_eq!((&again[0]["was_unlocked"], &again[0]["before"]["state"]), (&false.into(), &"free".into()));
}

#[tokio::test]
async fn force_unlock_shows_the_holder_and_unlocks_after_yes_only() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    for (answer, status, is_kept) in [("no\n", 83, true), ("yes\n", 0, false)] {
        let mut asked = on_a_terminal(&plainly(&cluster, ["force-unlock", "job"])).spawn().unwrap();
        asked.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
        let asked = ended(asked).await;
        let said = stdout(&asked);
        assert_eq!(asked.status.code(), Some(status), "{said}");
        let (owner, question) = (said.find(&guard.id().to_string()), said.find("[y/N]"));
        assert!(owner.is_some() && owner < question, "{said}");
        assert_eq!(cluster.server(0).keys().await.contains(&"job".to_owned()), is_kept, "{said}");
    }
}

#[tokio::test]
async fn a_yes_applies_to_the_shown_holder_only() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let shown = quorum.red_lock("job").lock().await.unwrap();
    let mut asked = on_a_terminal(&plainly(&cluster, ["force-unlock", "job"])).spawn().unwrap();
    let mut said = Vec::new();
    let out = asked.stdout.as_mut().unwrap();
    let question = async {
        while !String::from_utf8_lossy(&said).contains("[y/N]") {
            assert_ne!(out.read_buf(&mut said).await.unwrap(), 0, "it asks");
        }
    };
    tokio::time::timeout(SOON, question).await.unwrap();
    shown.unlock().await.unwrap();
    let other = quorum.red_lock("job").lock().await.unwrap();
    asked.stdin.take().unwrap().write_all(b"yes\n").await.unwrap();
    let asked = ended(asked).await;
    let said = stdout(&asked);
    assert_eq!(asked.status.code(), Some(83), "{said}");
    assert!(said.contains("nothing was unlocked") && said.contains(&other.id().to_string()), "{said}");
    other.renew().await.unwrap();
}

#[tokio::test]
async fn slots_in_use_beyond_the_permit_count_are_reported() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let gpus = quorum.semaphore("gpu", 4);
    let _permits = futures::future::join_all((0..4).map(|_| gpus.acquire())).await;
    for (permits, told) in [
        ("4", ""),
        (
            "2",
            "redquorum: 2 slots of gpu in use beyond 2 permits, up to slot 3: other clients count more permits; \
             use the same number everywhere\n",
        ),
    ] {
        let shown = output(plainly(&cluster, ["inspect", "gpu", "-n", permits])).await;
        assert_eq!((code(&shown), &*stderr(&shown)), (0, told));
    }
}

/// One client waits with the turn for the last of four permits. Another client needs a single permit, and the turn.
#[tokio::test]
async fn the_multi_permit_lock_is_named_and_its_turn_can_be_ended() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let other = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let permit = other.semaphore("my gpu", 4).acquire().await.unwrap();
    let all = quorum.semaphore("my gpu", 4);
    let holds_turn = tokio::spawn(async move { all.acquire_many(4).await });
    let shown = async |arguments: &[&str]| {
        let shown = output(plainly(&cluster, arguments)).await;
        assert_eq!(code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown)
    };
    let inspect = ["inspect", "--multi-permit", "my gpu"];
    let is_taken = async || shown(&inspect).await.contains("multi-permit lock of my gpu is held by ");
    redquorum_tests::eventually(SOON, "the turn is taken", is_taken).await;
    let several = other.semaphore("my gpu", 4);
    let waits_for_turn = tokio::spawn(async move { several.acquire_many(1).await });
    let listed = shown(&["list", "my*"]).await;
    assert!(listed.contains("multi-permit lock of my gpu"), "{listed}");
    let told = json(&output(plainly(&cluster, ["--json", "inspect", "--multi-permit", "my gpu"])).await);
    assert_eq!((&told[0]["resource"], &told[0]["multi_permit"]), (&"my gpu".into(), &true.into()));
    assert!(!waits_for_turn.is_finished());
    let unlocked = shown(&["force-unlock", "--yes", "--multi-permit", "my gpu"]).await;
    assert!(unlocked.contains("before: multi-permit lock of my gpu is held by "), "{unlocked}");
    let permits = tokio::time::timeout(SOON, waits_for_turn).await.unwrap().unwrap().unwrap();
    assert!(permit.is_valid() && permits[0].is_valid());
    holds_turn.abort();
    let refused = output(plainly(&cluster, ["force-unlock", "--slot", "0", "--multi-permit", "a"])).await;
    assert_eq!(code(&refused), 64);
}
