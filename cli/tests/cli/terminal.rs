//! The command on a terminal.

use std::process::Stdio;

use redquorum_tests::{Cluster, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    redquorum::{SOON, ended, on, redquorum, run, state, stdout},
    scratch::Scratch,
};

/// Returns the command in the foreground of a new terminal, created by `script`.
pub(super) fn on_a_terminal(command: &tokio::process::Command) -> tokio::process::Command {
    on_a_terminal_of(24, 100, command)
}

/// As [`on_a_terminal`], with a size.
pub(super) fn on_a_terminal_of(
    rows: u16,
    columns: u16,
    command: &tokio::process::Command,
) -> tokio::process::Command {
    let words = std::iter::once(command.as_std().get_program()).chain(command.as_std().get_args());
    let quoted: Vec<String> =
        words.map(|word| format!("'{}'", word.to_str().unwrap().replace('\'', r"'\''"))).collect();
    let mut script = tokio::process::Command::new("script");
    script.args([
        "-q",
        "-e",
        "-c",
        &format!("stty rows {rows} cols {columns}; exec {}", quoted.join(" ")),
        "/dev/null",
    ]);
    script.envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    script
}

#[tokio::test]
async fn an_interactive_command_receives_the_input_and_interrupts_of_the_terminal() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("read line; echo got $line; echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let mut shown = on_a_terminal(&run(&cluster, &["job"], &script)).spawn().unwrap();
    let mut keys = shown.stdin.take().unwrap();
    keys.write_all(b"a line\n").await.unwrap();
    let child: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    // Ctrl-C, which the terminal sends to the foreground group.
    keys.write_all(b"\x03").await.unwrap();
    let shown = ended(shown).await;
    assert!(stdout(&shown).contains("got a line"), "{}", stdout(&shown));
    assert_eq!(shown.status.code(), Some(128 + 2));
    assert_eq!(state(child), None);
}

#[tokio::test]
async fn a_wait_on_a_terminal_shows_the_holder() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let holder = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let holder = run(&cluster, &["job"], &holder).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let owner: Vec<String> =
        cluster.server(0).query(redquorum::unstable_redis::redis::cmd("HKEYS").arg("job")).await;
    let waiter = on_a_terminal(&run(&cluster, &["job", "--wait", "3s"], "true")).spawn().unwrap();
    let shown = ended(waiter).await;
    let said = stdout(&shown);
    assert!(said.contains(&format!("waiting for job, held by {}", owner[0])), "{said}");
    assert_eq!(shown.status.code(), Some(75));
    drop(holder);
    let help = on_a_terminal(&redquorum(["--help"])).spawn().unwrap();
    assert!(stdout(&ended(help).await).contains("\x1b["), "the help has colours on a terminal");
}

/// Returns the content of a terminal of 24 rows after this output.
pub(super) fn screen(columns: u16, written: &[u8]) -> String {
    let mut terminal = vt100::Parser::new(24, columns, 0);
    terminal.process(written);
    terminal.screen().contents()
}

#[tokio::test]
async fn an_interrupted_wait_leaves_a_clean_terminal() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let holder = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let holder = run(&cluster, &["held"], &holder).spawn().unwrap();
    scratch.lines("ready", 1).await;
    for columns in [50, 100, 200] {
        let waiter = run(&cluster, &["held"], "true");
        let mut waiter = on_a_terminal_of(24, columns, &waiter).spawn().unwrap();
        let (mut keys, mut written) = (waiter.stdin.take().unwrap(), waiter.stdout.take().unwrap());
        let mut said = Vec::new();
        let is_shown = async {
            while !String::from_utf8_lossy(&said).contains("held by") {
                assert_ne!(written.read_buf(&mut said).await.unwrap(), 0, "{columns}: it is shown");
            }
        };
        tokio::time::timeout(SOON, is_shown).await.unwrap();
        keys.write_all(b"\x03").await.unwrap();
        tokio::time::timeout(SOON, written.read_to_end(&mut said)).await.unwrap().unwrap();
        assert_eq!(ended(waiter).await.status.code(), Some(128 + 2));
        assert_eq!(screen(columns, &said).trim(), "", "{columns} columns");
    }
    drop(holder);
}

#[tokio::test]
async fn a_message_is_written_above_the_animated_line() {
    let cluster = Cluster::start(1).await;
    let bench = on(&cluster, ["bench", "--duration", "1s", "--tasks", "1"]);
    let shown = ended(on_a_terminal(&bench).spawn().unwrap()).await;
    assert!(stdout(&shown).contains("measuring for"), "the line was drawn: {}", stdout(&shown));
    let screen = screen(100, &shown.stdout);
    assert!(screen.starts_with("redquorum: 1 task loads the servers for 1.0s\n"), "{screen}");
    assert!(!screen.contains("measuring for"), "{screen}");
}

