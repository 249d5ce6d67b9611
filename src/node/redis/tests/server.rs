//! A real server for one test, which ends with its `Server` value.

use std::net::{Ipv4Addr, TcpStream};

use redis::{Client, FromRedisValue};

use crate::node::redis::tests::server_process::{
    PATIENCE, ServerProcess,
    port::{BUS_PORT_OFFSET, Port},
};

/// A running server without persistence.
#[derive(Debug)]
pub(super) struct Server {
    process: ServerProcess,
    port: Port,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(super) fn start_with(options: &[&str]) -> Self {
        Self::start_at(Port::reserve(), options)
    }

    pub(super) fn start_at(port: Port, options: &[&str]) -> Self {
        let number = port.number().to_string();
        let directory = std::env::temp_dir().join(format!("redquorum-{}-{number}", std::process::id()));
        let fixed = ["--port", &number, "--save", "", "--appendonly", "no"];
        let arguments = fixed.iter().chain(options).map(ToString::to_string).collect();
        let mut process = ServerProcess::start(directory, arguments);
        process.first_answer(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).ok());
        Self { process, port }
    }

    /// Starts a Redis Cluster of one server, and waits until the cluster executes commands, for two seconds.
    pub(super) fn start_cluster() -> Self {
        let (server, _) = Self::start_without_slots();
        server.ask::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
        let deadline = std::time::Instant::now() + PATIENCE;
        while !server.ask::<String>(&["CLUSTER", "INFO"]).contains("cluster_state:ok") {
            assert!(std::time::Instant::now() < deadline, "the cluster executes no commands");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        server
    }

    /// Starts a server of a cluster that has no slots. Returns the server and the port for other servers of the cluster.
    pub(super) fn start_without_slots() -> (Self, String) {
        let port = Port::reserve_with_bus_port();
        let bus_port = (port.number() + BUS_PORT_OFFSET).to_string();
        let options = ["--cluster-enabled", "yes", "--cluster-node-timeout", "500"];
        (Self::start_at(port, &options), bus_port)
    }

    pub(super) fn port(&self) -> String {
        self.port.number().to_string()
    }

    /// Returns the url by which the cluster is a node.
    pub(super) fn cluster_url(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.port.number())
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port.number())
    }

    /// Sends a command to the server on a new connection.
    pub(super) fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = Client::open(self.url()).unwrap().get_connection().unwrap();
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query(&mut connection).unwrap()
    }

    pub(super) fn freeze(&self) {
        self.process.freeze();
    }

    pub(super) fn thaw(&self) {
        self.process.thaw();
    }
}
