//! A service of several instances. One instance schedules jobs, and each instance serves `/healthz` and `/leader`.

use std::{net::SocketAddr, time::Duration};

use anyhow::Context as _;
use axum::{Router, extract::State, http::StatusCode, routing::get};
use redquorum::{
    Error, FencingToken, LockOptions, Quorum,
    election::{Election, Leadership},
};
use tokio::{net::TcpListener, sync::mpsc, task::JoinHandle};

use super::http::request;

/// With an unlimited quorum timeout, a candidate also waits while no quorum answers.
const PATIENT: LockOptions = LockOptions::new().ttl(Duration::from_secs(10)).quorum_timeout(Duration::MAX);

/// Leads whenever this instance is elected, until the client is shut down.
async fn lead(election: Election, address: String, jobs: Jobs) -> anyhow::Result<()> {
    loop {
        let leadership = match election.campaign(&address).await {
            Ok(leadership) => leadership,
            Err(Error::Closed(_)) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        match leadership.while_valid(schedule(&leadership, &address, &jobs)).await {
            Ok(outcome) => outcome?,
            Err(loss) => eprintln!("{address} is no leader any more: {loss}"),
        }
    }
}

/// Starts jobs until the leadership is lost.
async fn schedule(leadership: &Leadership, address: &str, jobs: &Jobs) -> anyhow::Result<()> {
    loop {
        leadership.ensure()?; // before each step that cannot be undone
        jobs.send((leadership.term(), address.to_owned()))?;
        match leadership.proclaim(format!("{address}, busy")).await {
            Ok(()) | Err(Error::NoQuorum(_)) => {} // if no quorum answered, the next renewal sends the value again
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn health(State((quorum, _)): State<(Quorum, Election)>) -> (StatusCode, String) {
    let health = quorum.health().await;
    let status = if health.has_quorum() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, health.to_string())
}

async fn leader(State((_, election)): State<(Quorum, Election)>) -> (StatusCode, String) {
    match election.leader().await {
        Ok(Some(leader)) => (StatusCode::OK, leader.value_str().into_owned()),
        Ok(None) => (StatusCode::NOT_FOUND, "no leader".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// Starts an instance of the service.
async fn start(quorum: Quorum, jobs: Jobs) -> anyhow::Result<Instance> {
    let election = quorum.election("scheduler").options(PATIENT);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let campaign = tokio::spawn(lead(election.clone(), address.to_string(), jobs));
    let state = (quorum.clone(), election);
    let routes = Router::new().route("/healthz", get(health)).route("/leader", get(leader)).with_state(state);
    let server = tokio::spawn(axum::serve(listener, routes).into_future());
    Ok(Instance { quorum, address, campaign, server })
}

impl Instance {
    /// Ends the instance. The other instance is elected at once.
    async fn stop(self) -> anyhow::Result<()> {
        let report = self.quorum.shutdown().await;
        anyhow::ensure!(report.is_complete(), "{report}");
        self.campaign.await??;
        self.server.abort();
        Ok(())
    }
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Runs two instances, stops the leader, and waits for the second term.
pub(crate) async fn run([first, second]: [Quorum; 2]) -> anyhow::Result<()> {
    let (jobs, mut started) = mpsc::unbounded_channel();
    let instances = [start(first, jobs.clone()).await?, start(second, jobs).await?];

    let (term, scheduler) = started.recv().await.context("no instance leads")?;
    for instance in &instances {
        let (status, text) = request(instance.address, "GET", "/healthz").await?;
        assert_eq!(status, 200, "{text}");
        let (status, text) = request(instance.address, "GET", "/leader").await?;
        assert!(status == 200 && text.starts_with(&scheduler), "{status}: {text}, not {scheduler}");
    }

    let [leader, follower] = match instances {
        [one, other] if one.address.to_string() == scheduler => [one, other],
        [one, other] => [other, one],
    };
    let mut leaders = follower.quorum.election("scheduler").observe()?;
    leader.stop().await?;
    let (next_term, next_scheduler) = loop {
        let job = started.recv().await.context("no instance leads")?;
        if job.0 != term {
            break job;
        }
    };
    assert!(next_term > term);
    assert_eq!(next_scheduler, follower.address.to_string());
    let seen = loop {
        let leader = leaders.next().await.context("the client was shut down")?;
        if leader.term() != term {
            break leader;
        }
    };
    assert_eq!(seen.term(), next_term);
    assert!(seen.value_str().starts_with(&next_scheduler), "{}", seen.value_str());
    follower.stop().await
}

/// The term of each job and the address of its scheduler.
type Jobs = mpsc::UnboundedSender<(FencingToken, String)>;

struct Instance {
    quorum: Quorum,
    address: SocketAddr,
    campaign: JoinHandle<anyhow::Result<()>>,
    server: JoinHandle<std::io::Result<()>>,
}
