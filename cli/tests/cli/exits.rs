//! The exit statuses and errors of commands. The statuses after a loss, of leaders and after signals are tested in
//! `loss`, `election` and `signals`.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use redquorum_tests::{Cluster, eventually};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, output, redquorum, run, stderr,
        stdout, wait_for_output, wait_until_free, without_patience,
    },
    scratch::Scratch,
    terminal::on_a_terminal,
};

#[tokio::test]
async fn the_exit_status_of_the_command_is_passed_on() {
    let cluster = Cluster::start(3).await;
    for expected in [0, 7] {
        let run = output(run(&cluster, &["job"], &format!("echo done; exit {expected}"))).await;
        assert_eq!(
            (exit_code(&run), stderr(&run), stdout(&run)),
            (expected, String::new(), "done\n".to_owned())
        );
    }
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn the_text_of_option_c_is_run_by_the_shell() {
    let cluster = Cluster::start(1).await;
    for arguments in [
        &["run", "job", "-c", "echo \"$REDQUORUM_RESOURCE\" | tr j J; exit 7"][..],
        &["elect", "job", "--value", "v", "--command", "echo \"$REDQUORUM_RESOURCE\" | tr j J; exit 7"],
    ] {
        let run = output(command_admitting_new_nodes(&cluster, arguments)).await;
        assert_eq!((exit_code(&run), stdout(&run)), (7, "Job\n".to_owned()), "{}", stderr(&run));
    }
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_signal_that_ends_the_command_becomes_a_shell_status() {
    let cluster = Cluster::start(1).await;
    let run = output(run(&cluster, &["job"], "kill -KILL $$")).await;
    assert_eq!(exit_code(&run), 128 + 9, "{}", stderr(&run));
}

#[tokio::test]
async fn a_missing_or_unexecutable_command_has_the_status_of_a_shell() {
    let cluster = Cluster::start(1).await;
    let missing =
        output(command_admitting_new_nodes(&cluster, ["run", "job", "--", "no-such-command-anywhere"])).await;
    assert_eq!(exit_code(&missing), 127);
    assert!(stderr(&missing).starts_with("redquorum: no-such-command-anywhere: "), "{}", stderr(&missing));
    let directory = output(command_admitting_new_nodes(&cluster, ["--json", "run", "job", "--", "/"])).await;
    assert_eq!(exit_code(&directory), 126);
    assert!(
        stderr(&directory).starts_with(r#"{"error":{"kind":"not_executable","exit":126,"#),
        "{}",
        stderr(&directory)
    );
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_held_lock_is_reported_at_once_or_after_the_wait() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let holder = format!("touch {}; exec sleep 1000", scratch.file("held"));
    let holder = run(&cluster, &["job"], &holder).spawn().unwrap();
    eventually(TIME_LIMIT, "the lock is held", async || scratch.path().join("held").exists()).await;
    for (wait, found) in [
        ("0", "another client holds job: --wait 0 makes one attempt, and a longer --wait waits"),
        ("300ms", "job was not free within --wait 300ms"),
        ("0m 300ms", "job was not free within --wait 0m 300ms"),
    ] {
        let other = output(run(&cluster, &["job", "--wait", wait], "true")).await;
        assert_eq!(exit_code(&other), 75, "{}", stderr(&other));
        let line = stderr(&other);
        assert!(line.starts_with(&format!("redquorum: {found}; ")), "{line}");
    }
    let other = output(run(&cluster, &["job", "--wait", "0", "--json"], "true")).await;
    assert!(
        stderr(&other).starts_with(
            "{\"error\":{\"kind\":\"held\",\"exit\":75,\"message\":\"another client holds job: --wait 0 makes \
             one attempt, and a longer --wait waits; job is held by "
        ),
        "{}",
        stderr(&other)
    );
    for wait in ["0", "300ms"] {
        let other =
            output(run(&cluster, &["job", "--wait", wait, "--json", "--held-exit", "1"], "true")).await;
        assert_eq!(exit_code(&other), 1, "{}", stderr(&other));
        assert!(stderr(&other).starts_with(r#"{"error":{"kind":"held","exit":1,"#), "{}", stderr(&other));
    }
    let free = output(run(&cluster, &["other", "--wait", "0", "--held-exit", "1"], "exit 75")).await;
    assert_eq!(exit_code(&free), 75, "the command's own exit status was not passed on: {}", stderr(&free));
    drop(holder);
}

#[tokio::test]
async fn an_error_names_the_holder_in_a_line_of_its_own_on_a_terminal() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let holder = format!("touch {}; exec sleep 1000", scratch.file("held"));
    let holder = run(&cluster, &["Grüße"], &holder).spawn().unwrap();
    eventually(TIME_LIMIT, "the lock is held", async || scratch.path().join("held").exists()).await;
    let waiter = run(&cluster, &["Grüße", "--wait", "1s"], "true");
    let in_terminal = on_a_terminal(&waiter);
    let line = stderr(&output(waiter).await);
    let held_by = "redquorum: Grüße was not free within --wait 1s; Grüße is held by ";
    assert!(line.starts_with(held_by) && line.trim_end().ends_with("s unless it is renewed"), "{line}");
    assert_eq!(line.lines().count(), 1, "{line}");
    let shown = stdout(&output(in_terminal).await);
    assert_eq!(shown.lines().filter(|line| line.starts_with("  Grüße is held by ")).count(), 1, "{shown}");
    let is_reported = |line: &str| line.ends_with("redquorum: Grüße was not free within --wait 1s");
    assert!(shown.lines().any(is_reported), "{shown}");
    let inspected = stdout(&output(command_admitting_new_nodes(&cluster, ["inspect", "Grüße"])).await);
    assert!(inspected.contains("Grüße is held by "), "{inspected}");
    drop(holder);
}

#[tokio::test]
async fn the_holders_of_several_names_and_of_permits_are_named() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let held = |name: &str| format!("touch {}; exec sleep 1000", scratch.file(name));
    let lock = run(&cluster, &["job", "--label", "web-1"], &held("lock")).spawn().unwrap();
    let permit = run(&cluster, &["gpu", "-n", "1", "--label", "web-2"], &held("permit")).spawn().unwrap();
    scratch.wait_until_exists("lock").await;
    scratch.wait_until_exists("permit").await;
    for (arguments, wait, not_free, holder) in [
        (
            &["free", "job"][..],
            "300ms",
            "free, job were not all free at once within --wait 300ms; job is held by web-1/",
            "web-1/",
        ),
        (
            &["free", "job"],
            "0",
            "other clients hold at least one of free, job: --wait 0 makes one attempt, and a longer --wait \
             waits; job is held by web-1/",
            "web-1/",
        ),
        (
            &["gpu", "-n", "1"],
            "300ms",
            "gpu has 1 permit, and none was free within --wait 300ms; slot 0 of gpu is held by web-2/",
            "web-2/",
        ),
        (
            &["gpu", "-n", "1"],
            "0",
            "the permit of gpu is in use: --wait 0 makes one attempt, and a longer --wait waits; slot 0 \
             of gpu is held by web-2/",
            "web-2/",
        ),
    ] {
        let other = output(run(&cluster, &[arguments, &["--wait", wait]].concat(), "true")).await;
        assert_eq!(exit_code(&other), 75, "{}", stderr(&other));
        assert!(stderr(&other).starts_with(&format!("redquorum: {not_free}")), "{}", stderr(&other));
        assert_eq!(stderr(&other).matches(holder).count(), 1, "{}", stderr(&other));
    }
    drop((lock, permit));
}

#[tokio::test]
async fn a_wait_without_a_holder_ends_with_no_quorum() {
    let cluster = Cluster::start(3).await;
    // The nodes are not initialised, so they are in quarantine.
    let run = output(command_on(&cluster, ["run", "job", "--wait", "1s", "--", "echo", "ran"])).await;
    assert_eq!((exit_code(&run), stdout(&run)), (69, String::new()), "{}", stderr(&run));
    assert!(
        stderr(&run).contains("no quorum for job: 2 of 3 nodes needed, and nodes are in quarantine for "),
        "{}",
        stderr(&run)
    );
}

#[tokio::test]
async fn a_held_lock_is_reported_with_a_minority_of_dead_nodes() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let holder = format!("touch {}; exec sleep 1000", scratch.file("held"));
    let holder = run(&cluster, &["job"], &holder).spawn().unwrap();
    eventually(TIME_LIMIT, "the lock is held", async || scratch.path().join("held").exists()).await;
    cluster.server(2).kill().await;
    let other = output(run(&cluster, &["job", "--wait", "2s"], "true")).await;
    assert_eq!(exit_code(&other), 75, "{}", stderr(&other));
    cluster.server(1).kill().await;
    let other = output(run(&cluster, &["job", "--wait", "2s"], "true")).await;
    assert_eq!(exit_code(&other), 69, "{}", stderr(&other));
    drop(holder);
}

#[tokio::test]
async fn no_command_runs_without_a_quorum() {
    let cluster = Cluster::start(3).await;
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    let run = output(without_patience(run(&cluster, &["job"], "echo ran"))).await;
    assert_eq!((exit_code(&run), stdout(&run)), (69, String::new()), "{}", stderr(&run));
}

#[tokio::test]
async fn invalid_arguments_are_a_usage_error() {
    let cluster = Cluster::start(1).await;
    for (arguments, named) in [
        (&["run", "--no-such-option"][..], "--no-such-option"),
        (&["run", "job"], "COMMAND"),
        (&["run", "job"], "or give `-c TEXT`"),
        (&["elect", "job", "--value", "v"], "or give `-c TEXT`"),
        (&["run", "job", "-c", "true", "--", "true"], "cannot be used with"),
        (&["run", "job", "--held-exit", "0", "--", "true"], "expected a whole number from 1 to 255"),
        (&["run", "job", "--held-exit", "256", "--", "true"], "expected a whole number from 1 to 255"),
        (&["run", "job", "make", "report"], "tip: put `--` before the command"),
        (&["elect", "job", "--value", "v"], "tip: put `--` before the command"),
        (&["run", "job", "--ttl", "30", "--", "true"], "the unit is missing: write it like 30s"),
        (&["run", "job", "--kill-after", "20s", "--", "true"], "give 14s or less"),
        (
            &["run", "job", "--kill-after", "1h", "--ttl", "1m", "--", "true"],
            "a --kill-after of 1h is too long for a ttl of 1m: ",
        ),
        (&["run", "job", "--on-loss", "kill", "--kill-after", "1s", "--", "true"], "--on-loss term"),
        (&["elect", "job", "--value", "v", "--on-loss", "ignore", "--", "true"], "ignore"),
        (
            &["run", "job", "-n", "many", "--", "true"],
            "expected a whole number from 1 to 1024: `-n COUNT` runs",
        ),
        (&["run", "job", "-n", "-5", "--", "true"], "expected a whole number from 1 to 1024"),
        (&["inspect", "gpu", "-n", "100000"], "expected a whole number from 1 to 1024"),
        (&["inspect", "gpu", "-n", "-5"], "expected a whole number from 1 to 1024"),
        (&["force-unlock", "gpu", "--slot", "-1"], "expected a whole number from 0 to 1023"),
        (&["doctor", "--clients", "-5"], "expected a whole number from 1 to 4294967295"),
        (&["doctor", "--clients", "99999999999999999999"], "expected a whole number from 1 to 4294967295"),
        (&["doctor", "--watch", "-1s"], "unexpected argument '-1"),
        (&["bench", "--tasks", "-5"], "expected a number from 1 to 4000"),
        (&["run", "redquorum:node", "--", "true"], "reserved"),
        (&["run", "job", "job", "--", "true"], "twice"),
    ] {
        let refused = output(command_admitting_new_nodes(&cluster, arguments)).await;
        assert_eq!(exit_code(&refused), 64, "{arguments:?}: {}", stderr(&refused));
        assert!(stderr(&refused).contains(named), "{arguments:?}: {}", stderr(&refused));
        let is_of_inspect = arguments.starts_with(&["inspect"]);
        assert!(!(is_of_inspect && stderr(&refused).contains("--wait")), "{}", stderr(&refused));
        assert!(!stderr(&refused).contains("use '-- -"), "{arguments:?}: {}", stderr(&refused));
    }
}

#[tokio::test]
async fn the_option_of_a_value_that_is_not_utf_8_is_named() {
    let value = |text: &[u8]| OsStr::from_bytes(text).to_owned();
    for (arguments, option) in [
        ([value(b"--label"), value(b"a\xff"), value(b"list")], "--label"),
        ([value(b"--node=redis://:secret\xff@a"), value(b"list"), value(b"x")], "--node"),
        ([value(b"bench"), value(b"--prefix"), value(b"\xff")], "--prefix"),
    ] {
        let refused = output(redquorum(arguments)).await;
        let text = stderr(&refused);
        assert_eq!(exit_code(&refused), 64, "{text}");
        assert!(text.contains(&format!("the value of {option} is not UTF-8")), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

/// The pipe has no reader from the beginning.
#[tokio::test]
async fn a_closed_output_ends_every_printing_command_as_sigpipe() {
    for arguments in [&["help"][..], &["--version"], &["run", "--help"], &["man"], &["completions", "bash"]] {
        let mut command = redquorum(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer);
        let ended = output(command).await;
        assert_eq!(exit_code(&ended), 128 + 13, "{arguments:?}: {}", stderr(&ended));
        let words = "redquorum: cannot write to standard output: ";
        assert!(stderr(&ended).starts_with(words), "{arguments:?}: {}", stderr(&ended));
    }
}

/// Cases with a url in the place of another argument, or after a mistyped option. The url may contain a password.
#[tokio::test]
async fn a_misplaced_url_is_refused_without_its_text() {
    const NO_SERVER: &str = "redis://127.0.0.1:1";
    for (arguments, exit, named) in [
        (&["init", "redis://:secret@a"][..], 64, "unexpected argument '***' found"),
        (&["init", "--", "redis://:secret@a"], 64, "unexpected argument '***' found"),
        (&["redis://:secret@a"], 64, "unrecognized subcommand '***'"),
        (&["help", "redis://:secret@a"], 64, "unrecognized subcommand '***'"),
        (&["--nodes=redis://:secret@a", "init"], 64, "unexpected argument '--nodes' found"),
        (&["run", "job", "--nodes=redis://:secret@a"], 64, "unexpected argument '--nodes' found"),
        (&["run", "job", "--redis://:secret@a"], 64, "unexpected argument '***' found"),
        (&["run", "job", "--ttl", "redis://:secret@a"], 64, "invalid value '***' for '--ttl <DURATION>'"),
        (
            &["run", "job", "--permits", "redis://:secret@a"],
            64,
            "invalid value '***' for '--permits <COUNT>'",
        ),
        (&["run", "job", "--on-loss=redis://:secret@a"], 64, "invalid value '***' for '--on-loss <WHAT>'"),
        (&["run", "job", "--held-exit=me:secret@a"], 64, "invalid value '***'"),
        (&["init", "--yes=redis://:secret@a"], 64, "unexpected value '***' for '--yes'"),
        (&["completions", "redis://:secret@a"], 64, "invalid value '***'"),
        (&["--node", NO_SERVER, "--config", "redis://:secret@a", "list"], 74, "redquorum: ***: "),
        (&["--node", NO_SERVER, "--ca", "redis://:secret@a", "list"], 74, "redquorum: ***: "),
        (&["--node", NO_SERVER, "--label", "redis://:secret@a", "list"], 78, "redquorum: label is ***: "),
        (&["reconfigure", "--yes", "--from", "redis://:secret@a", "--to", "b"], 74, "redquorum: ***: "),
        (&["man", "redis://:secret@a"], 74, "redquorum: ***"),
    ] {
        let refused = output(redquorum(arguments)).await;
        let text = stderr(&refused);
        assert_eq!(exit_code(&refused), exit, "{arguments:?}: {text}");
        assert!(text.contains(named) && !text.contains("secret"), "{arguments:?}: {text}");
    }
    for (variable, exit, named) in [
        ("REDQUORUM_WAIT", 64, "the value comes from the environment variable REDQUORUM_WAIT"),
        ("REDQUORUM_PERMITS", 64, "the value comes from the environment variable REDQUORUM_PERMITS"),
        ("REDQUORUM_SHARED", 64, "the value comes from the environment variable REDQUORUM_SHARED"),
        ("REDQUORUM_NAME", 78, "name is ***: "),
        ("REDQUORUM_LABEL", 78, "label is ***: "),
        ("REDQUORUM_CONFIG", 74, "redquorum: ***: "),
        ("REDQUORUM_CA", 74, "redquorum: ***: "),
        ("REDQUORUM_DRIFT", 78, "REDQUORUM_DRIFT=\"***\""),
    ] {
        let wait: &[&str] = if variable == "REDQUORUM_WAIT" { &[] } else { &["--wait", "0"] };
        let mut command = redquorum(["--node", NO_SERVER]);
        command.args(["run", "job"]).args(wait);
        command.args(["--", "true"]).env(variable, "redis://:secret@a");
        let refused = output(command).await;
        let text = stderr(&refused);
        assert_eq!(exit_code(&refused), exit, "{variable}: {text}");
        assert!(text.contains(named) && !text.contains("secret"), "{variable}: {text}");
    }
    // Azure shows connection strings in this form.
    const CONNECTION_STRING: &str = "cache.example:6380,password=secret=,ssl=True";
    for (option, variable) in [("--config", "REDQUORUM_CONFIG"), ("--ca", "REDQUORUM_CA")] {
        let by_option = redquorum(["--node", NO_SERVER, option, CONNECTION_STRING, "list"]);
        let mut by_variable = redquorum(["--node", NO_SERVER, "list"]);
        by_variable.env(variable, CONNECTION_STRING);
        for refused in [output(by_option).await, output(by_variable).await] {
            let text = stderr(&refused);
            assert_eq!(exit_code(&refused), 74, "{option}: {text}");
            assert!(text.contains("redquorum: ***: ") && !text.contains("secret"), "{option}: {text}");
        }
    }
    let refused = output(redquorum(["man", CONNECTION_STRING])).await;
    let text = stderr(&refused);
    assert!(text.starts_with("redquorum: ***") && !text.contains("secret"), "{text}");
    let cluster = Cluster::start(1).await;
    let mut logged = run(&cluster, &["job"], "true");
    logged.env("RUST_LOG", "redis://:secret@a=loud");
    let logged = stderr(&output(logged).await);
    assert!(logged.starts_with("redquorum: RUST_LOG=\"***\" is ignored: "), "{logged}");
    assert!(!logged.contains("secret"), "{logged}");
    let reserved = ["run", "redquorum:redis://:secret@a", "--", "true"];
    let reserved = output(command_admitting_new_nodes(&cluster, reserved)).await;
    assert!(stderr(&reserved).contains("the resource name \"***\" is reserved"), "{}", stderr(&reserved));
    let missing = ["run", "job", "--", "redis://:secret@a"];
    let missing = output(command_admitting_new_nodes(&cluster, missing)).await;
    assert_eq!(exit_code(&missing), 127);
    assert!(stderr(&missing).starts_with("redquorum: ***: "), "{}", stderr(&missing));
}

#[tokio::test]
async fn invalid_settings_are_a_configuration_error() {
    let cluster = Cluster::start(1).await;
    let long = output(run(&cluster, &["job", "--ttl", "10m"], "true")).await;
    assert_eq!(exit_code(&long), 78, "{}", stderr(&long));
    assert!(stderr(&long).contains("max_ttl of 60s"), "{}", stderr(&long));
    // The times are shown as the user wrote them.
    for (arguments, given) in [
        (&["run", "job", "--ttl", "100h", "--", "true"][..], "ttl is 100h: "),
        (&["run", "job", "-n", "2", "--ttl", "60m 1s", "--", "true"], "ttl is 60m 1s: "),
        (&["run", "job", "--hold-at-least", "2h", "--", "true"], "hold_at_least is 2h: "),
        (&["elect", "job", "--value", "v", "--ttl", "90m", "--", "true"], "ttl is 90m: "),
        (&["bench", "--ttl", "90m"], "ttl is 90m: "),
        (&["lock", "job", "--ticket-ttl", "90m"], "--ticket-ttl is 90m: "),
    ] {
        let refused = output(command_admitting_new_nodes(&cluster, arguments)).await;
        assert!(matches!(exit_code(&refused), 64 | 78), "{}", stderr(&refused));
        let text = stderr(&refused);
        assert!(text.lines().last().unwrap().starts_with(&format!("redquorum: {given}")), "{text}");
    }
    let url = output(redquorum(["--node", "http://a", "run", "job", "--", "true"])).await;
    assert_eq!(exit_code(&url), 78, "{}", stderr(&url));
}

#[tokio::test]
async fn a_closed_output_ends_an_observer_as_sigpipe() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let leader = command_admitting_new_nodes(
        &cluster,
        ["elect", "e", "--value", "v", "--ttl", "2s", "--", "sh", "-c"],
    )
    .arg(format!("touch {}; exec sleep 1000", scratch.file("leads")))
    .spawn()
    .unwrap();
    eventually(TIME_LIMIT, "the candidate leads", async || scratch.path().join("leads").exists()).await;
    let mut observer = command_admitting_new_nodes(&cluster, ["observe", "e"]);
    let mut observer = observer.spawn().unwrap();
    drop(observer.stdout.take());
    // The first line may have been written before the pipe was closed. In this case, the write for the next leader
    // fails.
    drop(leader);
    let next = command_admitting_new_nodes(
        &cluster,
        ["elect", "e", "--value", "w", "--ttl", "1s", "--", "sleep", "1000"],
    )
    .spawn()
    .unwrap();
    let observed = wait_for_output(observer).await;
    assert_eq!(exit_code(&observed), 128 + 13, "{}", stderr(&observed));
    drop(next);
}

/// The test requests a stack that no system can provide. A limit of threads would not apply to the superuser.
#[tokio::test]
async fn a_refused_thread_is_an_error_with_a_remedy() {
    let cluster = Cluster::start(1).await;
    for (arguments, start) in [
        (&["run", "job", "--", "true"][..], "redquorum: cannot start a thread for messages: "),
        (&["doctor"], "redquorum: cannot start a thread for messages: "),
        (&["--json", "list"], r#"{"error":{"kind":"system","exit":71,"message":"cannot start a thread"#),
    ] {
        let mut command = command_admitting_new_nodes(&cluster, arguments);
        command.env("RUST_MIN_STACK", "70368744177664");
        let ended = output(command).await;
        assert_eq!(exit_code(&ended), 71, "{}", stderr(&ended));
        let text = stderr(&ended);
        assert!(text.starts_with(start) && text.lines().count() == 1, "{text}");
        assert!(text.contains("raise the limits of processes, threads and open files"), "{text}");
    }
}
