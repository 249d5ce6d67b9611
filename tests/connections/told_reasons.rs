//! Servers, proxies and Sentinels that refuse or close a connection, with or without a reason.
//!
//! Promises: if the server sends a reason, the error has this reason, for some reasons with a remedy. Otherwise, the
//! error names the likely causes. If a Sentinel named the server, the error names both.

use std::{net::SocketAddr, time::Duration};

use redquorum::{Error, Quorum};
use redquorum_tests::{Cluster, Kind, Port, ServerOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

/// A stand-in for a server. The task ends with the test.
pub(super) struct StandIn {
    pub(super) address: SocketAddr,
    task: JoinHandle<()>,
}

impl StandIn {
    /// Starts a server that sends `greeting` and closes each connection, without reading a request.
    pub(super) async fn closing_with(greeting: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                client.write_all(greeting.as_bytes()).await.ok();
            }
        });
        Self { address, task }
    }

    /// Starts a server that sends an answer for each word of `answers` in the bytes that it receives.
    async fn answering(answers: Vec<(&'static str, String)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                let answers = answers.clone();
                tokio::spawn(async move {
                    let (mut received, mut answered) = (String::new(), [0; 8]);
                    let mut buffer = [0; 1024];
                    while let Ok(length @ 1..) = client.read(&mut buffer).await {
                        received.push_str(&String::from_utf8_lossy(&buffer[..length]));
                        for ((word, answer), answered) in answers.iter().zip(&mut answered) {
                            for _ in *answered..received.matches(word).count() {
                                *answered += 1;
                                client.write_all(answer.as_bytes()).await.ok();
                            }
                        }
                    }
                });
            }
        });
        Self { address, task }
    }

    /// Starts a stand-in for a Sentinel that names this master.
    pub(super) async fn sentinel_naming(host: &str, port: u16) -> Self {
        let hello = "%2\r\n$5\r\nproto\r\n:3\r\n$4\r\nmode\r\n$8\r\nsentinel\r\n".to_owned();
        let port = port.to_string();
        let (host_length, port_length) = (host.len(), port.len());
        let master = format!("*2\r\n${host_length}\r\n{host}\r\n${port_length}\r\n{port}\r\n");
        let answers =
            vec![("HELLO", hello), ("SETINFO", "+OK\r\n".to_owned()), ("GET-MASTER-ADDR-BY-NAME", master)];
        Self::answering(answers).await
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the text of the error of a node that cannot be connected.
async fn connect_error(url: String) -> String {
    let builder = Quorum::builder().nodes([url]).connect_timeout(Duration::from_millis(300));
    let error = builder.connect().await.unwrap_err();
    assert!(matches!(error, Error::NoQuorum(_)), "{error}");
    error.to_string()
}

#[tokio::test]
async fn the_reason_that_a_server_gives_before_it_closes_is_in_the_error() {
    for (greeting, reasons) in [
        ("-ERR max number of clients reached\r\n", &["max number of clients reached", "maxclients"][..]),
        (
            "-DENIED Redis is running in protected mode because protected mode is enabled.\r\n",
            &["DENIED Redis is running in protected mode"],
        ),
        ("-LOADING Redis is loading the dataset in memory\r\n", &["(LOADING)"]),
        ("-NOAUTH Authentication required.\r\n", &["redis://:PASSWORD@HOST:PORT"]),
        ("-ERR no backend is available\r\n", &["no backend is available"]),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", &["HTTP"]),
        ("\u{15}\u{3}\u{3}\0\u{2}\u{2}F", &["rediss://"]),
    ] {
        let server = StandIn::closing_with(greeting).await;
        // The client may detect the close before it receives the reason. The order differs from run to run, so the test
        // repeats the connection.
        for _ in 0..5 {
            let error = connect_error(format!("redis://{}", server.address)).await;
            for reason in reasons {
                assert!(error.contains(reason), "{greeting:?}: {error}");
            }
            let is_of_tls = greeting.starts_with('\u{15}');
            assert!(is_of_tls || !error.contains("rediss"), "{greeting:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_server_that_closes_without_a_reason_is_reported_with_the_likely_causes() {
    let server = StandIn::closing_with("").await;
    let error = connect_error(format!("redis://{}", server.address)).await;
    for cause in ["rediss://", "maxclients", "proxy"] {
        assert!(error.contains(cause), "{error}");
    }
}

#[tokio::test]
async fn a_server_with_too_many_clients_is_reported_as_such() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let _first = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    server.command(&["CONFIG", "SET", "maxclients", "1"]).await;
    let error = connect_error(server.url()).await;
    assert!(error.contains("max number of clients reached"), "{error}");
}

#[tokio::test]
async fn the_error_names_the_address_that_a_sentinel_named_and_the_sentinel() {
    let unused = Port::reserve();
    let sentinel = StandIn::sentinel_naming("127.0.0.1", unused.number()).await;
    let error = connect_error(format!("redis+sentinel://{}/mymaster", sentinel.address)).await;
    let place =
        format!("the master 127.0.0.1:{}, which the Sentinel {} names", unused.number(), sentinel.address);
    assert!(error.contains(&place) && error.to_lowercase().contains("refused"), "{error}");
}

#[tokio::test]
async fn the_error_names_the_server_whose_password_is_missing_and_the_place_in_the_url() {
    let refusing = || {
        vec![
            ("HELLO", "-NOAUTH HELLO must be called with the client already authenticated\r\n".to_owned()),
            ("SETINFO", "-NOAUTH Authentication required.\r\n".to_owned()),
        ]
    };
    let server = StandIn::answering(refusing()).await;
    let error = connect_error(format!("redis+sentinel://:word@{}/mymaster", server.address)).await;
    assert!(error.contains("?sentinel_pass=PASSWORD") && !error.contains("redis://"), "{error}");
    let sentinel = StandIn::sentinel_naming("127.0.0.1", server.address.port()).await;
    let error = connect_error(format!("redis+sentinel://{}/mymaster", sentinel.address)).await;
    assert!(error.contains("redis+sentinel://:PASSWORD@HOST:PORT/NAME"), "{error}");
    assert!(error.contains(&format!("the master {}", server.address)), "{error}");
    let options = ServerOptions::default().config("unixsocket", "redis.sock").password("word");
    let cluster = Cluster::start_as(Kind::Processes, 1, options).await;
    let socket = cluster.directory().join(cluster.server(0).port().to_string()).join("redis.sock");
    let error = connect_error(format!("unix://{}", socket.display())).await;
    assert!(error.contains("unix:///PATH?pass=PASSWORD"), "{error}");
}
