//! Clients that wait for one lock, or for a semaphore.

use std::time::Duration;

use redquorum::{Quorum, error::Error};
use tokio::time::sleep;

use super::steady::in_a_minute;
use crate::{
    Arguments, Problem,
    fleet::{
        clients::{Fleet, Results, at_once},
        gauge::Usage,
        row::Row,
        servers::Servers,
    },
};

/// The time for which a client holds the lock or the permit.
const HOLD: Duration = Duration::from_millis(1);

/// The time until all clients wait.
const ARRIVAL: Duration = Duration::from_secs(5);

const PERMITS: u32 = 100;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Granted,
    /// The lease was granted, and lost before its unlock.
    Lost,
    Failed,
}

/// First, all clients wait for a lock that another client holds. From the unlock on, each client holds the lock once.
pub(super) async fn of_one_lock(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let holder = servers.builder().connect().await?;
    let guard = holder.red_lock("one").lock().await?;
    let fleet = Fleet::connect(&mut servers, arguments.clients()).await?;
    let without_waiters = servers.read().await?;
    let waits = tokio::spawn(at_once(fleet.clients.clone().into_iter().map(lock_once)));
    sleep(ARRIVAL).await;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    sleep(arguments.watch).await;
    let waiting = servers.read().await?;
    let clients = arguments.clients();
    let usage = Usage::between(&before, &waiting);
    let row = Row::new("waiting for one lock, a minute", clients, (clients, 0));
    let memory = Usage::between(&without_waiters, &waiting).memory;
    let waiting_row = Row {
        server_kilobytes: memory / clients as f64 / 1e3,
        ..row.with_usage(&usage, in_a_minute(arguments.watch))
    };
    let begin = tokio::time::Instant::now();
    guard.unlock().await?;
    let mut grants = waits.await??;
    grants.seconds = begin.elapsed().as_secs_f64();
    let usage = Usage::between(&waiting, &servers.read().await?);
    Ok(vec![waiting_row, row_of_grants("one lock, each once", clients, &grants, &usage)])
}

pub(super) async fn of_semaphore(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let fleet = Fleet::connect(&mut servers, arguments.clients()).await?;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    let grants = at_once(fleet.clients.clone().into_iter().map(acquire_once)).await?;
    let usage = Usage::between(&before, &servers.read().await?);
    Ok(vec![row_of_grants("a semaphore of 100, each once", arguments.clients(), &grants, &usage)])
}

fn row_of_grants(name: &str, clients: usize, grants: &Results<Outcome>, usage: &Usage) -> Row {
    let count = |wanted| grants.results.iter().filter(|outcome| **outcome == wanted).count();
    let (granted, lost) = (count(Outcome::Granted) + count(Outcome::Lost), count(Outcome::Lost));
    Row {
        lost: Some(lost),
        seconds: grants.seconds,
        grants_per_second: granted as f64 / grants.seconds,
        ..Row::new(name, clients, (granted, clients - granted)).with_usage(usage, 1.0).with_calls(usage)
    }
}

async fn lock_once(client: Quorum) -> Outcome {
    let Ok(guard) = client.red_lock("one").lock().await else { return Outcome::Failed };
    sleep(HOLD).await;
    outcome(guard.unlock().await)
}

async fn acquire_once(client: Quorum) -> Outcome {
    let Ok(permit) = client.semaphore("hundred", PERMITS).acquire().await else { return Outcome::Failed };
    sleep(HOLD).await;
    outcome(permit.release().await)
}

/// Returns the outcome of an unlock. An unlock that no quorum has confirmed loses no lease.
fn outcome<T>(unlocked: Result<T, Error>) -> Outcome {
    match unlocked {
        Err(Error::LeaseLost(_)) => Outcome::Lost,
        _ => Outcome::Granted,
    }
}
