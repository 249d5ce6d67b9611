//! Where a server is, in words.

use redis::{ConnectionAddr, RedisError};

/// The address of a server, the same for all ways of writing it, so that a server named twice is found out.
pub(super) fn canonical(address: &ConnectionAddr) -> String {
    match address {
        ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
            let host = host.trim_matches(['[', ']']).to_ascii_lowercase();
            if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
        }
        ConnectionAddr::Unix(path) => path.display().to_string(),
        other => other.to_string(),
    }
}

/// A url as it may be shown: whatever stands before the last `@` may be a secret.
pub(super) fn without_password(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(scheme, rest)| (scheme, rest));
    let shown = match rest.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => rest.to_owned(),
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
    }
}
