//! The `INFO` and the settings of a server.

use std::collections::HashMap;

use redquorum::unstable_redis::redis::cmd;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{ConnectionSettings, Info, Persistence},
};

pub(super) async fn query(connection: &mut NodeConnection) -> Result<Reply<Info>, Disconnected> {
    let reply: Reply<String> = connection.query(&cmd("INFO")).await?;
    Ok(reply.map(|text| parse(&text)))
}

/// Parses the relevant fields of `INFO`. Missing fields become empty or zero.
fn parse(text: &str) -> Info {
    let fields: HashMap<&str, &str> =
        text.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
    let text = |name| fields.get(name).copied().unwrap_or_default().to_owned();
    let number = |name: &str| fields.get(name).and_then(|value| value.parse().ok()).unwrap_or(0);
    // Valkey also reports the Redis version that it is compatible with, and has another field for
    // the mode.
    let (kind, version) = match fields.get("valkey_version") {
        Some(version) => ("Valkey".to_owned(), (*version).to_owned()),
        None => ("Redis".to_owned(), text("redis_version")),
    };
    let mode = if fields.contains_key("server_mode") { "server_mode" } else { "redis_mode" };
    Info {
        kind,
        version,
        mode: text(mode),
        run_id: text("run_id"),
        replication_id: text("master_replid"),
        role: text("role"),
        replicas: number("connected_slaves"),
        // The field exists only if `min-replicas-to-write` and `min-replicas-max-lag` are both above
        // zero.
        requires_replicas: fields.contains_key("min_slaves_good_slaves"),
        max_connections: number("maxclients"),
        connections: number("connected_clients"),
        used_memory: number("used_memory"),
        machine_memory: number("total_system_memory"),
        max_memory: number("maxmemory"),
        eviction: text("maxmemory_policy"),
        appends: number("aof_enabled") == 1,
    }
}

pub(super) async fn persistence(connection: &mut NodeConnection) -> Result<Persistence, Disconnected> {
    Ok(Persistence {
        appendfsync: setting(connection, "appendfsync").await?,
        no_appendfsync_on_rewrite: setting(connection, "no-appendfsync-on-rewrite").await?,
        aof_load_truncated: setting(connection, "aof-load-truncated").await?,
    })
}

/// Returns the number of seconds without a message after which the server does not count a replica any more.
pub(super) async fn max_lag(connection: &mut NodeConnection) -> Result<Reply<String>, Disconnected> {
    setting(connection, "min-replicas-max-lag").await
}

pub(super) async fn connections(connection: &mut NodeConnection) -> Result<ConnectionSettings, Disconnected> {
    Ok(ConnectionSettings {
        backlog: setting(connection, "tcp-backlog").await?,
        idle_timeout: setting(connection, "timeout").await?,
    })
}

pub(super) async fn setting(
    connection: &mut NodeConnection,
    name: &str,
) -> Result<Reply<String>, Disconnected> {
    let reply: Reply<HashMap<String, String>> = connection.query(cmd("CONFIG").arg("GET").arg(name)).await?;
    Ok(reply.and_then(|mut values| values.remove(name).ok_or_else(|| format!("the server has no {name}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_info_of_redis_is_parsed() {
        let info = parse(
            "# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:abc\r\n\r\n# Memory\r\n\
             used_memory:1048576\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction\r\n# \
             Persistence\r\naof_enabled:1\r\n\
             # Replication\r\nrole:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:2\r\nslave0:ip=127.0.0.1,port=1\r\nmaster_replid:def\r\n\
             # Clients\r\nconnected_clients:7\r\nmaxclients:10000\r\n# Memory\r\ntotal_system_memory:2097152\r\n",
        );
        let expected = Info {
            kind: "Redis".to_owned(),
            version: "7.0.15".to_owned(),
            mode: "standalone".to_owned(),
            run_id: "abc".to_owned(),
            replication_id: "def".to_owned(),
            role: "master".to_owned(),
            replicas: 2,
            requires_replicas: true,
            max_connections: 10_000,
            connections: 7,
            used_memory: 1_048_576,
            machine_memory: 2_097_152,
            max_memory: 0,
            eviction: "noeviction".to_owned(),
            appends: true,
        };
        assert_eq!(info, expected);
    }

    #[test]
    fn the_info_of_valkey_has_its_own_version_and_mode() {
        let info = parse(
            "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nserver_mode:standalone\r\n",
        );
        assert_eq!((&*info.kind, &*info.version, &*info.mode), ("Valkey", "9.1.2", "standalone"));
    }
}
