//! Signals to `redquorum run` while its command runs, and while it waits for the lock.

use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;

use super::{
    redquorum::{
        TIME_LIMIT, exit_code, output, process_state, run, send_signal, stderr, wait_for_output,
        wait_until_free,
    },
    scratch::Scratch,
};

const FORWARDED: [(Signal, &str); 7] = [
    (Signal::HUP, "HUP"),
    (Signal::INT, "INT"),
    (Signal::QUIT, "QUIT"),
    (Signal::TERM, "TERM"),
    (Signal::USR1, "USR1"),
    (Signal::USR2, "USR2"),
    (Signal::WINCH, "WINCH"),
];

#[tokio::test]
async fn redquorum_forwards_signals_to_its_command() {
    let cluster = Cluster::start(1).await;
    for (signal, name) in FORWARDED {
        let scratch = Scratch::new();
        let (ready, received) = (scratch.file("ready"), scratch.file("got"));
        let script = format!(
            "trap 'echo {name} >> {received}; exit 3' {name}; echo $$ > {ready}; while :; do sleep 0.02; done"
        );
        let run = run(&cluster, &["job"], &script).spawn().unwrap();
        scratch.lines("ready", 1).await;
        send_signal(run.id().unwrap(), signal);
        let run = wait_for_output(run).await;
        assert_eq!(
            (exit_code(&run), scratch.read("got").as_str()),
            (3, format!("{name}\n").as_str()),
            "{}",
            stderr(&run)
        );
        wait_until_free(cluster.servers(), "job").await;
    }
}

#[tokio::test]
async fn a_signal_that_ends_the_command_becomes_a_shell_status() {
    let cluster = Cluster::start(1).await;
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::USR1, 10)] {
        let scratch = Scratch::new();
        let script = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
        let run = run(&cluster, &["job"], &script).spawn().unwrap();
        scratch.lines("ready", 1).await;
        send_signal(run.id().unwrap(), signal);
        let run = wait_for_output(run).await;
        assert_eq!(exit_code(&run), 128 + number, "{}", stderr(&run));
    }
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_signal_ends_a_wait_and_leaves_no_key() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let script = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let mut holder = run(&cluster, &["job"], &script).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let waiter = run(&cluster, &["job", "other"], "echo ran").spawn().unwrap();
    let is_subscribed = async || {
        for server in cluster.servers() {
            let channels_reply = server.command(&["PUBSUB", "CHANNELS", "*job*"]).await;
            if matches!(channels_reply, redquorum::unstable_redis::redis::Value::Array(channels) if !channels.is_empty())
            {
                return true;
            }
        }
        false
    };
    eventually(TIME_LIMIT, "the second run waits", is_subscribed).await;
    send_signal(waiter.id().unwrap(), Signal::TERM);
    let waiter = wait_for_output(waiter).await;
    assert_eq!((exit_code(&waiter), waiter.stdout.as_slice()), (128 + 15, &b""[..]), "{}", stderr(&waiter));
    wait_until_free(cluster.servers(), "other").await;
    assert!(holder.try_wait().unwrap().is_none());
}

#[tokio::test]
async fn a_stopped_command_keeps_its_lock_until_continued() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("echo $$ > {}; exec sleep 1000", scratch.file("ready"));
    let run = run(&cluster, &["job", "--ttl", "1s"], &script).spawn().unwrap();
    let child: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    send_signal(run.id().unwrap(), Signal::TSTP);
    eventually(TIME_LIMIT, "the command is stopped", async || process_state(child) == Some('T')).await;
    // The sleep is longer than the ttl. If the lease were not renewed, the lease would end.
    tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
    assert_eq!(process_state(child), Some('T'));
    let other = output(super::redquorum::run(&cluster, &["job", "--wait", "0"], "true")).await;
    assert_eq!(exit_code(&other), 75, "{}", stderr(&other));
    send_signal(run.id().unwrap(), Signal::CONT);
    eventually(TIME_LIMIT, "the command continues", async || process_state(child) == Some('S')).await;
    send_signal(run.id().unwrap(), Signal::TERM);
    assert_eq!(exit_code(&wait_for_output(run).await), 128 + 15);
}

#[tokio::test]
async fn a_signal_ignored_at_the_start_stays_ignored() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let plain = run(&cluster, &["job"], &format!("echo $$ > {}; exec sleep 1000", scratch.file("ready")));
    let plain = plain.as_std();
    let mut nohup = tokio::process::Command::new("sh");
    nohup.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]).arg(plain.get_program()).args(plain.get_args());
    nohup.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    nohup.process_group(0).kill_on_drop(true);
    let run = nohup.spawn().unwrap();
    let child: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    for pid in [run.id().unwrap(), child] {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        assert_eq!(
            u64::from_str_radix(ignored.trim(), 16).unwrap() & 1,
            1,
            "SIGHUP, the first bit, is ignored"
        );
    }
    send_signal(run.id().unwrap(), Signal::HUP);
    send_signal(run.id().unwrap(), Signal::TERM);
    assert_eq!(exit_code(&wait_for_output(run).await), 128 + 15);
}
