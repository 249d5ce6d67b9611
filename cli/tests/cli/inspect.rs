//! `redquorum inspect` and `redquorum force-unlock`.

use std::os::unix::process::ExitStatusExt;

use futures::future::join_all;
use redquorum::{LockOptions, Quorum, admin};
use redquorum_tests::Cluster;
use rustix::process::Signal;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    process::ChildStdout,
};

use super::{
    pty::Pty,
    redquorum::{
        TIME_LIMIT, command_on, exit_code, json, output, send_signal, stderr, stdout, wait_for_output,
        without_patience,
    },
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
    let shown = output(command_on(&cluster, ["inspect", "job"])).await;
    assert_eq!((exit_code(&shown), stderr(&shown)), (0, String::new()));
    let text = stdout(&shown);
    let lines: Vec<&str> = text.lines().collect();
    let [head, nodes @ .., conclusion] = &*lines else { panic!("{text}") };
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["node", "owner", "holds", "remaining", "counter", "latency"]);
    for (line, server) in nodes.iter().zip(cluster.servers()) {
        let cells: Vec<&str> = line.split_whitespace().collect();
        let (owner, token) = (guard.id().to_string(), guard.fencing_token().to_string());
        assert_eq!(cells[..3], [&*server.address(), &*owner, "1"]);
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
    let shown = json(&output(command_on(&cluster, ["--json", "inspect", "job"])).await);
    let [lock] = &*shown else { panic!("{shown:?}") };
    assert_eq!(
        (&lock["resource"], &lock["state"], &lock["needed"]),
        (&"job".into(), &"held".into(), &2.into())
    );
    assert_eq!(lock["owner"], guard.id().to_string());
    let remaining = lock["remaining_ms"].as_f64().unwrap();
    assert!(remaining > 0.0 && remaining <= 30_000.0, "{remaining}");
    let states: Vec<&Value> = lock["nodes"].as_array().unwrap().iter().map(|node| &node["state"]).collect();
    assert_eq!(states, ["held", "held", "unknown"]);
    assert_eq!(lock["nodes"][0]["counter"], guard.fencing_token().as_u64());
    assert!(lock["nodes"][0]["latency_ms"].as_f64().unwrap() > 0.0);
    assert!(lock["nodes"][2]["error"].as_str().unwrap().contains("unreachable"), "{lock}");
}

#[tokio::test]
async fn readers_are_shown_by_their_lease_ids() {
    let cluster = Cluster::start(3).await;
    let first = client(&cluster).await;
    let second = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let readers = [first.rw_lock("job").read().await.unwrap(), second.rw_lock("job").read().await.unwrap()];
    let refused = output(command_on(&cluster, ["run", "job", "--wait", "50ms", "--", "true"])).await;
    assert_eq!(exit_code(&refused), 75, "{}", stderr(&refused));
    let why = stderr(&refused);
    assert!(why.contains("; job is shared by 2 readers: ") && !why.contains("redquorum:shared"), "{why}");
    for reader in &readers {
        assert!(why.contains(&reader.id().to_string()), "{why}");
    }
    // First all nodes have readers, then only one node.
    for deleted in [0..0, 0..2] {
        for server in cluster.some(deleted.clone()) {
            server.command(&["DEL", "job"]).await;
        }
        let inspected = output(command_on(&cluster, ["inspect", "job"])).await;
        let text = stdout(&inspected);
        let rows = text.lines().filter(|line| line.starts_with("127.0.0.1:"));
        let shared = rows.filter(|row| row.contains(" (readers) ")).count();
        assert_eq!((shared, text.contains("redquorum:shared")), (3 - deleted.len(), false), "{text}");
        let conclusion = text.lines().next_back().unwrap();
        let are_named = readers.iter().all(|reader| conclusion.contains(&reader.id().to_string()));
        assert_eq!(are_named, deleted.is_empty(), "{text}");
        let listed = stdout(&output(command_on(&cluster, ["list"])).await);
        assert!(listed.contains("2 readers") && !listed.contains("redquorum:shared"), "{listed}");
    }
    drop(readers);
}

