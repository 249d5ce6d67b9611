//! The findings about a server that has to have room for a number of clients. The user gives the number, because a
//! server cannot predict its clients.

use crate::{
    connect::Reply,
    doctor::{
        facts::{ConnectionSettings, Info},
        finding::Finding,
        refusal::remedy,
    },
};

/// The connections of a client that a server may have at a time. If a network breaks, the client dials again, while the
/// server keeps the old connection until `tcp-keepalive` ends it.
const CONNECTIONS_PER_CLIENT: u64 = 2;

/// The connections of administrators, monitors and the command `redquorum`.
const SPARE_CONNECTIONS: u64 = 100;

/// The memory of a server for one client in bytes: a connection with its buffers, a lease, and a place in a wait queue.
/// `benches/fleet` measures each of them.
const MEMORY_PER_CLIENT: u64 = 64 << 10;

/// The percentage of the memory from which on the memory is nearly full.
const NEARLY_FULL: u64 = 90;

/// Judges whether a server has room for this number of clients. `info` is `None` if the server refused `INFO`.
pub(super) fn judge(clients: u64, info: Option<&Info>, settings: &ConnectionSettings) -> [Finding; 4] {
    [
        connections(clients, info.map_or(0, |info| info.max_connections)),
        backlog(clients, &settings.backlog),
        idle_timeout(clients, &settings.idle_timeout),
        capacity(clients, info),
    ]
}

fn connections(clients: u64, max_connections: u64) -> Finding {
    const CHECK: &str = "connections";
    let wanted = clients.saturating_mul(CONNECTIONS_PER_CLIENT).saturating_add(SPARE_CONNECTIONS);
    let found = format!("maxclients {max_connections}, for {clients} clients");
    let advice = format!(
        "CONFIG SET maxclients {wanted}, and set the same in the server's configuration file: after a broken network, \
         a server has the old and the new connection of each client; the server also needs a limit of as many open \
         files (`ulimit -n`, LimitNOFILE)"
    );
    match max_connections {
        0 => Finding::unknown(
            CHECK,
            "INFO has no maxclients",
            format!("make sure that maxclients is {wanted}"),
        ),
        max if max < clients.saturating_add(SPARE_CONNECTIONS) => Finding::fail(CHECK, found, advice),
        max if max < wanted => Finding::warn(CHECK, found, advice),
        _ => Finding::ok(CHECK, found),
    }
}

fn backlog(clients: u64, backlog: &Reply<String>) -> Finding {
    const CHECK: &str = "backlog";
    let wanted = format!(
        "tcp-backlog {clients} in the server's configuration file (which needs a restart), and \
         net.core.somaxconn {clients} on its machine, which no server reports"
    );
    match parsed(backlog) {
        Err(text) => Finding::unknown(CHECK, &text, unseen(&text, &wanted)),
        Ok(backlog) if backlog < clients => Finding::warn(
            CHECK,
            format!(
                "tcp-backlog {backlog}, for {clients} clients: if all dial at once, dials are dropped, and repeated \
                 after a second"
            ),
            format!("set {wanted}"),
        ),
        Ok(backlog) => Finding::ok(
            CHECK,
            format!("tcp-backlog {backlog}, if net.core.somaxconn of the machine is not smaller"),
        ),
    }
}

fn idle_timeout(clients: u64, timeout: &Reply<String>) -> Finding {
    const CHECK: &str = "timeout";
    match parsed(timeout) {
        Err(text) => Finding::unknown(CHECK, &text, unseen(&text, "timeout 0")),
        Ok(0) => Finding::ok(CHECK, "timeout 0: idle connections stay open"),
        Ok(seconds) => Finding::warn(
            CHECK,
            format!(
                "timeout {seconds}: the server closes connections that are idle for {seconds} s, and {clients} \
                 clients dial again"
            ),
            "CONFIG SET timeout 0, and set the same in the server's configuration file: tcp-keepalive ends the \
             connections of dead clients",
        ),
    }
}

/// Judges the memory for the clients that are not connected yet. The limit is `maxmemory`, or the memory of the
/// machine.
fn capacity(clients: u64, info: Option<&Info>) -> Finding {
    const CHECK: &str = "capacity";
    let advice = "raise maxmemory, or give the machine more memory: a full node grants no locks";
    let limit = info.map(|info| match info.max_memory {
        0 => (info, info.machine_memory, "the machine"),
        max => (info, max, "maxmemory"),
    });
    let Some((info, limit, name)) = limit.filter(|(_, limit, _)| *limit > 0) else {
        return Finding::unknown(CHECK, "INFO has no memory of the machine", advice);
    };
    let new_clients = clients.saturating_sub(info.connections);
    let needed = new_clients.saturating_mul(MEMORY_PER_CLIENT).saturating_add(info.used_memory);
    let percentage = needed.saturating_mul(100) / limit;
    let found = format!(
        "up to {} MiB with {clients} clients, {percentage} % of {} MiB ({name})",
        needed.div_ceil(1 << 20),
        limit >> 20
    );
    match percentage {
        100.. => Finding::fail(CHECK, found, advice),
        NEARLY_FULL.. => Finding::warn(CHECK, found, advice),
        _ => Finding::ok(CHECK, found),
    }
}

/// Returns the number, or the error text of the server.
fn parsed(reply: &Reply<String>) -> Reply<u64> {
    let text = reply.as_ref().map_err(Clone::clone)?;
    text.parse().map_err(|_| format!("the server reports {text:?}"))
}

/// Returns the remedy for a setting that the user cannot read.
fn unseen(text: &str, wanted: &str) -> String {
    format!("{}, or make sure of {wanted}", remedy(text, "config|get", ""))
}
