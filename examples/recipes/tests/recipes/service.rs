//! Tests of `axum_service` with several instances on five real servers: leadership, health, and shutdown by
//! SIGTERM.

use std::process::ExitStatus;

use redquorum_tests::{Cluster, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::{Child, ChildStdout},
    time::timeout,
};

use super::process::{SOON, nodes, program, quorum};

/// A running instance.
struct Instance {
    child: Child,
    stdout: BufReader<ChildStdout>,
    url: String,
}

impl Instance {
    async fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = program(env!("CARGO_BIN_EXE_axum_service"));
        command.args(["--listen", "127.0.0.1:0"]).args(arguments).envs(variables.iter().copied());
        let mut child = command.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        timeout(SOON, stdout.read_line(&mut line))
            .await
            .expect("the instance starts before the deadline")
            .unwrap();
        let Some(url) = line.trim_end().strip_prefix("listening on ") else {
            let ended = child.wait_with_output().await.unwrap();
            panic!("{line:?}: {}", String::from_utf8_lossy(&ended.stderr));
        };
        Self { url: url.to_owned(), child, stdout }
    }

    async fn on(cluster: &Cluster, ttl: &str) -> Self {
        Self::start(&[], &[("REDQUORUM_NODES", &nodes(cluster)), ("REDQUORUM_TTL", ttl)]).await
    }

    /// Returns the status and the body of an answer.
    async fn get(&self, path: &str) -> (u16, String) {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut connection = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        timeout(SOON, connection.read_to_string(&mut response))
            .await
            .expect("the instance answers before the deadline")
            .unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// Waits for a leader other than `not`, and returns its term and url, as this instance shows
    /// them.
    async fn leader(&self, not: &str) -> (u64, String) {
        eventually(SOON, "an instance leads", async || self.led_by(not).await.is_some()).await;
        self.led_by(not).await.expect("the same instance still leads")
    }

    async fn led_by(&self, not: &str) -> Option<(u64, String)> {
        let (status, body) = self.get("/leader").await;
        let (term, url) = body.trim_end().split_once(' ').filter(|(_, url)| status == 200 && *url != not)?;
        Some((term.parse().unwrap(), url.to_owned()))
    }

    /// Ends the instance by SIGTERM, and returns its status and output.
    async fn terminate(mut self) -> (ExitStatus, String) {
        let pid = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
        let mut printed = String::new();
        let ended = async {
            self.stdout.read_to_string(&mut printed).await.unwrap();
            self.child.wait().await.unwrap()
        };
        let status = timeout(SOON, ended).await.expect("the instance ends before the deadline");
        (status, printed)
    }
}

/// Shows that a leader resigns: the ttl of 30 s is longer than the test waits.
#[tokio::test]
async fn after_the_leader_is_terminated_the_other_instance_leads_soon() {
    let cluster = quorum(5).await;
    let file = cluster.directory().join("redquorum.toml");
    std::fs::create_dir_all(cluster.directory()).unwrap();
    std::fs::write(&file, format!("nodes = {:?}\n", cluster.urls())).unwrap();
    let configured = Instance::start(&["--config", file.to_str().unwrap()], &[]).await;
    let instances = [configured, Instance::on(&cluster, "30s").await];

    let (term, url) = instances[0].leader("").await;
    assert_eq!(instances[1].leader("").await, (term, url.clone()), "both instances show the same leader");
    for instance in &instances {
        let (status, body) = instance.get("/healthz").await;
        assert_eq!((status, &*body), (200, "5 of 5 nodes vote, 3 needed\n"));
    }

    let (leader, other): (Vec<_>, Vec<_>) = instances.into_iter().partition(|instance| instance.url == url);
    let (leader, other) = (leader.into_iter().next().unwrap(), other.into_iter().next().unwrap());
    let (status, printed) = leader.terminate().await;
    assert_eq!(status.code(), Some(0), "{printed}");
    for line in [&*format!("leads in term {term}\n"), "SIGTERM: this instance ends\n", "shut down\n"] {
        assert!(printed.contains(line), "{line:?} in {printed}");
    }
    let (next, successor) = other.leader(&url).await;
    assert_eq!(successor, other.url);
    assert!(next > term, "{next} after {term}");
}

/// The shutdown waits for a quorum until the ttl has ended the leadership.
#[tokio::test]
async fn without_a_quorum_an_instance_is_not_ready_and_still_terminates() {
    let cluster = quorum(5).await;
    let instance = Instance::on(&cluster, "3s").await;
    instance.leader("").await;
    for server in cluster.some(0..2) {
        server.kill().await;
    }
    let left = (200, "3 of 5 nodes vote, 3 needed; no vote of node 1, 2\n".to_owned());
    assert_eq!(instance.get("/healthz").await, left);
    cluster.server(2).kill().await;
    let (status, body) = instance.get("/healthz").await;
    assert_eq!(status, 503, "{body}");
    assert_eq!(body, "2 of 5 nodes vote, 3 needed; no vote of node 1, 2, 3\n");
    assert_eq!(instance.get("/healthz").await, (status, body));
    assert_eq!(instance.get("/leader").await, (503, "no quorum of nodes answered\n".to_owned()));
    let (status, printed) = instance.terminate().await;
    assert_eq!(status.code(), Some(0), "{printed}");
    let first = format!("127.0.0.1:{}: ", cluster.server(0).port());
    let logged = printed.lines().filter(|line| line.starts_with("2 of 5 ") && line.contains(&first));
    assert_eq!(logged.count(), 1, "the log names the nodes, once: {printed}");
}

#[tokio::test]
async fn invalid_settings_are_named_in_the_error() {
    let mut command = program(env!("CARGO_BIN_EXE_axum_service"));
    let ended = super::process::output(command.env("REDQUORUM_TTL", "30")).await;
    let error = String::from_utf8(ended.stderr).unwrap();
    assert!(!ended.status.success() && error.contains("REDQUORUM_TTL"), "{error}");
}
