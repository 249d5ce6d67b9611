//! `redquorum elect` and `redquorum observe`.

use std::{io::Write, os::unix::process::ExitStatusExt};

use redquorum_tests::{Cluster, eventually};
use rustix::{io::ioctl_fionread, process::Signal};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
};

use super::{
    redquorum::{SOON, code, ended, on, output, send, stderr, stdout},
    scratch::Scratch,
};

/// Starts a candidate that notes its term when it leads.
fn candidate(cluster: &Cluster, scratch: &Scratch, name: &str, more: &[&str]) -> Child {
    let script = format!("echo $REDQUORUM_TERM >> {}; exec sleep 1000", scratch.file(name));
    let mut command = on(cluster, ["elect", "e", "--value", name]);
    command.args(more).args(["--", "sh", "-c", &script]).spawn().unwrap()
}

fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line = tokio::time::timeout(SOON, lines.next_line()).await.expect("a line comes soon");
    line.unwrap().expect("there is one")
}

#[tokio::test]
async fn leadership_passes_from_process_to_process_and_observers_see_it() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let nobody = output(on(&cluster, ["observe", "e", "--once"])).await;
    assert_eq!((code(&nobody), stdout(&nobody)), (80, String::new()), "{}", stderr(&nobody));

    let first = candidate(&cluster, &scratch, "first", &[]);
    let first_term = scratch.lines("first", 1).await.remove(0);
    let mut text = on(&cluster, ["observe", "e"]).spawn().unwrap();
    let mut json = on(&cluster, ["observe", "e", "--json"]).spawn().unwrap();
    let (mut text_lines, mut json_lines) = (lines(&mut text), lines(&mut json));
    let shown = next(&mut text_lines).await;
    let words: Vec<&str> = shown.split('\t').collect();
    assert_eq!((words[0], words[2]), (first_term.as_str(), "first"), "{shown}");
    assert!(words[1].ends_with('Z'), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&next(&mut json_lines).await).unwrap();
    assert_eq!((shown["value"].as_str(), shown["term"].to_string()), (Some("first"), first_term.clone()));

    let second = candidate(&cluster, &scratch, "second", &[]);
    send(first.id().unwrap(), Signal::TERM);
    assert_eq!(code(&ended(first).await), 128 + 15);
    let second_term = scratch.lines("second", 1).await.remove(0);
    assert!(second_term.parse::<u64>().unwrap() > first_term.parse().unwrap());
    assert!(next(&mut text_lines).await.starts_with(&second_term));
    let shown: serde_json::Value = serde_json::from_str(&next(&mut json_lines).await).unwrap();
    assert_eq!(shown["value"].as_str(), Some("second"));

    let once = output(on(&cluster, ["observe", "e", "--once"])).await;
    assert_eq!(code(&once), 0, "{}", stderr(&once));
    assert!(
        stdout(&once).starts_with(&second_term) && stdout(&once).ends_with("\tsecond\n"),
        "{}",
        stdout(&once)
    );
    send(text.id().unwrap(), Signal::INT);
    assert_eq!(ended(text).await.status.signal(), Some(2));
    drop(second);
}

#[tokio::test]
async fn a_deposed_leader_stops_its_command_and_campaigns_again() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let leader = candidate(&cluster, &scratch, "leader", &["--ttl", "2s", "--quorum-timeout", "30s"]);
    scratch.lines("leader", 1).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    let terms = scratch.lines("leader", 2).await;
    assert!(terms[1].parse::<u64>().unwrap() > terms[0].parse().unwrap(), "{terms:?}");
    send(leader.id().unwrap(), Signal::TERM);
    let leader = ended(leader).await;
    assert_eq!(code(&leader), 128 + 15, "{}", stderr(&leader));
    assert!(stderr(&leader).contains("SIGTERM"), "{}", stderr(&leader));
}

#[tokio::test]
async fn a_command_that_ends_by_itself_ends_the_leadership_or_is_started_again() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("echo $REDQUORUM_TERM >> {}; exit 4", scratch.file("terms"));
    let elect = ["elect", "e", "--value", "v"];
    let once = output(on(&cluster, elect.iter().chain(&["--", "sh", "-c", &script]))).await;
    assert_eq!(code(&once), 4, "{}", stderr(&once));
    let again = on(&cluster, elect.iter().chain(&["--restart", "--", "sh", "-c", &script])).spawn().unwrap();
    let terms = scratch.lines("terms", 3).await;
    assert!(terms[0] < terms[1] && terms[1] < terms[2], "{terms:?}");
    send(again.id().unwrap(), Signal::TERM);
    ended(again).await;
}

#[tokio::test]
async fn a_survived_signal_ends_the_candidacy_only_if_it_demands_an_end() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!(
        "trap 'echo >> {}' HUP QUIT; echo $REDQUORUM_TERM >> {}; until [ -e {} ]; do sleep 0.02; done",
        scratch.file("survived"),
        scratch.file("terms"),
        scratch.file("over")
    );
    let elect = on(&cluster, ["elect", "e", "--value", "v", "--restart", "--", "sh", "-c", &script]).spawn();
    let elect = elect.unwrap();
    scratch.lines("terms", 1).await;
    for (count, signal) in [(1, Signal::HUP), (2, Signal::QUIT)] {
        send(elect.id().unwrap(), signal);
        scratch.lines("survived", count).await;
    }
    std::fs::write(scratch.file("over"), "").unwrap();
    scratch.lines("terms", 2).await;
    send(elect.id().unwrap(), Signal::TERM);
    ended(elect).await;
}

#[tokio::test]
async fn an_observer_with_a_full_pipe_ends_by_signal() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    // Longer than an atomic write to a pipe.
    let value = "v".repeat(3 * 4096);
    let script = format!("echo >> {}; exec sleep 1000", scratch.file("leads"));
    let leader = on(&cluster, ["elect", "e", "--value", &value, "--", "sh", "-c", &script]).spawn().unwrap();
    scratch.lines("leads", 1).await;
    let (reader, mut writer) = std::io::pipe().unwrap();
    // The capacity of a pipe on Linux.
    let capacity = 64 * 1024;
    writer.write_all(&vec![b'.'; capacity - 4096]).unwrap();
    let mut observer = on(&cluster, ["observe", "e"]);
    let observer = observer.stdout(writer).spawn().unwrap();
    let is_full = async || ioctl_fionread(&reader).unwrap() == capacity as u64;
    eventually(SOON, "it writes to a full pipe", is_full).await;
    send(observer.id().unwrap(), Signal::TERM);
    assert_eq!(ended(observer).await.status.signal(), Some(15));
    drop(leader);
}
