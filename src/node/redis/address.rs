//! The addresses of servers as text.

use redis::{ConnectionAddr, RedisError};

/// Returns the address of a server. All spellings of an address give the same text, so that a server with two urls is
/// detected.
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

/// Returns the host as resolvers and certificates write it: an IPv6 address without its brackets.
pub(super) fn plain_host(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// Returns a url as it may be shown. The text before the last `@`, and the text after a `?`, may be secret.
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

/// Returns the fault of a url, in the words of the redis crate, which do not quote the url.
pub(super) fn reason(error: &RedisError) -> String {
    error.detail().map_or_else(|| error.to_string(), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo;

    use super::*;

    #[test]
    fn all_urls_of_a_server_have_one_canonical_address() {
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