/// Returns the next object on standard output.
async fn next_object(lines: &mut Lines<BufReader<ChildStdout>>) -> Value {
    let line = tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    serde_json::from_str(&line).unwrap()
}

#[tokio::test]
async fn watch_prints_each_change_once_until_an_interrupt() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let mut watching = command_on(&cluster, ["--json", "inspect", "job", "--watch=50ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    assert_eq!(next_object(&mut lines).await["state"], "free");
    for _ in 0..2 {
        let guard = quorum.red_lock("job").lock().await.unwrap();
        // An inspection may fall between the grants of two nodes.
        let (owner, mut changes_seen) = (guard.id().to_string(), 0);
        let held = loop {
            let held = next_object(&mut lines).await;
            changes_seen += 1;
            let is_whole = held["nodes"]
                .as_array()
                .unwrap()
                .iter()
                .all(|node| node["owner"] == *owner && node["counter"] == guard.fencing_token().as_u64());
            if is_whole {
                break held;
            }
        };
        assert!(changes_seen <= 7, "more changes than two at each of three nodes: {changes_seen}");
        assert_eq!(held["state"], "held", "{held}");
        guard.unlock().await.unwrap();
        while next_object(&mut lines).await["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .any(|node| node["state"] != "free")
        {}
    }
    send_signal(watching.id().unwrap(), Signal::INT);
    let rest = tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap();
    assert_eq!(rest, None, "a change was printed after the last change");
    assert_eq!(wait_for_output(watching).await.status.signal(), Some(2));
}

#[tokio::test]
async fn watch_prints_changed_slots_and_waits_for_a_lost_quorum() {
    let cluster = Cluster::start(1).await;
    let quorum = client(&cluster).await;
    let mut watching =
        command_on(&cluster, ["--json", "inspect", "gpu", "-n", "3", "--watch=50ms"]).spawn().unwrap();
    let mut lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    for slot in 0..3 {
        assert_eq!(next_object(&mut lines).await["slot"], slot);
    }
    let permit = quorum.semaphore("gpu", 3).acquire().await.unwrap();
    let changed = next_object(&mut lines).await;
    assert_eq!((&changed["slot"], &changed["state"]), (&permit.slot().into(), &"held".into()));
    cluster.server(0).kill().await;
    let mut printed = BufReader::new(watching.stderr.take().unwrap()).lines();
    let reported = tokio::time::timeout(TIME_LIMIT, printed.next_line()).await.unwrap().unwrap().unwrap();
    // The server may end before or during an inspection.
    let is_gone = reported.contains("unreachable") || reported.contains("the connection broke");
    assert!(reported.starts_with("{\"notice\"") && is_gone, "{reported}");
    assert!(watching.try_wait().unwrap().is_none(), "the command has not waited for the node");
}

#[tokio::test]
async fn watch_redraws_the_screen_of_a_terminal() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let guard = quorum.red_lock("job").lock().await.unwrap();
    let mut watching = on_a_terminal_of(
        24,
        100,
        &without_patience(command_on(&cluster, ["inspect", "job", "--watch=50ms"])),
    )
    .spawn()
    .unwrap();
    let (mut keys, mut out) = (watching.stdin.take().unwrap(), watching.stdout.take().unwrap());
    let mut written = Vec::new();
    let until = async |written: &mut Vec<u8>, out: &mut ChildStdout, words: &str| {
        let drawn = async {
            while !screen(100, written).contains(words) {
                assert_ne!(out.read_buf(written).await.unwrap(), 0, "{words} is shown");
            }
        };
        tokio::time::timeout(TIME_LIMIT, drawn).await.unwrap();
    };
    until(&mut written, &mut out, "job is held by").await;
    guard.unlock().await.unwrap();
    until(&mut written, &mut out, "job is free").await;
    let shown = screen(100, &written);
    assert_eq!((shown.matches("owner").count(), shown.matches("job is").count()), (1, 1), "{shown}");
    // Without a quorum, the last drawing stays, with its age in one line that is drawn again.
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    let redrawn = async {
        while String::from_utf8_lossy(&written).matches("the state above is").count() < 3 {
            assert_ne!(out.read_buf(&mut written).await.unwrap(), 0, "the age is shown");
        }
    };
    tokio::time::timeout(TIME_LIMIT, redrawn).await.unwrap();
    let shown = screen(100, &written);
    assert_eq!(
        (shown.matches("the state above is").count(), shown.matches("job is").count()),
        (1, 1),
        "{shown}"
    );
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(wait_for_output(watching).await.status.code(), Some(128 + 2));
}

#[tokio::test]
async fn a_lock_without_a_holder_is_free() {
    let cluster = Cluster::start(3).await;
    drop(client(&cluster).await);
    let shown = output(command_on(&cluster, ["inspect", "job"])).await;
    assert_eq!(stdout(&shown).lines().last(), Some("job is free"));
    assert_eq!(stdout(&shown).matches("(free)").count(), 3);
}

#[tokio::test]
async fn a_lock_is_free_if_nodes_disagree_and_unclear_with_a_silent_node() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    // A renewal would restore the deleted keys.
    let options = LockOptions::new().without_renewal();
    let _guard = quorum.red_lock("job").options(options).lock().await.unwrap();
    let conclusion = async || {
        let shown = output(command_on(&cluster, ["inspect", "job"])).await;
        assert_eq!(exit_code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown).lines().last().unwrap().to_owned()
    };
    for server in cluster.some(1..3) {
        server.command(&["DEL", "job"]).await;
    }
    // A hash with two fields is a lock of another kind.
    cluster.server(1).command(&["HSET", "job", "a", "1", "b", "1"]).await;
    assert_eq!(conclusion().await, "job is free: 2 of 3 nodes have a holder, but no holder has 2 nodes");
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
        let mut shown = on_a_terminal_of(24, 80, &command_on(&cluster, arguments)).spawn().unwrap();
        shown.stdin.take().unwrap().write_all(b"no\n").await.unwrap();
        let shown = stdout(&wait_for_output(shown).await);
        assert!(shown.lines().all(|line| line.trim_end().chars().count() <= 80), "{shown}");
        for server in cluster.servers() {
            let row = format!("{} ", server.address());
            assert_eq!(shown.lines().filter(|line| line.contains(&row)).count(), 1, "{shown}");
        }
        assert_eq!(shown.matches(&guard.id().to_string()).count(), 1, "{shown}");
        assert!(shown.contains(&format!("{}: ", cluster.server(4).address())), "{shown}");
        let has_advice = shown.contains("`redquorum force-unlock nightly-report` ends it");
        assert_eq!(has_advice, command == "inspect", "{shown}");
    }
}

