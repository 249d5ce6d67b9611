//! `redquorum list`, and the content of the screen of `redquorum top`.

use redquorum::{Quorum, admin, unstable_redis::redis::cmd};
use redquorum_tests::{Cluster, Server};
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    pty::Pty,
    redquorum::{
        TIME_LIMIT, command_on, exit_code, json, output, redquorum, send_signal, stderr, stdout,
        wait_for_output,
    },
    terminal::{on_a_terminal_of, screen},
};

/// Connects a client with this label to a quorum of these nodes.
async fn client(cluster: &Cluster, label: &str) -> Quorum {
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init_if_needed(&builder()).await.unwrap();
    builder().label(label).connect().await.unwrap()
}

/// Makes the key of a lock with this lease id on a server.
async fn put_lease(server: &Server, name: &str, lease_id: &str) {
    server.command(&["HSET", name, lease_id, "1"]).await;
    server.command(&["PEXPIRE", name, "60000"]).await;
}

fn address(server: &Server) -> String {
    server.address()
}

#[tokio::test]
async fn a_list_has_holders_readers_waiters_permits_and_differing_nodes() {
    let cluster = Cluster::start(3).await;
    let (web, job) = (client(&cluster, "web-1").await, client(&cluster, "job-2").await);
    let _readers =
        [web.rw_lock("b:shared").read().await.unwrap(), job.rw_lock("b:shared").read().await.unwrap()];
    let held = web.red_lock("a:held").lock().await.unwrap();
    let _permit = job.semaphore("c:gpu", 1).acquire().await.unwrap();
    let waiting = job.red_lock("a:held");
    let waiter = tokio::spawn(async move { waiting.lock().await });
    let other = "other/0-0-0-0-a:1";
    cluster.server(2).command(&["DEL", "a:held"]).await;
    put_lease(cluster.server(2), "a:held", other).await;
    put_lease(cluster.server(1), "d:left", other).await;
    let list = async || json(&output(command_on(&cluster, ["--json", "list"])).await).remove(0);
    let is_queued = async || list().await["locks"][0]["waiters"] == 1;
    redquorum_tests::eventually(TIME_LIMIT, "the waiter is queued", is_queued).await;
    let listing = list().await;
    let locks = listing["locks"].as_array().unwrap();
    let shown: Vec<String> = locks
        .iter()
        .map(|lock| format!("{} {} {} {}", lock["kind"], lock["resource"], lock["state"], lock["differing"]))
        .collect();
    let [second, third] = [cluster.server(1), cluster.server(2)].map(address);
    assert_eq!(
        shown,
        [
            format!(r#""resource" "a:held" "held" ["{third}"]"#),
            r#""resource" "b:shared" "shared" []"#.to_owned(),
            format!(r#""resource" "d:left" "free" ["{second}"]"#),
            r#""slot" "c:gpu" "held" []"#.to_owned(),
        ]
    );
    assert_eq!((&locks[0]["owner"], &locks[0]["label"]), (&held.id().to_string().into(), &"web-1".into()));
    assert_eq!(
        (&locks[0]["agreeing"], &locks[0]["counter"]),
        (&2.into(), &u64::from(held.fencing_token()).into())
    );
    assert!(locks[0]["first_waiter"].as_str().unwrap().starts_with("job-2/"), "{}", locks[0]);
    assert_eq!((&locks[1]["holds"], locks[1]["readers"].as_array().unwrap().len()), (&2.into(), 2));
    assert_eq!(listing["partial"], false);
    assert_eq!((&locks[3]["slot"], &listing["silent"]), (&0.into(), &serde_json::json!([])));
    let shown = output(command_on(&cluster, ["list", "?:h*"])).await;
    assert_eq!((exit_code(&shown), stderr(&shown)), (0, String::new()));
    let text = stdout(&shown);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["resource", "state", "owner", "left", "queue", "nodes", "differing"]);
    assert_eq!(lines.len(), 2, "{text}");
    assert_eq!(lines[1][..3], ["a:held", "held", &held.id().to_string()]);
    assert_eq!(lines[1][4..], ["1", "2/3", &*third]);
    assert_eq!(stdout(&output(command_on(&cluster, ["list", "nobody's"])).await), "nothing is locked\n");
    cluster.server(1).kill().await;
    let shown = output(command_on(&cluster, ["list"])).await;
    assert_eq!(exit_code(&shown), 0);
    assert!(stderr(&shown).contains(&format!("{second}: ")), "{}", stderr(&shown));
    cluster.server(2).kill().await;
    // Without a quorum, the list has the locks of the remaining node, and is marked as partial.
    let list = async |arguments: &[&str]| {
        let mut command = command_on(&cluster, arguments);
        command.env("REDQUORUM_CONNECT_TIMEOUT", "1s");
        output(command).await
    };
    let shown = list(&["list"]).await;
    let text = stdout(&shown);
    assert_eq!(exit_code(&shown), 69, "{text}{}", stderr(&shown));
    assert!(text.ends_with("partial list: the nodes that answered are no quorum\n"), "{text}");
    let owner = held.id().to_string();
    let held_line = text.lines().find(|line| line.starts_with("a:held ")).expect(&text);
    assert!(held_line.contains("unclear") && held_line.contains(&owner), "{held_line}");
    assert!(stderr(&shown).contains(&format!("{third}: ")), "{}", stderr(&shown));
    let shown = list(&["--json", "list", "a:*"]).await;
    let listing = json(&shown).remove(0);
    assert_eq!((exit_code(&shown), &listing["partial"]), (69, &true.into()), "{listing}");
    assert_eq!(listing["locks"].as_array().unwrap().len(), 1, "{listing}");
    assert_eq!(listing["silent"].as_array().unwrap().len(), 2, "{listing}");
    let shown = list(&["list", "nobody's"]).await;
    assert!(stdout(&shown).starts_with("no node that answered has a lock\n"), "{}", stdout(&shown));
    cluster.server(0).kill().await;
    let shown = list(&["list"]).await;
    assert_eq!((exit_code(&shown), stdout(&shown)), (69, String::new()), "{}", stderr(&shown));
    waiter.abort();
}

#[tokio::test]
async fn a_list_finds_all_locks_among_many_keys_in_small_steps() {
    let cluster = Cluster::start(1).await;
    let _client = client(&cluster, "web").await;
    let server = cluster.server(0);
    let script = "for i = 1, 1500 do redis.call('SET', 'text:' .. i, i) redis.call('HSET', 'hash:' .. i, 'f', i) end
        for i = 1, 500 do
          redis.call('HSET', 'lock:' .. i, 'web/0-0-0-0-a:' .. i, '1') redis.call('PEXPIRE', 'lock:' .. i, 60000)
        end";
    let _none: Option<String> = server.query(cmd("EVAL").arg(script).arg(0)).await;
    server.command(&["CONFIG", "RESETSTAT"]).await;
    let shown = json(&output(command_on(&cluster, ["--json", "list"])).await);
    assert_eq!(shown[0]["locks"].as_array().unwrap().len(), 500);
    let stats = server.info("commandstats").await;
    assert!(!stats.contains("cmdstat_keys:"), "{stats}");
    let calls = server.info_field("commandstats", "cmdstat_scan").await;
    let calls: u32 = calls.strip_prefix("calls=").unwrap().split(',').next().unwrap().parse().unwrap();
    assert!((20..=60).contains(&calls), "{calls} steps for 3,500 keys");
}

#[tokio::test]
async fn list_names_the_missing_scan_permission_and_omits_foreign_keys() {
    let cluster = Cluster::start(1).await;
    let web = client(&cluster, "web").await;
    let server = cluster.server(0);
    let _held = [web.red_lock("lock:a").lock().await.unwrap(), web.red_lock("b").lock().await.unwrap()];
    let rules = ["ACL", "SETUSER", "me", "on", ">pass", "~lock:*", "~redquorum:*", "~redisson_lock_token:*"];
    server.command(&[&rules[..], &["&*", "+@all", "-scan"]].concat()).await;
    let mut command = redquorum(["list"]);
    command.env("REDQUORUM_NODES", server.url().replace("//", "//me:pass@"));
    let shown = output(command).await;
    assert_eq!(exit_code(&shown), 69);
    let message = stderr(&shown);
    assert!(message.contains("may not call SCAN") && message.contains("+scan"), "{message}");
    server.command(&["ACL", "SETUSER", "me", "+scan"]).await;
    let mut command = redquorum(["--json", "list"]);
    command.env("REDQUORUM_NODES", server.url().replace("//", "//me:pass@"));
    let shown = json(&output(command).await);
    let locks = shown[0]["locks"].as_array().unwrap();
    assert_eq!(locks.iter().map(|lock| &lock["resource"]).collect::<Vec<_>>(), ["lock:a"]);
}

#[tokio::test]
async fn a_lock_has_one_line_that_fits_the_terminal() {
    let cluster = Cluster::start(5).await;
    let label = "billing-worker-7.eu-central-1.internal:4711";
    let (web, job) = (client(&cluster, label).await, client(&cluster, "job-2").await);
    let long = "invoice:4242:of:a:customer:with:a:very:long:name";
    let held = web.red_lock(long).lock().await.unwrap();
    let _readers = [web.rw_lock("shared").read().await.unwrap(), job.rw_lock("shared").read().await.unwrap()];
    let _wide = job.red_lock("漢字漢字").lock().await.unwrap();
    let differing = cluster.server(2);
    differing.command(&["DEL", long]).await;
    let shown = async |columns| {
        let pty = Pty::open(columns);
        let mut list = pty.spawn(command_on(&cluster, ["list"]));
        assert!(tokio::time::timeout(TIME_LIMIT, list.wait()).await.unwrap().unwrap().success());
        redquorum_tests::eventually(TIME_LIMIT, "all lines have been read", async || {
            pty.text().matches('\n').count() == 4
        })
        .await;
        let parser = pty.screen();
        let contents = parser.screen().contents();
        let lines: Vec<String> = contents.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4, "no line is wider than {columns} columns: {contents}");
        lines
    };
    let node = address(differing);
    let narrow = shown(80).await;
    for (line, words) in narrow.iter().zip([
        &["resource ", " state ", " owner ", " left ", " queue ", " nodes ", " differing"][..],
        &["invoice:", "…", ":name held ", "billing", "4711 ", " 0 ", " 4/5 ", "127.0.0"],
        &["shared ", " shared 2 readers", "job-2 ", " 5/5 ", " -"],
        &["漢字漢字 ", " held ", " job-2 ", " 5/5 ", " -"],
    ]) {
        for word in words {
            assert!(line.contains(word), "{word:?}: {}", narrow.join("\n"));
        }
    }
    let wide = shown(160).await;
    assert!(wide.iter().all(|line| !line.contains('…')), "{}", wide.join("\n"));
    for words in [long, label, &node] {
        assert!(wide[1].contains(words), "{words}: {}", wide.join("\n"));
    }
    for (line, words) in [(2, "shared "), (2, &*format!("2 readers: {label}, job-2")), (3, "漢字漢字 ")] {
        assert!(wide[line].contains(words), "{words}: {}", wide.join("\n"));
    }
    let column = |line: &str, words: &str| {
        line.find(words).map(|at| columns_of(&line[..at])).unwrap_or_else(|| panic!("{words}: {line}"))
    };
    for lines in [&narrow, &wide] {
        let states = ["state", "held", "shared", "held"];
        let columns: Vec<usize> =
            lines.iter().zip(states).map(|(line, state)| column(line, &format!(" {state} "))).collect();
        assert!(columns.iter().all(|at| *at == columns[0]), "{columns:?}: {}", lines.join("\n"));
    }
    drop(held);
}

