//! The variables that a command receives, and the variables that set redquorum's options.

use std::collections::BTreeSet;

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::Cluster;

use super::{
    redquorum::{
        command_admitting_new_nodes, exit_code, output, redquorum, run, stderr, stdout, wait_until_free,
    },
    scratch::Scratch,
};

const SHOW: &str = "echo \"$REDQUORUM_RESOURCE/$REDQUORUM_FENCING_TOKEN/$REDQUORUM_TERM\"";

#[tokio::test]
async fn the_command_receives_the_name_and_the_token() {
    let cluster = Cluster::start(3).await;
    let mut last = 0;
    for _ in 0..3 {
        let run = output(run(&cluster, &["job"], SHOW)).await;
        assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
        let shown = stdout(&run);
        let token = shown.strip_prefix("job/").and_then(|rest| rest.strip_suffix("/\n")).unwrap();
        let token: u64 = token.parse().unwrap();
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    let counter: u64 = cluster.server(0).query(cmd("GET").arg("redisson_lock_token:{job}")).await;
    assert_eq!(counter, last);
}

#[tokio::test]
async fn several_names_have_one_lease_with_one_token() {
    let cluster = Cluster::start(3).await;
    let held = "redis-cli -u $NODE EXISTS b a";
    let script = format!("{SHOW}; {held}");
    let mut both = command_admitting_new_nodes(&cluster, ["run", "b", "a", "--", "sh", "-c", &script]);
    let both = output({
        both.env("NODE", cluster.server(0).url());
        both
    })
    .await;
    assert_eq!(exit_code(&both), 0, "{}", stderr(&both));
    let shown = stdout(&both);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines[0], lines[2]), ("b", "2"), "{shown}");
    assert!(lines[1].starts_with("a/") && lines[1].ends_with('/'), "{shown}");
    for name in ["a", "b"] {
        wait_until_free(cluster.servers(), name).await;
    }
}

#[tokio::test]
async fn the_command_of_a_leader_receives_the_term() {
    let cluster = Cluster::start(3).await;
    let elect =
        output(command_admitting_new_nodes(&cluster, ["elect", "e", "--value", "v", "--", "sh", "-c", SHOW]))
            .await;
    assert_eq!(exit_code(&elect), 0, "{}", stderr(&elect));
    let shown = stdout(&elect);
    let words: Vec<&str> = shown.trim_end().split('/').collect();
    assert_eq!((words[0], words[1]), ("e", words[2]));
    assert!(words[2].parse::<u64>().is_ok(), "{shown}");
}

/// The outer redquorum has a slot or leads. The inner redquorum has no slot and does not lead, so its command must not
/// get the variables of the outer redquorum.
#[tokio::test]
async fn a_nested_redquorum_ignores_the_variables_of_the_outer_lock() {
    let cluster = Cluster::start(3).await;
    let shown = "echo \"$REDQUORUM_RESOURCE/${REDQUORUM_SLOT-none}/${REDQUORUM_TERM-none}\"";
    let inner = format!("{shown}; '{}' run inner -c '{shown}'", env!("CARGO_BIN_EXE_redquorum"));
    let outer =
        output(command_admitting_new_nodes(&cluster, ["run", "outer", "-n", "1", "-c", &inner])).await;
    assert_eq!(exit_code(&outer), 0, "{}", stderr(&outer));
    assert_eq!(stdout(&outer), "outer/0/none\ninner/none/none\n");
    let elected =
        output(command_admitting_new_nodes(&cluster, ["elect", "outer", "--value", "v", "-c", &inner])).await;
    let reported = stdout(&elected);
    assert!(reported.starts_with("outer/none/") && reported.ends_with("\ninner/none/none\n"), "{reported}");
    let mut unlock = command_admitting_new_nodes(&cluster, ["force-unlock", "gpu", "--yes"]);
    unlock.env("REDQUORUM_SLOT", "0").env("REDQUORUM_TERM", "nonsense");
    let unlock = output(unlock).await;
    assert_eq!(exit_code(&unlock), 0, "{}", stderr(&unlock));
    assert!(
        stdout(&unlock).starts_with("gpu is free"),
        "the variable REDQUORUM_SLOT was not ignored: {}",
        stdout(&unlock)
    );
}

