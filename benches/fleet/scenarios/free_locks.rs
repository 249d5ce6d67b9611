//! All clients lock several free resources at once, and then renew the leases.

use futures::future::join_all;

use super::steady::renewals;
use crate::{
    Arguments, Problem,
    fleet::{
        clients::{Fleet, at_once},
        gauge::Usage,
        row::Row,
        servers::Servers,
    },
};

/// The number of resources of each client.
const LOCKS_PER_CLIENT: usize = 10;

pub(super) async fn run(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let mut servers = Servers::start(arguments).await?;
    let mut fleet = Fleet::connect(&mut servers, arguments.clients()).await?;
    servers.begin(arguments).await?;
    let before = servers.read().await?;
    let calls = fleet.clients.clone().into_iter().enumerate().map(async |(number, client)| {
        let locks = (0..LOCKS_PER_CLIENT).map(|lock| client.red_lock(format!("own:{number}:{lock}")));
        join_all(locks.map(async |lock| lock.lock().await)).await
    });
    let calls = at_once(calls).await?;
    let usage = Usage::between(&before, &servers.read().await?);
    let guards: Vec<_> = calls.results.into_iter().flatten().filter_map(Result::ok).collect();
    let (clients, granted) = (arguments.clients(), guards.len());
    fleet.hold(guards);
    let row =
        Row::new("10 free locks each, at once", clients, (granted, clients * LOCKS_PER_CLIENT - granted));
    let acquired = Row {
        lost: Some(fleet.lost()),
        seconds: calls.seconds,
        grants_per_second: granted as f64 / calls.seconds,
        ..row.with_usage(&usage, 1.0).with_calls(&usage)
    };
    Ok(vec![acquired, renewals("their renewals, a minute", &mut servers, &fleet, arguments).await?])
}
