//! All clients shut down at once. Each client holds a lease.

use crate::{
    Arguments, Problem,
    fleet::{
        clients::{Fleet, at_once},
        gauge::Usage,
        row::Row,
        servers::Servers,
    },
};

pub(super) async fn run(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let fleet = Fleet::with_leases(&mut servers, arguments).await?;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    let shutdowns =
        fleet.clients.clone().into_iter().map(async |client| client.shutdown().await.is_complete());
    let shutdowns = at_once(shutdowns).await?;
    let usage = Usage::between(&before, &servers.read().await?);
    let clients = arguments.clients();
    let complete = shutdowns.results.into_iter().filter(|is_complete| *is_complete).count();
    let row = Row::new("shutdown at once", clients, (complete, clients - complete));
    Ok(vec![Row { seconds: shutdowns.seconds, ..row.with_usage(&usage, 1.0).with_calls(&usage) }])
}