/// The options of one call must not apply to nested calls. The options of the quorum and of the output apply to all
/// nested calls.
#[tokio::test]
async fn a_command_inherits_the_quorum_and_output_options_only() {
    let cluster = Cluster::start(1).await;
    let show = "env | sed -n 's/^\\(REDQUORUM_[^=]*\\)=.*/\\1/p'";
    let of_one_call = [
        ("REDQUORUM_PERMITS", "2"),
        ("REDQUORUM_SHARED", "0"),
        ("REDQUORUM_WAIT", "9s"),
        ("REDQUORUM_HOLD_AT_LEAST", "1ms"),
        ("REDQUORUM_HELD_EXIT", "9"),
        ("REDQUORUM_QUORUM_TIMEOUT", "9s"),
        ("REDQUORUM_ON_LOSS", "term"),
        ("REDQUORUM_KILL_AFTER", "1s"),
        ("REDQUORUM_VALUE", "v"),
        ("REDQUORUM_RESTART", "0"),
        ("REDQUORUM_FROM", "old.toml"),
        ("REDQUORUM_TO", "new.toml"),
        ("REDQUORUM_WATCH", "1s"),
    ];
    let inherited = [
        ("REDQUORUM_LABEL", "me"),
        ("REDQUORUM_TTL", "20s"),
        ("REDQUORUM_MAX_TTL", "30s"),
        ("REDQUORUM_JSON", "1"),
    ];
    for (arguments, reported) in [(["run", "job"], "REDQUORUM_SLOT"), (["elect", "job"], "REDQUORUM_TERM")] {
        let mut outer = command_admitting_new_nodes(&cluster, arguments);
        outer.args(["-c", show]).envs(of_one_call).envs(inherited);
        let outer = output(outer).await;
        assert_eq!(exit_code(&outer), 0, "{}", stderr(&outer));
        let shown = stdout(&outer);
        let found: BTreeSet<&str> = shown.split_whitespace().collect();
        let always = ["REDQUORUM_NODES", "REDQUORUM_RESOURCE", "REDQUORUM_FENCING_TOKEN", reported];
        let expected: BTreeSet<&str> = always.into_iter().chain(inherited.map(|(name, _)| name)).collect();
        assert_eq!(found, expected, "{arguments:?}");
    }
}

#[tokio::test]
async fn options_come_from_the_environment_unless_given_as_arguments() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let holder = format!("touch {}; exec sleep 1000", scratch.file("held"));
    let holder = run(&cluster, &["job"], &holder).spawn().unwrap();
    scratch.wait_until_exists("held").await;
    let reported = async |variables: &[(&str, &str)], arguments: &[&str]| {
        let mut run = run(&cluster, arguments, "true");
        run.envs(variables.iter().copied());
        let run = output(run).await;
        (exit_code(&run), stderr(&run))
    };
    let held = "another client holds job: --wait 0 makes one attempt";
    let now = ("REDQUORUM_WAIT", "0");
    for (variables, arguments, exit, words) in [
        (&[now][..], &["job"][..], 75, held),
        (&[now, ("REDQUORUM_HELD_EXIT", "1")], &["job"], 1, held),
        (&[now, ("REDQUORUM_HELD_EXIT", "1")], &["job", "--held-exit", "2"], 2, held),
        (&[now, ("REDQUORUM_HELD_EXIT", "")], &["job"], 75, held),
        (&[now, ("REDQUORUM_JSON", "yes")], &["job"], 75, "{\"error\":{\"kind\":\"held\""),
        (&[now, ("REDQUORUM_JSON", "false")], &["job"], 75, "redquorum: another client"),
        (&[now, ("REDQUORUM_SHARED", "0")], &["job", "-n", "2"], 0, ""),
        (&[now, ("REDQUORUM_SHARED", "1")], &["job", "-n", "2"], 0, ""),
        (&[now, ("REDQUORUM_PERMITS", "2")], &["job", "--shared"], 75, held),
        (&[now, ("REDQUORUM_PERMITS", "2")], &["other", "job"], 75, "hold at least one of other, job"),
        (&[now, ("REDQUORUM_PERMITS", "2"), ("REDQUORUM_SHARED", "1")], &["job"], 64, "cannot be used with"),
        (&[now, ("REDQUORUM_KILL_AFTER", "1s")], &["job", "--on-loss", "kill"], 75, held),
        (&[now, ("REDQUORUM_ON_LOSS", "kill")], &["job", "--kill-after", "1s"], 75, held),
        (
            &[now, ("REDQUORUM_ON_LOSS", "kill"), ("REDQUORUM_KILL_AFTER", "1s")],
            &["job"],
            64,
            "only `--on-loss term`",
        ),
        (&[now, ("REDQUORUM_CA", "/nowhere/ca.pem")], &["job"], 74, "/nowhere/ca.pem"),
        (&[("REDQUORUM_WAIT", "1s")], &["job", "--wait", "0"], 75, held),
        (
            &[("REDQUORUM_WAIT", "1")],
            &["job"],
            64,
            "comes from the environment variable REDQUORUM_WAIT: correct",
        ),
        (
            &[now, ("REDQUORUM_JSON", "perhaps")],
            &["job"],
            64,
            "the environment variable REDQUORUM_JSON: correct",
        ),
    ] {
        let (status, message) = reported(variables, arguments).await;
        assert_eq!(status, exit, "{variables:?} {arguments:?}: {message}");
        assert!(message.contains(words), "{variables:?} {arguments:?}: {message}");
    }
    drop(holder);
}