#[tokio::test]
async fn top_shows_the_first_waiter_on_a_terminal() {
    let cluster = Cluster::start(3).await;
    let (web, job) = (client(&cluster, "web-1").await, client(&cluster, "job-2").await);
    let _held = web.red_lock("held").lock().await.unwrap();
    let waiting = job.red_lock("held");
    let waiter = tokio::spawn(async move { waiting.lock().await });
    let pty = Pty::open(80);
    let mut top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
    pty.wait_until_shown(" 1: job-2 ").await;
    pty.press("q");
    assert!(tokio::time::timeout(TIME_LIMIT, top.wait()).await.unwrap().unwrap().success());
    waiter.abort();
}

/// Returns the number of columns of a text. All characters outside of ASCII have two columns,
/// except for `…`.
fn columns_of(text: &str) -> usize {
    text.chars().map(|char| if char.is_ascii() || char == '…' { 1 } else { 2 }).sum()
}

#[tokio::test]
async fn top_needs_a_terminal_and_no_json() {
    for (arguments, advice) in [(&["top"][..], "use `list`"), (&["--json", "top"], "use `list --json`")] {
        let shown = output(redquorum(arguments)).await;
        assert_eq!((exit_code(&shown), stdout(&shown)), (64, String::new()));
        assert!(stderr(&shown).contains(advice), "{}", stderr(&shown));
    }
}

