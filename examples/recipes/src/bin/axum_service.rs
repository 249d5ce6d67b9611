//! A service with several instances, of which one leads. Each instance serves its health and the leader over HTTP,
//! and shuts down at a signal without a wait for the ttl.
//!
//! Nodes and settings come from a file or the environment. `redquorum init` has to make the quorum
//! once, before:
//!
//! ```text
//! export REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! cargo run -p redquorum-recipes --bin axum_service -- --listen 127.0.0.1:8080
//! curl http://127.0.0.1:8080/healthz    # 200: a quorum of nodes votes; 503: too few nodes vote
//! curl http://127.0.0.1:8080/leader     # the term of the leader, and the leader's address
//! ```
//!
//! At SIGTERM or SIGINT, the instance stops leading, answers the outstanding requests, and ends when
//! the nodes have confirmed the unlock. The next instance leads after a few round trips. If no
//! quorum answers, the instance ends when the ttl has ended the leadership.

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(
    clippy::disallowed_methods,
    reason = "a sleep stands for work, and no lease depends on the timeout of requests"
)]

use std::{
    convert::Infallible,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use clap::Parser;
use redquorum::{
    Error, Quorum,
    election::{Election, Leadership},
    inspection::NodeInspection,
    settings,
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::timeout,
};

/// The time for outstanding requests after a signal: less than the service manager waits before
/// SIGKILL.
const GRACE: Duration = Duration::from_secs(10);

/// Runs an instance of a service. Of several instances, one leads.
#[derive(Debug, Parser)]
struct Arguments {
    /// Address of the HTTP server; port 0 is any free port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Name of the election, the same for all instances.
    #[arg(long, default_value = "example:axum-service")]
    election: String,
    /// TOML file with nodes and settings, in place of the file that REDQUORUM_CONFIG names.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// The state of request handlers.
#[derive(Clone)]
struct Service {
    quorum: Quorum,
    election: Election,
    /// The last answer of `/healthz`.
    last_health: Arc<Mutex<String>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // The signal handlers are installed first, so that an early signal does not kill the process.
    let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let quorum = settings::load(arguments.config.as_deref())?.connect().await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let election = quorum.election(&arguments.election);
    println!("listening on {url}");

    let (stop, stopping) = watch::channel(false);
    tokio::spawn({
        let stop = stop.clone();
        async move {
            println!("{}: this instance ends", received(signals).await);
            stop.send_replace(true);
        }
    });
    let leading = tokio::spawn(lead_until(election.clone(), url, is_true(stopping.clone())));
    let service = Router::new()
        .route("/healthz", get(health))
        .route("/leader", get(leader))
        .with_state(Service { quorum: quorum.clone(), election, last_health: Arc::default() });
    let serving = axum::serve(listener, service).with_graceful_shutdown(is_true(stopping));
    let serving = tokio::spawn(serving.into_future());

    // This wait ends at the signal, or by an error that would occur again. The order matters: the work of
    // a leader ends before the leadership, and both end before the client.
    let led = leading.await?;
    stop.send_replace(true);
    let (report, served) = tokio::join!(quorum.shutdown(), timeout(GRACE, serving));
    if report.is_complete() {
        println!("shut down");
    } else {
        println!("shut down, unlocks are unconfirmed: {report}");
    }
    match served {
        Ok(served) => served??,
        Err(_) => println!("outstanding requests are dropped"),
    }
    Ok(led?)
}

/// Leads again and again until `stop`. On return, the work and the leadership have been dropped.
async fn lead_until(election: Election, url: String, stop: impl Future<Output = ()>) -> Result<(), Error> {
    tokio::select! {
        () = stop => Ok(()),
        ended = lead(&election, &url) => ended.map(|never| match never {}),
    }
}

/// Campaigns and leads, and campaigns again after a loss.
async fn lead(election: &Election, url: &str) -> Result<Infallible, Error> {
    loop {
        let leadership = match election.campaign(url).await {
            Ok(leadership) => leadership,
            // The call returns this error after the quorum timeout, so the loop is not busy.
            Err(Error::NoQuorum(shortage)) => {
                println!("no leader can be elected: {shortage}");
                continue;
            }
            // The settings are wrong, or the client was shut down: a new campaign fails, too.
            Err(error) => return Err(error),
        };
        println!("leads in term {}", leadership.term());
        match leadership.while_valid(work(&leadership)).await {
            Ok(never) => match never {},
            // The work has stopped. Another instance may lead by now.
            Err(Error::LeaseLost(lost)) => println!("leads no more: {lost}"),
            Err(error) => return Err(error),
        }
    }
}

/// Does the work of the leader.
///
/// Each write has to carry the term, so that a store can refuse a late write of an instance that
/// was paused.
async fn work(leadership: &Leadership) -> Infallible {
    loop {
        println!("term {}: a round of the work", leadership.term());
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// Answers a *readiness* probe. If this were a liveness probe, a missing quorum would restart all instances.
async fn health(State(service): State<Service>) -> (StatusCode, String) {
    let health = service.quorum.health().await;
    let status = if health.has_quorum() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let votes = |node: &NodeInspection| node.abstention().is_none() && node.holder().is_ok();
    let nodes: Vec<bool> = health.nodes().map(votes).collect();
    let mut answer = format!("{} of {} nodes vote, {} needed", health.voting(), nodes.len(), health.needed());
    let without_vote: Vec<String> =
        (1..).zip(nodes).filter(|(_, votes)| !votes).map(|(node, _): (usize, _)| node.to_string()).collect();
    if !without_vote.is_empty() {
        answer += &format!("; no vote of node {}", without_vote.join(", "));
    }
    // Addresses, users and errors of nodes are for the log, not for any client that may send this
    // request. Requests can be frequent, so only changes are logged.
    let mut last = service.last_health.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != answer {
        println!("{health}");
        last.clone_from(&answer);
    }
    (status, answer + "\n")
}

async fn leader(State(service): State<Service>) -> (StatusCode, String) {
    match service.election.leader().await {
        // Any program that may write to the nodes can have written the value.
        Ok(Some(leader)) => {
            (StatusCode::OK, format!("{} {}\n", leader.term(), leader.value_str().escape_debug()))
        }
        Ok(None) => (StatusCode::NOT_FOUND, "no leader\n".to_owned()),
        // The text of an error names the nodes. Therefore the text is not part of the response.
        Err(Error::NoQuorum(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, "no quorum of nodes answered\n".to_owned())
        }
        Err(Error::Closed(_)) => (StatusCode::SERVICE_UNAVAILABLE, "this instance ends\n".to_owned()),
        Err(error) => {
            println!("{error}");
            (StatusCode::INTERNAL_SERVER_ERROR, "the leader cannot be read\n".to_owned())
        }
    }
}

async fn received((mut terminate, mut interrupt): (Signal, Signal)) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// Waits until the flag is true, or its sender is dropped.
async fn is_true(mut flag: watch::Receiver<bool>) {
    flag.wait_for(|flag| *flag).await.ok();
}
