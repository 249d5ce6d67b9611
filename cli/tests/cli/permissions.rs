//! `redquorum` on nodes that refuse notices.

use redquorum_tests::{Cluster, ServerOptions};
use tokio::process::Command;

use super::{
    redquorum::{exit_code, json, output, redquorum, stderr, stdout, wait_for_output},
    scratch::Scratch,
};

/// Starts servers with these options, and returns a function that makes a command for a user with these rules.
async fn nodes(options: ServerOptions, rules: &str) -> (Cluster, impl Fn(&[&str]) -> Command) {
    let cluster = Cluster::start_with(3, options).await;
    for server in cluster.servers() {
        let user = ["ACL", "SETUSER", "app", "on", ">pw"].into_iter().chain(rules.split(' '));
        server.command(&user.collect::<Vec<_>>()).await;
    }
    let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("//", "//app:pw@")).collect();
    let urls = urls.join(",");
    let command = move |arguments: &[&str]| {
        let mut command = redquorum(arguments);
        command.env("REDQUORUM_NODES", &urls);
        command
    };
    (cluster, command)
}

/// In the first case, the user has no channel, as a new user of Redis 7 has by default.
#[tokio::test]
async fn nodes_that_refuse_notices_confirm_unlocks() {
    for (setting, rules, remedy) in [
        (None, "~* resetchannels +@all", "ACL SETUSER ... &redisson_lock__channel:*"),
        (None, "~* &* +@all -publish", "ACL SETUSER ... +publish"),
        (None, "~* &* +@all -subscribe", "ACL SETUSER ... +subscribe +unsubscribe"),
        (
            Some("PUBLISH \"\""),
            "~* &* +@all",
            "let the server run `publish` under its own name (`rename-command`)",
        ),
        (
            Some("SUBSCRIBE \"\""),
            "~* &* +@all",
            "let the server run `subscribe` under its own name (`rename-command`)",
        ),
    ] {
        let renames = |setting| ServerOptions::default().config("rename-command", setting);
        let options = setting.map_or_else(ServerOptions::default, renames);
        let (_cluster, command) = nodes(options, rules).await;
        let made = output(command(&["init"])).await;
        assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
        let run = output(command(&["run", "x", "--", "true"])).await;
        assert_eq!((exit_code(&run), stderr(&run)), (0, String::new()), "{rules}");
        let scratch = Scratch::new();
        let script = format!("echo begun > {}; sleep 60", scratch.file("log"));
        let held = command(&["run", "f", "--ttl", "3s", "--", "sh", "-c", &script]).spawn().unwrap();
        scratch.lines("log", 1).await;
        let unlocked = output(command(&["force-unlock", "f", "--yes"])).await;
        assert_eq!(exit_code(&unlocked), 0, "{rules}: {}", stderr(&unlocked));
        // Without `subscribe`, the nodes publish the notice, and the holder does not receive it.
        let is_published =
            setting.map_or_else(|| rules.ends_with("-subscribe"), |setting| setting.starts_with("SUB"));
        let said = stderr(&unlocked);
        assert_eq!(said.contains("a living holder was notified; "), is_published, "{rules}: {said}");
        if !is_published {
            assert!(said.contains("a living holder was not notified"), "{rules}: {said}");
            assert!(said.contains("until its next renewal"), "{rules}: {said}");
            let named = setting.map_or(remedy, |_| "the server has no command `publish`");
            assert_eq!(said.matches(named).count(), 3, "{rules}: {said}");
            assert!(setting.is_some() || said.to_lowercase().contains("user app"), "{rules}: {said}");
            assert!(!said.contains("pw@"), "{said}");
        }
        let inspected = output(command(&["--json", "inspect", "f"])).await;
        assert_eq!(json(&inspected)[0]["state"], "free", "{}", stdout(&inspected));
        assert_eq!(exit_code(&wait_for_output(held).await), 79, "{rules}: the holder loses its lease");

        let doctor = output(command(&["--json", "doctor", "--all", "--watch", "0"])).await;
        assert_eq!(exit_code(&doctor), 0, "{rules}: {}", stdout(&doctor));
        let findings = json(&doctor);
        let of =
            |check: &str| findings.iter().filter(|finding| finding["check"] == check).collect::<Vec<_>>();
        assert_eq!(of("notices").len(), 3);
        for finding in of("notices") {
            assert_eq!(
                (&finding["level"], &finding["advice"]),
                (&"warn".into(), &remedy.into()),
                "{finding}"
            );
        }
        for finding in [of("permissions"), of("writes"), of("waiting")].concat() {
            assert_eq!(finding["level"], "ok", "{rules}: {finding}");
        }
    }
}

