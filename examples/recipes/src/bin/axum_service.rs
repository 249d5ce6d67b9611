//! A service of which several instances run and one leads, with its health and a graceful end.
//!
//! Nodes and settings come from a file or the environment. The quorum has to be made before, once,
//! by `redquorum init`:
//!
//! ```text
//! export REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! cargo run -p redquorum-recipes --bin axum_service -- --listen 127.0.0.1:8080
//! curl http://127.0.0.1:8080/healthz    # 200: a quorum of nodes votes; 503: too few do, and which do not
//! curl http://127.0.0.1:8080/leader     # the term of the leader, and where it listens
//! ```
//!
//! At SIGTERM or SIGINT it stops leading, answers the requests under way, and ends when the nodes
//! have confirmed that it leads no more, so that another instance leads within some round trips.
//! Where no quorum of them answers, it ends when its leadership is over: after the ttl, at most.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(
    clippy::disallowed_methods,
    reason = "sleeping stands for work, and no lease depends on how long requests are waited for"
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
    Election, Lease, Quorum,
    error::LockError,
    inspection::{NodeHolder, NodeInspection},
    settings,
};
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
    time::timeout,
};

/// How long requests under way may keep the process after a signal: less than its service manager
/// waits before SIGKILL.
const LAST_ANSWERS: Duration = Duration::from_secs(10);

/// One of several instances, of which one leads.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to serve HTTP; port 0 is any that is free.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The election, the same for all instances.
    #[arg(long, default_value = "example:axum-service")]
    election: String,
    /// A TOML file with nodes and settings, in place of the one that REDQUORUM_CONFIG names.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// What requests are answered from.
#[derive(Clone)]
struct Service {
    quorum: Quorum,
    election: Election,
    /// What the last request for the health was answered.
    last_health: Arc<Mutex<String>>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Before anything is begun, so that no signal finds the process without its handlers.
    let signals = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let quorum = settings::load(arguments.config.as_deref())?.connect().await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let election = quorum.election(&arguments.election).value(&url);
    println!("listening on {url}");

    let (stop, stopping) = watch::channel(false);
    tokio::spawn({
        let stop = stop.clone();
        async move {
            println!("{}: this instance ends", received(signals).await);
            stop.send_replace(true);
        }
    });
    let leading = tokio::spawn(lead_until(election.clone(), is_true(stopping.clone())));
    let service = Router::new()
        .route("/healthz", get(health))
        .route("/leader", get(leader))
        .with_state(Service { quorum: quorum.clone(), election, last_health: Arc::default() });
    let serving = axum::serve(listener, service).with_graceful_shutdown(is_true(stopping));
    let serving = tokio::spawn(serving.into_future());

    // Ends at the signal, or by an error that another try would not get over. The leader's work ends
    // first, and then the leadership.
    let led = leading.await?;
    stop.send_replace(true);
    let (shutdown, served) = tokio::join!(quorum.shutdown(), timeout(LAST_ANSWERS, serving));
    println!("{shutdown}");
    match served {
        Ok(served) => served??,
        Err(_) => println!("requests under way are cut off"),
    }
    Ok(led?)
}

/// Leads whenever it can, until `stop`. Where this returns, the work of a leader has been dropped
/// and the leadership with it.
async fn lead_until(election: Election, stop: impl Future<Output = ()>) -> Result<(), LockError> {
    tokio::select! {
        () = stop => Ok(()),
        ended = lead(&election) => ended.map(|never| match never {}),
    }
}

/// Losing the leadership and campaigning again is one loop.
async fn lead(election: &Election) -> Result<Infallible, LockError> {
    loop {
        let leadership = match election.campaign().await {
            Ok(leadership) => leadership,
            // These come only after the quorum timeout, so that this is no busy loop.
            Err(
                error @ (LockError::NoQuorum { .. }
                | LockError::Quarantined { .. }
                | LockError::Expired { .. }),
            ) => {
                println!("nobody can be elected: {error}");
                continue;
            }
            Err(error) => return Err(error),
        };
        println!("leads in term {}", leadership.term());
        match leadership.run(work).await {
            Ok(never) => match never {},
            Err(lost) => println!("leads no more: {lost}"),
        }
    }
}

/// What only one instance may do. Whatever it writes carries the term, so that a store can refuse
/// the late write of an instance that was paused.
async fn work(lease: Lease) -> Infallible {
    let term = lease.fencing_token();
    loop {
        println!("term {term}: a round of the work");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

/// For a *readiness* probe: without a quorum, a restart would only make things worse.
async fn health(State(service): State<Service>) -> (StatusCode, String) {
    let health = service.quorum.health().await;
    let status = if health.has_quorum() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let votes = |node: &NodeInspection| {
        node.abstention().is_none() && !matches!(node.holder(), NodeHolder::Unknown(_))
    };
    let nodes: Vec<bool> = health.nodes().map(votes).collect();
    let mut answer =
        format!("{} of {} nodes vote, {} have to", health.voting(), nodes.len(), health.needed());
    let others: Vec<String> =
        (1..).zip(nodes).filter(|(_, votes)| !votes).map(|(node, _): (usize, _)| node.to_string()).collect();
    if !others.is_empty() {
        answer += &format!("; not node {}", others.join(", "));
    }
    // Addresses, users and errors of nodes are nothing for whoever may ask. They are logged, at each
    // change: anybody may ask often.
    let mut last = service.last_health.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != answer {
        println!("{health}");
        last.clone_from(&answer);
    }
    (status, answer + "\n")
}

async fn leader(State(service): State<Service>) -> (StatusCode, String) {
    match service.election.leader().await {
        // A value is what anybody wrote who may write to the nodes.
        Ok(Some(leader)) => {
            (StatusCode::OK, format!("{} {}\n", leader.term(), leader.value_str().escape_debug()))
        }
        Ok(None) => (StatusCode::NOT_FOUND, "nobody leads\n".to_owned()),
        // The error names the nodes.
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "no quorum of nodes could be asked\n".to_owned()),
    }
}

async fn received((mut terminate, mut interrupt): (Signal, Signal)) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// Ready once it is true, or nobody is left to say so.
async fn is_true(mut flag: watch::Receiver<bool>) {
    flag.wait_for(|flag| *flag).await.ok();
}
