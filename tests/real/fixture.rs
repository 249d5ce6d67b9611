//! Tests of the fixture (`redquorum_tests`) itself: each fault does what its name says, and no process,
//! container or file remains after a test.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use redis::{Client, Value, cmd};
use redquorum::{Quorum, admin};
use redquorum_tests::{Cluster, Direction, Kind, Port, Proxy, Server, ServerOptions, eventually};

/// A deadline much longer than any step takes on an idle machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// The time for which a test watches that an event does *not* happen.
const WATCHED: Duration = Duration::from_millis(200);

#[tokio::test]
async fn servers_of_a_cluster_are_independent() {
    let cluster = Cluster::start(3).await;
    cluster.server(0).command(&["SET", "resource", "owner"]).await;
    assert_eq!(cluster.server(0).keys().await, ["resource"]);
    assert!(cluster.server(1).keys().await.is_empty());
    assert!(cluster.server(2).keys().await.is_empty());
    assert_eq!(cluster.urls(), cluster.servers().iter().map(Server::url).collect::<Vec<_>>());
}

#[test]
fn a_reserved_port_is_locked_for_other_processes() {
    assert_reserved(Port::reserve().number());
}

/// The port that is higher by 10,000, by which the other servers of a Redis Cluster reach a server.
#[tokio::test]
async fn a_server_of_a_redis_cluster_has_a_reserved_bus_port() {
    let options = ServerOptions::default().config("cluster-enabled", "yes");
    let cluster = Cluster::start_as(Kind::Processes, 1, options).await;
    let bus_port = cluster.server(0).port() + 10_000;
    assert!(std::net::TcpStream::connect(("127.0.0.1", bus_port)).is_ok(), "no listener at port {bus_port}");
    assert_reserved(bus_port);
}

/// Asserts that no other process can reserve this port.
fn assert_reserved(port: u16) {
    let user = rustix::process::getuid().as_raw();
    let lock = std::env::temp_dir().join(format!("redquorum-test-locks-{user}/port-{port}"));
    let file = std::fs::File::open(lock);
    assert!(file.is_ok_and(|file| file.try_lock().is_err()), "another process could reserve port {port}");
}

#[tokio::test]
async fn a_frozen_server_hangs_and_answers_after_the_thaw() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    server.freeze().await;
    let mut ping = Box::pin(server.command(&["PING"]));
    assert!(tokio::time::timeout(WATCHED, &mut ping).await.is_err(), "a frozen server answered");
    server.thaw().await;
    assert_eq!(ping.await, Value::SimpleString("PONG".to_owned()));
}

#[tokio::test]
async fn a_killed_server_refuses_connections_and_restarts_empty_at_its_address() {
    let cluster = Cluster::start_with(1, ServerOptions::persistent()).await;
    let server = cluster.server(0);
    let (url, run_id) = (server.url(), server.run_id().await);
    server.command(&["SET", "resource", "owner"]).await;
    server.kill().await;
    assert!(server.try_query::<Value>(&cmd("PING")).await.is_err_and(|error| error.is_connection_refusal()));
    server.restart_empty().await;
    assert!(server.keys().await.is_empty());
    assert_ne!(server.run_id().await, run_id);
    assert_eq!(server.url(), url);
}

#[tokio::test]
async fn a_persistent_server_keeps_its_data_in_a_crash() {
    let cluster = Cluster::start_with(1, ServerOptions::persistent()).await;
    let server = cluster.server(0);
    let run_id = server.run_id().await;
    server.command(&["SET", "resource", "owner"]).await;
    server.restart_keeping_data().await;
    assert_eq!(server.keys().await, ["resource"]);
    assert_ne!(server.run_id().await, run_id);
}

#[tokio::test]
async fn a_frozen_server_that_crashes_loses_requests_in_its_socket() {
    let cluster = Cluster::start_with(1, ServerOptions::persistent()).await;
    let server = cluster.server(0);
    let mut connection =
        Client::open(server.plain_url()).unwrap().get_multiplexed_async_connection().await.unwrap();
    server.freeze().await;
    let mut set = cmd("SET");
    let mut set = Box::pin(set.arg("resource").arg("owner").exec_async(&mut connection));
    assert!(tokio::time::timeout(WATCHED, &mut set).await.is_err(), "a frozen server answered");
    server.restart_keeping_data().await;
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn paused_writes_wait_while_reads_are_answered() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let begin = Instant::now();
    let pause = Duration::from_millis(500);
    server.pause_writes(pause).await;
    assert_eq!(server.command(&["GET", "resource"]).await, Value::Nil);
    server.command(&["SET", "resource", "owner"]).await;
    assert!(begin.elapsed() >= pause, "a write went through after {:?}", begin.elapsed());
}