/// The user has all channels, and then all kinds of channels but one.
#[tokio::test]
async fn doctor_names_the_remedy_if_one_kind_of_channel_is_missing() {
    let kinds = ["{", "wake:{", "head:{", "leader:{", "latch:{", "force_unlocked:{"];
    let pattern = |kind: &str| {
        let prefix = if kind == "{" { "" } else { "redquorum:" };
        format!("&redisson_lock__channel:{prefix}{kind}*")
    };
    let (cluster, command) = nodes(ServerOptions::default(), "~* +@all").await;
    for missing in [None].into_iter().chain(kinds.map(Some)) {
        let present = kinds.into_iter().filter(|kind| Some(*kind) != missing);
        let rules: Vec<String> = present.map(pattern).collect();
        for server in cluster.servers() {
            let user = ["ACL", "SETUSER", "app", "resetchannels"];
            server
                .command(&user.into_iter().chain(rules.iter().map(String::as_str)).collect::<Vec<_>>())
                .await;
        }
        let doctor = output(command(&["--json", "doctor", "--all", "--watch", "0"])).await;
        let findings = json(&doctor);
        let notices: Vec<_> = findings.iter().filter(|finding| finding["check"] == "notices").collect();
        assert_eq!(notices.len(), 3, "{findings:?}");
        for notice in notices {
            let expected = match missing {
                Some(_) => ("warn", "ACL SETUSER ... &redisson_lock__channel:*".into()),
                None => ("ok", serde_json::Value::Null),
            };
            assert_eq!(
                (notice["level"].as_str().unwrap(), notice["advice"].clone()),
                expected,
                "{missing:?}"
            );
        }
    }
}

/// Slots and scripts are no words of the user.
#[tokio::test]
async fn a_missing_permission_is_reported_with_the_user_and_the_name_of_the_semaphore() {
    let own = ["node", "quarantine", "dirty", "connect", "health"].map(|key| format!("~redquorum:{key}"));
    let no_slots = format!("~lock:* ~redisson_lock_token:* {} &* +@all", own.join(" "));
    for (rules, words) in [
        (&*no_slots, "redquorum: no quorum for a permit of gpu: 2 of 3 nodes needed; "),
        ("~* &* +@all -script", "'script"),
    ] {
        let (_cluster, command) = nodes(ServerOptions::default(), rules).await;
        drop(output(command(&["init"])).await);
        let run = output(command(&["run", "gpu", "-n", "2", "--quorum-timeout", "0s", "-c", "true"])).await;
        let printed = stderr(&run);
        assert_eq!(exit_code(&run), 69, "{rules}: {printed}");
        assert!(printed.contains(words) && !printed.contains("redquorum:slot"), "{rules}: {printed}");
        assert!(printed.to_lowercase().contains("user app"), "{rules}: {printed}");
    }
}

/// Redis up to 7.0 does not name the command that a script may not call.
#[tokio::test]
async fn a_missing_permission_names_the_command_or_doctor() {
    let (cluster, command) = nodes(ServerOptions::default(), "~* &* +@all").await;
    let made = output(command(&["init"])).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    for server in cluster.servers() {
        server.command(&["ACL", "SETUSER", "app", "-get"]).await;
    }
    let run = output(command(&["run", "x", "--quorum-timeout", "0s", "-c", "true"])).await;
    assert_eq!(exit_code(&run), 69, "{}", stderr(&run));
    let text = stderr(&run);
    assert!(
        text.contains("'get'") || text.contains("`redquorum doctor` names the missing permission"),
        "{text}"
    );
}

/// A user with these permissions lacks commands that no vote needs.
#[tokio::test]
async fn doctor_counts_a_node_that_grants_locks_as_a_voter() {
    for lacking in ["-decr", "-del", "-eval", "-script", "-hgetall"] {
        let (cluster, command) = nodes(ServerOptions::default(), "~* &* +@all").await;
        let made = output(command(&["init"])).await;
        assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
        for server in cluster.servers() {
            server.command(&["ACL", "SETUSER", "app", lacking]).await;
        }
        let run = output(command(&["run", "x", "--wait", "0", "-c", "true"])).await;
        assert_eq!(exit_code(&run), 0, "{lacking}: {}", stderr(&run));
        let doctor = output(command(&["--json", "doctor", "--all", "--watch", "0"])).await;
        assert_eq!(exit_code(&doctor), 81, "{lacking}: {}", stdout(&doctor));
        let findings = json(&doctor);
        let quorum: Vec<_> = findings.iter().filter(|finding| finding["check"] == "quorum").collect();
        assert_eq!(quorum[0]["level"], "ok", "{lacking}: {quorum:?}");
        assert_eq!(quorum[0]["found"], "3 of 3 nodes vote, 2 needed", "{lacking}");
    }
}

/// The client logs a reason once for each connection, even if many notices are refused.
#[tokio::test]
async fn a_refused_notice_is_logged_once_for_each_node() {
    let (_cluster, command) = nodes(ServerOptions::default(), "~* resetchannels +@all").await;
    let made = output(command(&["init"])).await;
    assert_eq!(exit_code(&made), 0, "{}", stderr(&made));
    let bench = output(command(&["-v", "bench", "--duration", "1s"])).await;
    let lines = |words: &str| {
        let shown = stderr(&bench);
        shown.lines().filter(|line| line.contains("WARN") && line.contains(words)).count()
    };
    assert_eq!((exit_code(&bench), lines("command=\"publish\"")), (0, 3), "{}", stderr(&bench));
    assert_eq!(lines("node refuses notices: waiters poll"), 3 + lines("command=\"subscribe\""));
}
