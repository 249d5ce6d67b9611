//! Serves the metrics of a quorum to Prometheus, over HTTP.
//!
//! Without arguments, the program lets some contenders work on five in-memory nodes for two
//! seconds, requests its own page as Prometheus would, and prints the page. With `--serve`, the
//! program runs until it is killed. Real nodes need `redquorum init --if-needed` once, before:
//!
//! ```text
//! cargo run -p redquorum-recipes --bin metrics
//! cargo run -p redquorum-recipes --bin metrics -- --serve 127.0.0.1:9000
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2 \
//!     cargo run -p redquorum-recipes --bin metrics -- --serve 127.0.0.1:9000
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![allow(clippy::disallowed_methods, reason = "a sleep stands for work")]

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use clap::Parser;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use redquorum::{Error, LockOptions, Quorum};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The time for which the contenders work without `--serve`.
const RUN_TIME: Duration = Duration::from_secs(2);

/// A short ttl, so that the page shows renewals.
const INVOICE: LockOptions = LockOptions::new().ttl(Duration::from_millis(600));

/// Buckets in seconds, from the round trip of a near node to the default ttl.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Buckets of ratios, finer below the two thirds of a ttl that an undisturbed renewal leaves.
const RATIOS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 1.0];

/// Serves the metrics of some contenders to Prometheus.
#[derive(Debug, Parser)]
struct Arguments {
    /// Serve the metrics at this address until the program is killed.
    #[arg(long, value_name = "ADDR")]
    serve: Option<SocketAddr>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let address = arguments.serve.map_or_else(free_address, Ok)?;
    // The recorder is installed first, because the metrics of earlier clients are not recorded.
    PrometheusBuilder::new()
        .with_http_listener(address)
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &SECONDS)?
        .set_buckets_for_metric(Matcher::Suffix("_ratio".to_owned()), &RATIOS)?
        .install()?;

    let quorum = connect().await?;
    let contenders =
        async { tokio::try_join!(contend(&quorum), contend(&quorum), drop_guards(&quorum)).map(drop) };
    if arguments.serve.is_some() {
        println!("serving http://{address}/metrics");
        return Ok(contenders.await?);
    }
    if let Ok(ended) = tokio::time::timeout(RUN_TIME, contenders).await {
        return Ok(ended?);
    }
    println!("{}", scrape(address).await?);
    quorum.shutdown().await;
    Ok(())
}

/// Locks again and again, each time for more than a third of the ttl, so that leases are renewed.
async fn contend(quorum: &Quorum) -> Result<(), Error> {
    let lock = quorum.red_lock("invoice:42").options(INVOICE);
    loop {
        let guard = lock.lock().await?;
        tokio::time::sleep(Duration::from_millis(250)).await;
        match guard.unlock().await {
            // A lost lease is counted in a metric. The contender continues.
            Err(Error::LeaseLost(lost)) => println!("{lost}"),
            unlocked => drop(unlocked?),
        }
    }
}

/// Drops guards in place of unlocking, for a metric that counts dropped leases.
async fn drop_guards(quorum: &Quorum) -> Result<(), Error> {
    loop {
        drop(quorum.red_lock("report").lock().await?);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Requests the page as Prometheus does.
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

/// Returns an address with a free port.
fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