/// Reads the output until the screen shows this text.
async fn read_until_shown(
    stdout_pipe: &mut tokio::process::ChildStdout,
    output_so_far: &mut Vec<u8>,
    what: &str,
) {
    read_until_all_shown(stdout_pipe, output_so_far, &[what]).await;
}

/// Reads the output until the screen shows these texts at the same time. A single read may end in the middle of a frame.
async fn read_until_all_shown(
    stdout_pipe: &mut tokio::process::ChildStdout,
    output_so_far: &mut Vec<u8>,
    texts: &[&str],
) {
    let shows_all = |output: &[u8]| texts.iter().all(|text| screen(80, output).contains(text));
    let reads = async {
        while !shows_all(output_so_far) {
            let read = stdout_pipe.read_buf(output_so_far).await.unwrap();
            assert_ne!(read, 0, "{texts:?}: {}", screen(80, output_so_far));
        }
    };
    let in_time = tokio::time::timeout(TIME_LIMIT, reads).await.is_ok();
    assert!(in_time, "{texts:?}: {}", screen(80, output_so_far));
}

#[tokio::test]
async fn top_redraws_the_locks_and_restores_the_terminal() {
    const ALTERNATE: (&str, &str) = ("\u{1b}[?1049h", "\u{1b}[?1049l");
    let cluster = Cluster::start(3).await;
    let web = client(&cluster, "web-1").await;
    for end in ["q", "\u{3}", "SIGTERM"] {
        let first = web.red_lock("first").lock().await.unwrap();
        let top = command_on(&cluster, ["top", "--interval", "50ms"]);
        let mut top = on_a_terminal_of(24, 80, &top).spawn().unwrap();
        let (mut keys, mut stdout_pipe) = (top.stdin.take().unwrap(), top.stdout.take().unwrap());
        let mut output_so_far = Vec::new();
        read_until_shown(&mut stdout_pipe, &mut output_so_far, "first    held  web-1").await;
        let second = web.red_lock("second").lock().await.unwrap();
        read_until_shown(&mut stdout_pipe, &mut output_so_far, "second   held  web-1").await;
        first.unlock().await.unwrap();
        read_until_shown(&mut stdout_pipe, &mut output_so_far, "1 lock,").await;
        if end == "SIGTERM" {
            let children = format!("/proc/{0}/task/{0}/children", top.id().unwrap());
            let child = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
            send_signal(child, Signal::TERM);
        } else {
            keys.write_all(end.as_bytes()).await.unwrap();
        }
        tokio::time::timeout(TIME_LIMIT, stdout_pipe.read_to_end(&mut output_so_far)).await.unwrap().unwrap();
        let expected = if end == "SIGTERM" { 143 } else { 0 };
        assert_eq!(wait_for_output(top).await.status.code(), Some(expected), "{end:?}");
        let output_so_far = String::from_utf8_lossy(&output_so_far);
        assert_eq!(
            (output_so_far.matches(ALTERNATE.0).count(), output_so_far.matches(ALTERNATE.1).count()),
            (1, 1),
            "{end:?}"
        );
        let [shows_cursor, hides_cursor] =
            ["\u{1b}[?25h", "\u{1b}[?25l"].map(|sequence| output_so_far.rfind(sequence));
        assert!(shows_cursor > hides_cursor, "the cursor is hidden at the end: {output_so_far:?}");
        second.unlock().await.unwrap();
    }
}