/// Makes keys of most kinds on a server, and returns the names of all keys.
async fn names_of_keys(cluster: &Cluster) -> Vec<String> {
    let server = cluster.server(0);
    let builder = Quorum::builder().nodes([server.url()]).ttl(DEADLINE * 3);
    admin::init(&builder).await.unwrap();
    let (holder, waiter) = (builder.clone().connect().await.unwrap(), builder.connect().await.unwrap());
    let mut held = Vec::new();
    for (name, channel) in [("r", "redisson_lock__channel:{r}"), ("x{a}", "redisson_lock__channel:x{a}")] {
        held.push(holder.red_lock(name).lock().await.unwrap());
        let lock = waiter.red_lock(name);
        tokio::spawn(async move { lock.lock().await.map(drop) });
        let queue = format!("redquorum:queue:{{{name}}}");
        eventually(DEADLINE, "the waiter is queued and subscribed", async || {
            let subscribers: (String, u64) = server.query(cmd("PUBSUB").arg("NUMSUB").arg(channel)).await;
            server.query::<u64>(cmd("ZCARD").arg(&queue)).await == 1
                && subscribers.1 == 1
                && server.channels().await.contains(&channel.to_owned())
        })
        .await;
        let holds: Vec<(String, u32)> = server.query(cmd("HGETALL").arg(name)).await;
        assert_eq!(holds.len(), 1, "{holds:?}");
    }
    let _permit = holder.semaphore("gpu", 1).acquire().await.unwrap();
    let _read = holder.rw_lock("shared").read().await.unwrap();
    let _leadership = holder.election("scheduler").campaign("me").await.unwrap();
    let names = server.keys().await;
    for key in &names {
        assert!(server.query::<bool>(cmd("EXISTS").arg(key)).await, "{key}");
    }
    names
}

/// Tests use the names of a standalone server on a Redis Cluster, too.
#[tokio::test]
async fn a_redis_cluster_has_the_names_of_a_standalone_server() {
    let (cluster, standalone) = tokio::join!(
        Cluster::start_as(Kind::RedisClusters, 1, ServerOptions::default()),
        Cluster::processes(1),
    );
    assert_eq!(names_of_keys(&cluster).await, names_of_keys(&standalone).await);
}

#[tokio::test]
async fn options_reach_the_server_and_its_url() {
    let options = ServerOptions::default().password("secret").config("maxmemory", "50mb");
    let cluster = Cluster::start_with(1, options).await;
    let server = cluster.server(0);
    assert!(server.url().contains(":secret@"));
    assert_eq!(server.info_field("memory", "maxmemory").await, (50 * 1024 * 1024).to_string());
    let stranger = Client::open(server.plain_url().replace(":secret@", "")).unwrap();
    let mut stranger = stranger.get_multiplexed_async_connection().await.unwrap();
    assert!(cmd("PING").exec_async(&mut stranger).await.is_err());
}

#[tokio::test]
async fn the_proxy_holds_back_replies_while_requests_reach_the_server() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let proxy = Proxy::before(server).await;
    let mut connection = patient_connection(&proxy).await;
    proxy.hold(Direction::Replies);
    let mut set = cmd("SET");
    let mut set = Box::pin(set.arg("resource").arg("owner").exec_async(&mut connection));
    assert!(tokio::time::timeout(WATCHED, &mut set).await.is_err(), "a reply came through");
    assert_eq!(server.keys().await, ["resource"]);
    proxy.open(Direction::Replies);
    set.await.unwrap();
}

#[tokio::test]
async fn a_request_held_back_by_the_proxy_arrives_after_its_sender_has_left() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let proxy = Proxy::before(server).await;
    let mut connection = patient_connection(&proxy).await;
    proxy.hold(Direction::Requests);
    let mut set = cmd("SET");
    set.arg("resource").arg("owner");
    assert!(tokio::time::timeout(WATCHED, set.exec_async(&mut connection)).await.is_err());
    drop(connection);
    assert!(server.keys().await.is_empty());
    proxy.open(Direction::Requests);
    eventually(DEADLINE, "the request has arrived", async || server.keys().await == ["resource"]).await;
}

