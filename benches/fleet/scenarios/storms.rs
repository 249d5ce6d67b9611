//! Faults after which all clients dial at once. Each client holds a renewed lease.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{
    Arguments, Problem,
    fleet::{clients::Fleet, gauge::Usage, row::Row, servers::Servers},
};

/// The time for which the first node does not run.
const FROZEN: Duration = Duration::from_secs(10);

pub(super) async fn closed(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    storm("connections closed at a node", arguments, Servers::close_connections).await
}

pub(super) async fn restarted(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    storm("a node restarted empty", arguments, async |servers| servers.restart_empty(0..1).await).await
}

pub(super) async fn all_restarted(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let nodes = 0..arguments.nodes as usize;
    storm("all nodes restarted empty", arguments, async |servers| servers.restart_empty(nodes).await).await
}

pub(super) async fn frozen(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    storm("a node frozen for 10 s", arguments, async |servers| servers.freeze(FROZEN).await).await
}

/// Causes a fault, and measures until all clients are connected again. Leases are counted as lost after a ttl, because
/// a lease that is not renewed any more ends only then.
async fn storm(
    name: &str,
    arguments: &Arguments,
    fault: impl AsyncFnOnce(&mut Servers) -> Result<(), Problem>,
) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let fleet = Fleet::with_leases(&mut servers, arguments).await?;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    let begin = Instant::now();
    fault(&mut servers).await?;
    let clients = arguments.clients();
    let recovery = servers.recovery(clients, begin).await;
    let usage = Usage::between(&before, &servers.read().await?);
    sleep_until(begin + arguments.ttl).await;
    let row = Row::new(name, clients, (clients - recovery.missing, recovery.missing));
    Ok(vec![Row { lost: Some(fleet.lost()), seconds: recovery.seconds, ..row.with_usage(&usage, 1.0) }])
}
