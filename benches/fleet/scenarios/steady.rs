//! Clients without a fault: idle clients, and clients that renew leases.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::{
    Arguments, Problem,
    fleet::{
        clients::{Fleet, resident_memory},
        gauge::Usage,
        row::Row,
        servers::Servers,
    },
};

const MINUTE: Duration = Duration::from_secs(60);

/// The interval in which calls are counted for the largest rate.
const SLOT: Duration = Duration::from_millis(100);

pub(super) async fn idle(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let fleet = Fleet::connect(&mut servers, arguments.clients()).await?;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    sleep(arguments.watch).await;
    let usage = Usage::between(&before, &servers.read().await?);
    let clients = fleet.clients.len();
    let row = Row::new("idle, a minute", clients, (clients, 0));
    Ok(vec![row.with_usage(&usage, in_a_minute(arguments.watch))])
}

pub(super) async fn leases(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let mut fleet = Fleet::connect(&mut servers, arguments.clients()).await?;
    let (before, resident) = (servers.read().await?, resident_memory());
    fleet.lock_own().await?;
    let memory = Usage::between(&before, &servers.read().await?).memory;
    let resident = resident_memory() - resident;
    servers.begin(arguments).await?;
    let row = renewals("a lease each, a minute", &mut servers, &fleet, arguments).await?;
    let per_client = 1e3 * fleet.clients.len() as f64;
    Ok(vec![Row { server_kilobytes: memory / per_client, client_kilobytes: resident / per_client, ..row }])
}

/// Measures the renewals of all leases of the clients.
pub(super) async fn renewals(
    name: &str,
    servers: &mut Servers,
    fleet: &Fleet,
    arguments: &Arguments,
) -> Result<Row, Problem> {
    let before = servers.read().await?;
    let peak = peak_of_calls(servers, arguments.watch).await?;
    let usage = Usage::between(&before, &servers.read().await?);
    let lost = fleet.lost();
    let row = Row::new(name, fleet.clients.len(), (fleet.leases() - lost, 0));
    let row = row.with_usage(&usage, in_a_minute(arguments.watch));
    Ok(Row { lost: Some(lost), peak, ..row })
}

/// Returns the largest rate of calls at the first node in a [`SLOT`], divided by the mean rate.
async fn peak_of_calls(servers: &mut Servers, lasts: Duration) -> Result<f64, Problem> {
    let begin = Instant::now();
    let first = servers.calls_at_first().await?;
    let (mut last, mut last_at, mut most) = (first, begin, 0.0_f64);
    while begin.elapsed() < lasts {
        sleep(SLOT).await;
        let (calls, at) = (servers.calls_at_first().await?, Instant::now());
        most = most.max((calls - last) / (at - last_at).as_secs_f64());
        (last, last_at) = (calls, at);
    }
    Ok(most / ((last - first) / (last_at - begin).as_secs_f64()))
}

/// Returns the factor from the figures of this time to the figures of a minute.
pub(super) fn in_a_minute(lasts: Duration) -> f64 {
    MINUTE.as_secs_f64() / lasts.as_secs_f64()
}