#[tokio::test]
async fn the_proxy_discards_delays_and_drops() {
    let cluster = Cluster::start(1).await;
    let server = cluster.server(0);
    let proxy = Proxy::before(server).await;

    let mut connection = patient_connection(&proxy).await;
    proxy.cut(Direction::Requests);
    let mut lost = cmd("SET");
    lost.arg("lost").arg("owner");
    assert!(tokio::time::timeout(WATCHED, lost.exec_async(&mut connection)).await.is_err());
    proxy.drop_connections().await;
    proxy.open(Direction::Requests);

    let mut connection = patient_connection(&proxy).await;
    proxy.delay(Direction::Replies, WATCHED);
    let begin = Instant::now();
    cmd("PING").exec_async(&mut connection).await.unwrap();
    assert!(begin.elapsed() >= WATCHED, "a delayed reply came after {:?}", begin.elapsed());
    assert!(server.keys().await.is_empty());

    proxy.drop_connections().await;
    assert!(cmd("PING").exec_async(&mut connection).await.is_err());
}

#[tokio::test]
async fn a_dropped_cluster_with_a_frozen_and_a_dead_server_is_removed() {
    let cluster = Cluster::start(3).await;
    let (kind, name, port) = (cluster.kind(), cluster.name().to_owned(), cluster.server(0).port());
    cluster.server(0).freeze().await;
    cluster.server(1).kill().await;
    drop(cluster);
    assert_eq!(remains(kind, &name), Vec::<String>::new());
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[tokio::test]
async fn the_cluster_of_a_panicked_test_is_removed() {
    let cluster = Cluster::start(2).await;
    let (kind, name) = (cluster.kind(), cluster.name().to_owned());
    let test = tokio::spawn(async move {
        cluster.server(0).freeze().await;
        panic!("this panic is part of the test");
    });
    assert!(test.await.is_err_and(|error| error.is_panic()));
    assert_eq!(remains(kind, &name), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_can_be_dropped_outside_of_its_runtime() {
    let cluster = Cluster::start(1).await;
    let (kind, name) = (cluster.kind(), cluster.name().to_owned());
    std::thread::spawn(move || drop(cluster)).join().unwrap();
    assert_eq!(remains(kind, &name), Vec::<String>::new());
}

/// The test starts its own binary as a second test process, and kills that process while it has a cluster.
#[tokio::test]
async fn the_cluster_of_a_killed_test_process_is_removed() {
    const HELD: &str = "REDQUORUM_TEST_HOLD_A_CLUSTER";
    const NAME: &str = "real::fixture::the_cluster_of_a_killed_test_process_is_removed";
    if std::env::var_os(HELD).is_some() {
        let cluster = Cluster::start(2).await;
        writeln!(std::io::stdout(), "\n{HELD} {}", cluster.name()).unwrap();
        return std::future::pending().await;
    }
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(HELD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(process.stdout.take().unwrap());
    let mut lines = output.lines().map(Result::unwrap);
    let name = lines.find_map(|line| Some(line.strip_prefix(HELD)?.trim().to_owned())).unwrap();
    let kind = Kind::choose();
    assert!(!remains(kind, &name).is_empty(), "a running cluster is not seen");
    process.kill().unwrap();
    process.wait().unwrap();
    eventually(DEADLINE, "the cluster is removed", async || remains(kind, &name).is_empty()).await;
}

/// Connects through a proxy, with a long response timeout.
async fn patient_connection(proxy: &Proxy) -> redis::aio::MultiplexedConnection {
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
    let client = Client::open(proxy.plain_url()).unwrap();
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

/// Returns the directory, processes and containers of a cluster that still exist.
fn remains(kind: Kind, name: &str) -> Vec<String> {
    let directory = std::env::temp_dir().join(name);
    let mut remains = processes_within(&directory);
    if directory.exists() {
        remains.push(directory.display().to_string());
    }
    if kind == Kind::Containers {
        let filter = format!("label=redquorum.test-cluster={name}");
        let list =
            Command::new("docker").args(["ps", "--all", "--quiet", "--filter", &filter]).output().unwrap();
        remains.extend(String::from_utf8(list.stdout).unwrap().lines().map(str::to_owned));
    }
    remains
}

/// Returns the processes, without zombies, whose working directory is below this directory.
fn processes_within(directory: &Path) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let at_work = processes.filter(|process| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(directory))
    });
    at_work.map(|process| process.path().display().to_string()).collect()
}
