//! A real server that lives as long as its value.

use std::{
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redis::{Client, FromRedisValue};

use crate::node::redis::program;

/// A throw-away server.
#[derive(Debug)]
pub(super) struct Server {
    process: Child,
    port: u16,
}

impl Server {
    pub(super) fn start() -> Self {
        Self::start_with(&[])
    }

    pub(super) fn start_with(options: &[&str]) -> Self {
        Self::start_at(free_port(), options)
    }

    pub(super) fn start_at(port: u16, options: &[&str]) -> Self {
        let process = Command::new(program::server())
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("the server program can be started");
        let server = Self { process, port };
        let patience = Instant::now() + Duration::from_secs(10);
        while std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            assert!(Instant::now() < patience, "the server does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        server
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Asks the server over a connection of the test's own.
    pub(super) fn ask<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut connection = Client::open(self.url()).unwrap().get_connection().unwrap();
        let mut command = redis::Cmd::new();
        command.arg(words);
        command.query(&mut connection).unwrap()
    }

    /// Stops the process, as it is (`STOP`), or lets it go on (`CONT`).
    pub(super) fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }
}

/// A port that nobody listens at, for now.
pub(super) fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
