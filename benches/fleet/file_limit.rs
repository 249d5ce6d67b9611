//! The limit of open files of the machine (`ulimit -n`).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Problem;

/// The number of files that a client opens beside its connections: one, for the timer of the clock.
const FILES_PER_CLIENT: u64 = 1;

/// The number of files that the benchmark, or a server, opens beside the connections of clients.
const SPARE_FILES: u64 = 200;

/// Raises the limit of open files as far as this number of clients and nodes needs. The servers inherit the limit.
///
/// # Errors
///
/// If the system does not permit a sufficient limit. The message names the largest number of clients.
pub(crate) fn ensure(clients: u64, nodes: u64) -> Result<(), Problem> {
    let needed = needed(clients, nodes);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let permitted = limit.maximum.unwrap_or(u64::MAX);
    if setrlimit(Resource::Nofile, Rlimit { current: Some(needed.min(permitted)), ..limit }).is_ok()
        && permitted >= needed
    {
        return Ok(());
    }
    let most = permitted.saturating_sub(SPARE_FILES) / files_per_client(nodes);
    Err(format!(
        "{clients} clients of {nodes} nodes need {needed} open files, and this machine permits {permitted} \
         (`ulimit -Hn`): raise the limit, or measure at most {most} clients (`--clients {most}`)"
    )
    .into())
}

/// Returns the number of open files of the process that needs the most: the clients, or a server.
fn needed(clients: u64, nodes: u64) -> u64 {
    clients * files_per_client(nodes) + SPARE_FILES
}

/// Returns the number of files that one client needs in this process, or at a server. While a server has not detected
/// the end of a connection, the server has two connections of the client.
fn files_per_client(nodes: u64) -> u64 {
    (nodes + FILES_PER_CLIENT).max(2)
}