/// Returns the command as a child of a shell with this script.
fn in_a_shell(script: &str, command: &tokio::process::Command) -> tokio::process::Command {
    let mut shell = tokio::process::Command::new("bash");
    shell.args(["-c", script]).arg(command.as_std().get_program()).args(command.as_std().get_args());
    shell.envs(command.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

#[tokio::test]
async fn a_job_on_a_terminal_stops_and_continues_as_a_whole() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("echo $$ $PPID > {}; exec sleep 1000", scratch.file("ready"));
    // A shell with job control, which continues the job after a line of input.
    let shell = in_a_shell(r#"set -m; "$0" "$@"; read -r line; fg"#, &run(&cluster, &["job"], &script));
    let mut shown = on_a_terminal(&shell).spawn().unwrap();
    let mut keys = shown.stdin.take().unwrap();
    let line = scratch.lines("ready", 1).await.remove(0);
    let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let all_are = |expected: char| pids.iter().all(|pid| state(*pid) == Some(expected));
    // Ctrl-Z.
    keys.write_all(b"\x1a").await.unwrap();
    eventually(SOON, "both are stopped", async || all_are('T')).await;
    keys.write_all(b"go on\n").await.unwrap();
    eventually(SOON, "both go on", async || all_are('S')).await;
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(ended(shown).await.status.code(), Some(128 + 2), "the terminal is the command's again");
}

#[tokio::test]
async fn a_stopped_wait_clears_the_terminal_and_shows_again() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let holder = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let holder = run(&cluster, &["held"], &holder).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let script = r#"set -m; "$0" "$@"; echo it stands still; read -r line; fg"#;
    let shell = in_a_shell(script, &run(&cluster, &["held"], "true"));
    let mut waiter = on_a_terminal(&shell).spawn().unwrap();
    let (mut keys, mut written) = (waiter.stdin.take().unwrap(), waiter.stdout.take().unwrap());
    let mut said = Vec::new();
    let mut shows = async |words: &str| {
        let mut new = Vec::new();
        let is_shown = async {
            while !String::from_utf8_lossy(&new).contains(words) {
                assert_ne!(written.read_buf(&mut new).await.unwrap(), 0, "{words:?} is shown");
            }
        };
        tokio::time::timeout(SOON, is_shown).await.unwrap();
        said.extend(new);
        screen(100, &said)
    };
    shows("held by").await;
    // Ctrl-Z.
    keys.write_all(b"\x1a").await.unwrap();
    let stopped = shows("it stands still").await;
    assert!(!stopped.contains("held by"), "{stopped}");
    keys.write_all(b"go on\n").await.unwrap();
    shows("held by").await;
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(ended(waiter).await.status.code(), Some(128 + 2));
    drop(holder);
}

#[tokio::test]
async fn a_job_without_a_shell_continues_after_ctrl_z() {
    let cluster = Cluster::start(1).await;
    for script in [r#"exec "$0" "$@""#, r#""$0" "$@"; exit $?"#] {
        let scratch = Scratch::new();
        // The command notes each SIGCONT. It starts no process, because a child that is stopped
        // between vfork and exec would block the shell, which then would not stop. It waits for
        // nothing, because a shell handles a signal that arrives just before a wait only after the
        // wait.
        let command = format!(
            "trap 'echo >> {}' CONT; echo $$ > {}; while :; do :; done",
            scratch.file("continued"),
            scratch.file("ready")
        );
        let shell = in_a_shell(script, &run(&cluster, &["job"], &command));
        let mut shown = on_a_terminal(&shell).spawn().unwrap();
        let mut keys = shown.stdin.take().unwrap();
        scratch.lines("ready", 1).await;
        for times in 1..3 {
            keys.write_all(b"\x1a").await.unwrap();
            scratch.lines("continued", times).await;
        }
        keys.write_all(b"\x03").await.unwrap();
        assert_eq!(ended(shown).await.status.code(), Some(128 + 2), "{script}");
    }
}

#[tokio::test]
async fn a_terminal_with_tostop_does_not_save_the_command() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.02; done", scratch.file("ready"));
    let run = run(&cluster, &["job", "--ttl", "2s"], &script);
    let shown =
        on_a_terminal(&in_a_shell(r#"stty tostop; set -m; "$0" "$@"; exit $?"#, &run)).spawn().unwrap();
    let command: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    // Without renewals, redquorum writes notices to the terminal.
    cluster.server(0).freeze().await;
    eventually(SOON, "the command is killed", async || state(command).is_none()).await;
    cluster.server(0).thaw().await;
    let shown = ended(shown).await;
    assert_eq!(shown.status.code(), Some(79), "{}", stdout(&shown));
    assert!(stdout(&shown).contains("SIGTERM"), "{}", stdout(&shown));
}