#[tokio::test]
async fn a_node_in_quarantine_is_reported() {
    let cluster = Cluster::start(3).await;
    // The nodes are not initialised, and no client has registered.
    let shown = stdout(&output(command_on(&cluster, ["inspect", "job"])).await);
    assert_eq!(shown.matches(": abstains: no client has registered with it ").count(), 3, "{shown}");
    drop(Quorum::builder().nodes(cluster.urls()).connect().await.unwrap());
    let shown = stdout(&output(command_on(&cluster, ["inspect", "job"])).await);
    assert_eq!(shown.matches(": in quarantine for ").count(), 3, "{shown}");
    let reported = json(&output(command_on(&cluster, ["--json", "inspect", "job"])).await);
    assert!(
        reported[0]["nodes"][0]["abstains"].as_str().unwrap().starts_with("in quarantine for "),
        "{reported:?}"
    );
}

#[tokio::test]
async fn inspect_prints_no_result_without_a_quorum() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let shown = output(without_patience(command_on(&cluster, ["inspect", "job"]))).await;
    assert_eq!((exit_code(&shown), stdout(&shown)), (69, String::new()));
    let known = format!("{}: held by {} for ", cluster.server(0).address(), guard.id());
    assert!(stderr(&shown).contains(&known), "{known:?} is not in {}", stderr(&shown));
}

