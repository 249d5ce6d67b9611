//! All clients connect at once.

use redquorum::Quorum;
use rslock::LockManager;

use crate::{
    Arguments, Problem,
    fleet::{
        clients::{at_once, resident_memory},
        gauge::Usage,
        row::Row,
        servers::Servers,
    },
};

pub(super) async fn ours(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let servers = Servers::start(arguments).await?;
    let builder = match arguments.connect_timeout {
        Some(timeout) => servers.builder().connect_timeout(timeout),
        None => servers.builder(),
    };
    let connect = |_| {
        let builder = builder.clone();
        async move { Ok::<Quorum, Problem>(builder.connect().await?) }
    };
    run("start at once", servers, arguments, connect).await
}

/// A client of rslock connects at its first use. Therefore each client locks and unlocks a resource of its own.
pub(super) async fn rslock(arguments: &Arguments) -> Result<Vec<Row>, Problem> {
    let servers = Servers::start(arguments).await?;
    let managers: Vec<LockManager> = (0..arguments.clients()).map(|_| servers.rival()).collect();
    let ttl = arguments.ttl;
    let connect = |number: usize| {
        let manager = managers.get(number).cloned();
        async move {
            let manager = manager.ok_or("there is no such client")?;
            let resource = format!("own:{number}");
            let lock = manager.lock(&*resource, ttl).await?;
            manager.unlock(&lock).await;
            Ok::<LockManager, Problem>(manager)
        }
    };
    run("start at once, rslock", servers, arguments, connect).await
}

async fn run<T, F>(
    name: &str,
    mut servers: Servers,
    arguments: &Arguments,
    connect: impl Fn(usize) -> F,
) -> Result<Vec<Row>, Problem>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Problem>> + Send + 'static,
{
    let clients = arguments.clients();
    let before = servers.read().await?;
    let resident = resident_memory();
    servers.begin(arguments).await?;
    let connects = at_once((0..clients).map(connect)).await?;
    let after = servers.read().await?;
    let connected: Vec<T> = connects.results.into_iter().filter_map(Result::ok).collect();
    let usage = Usage::between(&before, &after);
    let row = Row::new(name, clients, (connected.len(), clients - connected.len()));
    Ok(vec![Row {
        seconds: connects.seconds,
        server_kilobytes: usage.memory / connected.len() as f64 / 1e3,
        client_kilobytes: (resident_memory() - resident) / connected.len() as f64 / 1e3,
        ..row.with_usage(&usage, 1.0).with_calls(&usage)
    }])
}
