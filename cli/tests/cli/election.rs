//! `redquorum elect` and `redquorum observe`.

use std::{io::Write, os::unix::process::ExitStatusExt};

use redquorum_tests::{Cluster, eventually};
use rustix::{io::ioctl_fionread, process::Signal};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout},
};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, exit_code, output, send_signal, stderr, stdout,
        wait_for_output,
    },
    scratch::Scratch,
};

/// Starts a candidate whose command writes its term to the file `name`.
fn candidate(cluster: &Cluster, scratch: &Scratch, name: &str, more: &[&str]) -> Child {
    let script = format!("echo $REDQUORUM_TERM >> {}; exec sleep 1000", scratch.file(name));
    let mut command = command_admitting_new_nodes(cluster, ["elect", "e", "--value", name]);
    command.args(more).args(["--", "sh", "-c", &script]).spawn().unwrap()
}

fn lines(child: &mut Child) -> Lines<BufReader<ChildStdout>> {
    BufReader::new(child.stdout.take().unwrap()).lines()
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> String {
    let line =
        tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.expect("a line within the time limit");
    line.unwrap().expect("the output has not ended")
}

#[tokio::test]
async fn an_observer_prints_each_leader_after_a_change() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let without_leader = output(command_admitting_new_nodes(&cluster, ["observe", "e", "--once"])).await;
    assert_eq!(
        (exit_code(&without_leader), stdout(&without_leader)),
        (80, String::new()),
        "{}",
        stderr(&without_leader)
    );

    let first = candidate(&cluster, &scratch, "first", &[]);
    let first_term = scratch.lines("first", 1).await.remove(0);
    let mut text = command_admitting_new_nodes(&cluster, ["observe", "e"]).spawn().unwrap();
    let mut json = command_admitting_new_nodes(&cluster, ["observe", "e", "--json"]).spawn().unwrap();
    let (mut text_lines, mut json_lines) = (lines(&mut text), lines(&mut json));
    let shown = next(&mut text_lines).await;
    let words: Vec<&str> = shown.split('\t').collect();
    assert_eq!((words[0], words[2]), (first_term.as_str(), "first"), "{shown}");
    assert!(words[1].ends_with('Z'), "{shown}");
    let shown: serde_json::Value = serde_json::from_str(&next(&mut json_lines).await).unwrap();
    assert_eq!((shown["value"].as_str(), shown["term"].to_string()), (Some("first"), first_term.clone()));

    let second = candidate(&cluster, &scratch, "second", &[]);
    send_signal(first.id().unwrap(), Signal::TERM);
    assert_eq!(exit_code(&wait_for_output(first).await), 128 + 15);
    let second_term = scratch.lines("second", 1).await.remove(0);
    assert!(second_term.parse::<u64>().unwrap() > first_term.parse().unwrap());
    assert!(next(&mut text_lines).await.starts_with(&second_term));
    let shown: serde_json::Value = serde_json::from_str(&next(&mut json_lines).await).unwrap();
    assert_eq!(shown["value"].as_str(), Some("second"));

    let once = output(command_admitting_new_nodes(&cluster, ["observe", "e", "--once"])).await;
    assert_eq!(exit_code(&once), 0, "{}", stderr(&once));
    assert!(
        stdout(&once).starts_with(&second_term) && stdout(&once).ends_with("\tsecond\n"),
        "{}",
        stdout(&once)
    );
    send_signal(text.id().unwrap(), Signal::INT);
    assert_eq!(wait_for_output(text).await.status.signal(), Some(2));
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
    send_signal(leader.id().unwrap(), Signal::TERM);
    let leader = wait_for_output(leader).await;
    assert_eq!(exit_code(&leader), 128 + 15, "{}", stderr(&leader));
    assert!(stderr(&leader).contains("SIGTERM"), "{}", stderr(&leader));
}

#[tokio::test]
async fn the_end_of_the_command_ends_the_leadership_or_restarts_the_command() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("echo $REDQUORUM_TERM >> {}; exit 4", scratch.file("terms"));
    let elect = ["elect", "e", "--value", "v"];
    let once =
        output(command_admitting_new_nodes(&cluster, elect.iter().chain(&["--", "sh", "-c", &script]))).await;
    assert_eq!(exit_code(&once), 4, "{}", stderr(&once));
    let again =
        command_admitting_new_nodes(&cluster, elect.iter().chain(&["--restart", "--", "sh", "-c", &script]))
            .spawn()
            .unwrap();
    let terms = scratch.lines("terms", 3).await;
    assert!(terms[0] < terms[1] && terms[1] < terms[2], "{terms:?}");
    send_signal(again.id().unwrap(), Signal::TERM);
    wait_for_output(again).await;
}

#[tokio::test]
async fn hup_and_quit_that_the_command_survives_do_not_end_the_candidacy() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!(
        "trap 'echo >> {}' HUP QUIT; echo $REDQUORUM_TERM >> {}; until [ -e {} ]; do sleep 0.02; done",
        scratch.file("survived"),
        scratch.file("terms"),
        scratch.file("over")
    );
    let elect = command_admitting_new_nodes(
        &cluster,
        ["elect", "e", "--value", "v", "--restart", "--", "sh", "-c", &script],
    )
    .spawn();
    let elect = elect.unwrap();
    scratch.lines("terms", 1).await;
    for (count, signal) in [(1, Signal::HUP), (2, Signal::QUIT)] {
        send_signal(elect.id().unwrap(), signal);
        scratch.lines("survived", count).await;
    }
    std::fs::write(scratch.file("over"), "").unwrap();
    scratch.lines("terms", 2).await;
    send_signal(elect.id().unwrap(), Signal::TERM);
    wait_for_output(elect).await;
}

#[tokio::test]
async fn a_signal_ends_an_observer_that_writes_to_a_full_pipe() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    // The value is longer than an atomic write to a pipe.
    let value = "v".repeat(3 * 4096);
    let script = format!("echo >> {}; exec sleep 1000", scratch.file("leads"));
    let leader =
        command_admitting_new_nodes(&cluster, ["elect", "e", "--value", &value, "--", "sh", "-c", &script])
            .spawn()
            .unwrap();
    scratch.lines("leads", 1).await;
    let (reader, mut writer) = std::io::pipe().unwrap();
    // The capacity of a pipe on Linux.
    let capacity = 64 * 1024;
    writer.write_all(&vec![b'.'; capacity - 4096]).unwrap();
    let mut observer = command_admitting_new_nodes(&cluster, ["observe", "e"]);
    let observer = observer.stdout(writer).spawn().unwrap();
    let is_full = async || ioctl_fionread(&reader).unwrap() == capacity as u64;
    eventually(TIME_LIMIT, "the observer writes to a full pipe", is_full).await;
    send_signal(observer.id().unwrap(), Signal::TERM);
    assert_eq!(wait_for_output(observer).await.status.signal(), Some(15));
    drop(leader);
}
