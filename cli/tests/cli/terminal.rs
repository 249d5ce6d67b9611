//! The command on a terminal, and terminals for other tests.

use std::process::Stdio;

use redquorum_tests::{Cluster, eventually};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, process_state, redquorum, run, stdout, wait_for_output,
    },
    scratch::Scratch,
};

/// Returns the command in the foreground of a new terminal, which the program `script` creates.
pub(super) fn on_a_terminal(command: &tokio::process::Command) -> tokio::process::Command {
    on_a_terminal_of(24, 100, command)
}

/// Returns the command as [`on_a_terminal`] does, on a terminal of this size.
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
    // For Ctrl-C, the terminal sends SIGINT to the foreground process group.
    keys.write_all(b"\x03").await.unwrap();
    let shown = wait_for_output(shown).await;
    assert!(stdout(&shown).contains("got a line"), "{}", stdout(&shown));
    assert_eq!(shown.status.code(), Some(128 + 2));
    assert_eq!(process_state(child), None);
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
    let shown = wait_for_output(waiter).await;
    let printed = stdout(&shown);
    assert!(printed.contains(&format!("waiting for job, held by {}", owner[0])), "{printed}");
    assert_eq!(shown.status.code(), Some(75));
    drop(holder);
    let help = on_a_terminal(&redquorum(["--help"])).spawn().unwrap();
    assert!(stdout(&wait_for_output(help).await).contains("\x1b["), "the help has colours on a terminal");
}

/// Returns the content of a terminal of 24 rows after this output.
pub(super) fn screen(columns: u16, output: &[u8]) -> String {
    let mut terminal = vt100::Parser::new(24, columns, 0);
    terminal.process(output);
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
        let (mut keys, mut stdout_pipe) = (waiter.stdin.take().unwrap(), waiter.stdout.take().unwrap());
        let mut printed = Vec::new();
        let is_shown = async {
            while !String::from_utf8_lossy(&printed).contains("held by") {
                assert_ne!(
                    stdout_pipe.read_buf(&mut printed).await.unwrap(),
                    0,
                    "{columns}: the holder is shown"
                );
            }
        };
        tokio::time::timeout(TIME_LIMIT, is_shown).await.unwrap();
        keys.write_all(b"\x03").await.unwrap();
        tokio::time::timeout(TIME_LIMIT, stdout_pipe.read_to_end(&mut printed)).await.unwrap().unwrap();
        assert_eq!(wait_for_output(waiter).await.status.code(), Some(128 + 2));
        assert_eq!(screen(columns, &printed).trim(), "", "{columns} columns");
    }
    drop(holder);
}

#[tokio::test]
async fn a_message_is_written_above_the_animated_line() {
    let cluster = Cluster::start(1).await;
    let bench = command_admitting_new_nodes(&cluster, ["bench", "--duration", "1s", "--tasks", "1"]);
    let shown = wait_for_output(on_a_terminal(&bench).spawn().unwrap()).await;
    assert!(stdout(&shown).contains("measuring for"), "the animated line was not drawn: {}", stdout(&shown));
    let screen = screen(100, &shown.stdout);
    assert!(screen.starts_with("redquorum: 1 task loads the servers for 1s\n"), "{screen}");
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
async fn redquorum_and_its_command_stop_and_continue_together() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("echo $$ $PPID > {}; exec sleep 1000", scratch.file("ready"));
    // A shell with job control continues the job after a line of input.
    let shell = in_a_shell(r#"set -m; "$0" "$@"; read -r line; fg"#, &run(&cluster, &["job"], &script));
    let mut shown = on_a_terminal(&shell).spawn().unwrap();
    let mut keys = shown.stdin.take().unwrap();
    let line = scratch.lines("ready", 1).await.remove(0);
    let pids: Vec<u32> = line.split(' ').map(|pid| pid.parse().unwrap()).collect();
    let all_are = |expected: char| pids.iter().all(|pid| process_state(*pid) == Some(expected));
    // Ctrl-Z.
    keys.write_all(b"\x1a").await.unwrap();
    eventually(TIME_LIMIT, "redquorum and its command are stopped", async || all_are('T')).await;
    keys.write_all(b"go on\n").await.unwrap();
    eventually(TIME_LIMIT, "redquorum and its command continue", async || all_are('S')).await;
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(
        wait_for_output(shown).await.status.code(),
        Some(128 + 2),
        "the command has not received the interrupt of the terminal"
    );
}

#[tokio::test]
async fn a_stopped_wait_clears_the_terminal_and_is_shown_again_when_continued() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let holder = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let holder = run(&cluster, &["held"], &holder).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let script = r#"set -m; "$0" "$@"; echo the wait is stopped; read -r line; fg"#;
    let shell = in_a_shell(script, &run(&cluster, &["held"], "true"));
    let mut waiter = on_a_terminal(&shell).spawn().unwrap();
    let (mut keys, mut stdout_pipe) = (waiter.stdin.take().unwrap(), waiter.stdout.take().unwrap());
    let mut printed = Vec::new();
    let mut read_until_shown = async |words: &str| {
        let mut new = Vec::new();
        let is_shown = async {
            while !String::from_utf8_lossy(&new).contains(words) {
                assert_ne!(stdout_pipe.read_buf(&mut new).await.unwrap(), 0, "{words:?} is shown");
            }
        };
        tokio::time::timeout(TIME_LIMIT, is_shown).await.unwrap();
        printed.extend(new);
        screen(100, &printed)
    };
    read_until_shown("held by").await;
    // Ctrl-Z.
    keys.write_all(b"\x1a").await.unwrap();
    let stopped = read_until_shown("the wait is stopped").await;
    assert!(!stopped.contains("held by"), "{stopped}");
    keys.write_all(b"go on\n").await.unwrap();
    read_until_shown("held by").await;
    keys.write_all(b"\x03").await.unwrap();
    assert_eq!(wait_for_output(waiter).await.status.code(), Some(128 + 2));
    drop(holder);
}

#[tokio::test]
async fn a_job_without_a_shell_continues_after_ctrl_z() {
    let cluster = Cluster::start(1).await;
    for script in [r#"exec "$0" "$@""#, r#""$0" "$@"; exit $?"#] {
        let scratch = Scratch::new();
        // The command writes a line at each SIGCONT. The command starts no process, because a child
        // that is stopped between vfork and exec would block the shell, so that the shell would not
        // stop. The command does not wait, because a shell handles a signal that arrives directly
        // before a wait only after the wait.
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
        assert_eq!(wait_for_output(shown).await.status.code(), Some(128 + 2), "{script}");
    }
}

#[tokio::test]
async fn a_command_is_killed_at_a_loss_even_on_a_terminal_with_tostop() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("trap '' TERM; echo $$ > {}; while :; do sleep 0.02; done", scratch.file("ready"));
    let run = run(&cluster, &["job", "--ttl", "2s"], &script);
    let shown =
        on_a_terminal(&in_a_shell(r#"stty tostop; set -m; "$0" "$@"; exit $?"#, &run)).spawn().unwrap();
    let command: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    // Without renewals, redquorum writes notices to the terminal.
    cluster.server(0).freeze().await;
    eventually(TIME_LIMIT, "the command is killed", async || process_state(command).is_none()).await;
    cluster.server(0).thaw().await;
    let shown = wait_for_output(shown).await;
    assert_eq!(shown.status.code(), Some(79), "{}", stdout(&shown));
    assert!(stdout(&shown).contains("SIGTERM"), "{}", stdout(&shown));
}