#[tokio::test]
async fn top_reports_missing_nodes_and_continues() {
    let cluster = Cluster::start(3).await;
    let web = client(&cluster, "web-1").await;
    let _held = web.red_lock("first").lock().await.unwrap();
    let top = command_on(&cluster, ["top", "--interval", "50ms"]);
    let mut top = on_a_terminal_of(24, 80, &top).spawn().unwrap();
    let (mut keys, mut stdout_pipe) = (top.stdin.take().unwrap(), top.stdout.take().unwrap());
    let mut output_so_far = Vec::new();
    read_until_shown(&mut stdout_pipe, &mut output_so_far, "web-1").await;
    cluster.server(0).kill().await;
    read_until_shown(&mut stdout_pipe, &mut output_so_far, &address(cluster.server(0))).await;
    cluster.server(1).kill().await;
    let remaining = ["partial list", "web-1"];
    read_until_all_shown(&mut stdout_pipe, &mut output_so_far, &remaining).await;
    cluster.server(2).kill().await;
    let earlier = ["no quorum listed its locks", "web-1"];
    read_until_all_shown(&mut stdout_pipe, &mut output_so_far, &earlier).await;
    keys.write_all(b"q").await.unwrap();
    tokio::time::timeout(TIME_LIMIT, stdout_pipe.read_to_end(&mut output_so_far)).await.unwrap().unwrap();
    assert_eq!(wait_for_output(top).await.status.code(), Some(0));
}
