//! Where a server is, in words.

use redis::{ConnectionAddr, RedisError};

/// The address of a server, the same for all ways of writing it, so that a server named twice is
/// found out.
pub(super) fn canonical(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => of_host(host, *port),
        ConnectionAddr::Unix(path) => path.display().to_string(),
        other => other.to_string(),
    }
}

pub(super) fn of_host(host: &str, port: u16) -> String {
    let host = plain_host(host).to_ascii_lowercase();
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The host as resolvers and certificates name it: without the brackets of an IPv6 address.
pub(super) fn plain_host(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// A url as it may be shown: whatever stands before the last `@`, or behind a `?`, may be a secret.
pub(crate) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => rest.to_owned(),
    };
    let shown = match shown.split_once('?') {
        Some((before, _)) => format!("{before}?***"),
        None => shown,
    };
    if scheme.is_empty() { shown } else { format!("{scheme}://{shown}") }
}

/// What the redis crate has against a url, which it says without quoting it.
pub(super) fn reason(error: &RedisError) -> String {
    error.detail().map_or_else(|| error.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn one_server_has_one_address_however_it_is_written() {
        let address = |url: &str| canonical(url.into_connection_info().unwrap().addr());
        assert_eq!(address("redis://Node-1"), "node-1:6379");
        assert_eq!(address("redis://:secret@node-1:6379/3"), "node-1:6379");
        assert_eq!(address("redis://[::1]:7000"), "[::1]:7000");
        assert_eq!(address("unix:///run/redis.sock?db=2"), "/run/redis.sock");
    }

    #[test]
    fn a_password_is_not_shown() {
        assert_eq!(without_password("redis://me:se@cret@host:1/x"), "redis://***@host:1/x");
        assert_eq!(without_password("redis://host"), "redis://host");
        assert_eq!(without_password("me:secret@host"), "***@host");
        assert_eq!(without_password("unix:///run/redis.sock?pass=secret"), "unix:///run/redis.sock?***");
        assert_eq!(without_password("redis://a:b@h/m?sentinel_pass=c@d"), "redis://***@d");
    }
}