#[tokio::test]
async fn force_unlock_needs_yes_without_a_terminal() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    let refused = output(command_on(&cluster, ["force-unlock", "job"])).await;
    assert_eq!(exit_code(&refused), 64);
    assert!(stderr(&refused).contains("--yes"), "{}", stderr(&refused));
    assert!(guard.is_valid() && cluster.server(0).keys().await.contains(&"job".to_owned()));

    let done = output(command_on(&cluster, ["force-unlock", "--yes", "job"])).await;
    assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    assert_eq!(stdout(&done).matches("confirmed").count(), 3, "{}", stdout(&done));
    assert!(
        stdout(&done).contains(&guard.id().to_string()),
        "the former holder is not named: {}",
        stdout(&done)
    );
    assert!(stderr(&done).contains("next renewal"), "{}", stderr(&done));
    for server in cluster.servers() {
        assert!(!server.keys().await.contains(&"job".to_owned()));
    }
    guard.renew().await.unwrap_err();
}

/// The nodes that answer are no quorum, so the lock may still be held elsewhere.
#[tokio::test]
async fn force_unlock_without_a_quorum_unlocks_the_nodes_that_answer() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    let done = output(without_patience(command_on(&cluster, ["force-unlock", "--yes", "job"]))).await;
    let text = stderr(&done);
    assert_eq!(exit_code(&done), 69, "{text}");
    let node = format!("{}: unlocked", cluster.server(0).address());
    for words in ["unlocked only on 1 of 3 nodes, 2 needed", &node, "start the nodes that did not answer"] {
        assert!(text.contains(words), "{words:?} is not in {text}");
    }
    assert!(!cluster.server(0).keys().await.contains(&"job".to_owned()));
    drop(guard);
    cluster.server(0).kill().await;
    let done = output(without_patience(command_on(&cluster, ["force-unlock", "--yes", "job"]))).await;
    assert_eq!(exit_code(&done), 69, "{}", stderr(&done));
    assert!(stderr(&done).contains("no node was unlocked"), "{}", stderr(&done));
}

#[tokio::test]
async fn force_unlock_of_a_hung_node_has_the_reason_of_the_connect() {
    let cluster = Cluster::start(1).await;
    cluster.server(0).freeze().await;
    let mut command = command_on(&cluster, ["--json", "force-unlock", "--yes", "job"]);
    command.env("REDQUORUM_CONNECT_TIMEOUT", "3s");
    let done = output(command).await;
    assert_eq!(exit_code(&done), 69, "{}", stderr(&done));
    let text = stderr(&done);
    let error = text.lines().last().unwrap();
    assert!(
        error.contains("no node was unlocked") && error.contains("no answer to HELLO within "),
        "{error}"
    );
}

#[tokio::test]
async fn force_unlock_of_a_free_lock_with_a_dead_node_notifies_no_holder() {
    let cluster = Cluster::start(3).await;
    drop(client(&cluster).await);
    cluster.server(2).kill().await;
    let done = output(without_patience(command_on(&cluster, ["force-unlock", "--yes", "job"]))).await;
    assert_eq!(exit_code(&done), 0, "{}", stderr(&done));
    assert!(!stderr(&done).contains("living holder"), "{}", stderr(&done));
    let row = "not confirmed (";
    assert!(
        stdout(&done).contains(row) && stdout(&done).contains("a key ends by its ttl"),
        "{}",
        stdout(&done)
    );
}

#[tokio::test]
async fn the_json_of_force_unlock_names_the_former_holder() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    let unlock = || output(command_on(&cluster, ["--json", "force-unlock", "-y", "job"]));
    let reported = json(&unlock().await);
    assert_eq!(reported[0]["before"]["owner"], guard.id().to_string());
    assert_eq!(reported[0]["confirmed"].as_array().unwrap().len(), 3);
    let again = json(&unlock().await);
    assert_eq!((&again[0]["was_unlocked"], &again[0]["before"]["state"]), (&false.into(), &"free".into()));
}

