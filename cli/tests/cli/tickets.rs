//! `redquorum lock`, `run --ticket-from` and `unlock`: a lock passes from one command to another.

use std::process::{Output, Stdio};

use redquorum_tests::{Cluster, eventually};
use tokio::{io::AsyncWriteExt, process::Command};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, exit_code, json, output, run, stderr, stdout,
        wait_for_output, wait_until_free,
    },
    scratch::Scratch,
    terminal::on_a_terminal_of,
};

/// Returns the ticket that `lock` prints.
async fn ticket(cluster: &Cluster, names: &[&str]) -> String {
    let arguments = [&["lock", "--ticket-ttl", "30s"], names].concat();
    let locked = output(command_admitting_new_nodes(cluster, arguments)).await;
    assert_eq!(exit_code(&locked), 0, "{}", stderr(&locked));
    stdout(&locked).trim_end().to_owned()
}

/// Runs a command with this text as its standard input.
async fn with_input(mut command: Command, text: String) -> Output {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    // A command that fails early does not read its input.
    input.write_all(text.as_bytes()).await.ok();
    drop(input);
    wait_for_output(child).await
}

#[tokio::test]
async fn a_ticket_passes_the_lock_to_one_run() {
    let cluster = Cluster::start(3).await;
    let ticket = ticket(&cluster, &["job", "other job"]).await;
    assert!(ticket.starts_with("redquorum-ticket-1."), "{ticket}");
    let held = output(run(&cluster, &["job", "--wait", "0"], "true")).await;
    assert_eq!(exit_code(&held), 75, "{}", stderr(&held));
    assert!(stderr(&held).contains(", a ticket, "), "{}", stderr(&held));
    let redeem = |arguments: &[&str], script: &str| {
        let arguments = [&["--ticket-from", "-"], arguments].concat();
        with_input(run(&cluster, &arguments, script), format!("{ticket}\nrest"))
    };
    // The command reads what follows the ticket.
    let redeemed = redeem(&[], "cat; echo \"/$REDQUORUM_RESOURCE/$REDQUORUM_TICKET_FROM\"").await;
    assert_eq!(exit_code(&redeemed), 0, "{}", stderr(&redeemed));
    assert_eq!(stdout(&redeemed), "rest/job\nother job/\n");
    for (arguments, status) in [(&[][..], 75), (&["--held-exit", "3"], 3)] {
        let spent = redeem(arguments, "true").await;
        assert_eq!(exit_code(&spent), status, "{}", stderr(&spent));
        assert!(stderr(&spent).contains("the ticket of job, other job is spent"), "{}", stderr(&spent));
    }
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_released_ticket_frees_its_names() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let file = scratch.file("ticket");
    std::fs::write(&file, ticket(&cluster, &["job"]).await).unwrap();
    let inspected = output(command_admitting_new_nodes(&cluster, ["--json", "inspect", "job"])).await;
    assert_eq!(json(&inspected)[0]["ticket"], true, "{}", stdout(&inspected));
    let released = output(command_admitting_new_nodes(&cluster, ["unlock", "--ticket-from", &file])).await;
    assert_eq!((exit_code(&released), &*stdout(&released)), (0, "the ticket of job is released\n"));
    let next = output(run(&cluster, &["job", "--wait", "0"], "true")).await;
    assert_eq!(exit_code(&next), 0, "{}", stderr(&next));
}

#[tokio::test]
async fn a_list_shows_a_ticket_and_force_unlock_ends_it() {
    let cluster = Cluster::start(3).await;
    let ticket = ticket(&cluster, &["job"]).await;
    let list = command_admitting_new_nodes(&cluster, ["list"]);
    let shown = stdout(&wait_for_output(on_a_terminal_of(24, 80, &list).spawn().unwrap()).await);
    assert!(shown.lines().any(|row| row.starts_with("job ") && row.contains(" a ticket ")), "{shown}");
    // A script gets the whole lease id.
    let listed = output(list).await;
    assert!(stdout(&listed).contains(" ticket/"), "{}", stdout(&listed));
    let forced = output(command_admitting_new_nodes(&cluster, ["force-unlock", "job", "--yes"])).await;
    assert_eq!(exit_code(&forced), 0, "{}", stderr(&forced));
    let redeemed = with_input(run(&cluster, &["--ticket-from", "-"], "true"), ticket).await;
    assert_eq!(exit_code(&redeemed), 75, "{}", stderr(&redeemed));
    assert!(stderr(&redeemed).contains("the ticket of job is spent"), "{}", stderr(&redeemed));
}

#[tokio::test]
async fn lock_ends_and_waits_as_run() {
    let cluster = Cluster::start(3).await;
    let held = ticket(&cluster, &["job"]).await;
    let lock = |arguments: &[&str]| {
        let arguments = [&["lock", "job", "--ticket-ttl", "30s"], arguments].concat();
        command_admitting_new_nodes(&cluster, arguments)
    };
    for (arguments, status) in [(&["--wait", "0"][..], 75), (&["--wait", "0", "--held-exit", "3"], 3)] {
        let refused = output(lock(arguments)).await;
        assert_eq!(exit_code(&refused), status, "{}", stderr(&refused));
        assert!(stderr(&refused).contains("a ticket") && stdout(&refused).is_empty(), "{}", stderr(&refused));
    }
    let waiting =
        lock(&["--label", "nightly"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually(TIME_LIMIT, "the command waits under its label", async || {
        let inspected = output(command_admitting_new_nodes(&cluster, ["inspect", "job"])).await;
        stdout(&inspected).contains("nightly")
    })
    .await;
    let released =
        with_input(command_admitting_new_nodes(&cluster, ["unlock", "--ticket-from", "-"]), held).await;
    assert_eq!(exit_code(&released), 0, "{}", stderr(&released));
    let locked = wait_for_output(waiting).await;
    assert_eq!(exit_code(&locked), 0, "{}", stderr(&locked));
    assert!(stdout(&locked).starts_with("redquorum-ticket-1."), "{}", stdout(&locked));
}

/// A full device takes no output, so nobody can redeem or release the ticket.
#[tokio::test]
async fn a_ticket_that_cannot_be_printed_is_released() {
    let cluster = Cluster::start(3).await;
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = command_admitting_new_nodes(&cluster, ["lock", "job", "--ticket-ttl", "30s"]);
    let failed = wait_for_output(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap()).await;
    assert_eq!(exit_code(&failed), 74, "{}", stderr(&failed));
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn texts_that_are_no_tickets_are_refused_without_showing_them() {
    let cluster = Cluster::start(1).await;
    let ticket = ticket(&cluster, &["job"]).await;
    let secret = ticket.split('.').nth(1).unwrap();
    let damaged = format!("{ticket}x");
    let unlock = |from: &str| command_admitting_new_nodes(&cluster, ["unlock", "--ticket-from", from]);
    for (refused, status) in [
        (with_input(unlock("-"), damaged).await, 64),
        (with_input(unlock("-"), String::new()).await, 64),
        (output(unlock("/nowhere/ticket")).await, 74),
        (with_input(run(&cluster, &["job", "--ticket-from", "-"], "true"), ticket.clone()).await, 64),
        (output(command_admitting_new_nodes(&cluster, ["lock", "job", "--ticket-ttl", "61s"])).await, 64),
    ] {
        assert_eq!(exit_code(&refused), status, "{}", stderr(&refused));
        assert!(!stderr(&refused).contains(secret), "{}", stderr(&refused));
    }
}
