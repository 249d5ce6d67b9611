//! The replies of nodes as reasons, in reports about leases and commands.

use redquorum_tests::{Cluster, Server};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStderr},
};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, output, redquorum, run, send_signal,
        stderr, wait_for_output, without_patience,
    },
    scratch::Scratch,
};

fn lines(child: &mut Child) -> Lines<BufReader<ChildStderr>> {
    BufReader::new(child.stderr.take().unwrap()).lines()
}

/// Returns the next line on standard error that contains these words.
async fn line_with(lines: &mut Lines<BufReader<ChildStderr>>, words: &str) -> String {
    let found = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(words) {
                return line;
            }
        }
        panic!("the output ended without {words:?}");
    };
    tokio::time::timeout(TIME_LIMIT, found).await.expect("a line within the time limit")
}

async fn set_password(server: &Server, password: &str) {
    let user = ["ACL", "SETUSER", "locker", "on", "resetpass", password, "~*", "&*", "+@all"];
    server.command(&user).await;
}

/// The servers change the password of the holder's user, and close the connections of this user.
#[tokio::test]
async fn the_reasons_of_the_nodes_are_reported_before_and_at_the_end_of_a_lease() {
    for command in ["run", "elect"] {
        let is_election = command == "elect";
        let cluster = Cluster::start(3).await;
        let scratch = Scratch::new();
        for server in cluster.servers() {
            set_password(server, ">first").await;
        }
        let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", "://locker:first@")).collect();
        let mut job = redquorum(["--admit-new-nodes", command, "job", "--ttl", "3s"]);
        if is_election {
            job.args(["--value", "v", "--quorum-timeout", "0s"]);
        }
        let script = format!("echo > {}; exec sleep 1000", scratch.file("ready"));
        job.args(["--", "sh", "-c", &script]).env("REDQUORUM_NODES", urls.join(","));
        let job = job.spawn().unwrap();
        scratch.lines("ready", 1).await;
        for server in cluster.servers() {
            set_password(server, ">second").await;
            server.command(&["CLIENT", "KILL", "USER", "locker"]).await;
        }
        let job = wait_for_output(job).await;
        let messages = stderr(&job);
        let at = |words: &str| {
            let found = messages.lines().position(|line| line.contains(words));
            found.unwrap_or_else(|| panic!("{words:?} is not in {messages}"))
        };
        let (warning, term) = (at("is not renewed, and ends in "), at("is not renewed: SIGTERM"));
        assert!(warning < term, "{messages}");
        let line = |at: usize| messages.lines().nth(at).unwrap();
        for reported in [line(warning), line(term)] {
            assert!(reported.contains("job"), "{reported}");
            for server in cluster.servers() {
                assert!(reported.contains(&format!("; {}: ", server.address())), "{reported}");
            }
            assert_eq!(reported.matches("authentication failed").count(), 3, "{reported}");
        }
        if is_election {
            assert_eq!(exit_code(&job), 69, "{messages}");
        } else {
            assert_eq!(exit_code(&job), 79, "{messages}");
            let failure = messages.lines().last().unwrap();
            assert_eq!(failure.matches("authentication failed").count(), 3, "{failure}");
        }
    }
}

#[tokio::test]
async fn a_lease_that_is_renewed_again_is_reported() {
    let cluster = Cluster::start(3).await;
    let mut job = command_admitting_new_nodes(&cluster, ["run", "job", "--ttl", "10s"]);
    job.args(["--", "sleep", "1000"]);
    let mut job = job.spawn().unwrap();
    let mut lines = lines(&mut job);
    redquorum_tests::eventually(TIME_LIMIT, "the lock is held", async || {
        cluster.server(0).keys().await.contains(&"job".to_owned())
    })
    .await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let warning = line_with(&mut lines, "is not renewed, and ends in ").await;
    // The first renewal comes at a random time, so the connections may have been given up at the time of the warning.
    let reasons = ["no answer within the node timeout", "given up after a long silence"];
    assert_eq!(reasons.map(|reason| warning.matches(reason).count()).iter().sum::<usize>(), 2, "{warning}");
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    let next = tokio::time::timeout(TIME_LIMIT, lines.next_line()).await.unwrap().unwrap().unwrap();
    assert_eq!(next, "redquorum: the lease on job is renewed again");
    send_signal(job.id().unwrap(), Signal::TERM);
    assert_eq!(job.wait().await.unwrap().code(), Some(128 + 15));
}

#[tokio::test]
async fn the_reason_of_a_sudden_loss_is_reported() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let script = format!("echo > {}; exec sleep 1000", scratch.file("ready"));
    let job = run(&cluster, &["job"], &script).spawn().unwrap();
    scratch.lines("ready", 1).await;
    let unlocked = output(command_admitting_new_nodes(&cluster, ["force-unlock", "--yes", "job"])).await;
    assert_eq!(exit_code(&unlocked), 0, "{}", stderr(&unlocked));
    let job = wait_for_output(job).await;
    assert_eq!(exit_code(&job), 79, "{}", stderr(&job));
    let reason = "the lease on job is lost: the nodes do not have it any more: it was force-unlocked, or its keys \
                  were deleted or lost";
    let (kill, failure) = (stderr(&job).lines().next().unwrap().to_owned(), stderr(&job));
    assert!(kill.contains(&format!("{reason}: SIGKILL")), "{kill}");
    assert!(failure.lines().last().unwrap().contains(reason), "{failure}");
}

#[tokio::test]
async fn elect_reports_how_a_command_that_is_restarted_has_ended() {
    let cluster = Cluster::start(1).await;
    for (script, ended) in [
        ("exit 4", "the command ended with exit status 4"),
        ("kill -KILL $$", "the command was ended by signal 9"),
    ] {
        let arguments = ["elect", "e", "--value", "v", "--restart", "--", "sh", "-c", script];
        let mut elect = command_admitting_new_nodes(&cluster, arguments).spawn().unwrap();
        let reported = line_with(&mut lines(&mut elect), "the command ").await;
        assert_eq!(reported, format!("redquorum: {ended}: campaigning again in 1s"));
        send_signal(elect.id().unwrap(), Signal::TERM);
        elect.wait().await.unwrap();
    }
}

/// These commands read, so an answer is no vote. The error shows the answer of the living node, and no words about
/// votes.
#[tokio::test]
async fn a_missing_quorum_shows_no_votes_of_nodes_that_answered() {
    let cluster = Cluster::start(3).await;
    drop(redquorum::Quorum::builder().nodes(cluster.urls()).admit_new_nodes().connect().await.unwrap());
    let living = format!("{}: ", cluster.server(0).address());
    for server in cluster.some(1..3) {
        server.kill().await;
    }
    for arguments in [&["inspect", "job"][..], &["list"], &["observe", "e", "--once"]] {
        let shown = output(without_patience(command_on(&cluster, arguments))).await;
        assert_eq!(exit_code(&shown), 69, "{}", stderr(&shown));
        let failure = stderr(&shown);
        let failure = failure.lines().last().unwrap();
        let about_living = failure.split("; ").find(|part| part.starts_with(&living));
        for words in ["granted", "done", "not asked", "no answer yet"] {
            assert!(!failure.contains(words), "{words:?} is in {failure}");
        }
        let known = if arguments[0] == "inspect" { "free" } else { "answers" };
        assert_eq!(about_living, Some(&*format!("{living}{known}")), "{failure}");
        assert_eq!(failure.matches("127.0.0.1:").count(), 3, "{failure}");
    }
}
