//! Tests of the programs that end by themselves, and of a rule for all programs: no program admits new nodes.

use std::{collections::BTreeSet, path::Path};

use redquorum::Quorum;
use redquorum_tests::{Cluster, eventually};
use sqlx::{Connection, SqliteConnection};

use super::process::{SOON, file, nodes, output, printed, program, quorum};

#[test]
fn the_tests_list_all_programs() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin");
    let names =
        std::fs::read_dir(source).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let known = ["axum_service.rs", "job_queue.rs", "metrics.rs", "opentelemetry.rs", "sqlx_fence.rs"];
    assert_eq!(names.collect::<BTreeSet<_>>(), known.map(str::to_owned).into());
}

/// A server without data may have lost votes, so only `init` may let that node vote at once.
#[tokio::test]
async fn no_program_admits_nodes_that_may_have_lost_data() {
    for path in [
        env!("CARGO_BIN_EXE_axum_service"),
        env!("CARGO_BIN_EXE_job_queue"),
        env!("CARGO_BIN_EXE_metrics"),
        env!("CARGO_BIN_EXE_opentelemetry"),
        env!("CARGO_BIN_EXE_sqlx_fence"),
    ] {
        let cluster = Cluster::start(3).await;
        let mut command = program(path);
        if path.ends_with("axum_service") {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if path.ends_with("job_queue") {
            // The program fails when it has connected, because the queue does not answer.
            command.args(["work", "--queue", "redis://127.0.0.1:1", "--database", "sqlite::memory:"]);
        }
        let _running = command.env("REDQUORUM_NODES", nodes(&cluster)).spawn().unwrap();
        for server in cluster.some(0..3) {
            let is_registered = async || server.keys().await.iter().any(|key| key == "redquorum:node");
            eventually(SOON, "the node is registered", is_registered).await;
        }
        let observer = Quorum::builder().nodes(cluster.urls()).read_only().connect().await.unwrap();
        assert_eq!(observer.health().await.voting(), 0, "{path}");
    }
}

#[tokio::test]
async fn metrics_prints_the_page_for_prometheus() {
    let cluster = quorum(3).await;
    let mut in_memory = program(env!("CARGO_BIN_EXE_metrics"));
    let mut on_servers = program(env!("CARGO_BIN_EXE_metrics"));
    on_servers.env("REDQUORUM_NODES", nodes(&cluster));
    for program in [&mut in_memory, &mut on_servers] {
        let page = printed(program).await;
        let acquired = page.lines().find_map(|line| {
            line.strip_prefix("redquorum_attempts_total{quorum=\"redquorum\",outcome=\"acquired\"} ")
        });
        assert!(acquired.is_some_and(|count| count.parse::<u64>().unwrap() > 1), "{page}");
    }
}

#[tokio::test]
async fn a_database_refuses_the_write_of_the_earlier_token() {
    let cluster = quorum(3).await;
    let file = file(&cluster, "invoices.db");
    for (database, nodes) in
        [(None, None), (Some(&file), Some(nodes(&cluster))), (Some(&file), Some(nodes(&cluster)))]
    {
        let mut command = program(env!("CARGO_BIN_EXE_sqlx_fence"));
        command.args(database.into_iter().flat_map(|file| ["--database", file]));
        let text = printed(command.envs(nodes.map(|nodes| ("REDQUORUM_NODES", nodes)))).await;
        let lines: Vec<_> = text.lines().collect();
        let [written, refused, "the invoice is charged"] = lines[..] else { panic!("{text}") };
        let token = |line: &str, rest| -> u64 {
            let number = line.strip_prefix("token ").and_then(|line| line.strip_suffix(rest));
            number.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        assert!(
            token(refused, ": refused, the row has a larger token") < token(written, ": written"),
            "{text}"
        );
    }
}

/// Shows that the program can fail, without which the test above shows little.
#[tokio::test]
async fn a_database_without_a_working_fence_makes_the_program_fail() {
    let cluster = Cluster::start(3).await;
    let table = "CREATE TABLE invoices (id INTEGER PRIMARY KEY, state TEXT NOT NULL, fence INTEGER NOT NULL DEFAULT 0)";
    for (name, changed, error) in [
        (
            "forgets.db",
            "CREATE TRIGGER forget AFTER UPDATE ON invoices BEGIN UPDATE invoices SET fence = 0; END",
            "and was accepted",
        ),
        (
            "refuses.db",
            "INSERT INTO invoices VALUES (42, 'open', 9007199254740992)",
            "the first holder was refused",
        ),
    ] {
        let file = file(&cluster, name);
        let mut database = SqliteConnection::connect(&file).await.unwrap();
        sqlx::query(table).execute(&mut database).await.unwrap();
        sqlx::query(changed).execute(&mut database).await.unwrap();
        database.close().await.unwrap();
        let mut command = program(env!("CARGO_BIN_EXE_sqlx_fence"));
        let ended = output(command.args(["--database", &file])).await;
        let text = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(1) && text.contains(error), "{name}: {text}");
    }
}

#[tokio::test]
async fn opentelemetry_prints_nested_spans_and_metrics() {
    let cluster = quorum(3).await;
    let mut command = program(env!("CARGO_BIN_EXE_opentelemetry"));
    let text = printed(command.env("REDQUORUM_NODES", nodes(&cluster))).await;
    let (lock, charge) = (span(&text, "lock"), span(&text, "charge"));
    assert_eq!(field(lock, "ParentSpanId"), field(charge, "SpanId"), "{text}");
    assert!(lock.contains("->  resource: String(Owned(\"invoice:42\"))"), "{lock}");
    assert!(lock.contains("Name      : acquired\n"), "the span lacks the event of the library: {lock}");
    let attempts = text.split("Name         : redquorum_attempts_total\n").nth(1).expect(&text);
    let attempts = attempts.split("Metric #").next().unwrap();
    let acquired = attempts.split("DataPoint #").find(|point| point.contains("outcome: acquired"));
    assert_eq!(acquired.map(|point| field(point, "Value")), Some("1"), "{attempts}");
}

/// Returns the text of a span.
fn span<'a>(text: &'a str, name: &str) -> &'a str {
    let begin = format!("Name         : {name}\n");
    let span = text.split("Span #").find(|span| span.contains(&begin));
    span.unwrap_or_else(|| panic!("no span {name}: {text}"))
}

/// Returns the first value of this name.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find(|line| line.trim_start().starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map(|(_, value)| value.trim())
        .unwrap_or_else(|| panic!("{name}: {text}"))
}