#[tokio::test]
async fn force_unlock_shows_the_holder_and_unlocks_only_after_yes() {
    let cluster = Cluster::start(3).await;
    let guard = client(&cluster).await.red_lock("job").lock().await.unwrap();
    for (answer, status, is_kept) in [("no\n", 83, true), ("yes\n", 0, false)] {
        let mut unlock = on_a_terminal(&command_on(&cluster, ["force-unlock", "job"])).spawn().unwrap();
        unlock.stdin.take().unwrap().write_all(answer.as_bytes()).await.unwrap();
        let unlock = wait_for_output(unlock).await;
        let printed = stdout(&unlock);
        assert_eq!(unlock.status.code(), Some(status), "{printed}");
        let (owner, question) = (printed.find(&guard.id().to_string()), printed.find("[y/N]"));
        assert!(owner.is_some() && owner < question, "{printed}");
        assert_eq!(cluster.server(0).keys().await.contains(&"job".to_owned()), is_kept, "{printed}");
    }
}

#[tokio::test]
async fn force_unlock_does_not_unlock_a_later_holder_than_shown() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let shown = quorum.red_lock("job").lock().await.unwrap();
    let mut unlock = on_a_terminal(&command_on(&cluster, ["force-unlock", "job"])).spawn().unwrap();
    let mut printed = Vec::new();
    let out = unlock.stdout.as_mut().unwrap();
    let question = async {
        while !String::from_utf8_lossy(&printed).contains("[y/N]") {
            assert_ne!(out.read_buf(&mut printed).await.unwrap(), 0, "the command asks");
        }
    };
    tokio::time::timeout(TIME_LIMIT, question).await.unwrap();
    shown.unlock().await.unwrap();
    let other = quorum.red_lock("job").lock().await.unwrap();
    unlock.stdin.take().unwrap().write_all(b"yes\n").await.unwrap();
    let unlock = wait_for_output(unlock).await;
    let printed = stdout(&unlock);
    assert_eq!(unlock.status.code(), Some(83), "{printed}");
    assert!(
        printed.contains("nothing was unlocked") && printed.contains(&other.id().to_string()),
        "{printed}"
    );
    other.renew().await.unwrap();
}

#[tokio::test]
async fn slots_in_use_beyond_the_permit_count_are_reported() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let gpus = quorum.semaphore("gpu", 4);
    let _permits = join_all((0..4).map(|_| gpus.acquire())).await;
    for (permits, reported) in [
        ("4", ""),
        (
            "2",
            "redquorum: 2 slots of gpu in use beyond 2 permits, up to slot 3: other clients count more permits; \
             use the same number everywhere\n",
        ),
    ] {
        let shown = output(command_on(&cluster, ["inspect", "gpu", "-n", permits])).await;
        assert_eq!((exit_code(&shown), &*stderr(&shown)), (0, reported));
    }
}

