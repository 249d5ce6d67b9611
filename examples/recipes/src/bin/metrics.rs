//! Serves what a quorum does to Prometheus, over HTTP.
//!
//! By itself it lets some contenders work on five in-memory nodes for a moment, asks its own page
//! once as Prometheus would, prints it and ends. With an address it stays. Real nodes need
//! `redquorum init --if-needed` before, once:
//!
//! ```text
//! cargo run -p redquorum-recipes --bin metrics
//! cargo run -p redquorum-recipes --bin metrics -- --serve 127.0.0.1:9000
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2 \
//!     cargo run -p redquorum-recipes --bin metrics -- --serve 127.0.0.1:9000
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![allow(clippy::disallowed_methods, reason = "a contender that works, and pauses")]

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use clap::Parser;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use redquorum::{
    Quorum,
    error::{ConnectError, LockError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// How long the contenders work where nobody asks for more.
const A_MOMENT: Duration = Duration::from_secs(2);

/// In seconds: from the round trip of a near node to the default ttl.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Finer where it becomes dangerous.
const SHARES: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 1.0];

/// Serves the figures of some contenders to Prometheus.
#[derive(Debug, Parser)]
struct Arguments {
    /// Serves the figures at this address until it is killed.
    #[arg(long, value_name = "ADDR")]
    serve: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let address = arguments.serve.map_or_else(free_address, Ok)?;
    // Before the first quorum is connected.
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_ratio".to_owned()), &SHARES)?
        .install()?;

    let quorum = connect().await?;
    let contenders =
        async { tokio::try_join!(contend(&quorum), contend(&quorum), abandon(&quorum)).map(drop) };
    if arguments.serve.is_some() {
        println!("serving http://{address}/metrics");
        return Ok(contenders.await?);
    }
    if let Ok(ended) = tokio::time::timeout(A_MOMENT, contenders).await {
        return Ok(ended?);
    }
    println!("{}", scrape(address).await?);
    quorum.shutdown().await;
    Ok(())
}

/// Holds one resource now and then, for longer than a third of the ttl, so that it is renewed.
async fn contend(quorum: &Quorum) -> Result<(), LockError> {
    let lock = quorum.red_lock("invoice:42").ttl(Duration::from_millis(600));
    loop {
        let guard = lock.lock().await?;
        tokio::time::sleep(Duration::from_millis(250)).await;
        if let Err(error) = guard.unlock().await {
            println!("{error}");
        }
    }
}

/// Leaves the unlock to the guard's drop, which is counted.
async fn abandon(quorum: &Quorum) -> Result<(), LockError> {
    loop {
        drop(quorum.red_lock("report").lock().await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// The page, as Prometheus gets it.
async fn scrape(address: SocketAddr) -> io::Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    connection.read_to_string(&mut response).await?;
    let (head, page) = response.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no page"))?;
    if head.starts_with("HTTP/1.1 200") {
        Ok(page.to_owned())
    } else {
        Err(io::Error::other(head.to_owned()))
    }
}

/// A port of this machine that nobody has at present.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