/// In these cases the variable cannot be used with the command or the option on the command line.
#[tokio::test]
async fn commands_and_options_override_variables_that_conflict_with_them() {
    let cluster = Cluster::start(1).await;
    let elect = ["elect", "e", "--value", "v"];
    for (variable, value, arguments, exit, words) in [
        (
            "REDQUORUM_KILL_AFTER",
            "1s",
            &[&elect[..], &["--on-loss", "kill", "-c", "true"]].concat()[..],
            0,
            "",
        ),
        ("REDQUORUM_ON_LOSS", "kill", &[&elect[..], &["--kill-after", "1s", "-c", "true"]].concat(), 0, ""),
        ("REDQUORUM_PERMITS", "2", &["inspect", "job", "--multi-permit"], 0, ""),
        ("REDQUORUM_JSON", "1", &["top"], 64, "which standard output is not"),
    ] {
        let mut command = command_admitting_new_nodes(&cluster, arguments);
        command.env(variable, value);
        let ended = output(command).await;
        assert_eq!(exit_code(&ended), exit, "{arguments:?}: {}", stderr(&ended));
        assert!(stderr(&ended).contains(words), "{arguments:?}: {}", stderr(&ended));
    }
}

/// The file of `--config` lacks the setting, so the variable applies.
#[tokio::test]
async fn an_error_of_another_quorum_names_variables_beside_the_file() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, format!("nodes = [{:?}]\n", cluster.server(0).url())).unwrap();
    let made = output(redquorum(["--config", &file, "init"])).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    let run = |variables: &[(&str, &str)]| {
        let mut command = redquorum(["--config", &file, "run", "job", "--", "true"]);
        command.envs(variables.iter().copied());
        output(command)
    };
    let other = [("REDQUORUM_NAME", "other"), ("REDQUORUM_TTL", "20s"), ("REDQUORUM_MAX_TTL", "60s")];
    let refused = run(&other).await;
    assert_eq!(exit_code(&refused), 78, "{}", stderr(&refused));
    let words = format!("; --config {file} lacks the settings of REDQUORUM_NAME and REDQUORUM_MAX_TTL\n");
    assert!(stderr(&refused).ends_with(&words), "{}", stderr(&refused));
    let same = run(&other[1..]).await;
    assert_eq!((exit_code(&same), stderr(&same)), (0, String::new()));
    std::fs::write(&file, format!("nodes = [{:?}]\nname = \"other\"\n", cluster.server(0).url())).unwrap();
    let refused = run(&[]).await;
    assert_eq!(exit_code(&refused), 78, "{}", stderr(&refused));
    assert!(!stderr(&refused).contains("lacks"), "{}", stderr(&refused));
}

#[tokio::test]
async fn rust_log_selects_the_logs_if_no_flag_is_given() {
    let cluster = Cluster::start(1).await;
    let logged = async |variable: &str, flags: &[&str]| {
        let mut run = run(&cluster, flags, "true");
        run.env("RUST_LOG", variable);
        let run = output(run).await;
        assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
        stderr(&run)
    };
    let node = format!("node={}", cluster.server(0).address());
    let all = logged("redquorum=debug", &["job"]).await;
    assert!(all.lines().any(|line| line.contains("registered") && line.contains(&node)), "{all}");
    assert!(all.contains("acquired resource=job id="), "{all}");
    let some = logged("redquorum::acquire=debug", &["job"]).await;
    assert!(some.contains("acquired resource=job") && !some.contains("registered"), "{some}");
    assert_eq!(logged("", &["job"]).await, "");
    assert_eq!(logged("redquorum=debug", &["job", "-v"]).await, "", "the flag overrides the variable");
    let wrong = logged("redquorum=loud", &["job"]).await;
    assert!(wrong.starts_with("redquorum: RUST_LOG=\"redquorum=loud\" is ignored: "), "{wrong}");
}