#[tokio::test]
async fn slots_of_a_semaphore_are_a_table_with_their_holders() {
    let cluster = Cluster::start(3).await;
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let label = "training-worker-7.eu-central-1.internal:4711";
    let [one, other] = [label, "job-2"].map(|label| builder().label(label));
    let (one, other) = (one.connect().await.unwrap(), other.connect().await.unwrap());
    let permits = [
        one.semaphore("gpu", 3).acquire().await.unwrap(),
        other.semaphore("gpu", 3).acquire().await.unwrap(),
    ];
    cluster.server(2).kill().await;
    for columns in [None, Some(80)] {
        let inspect = command_on(&cluster, ["inspect", "gpu", "-n", "3"]);
        let shown = match columns {
            None => output(inspect).await,
            Some(columns) => wait_for_output(on_a_terminal_of(24, columns, &inspect).spawn().unwrap()).await,
        };
        let text = stdout(&shown).replace('\r', "");
        assert_eq!(exit_code(&shown), 0, "{text}{}", stderr(&shown));
        for (slot, owner) in [(permits[0].slot(), "training-w"), (permits[1].slot(), "job-2")] {
            let row =
                text.lines().find(|line| line.starts_with(&format!("slot {slot} of gpu "))).expect(&text);
            assert!(row.contains("held") && row.contains(owner) && row.contains("2/3"), "{text}");
        }
        assert_eq!(text.lines().filter(|line| line.contains(" free ")).count(), 1, "{text}");
        assert_eq!(text.matches(&format!("{}: ", cluster.server(2).address())).count(), 1, "{text}");
        assert_eq!(text.trim_end().lines().last(), Some("2 of 3 permits of gpu in use"), "{text}");
        assert!(columns.is_none() || text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

/// Each of the three waits is in the queues of two slots, and one of the waiters is the release watcher.
#[tokio::test]
async fn a_wait_for_any_slot_of_a_semaphore_counts_once() {
    let cluster = Cluster::start(3).await;
    let client = client(&cluster).await;
    cluster.server(2).kill().await;
    let mut permits = Vec::new();
    for _ in 0..4 {
        permits.push(client.semaphore("gpu", 4).acquire().await.unwrap());
    }
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let gpu = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap().semaphore("gpu", 4);
        waiters.push(tokio::spawn(async move { drop(gpu.acquire().await) }));
    }
    let queued = async || {
        let listing = json(&output(command_on(&cluster, ["--json", "list"])).await).remove(0);
        let waiting_for = |kind: &str| {
            let locks = listing["locks"].as_array().unwrap().iter().filter(|lock| lock["kind"] == kind);
            locks.map(|lock| lock["waiters"].as_u64().unwrap()).sum::<u64>()
        };
        waiting_for("slot") == 6 && waiting_for("release_watcher") == 2
    };
    redquorum_tests::eventually(TIME_LIMIT, "each waiter is in two queues", queued).await;
    let inspected = stdout(&output(command_on(&cluster, ["inspect", "gpu", "-n", "4"])).await);
    let last = inspected.lines().last().unwrap();
    // If all waiters have drawn the same two slots, the number is known to be exact.
    let in_use = "4 of 4 permits of gpu in use";
    assert!(
        [format!("{in_use}, at least 3 waiters"), format!("{in_use}, 3 waiters")].contains(&last.to_owned()),
        "{inspected}"
    );
    let pty = Pty::open(80);
    let top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
    pty.wait_until_shown("3 waiting; every").await;
    drop(top);
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn the_waiters_of_a_lock_and_the_candidates_of_an_election_are_named() {
    let cluster = Cluster::start(3).await;
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let clients = join_all(["a", "b", "c"].map(|label| builder().label(label).connect())).await;
    let clients: Vec<Quorum> = clients.into_iter().map(Result::unwrap).collect();
    let _held = clients[0].red_lock("job").lock().await.unwrap();
    let leadership = clients[0].election("leader").campaign("a").await.unwrap();
    let mut waiters = Vec::new();
    for (ahead, client) in clients[1..].iter().enumerate() {
        let (lock, election) = (client.red_lock("job"), client.election("leader"));
        waiters.push(tokio::spawn(async move { drop(lock.lock().await) }));
        waiters.push(tokio::spawn(async move { drop(election.campaign("b").await) }));
        let are_queued = async || {
            let counts =
                ["job", "leader"].map(async |name| clients[0].inspect(name).await.unwrap().waiters());
            join_all(counts).await == [ahead as u32 + 1; 2]
        };
        redquorum_tests::eventually(TIME_LIMIT, "the waiters are queued", are_queued).await;
    }
    let shown = async |name| stdout(&output(command_on(&cluster, ["inspect", name])).await);
    let text = shown("job").await;
    let line = text.lines().find(|line| line.starts_with("2 waiters: ")).expect(&text);
    assert!(line.find("b/") < line.find(", c/"), "{line}");
    let text = shown("leader").await;
    assert!(text.contains("\n2 candidates: b/"), "{text}");
    let leader = format!("leader is led by {}, for ", leadership.id());
    assert!(text.lines().last().unwrap().starts_with(&leader), "{text}");
    let inspected = json(&output(command_on(&cluster, ["--json", "inspect", "leader"])).await).remove(0);
    assert_eq!((&inspected["election"], &inspected["waiters"]), (&true.into(), &2.into()));
    let labels: Vec<&Value> =
        inspected["queue"].as_array().unwrap().iter().map(|one| &one["label"]).collect();
    assert_eq!(labels, ["b", "c"]);
    // On a terminal, the list names the waiters, too.
    let list = command_on(&cluster, ["list"]);
    let text = stdout(&wait_for_output(on_a_terminal_of(24, 80, &list).spawn().unwrap()).await);
    let rows: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert!(rows.iter().any(|row| row.starts_with("job ") && row.contains(" 2: b, c ")), "{text}");
    assert!(rows.iter().any(|row| row.starts_with("leader ") && row.contains(" led ")), "{text}");
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{text}");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}

/// One client has the turn, and waits for the last of four permits. Another client waits for the turn, to acquire a
/// single permit by `acquire_many`.
#[tokio::test]
async fn force_unlock_of_the_multi_permit_lock_ends_the_turn_of_its_holder() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let other = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let permit = other.semaphore("my gpu", 4).acquire().await.unwrap();
    let all = quorum.semaphore("my gpu", 4);
    let holds_turn = tokio::spawn(async move { all.acquire_many(4).await });
    let shown = async |arguments: &[&str]| {
        let shown = output(command_on(&cluster, arguments)).await;
        assert_eq!(exit_code(&shown), 0, "{}", stderr(&shown));
        stdout(&shown)
    };
    let inspect = ["inspect", "--multi-permit", "my gpu"];
    let is_held = async || shown(&inspect).await.contains("multi-permit lock of my gpu is held by ");
    redquorum_tests::eventually(TIME_LIMIT, "the multi-permit lock is held", is_held).await;
    let several = other.semaphore("my gpu", 4);
    let waits_for_turn = tokio::spawn(async move { several.acquire_many(1).await });
    // Without a queue entry of the other client, the holder would lock again after the force-unlock.
    let is_queued = async || {
        let list = json(&output(command_on(&cluster, ["--json", "list", "my*"])).await).remove(0);
        let locks = list["locks"].as_array().unwrap();
        locks.iter().any(|lock| lock["kind"] == "multi_permit" && lock["waiters"] == 1)
    };
    redquorum_tests::eventually(TIME_LIMIT, "the other client is queued", is_queued).await;
    let listed = shown(&["list", "my*"]).await;
    assert!(listed.contains("multi-permit lock of my gpu"), "{listed}");
    let inspected =
        json(&output(command_on(&cluster, ["--json", "inspect", "--multi-permit", "my gpu"])).await);
    assert_eq!((&inspected[0]["resource"], &inspected[0]["multi_permit"]), (&"my gpu".into(), &true.into()));
    assert!(!waits_for_turn.is_finished());
    let force_unlock = ["force-unlock", "--yes", "--multi-permit", "my gpu"];
    let unlocked = shown(&force_unlock).await;
    assert!(unlocked.contains("before: multi-permit lock of my gpu is held by "), "{unlocked}");
    // As long as the other client is queued at one node only, the holder may lock again first.
    let is_granted = async || {
        if !waits_for_turn.is_finished() {
            output(command_on(&cluster, force_unlock)).await;
        }
        waits_for_turn.is_finished()
    };
    redquorum_tests::eventually(TIME_LIMIT, "the other client has its permit", is_granted).await;
    let permits = waits_for_turn.await.unwrap().unwrap();
    assert!(permit.is_valid() && permits[0].is_valid());
    holds_turn.abort();
    let refused = output(command_on(&cluster, ["force-unlock", "--slot", "0", "--multi-permit", "a"])).await;
    assert_eq!(exit_code(&refused), 64);
}
