//! Addresses of servers as text: the canonical address of a node, and the part of a url that errors show. No function
//! here may return a part of a password.

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

/// Returns the canonical address of a host and a port.
pub(super) fn of_host(host: &str, port: u16) -> String {
    let host = plain_host(host).to_ascii_lowercase();
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns the host in the form of resolvers and certificates, in which an IPv6 address has no brackets.
pub(super) fn plain_host(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

/// The text in place of a part that may be secret.
const HIDDEN: &str = "***";

/// The schemes that an error shows. Any other text before `://` may be part of a password.
const SHOWN_SCHEMES: [&str; 18] = [
    "redis",
    "rediss",
    "valkey",
    "valkeys",
    "redis+sentinel",
    "rediss+sentinel",
    "valkey+sentinel",
    "valkeys+sentinel",
    "redis+cluster",
    "rediss+cluster",
    "valkey+cluster",
    "valkeys+cluster",
    "unix",
    "redis+unix",
    "valkey+unix",
    "http",
    "https",
    "tcp",
];

/// Returns the part of a url that an error may show: the scheme, and the hosts.
///
/// A part is shown only if the part is certainly a scheme or a host. It would not be safe to hide only what looks like
/// a password: a password may have any characters, and the text may be half of a url that was cut at a blank in its
/// password.
pub(crate) fn without_password(url: &str) -> String {
    if url.is_empty() {
        return String::new();
    }
    let Some((scheme, rest)) = url.split_once("://") else { return HIDDEN.to_owned() };
    let scheme = scheme.to_ascii_lowercase();
    if !SHOWN_SCHEMES.contains(&&*scheme) {
        return HIDDEN.to_owned();
    }
    format!("{scheme}://{}", clear_hosts(rest).unwrap_or_else(|| HIDDEN.to_owned()))
}

/// Returns the hosts in `rest`, the text after the `://` of a url; `None` if they may be part of a password.
fn clear_hosts(rest: &str) -> Option<String> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (credentials, hosts) = match authority.split_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    if tail.contains('@') || (credentials.is_some() && tail.contains(['?', '#'])) {
        return None;
    }
    let hosts: Option<Vec<&str>> = hosts.split(',').map(host_without_port).collect();
    hosts.map(|hosts| hosts.join(","))
}

/// Returns a text of the form `host[:port]`, with any number as the port, for an error about the text; `None` if an error may not show
/// the text. The caller knows that the text is no part of the credentials.
pub(super) fn clear_server(text: &str) -> Option<&str> {
    /// The longest name of a host, and a port.
    const MAX_LENGTH: usize = 260;
    let is_shown = |character: char| character.is_ascii_alphanumeric() || "-_.:[]".contains(character);
    let has_host = !text.is_empty() && !text.starts_with(':');
    // A port of other characters may be a part of a password.
    let port = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
    let is_port = port.is_none_or(|(_, port)| port.chars().all(|character| character.is_ascii_digit()));
    (has_host && is_port && text.len() <= MAX_LENGTH && text.chars().all(is_shown)).then_some(text)
}

/// Returns the host of a text of the form `host[:port]`; `None` if the text is not of this form.
fn host_without_port(text: &str) -> Option<&str> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    let is_of_ipv6 = |character: char| character.is_ascii_hexdigit() || ":.".contains(character);
    let is_host = match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => inner.chars().all(is_of_ipv6),
        None => !host.is_empty() && host.chars().all(is_of_name),
    };
    (is_host && port.is_none_or(|port| port.parse::<u16>().is_ok())).then_some(host)
}

/// Returns the text in which the redis crate describes the fault of a url. This text does not quote the url.
pub(super) fn reason(error: &RedisError) -> String {
    let text = error.to_string();
    // Without a detail, the text ends with the name of a kind in the API of the redis crate.
    let without_kind = || text.trim_end_matches("- InvalidClientConfig").trim_end();
    error.detail().unwrap_or_else(without_kind).to_owned()
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
    fn a_url_is_shown_by_its_scheme_and_hosts() {
        for (url, shown) in [
            ("redis://host", "redis://host"),
            ("REDISS://me:secret@Host:7000/3", "rediss://Host"),
            ("redis://[::1]:7000/x", "redis://[::1]"),
            ("redis://host/?protocol=2", "redis://host"),
            ("redis+sentinel://me:secret@b:1,c/set", "redis+sentinel://b,c"),
            ("redis+cluster://me:secret@b:1,c/name", "redis+cluster://b,c"),
            ("http://host:80", "http://host"),
        ] {
            assert_eq!(without_password(url), shown, "{url}");
        }
    }

    /// A password may have any characters, and a blank in a password cuts a url in two.
    #[test]
    fn a_text_without_a_clear_host_is_shown_by_its_scheme_alone() {
        for (url, shown) in [
            ("redis://:secret", "redis://***"),
            ("redis://:12345", "redis://***"),
            ("redis://", "redis://***"),
            ("redis://:sec@ret:x", "redis://***"),
            ("redis://me:se@cret@host:1/x", "redis://***"),
            ("redis://:se/cret@host", "redis://***"),
            ("redis://:se?cret@host", "redis://***"),
            ("redis://me:secret@host?x=y", "redis://***"),
            ("redis://:secret@host#y", "redis://***"),
            ("redis+sentinel://a,secret%20/m", "redis+sentinel://***"),
            ("unix:///run/redis.sock?pass=secret", "unix://***"),
            ("secret://host", "***"),
            ("cret@host", "***"),
            ("host:6380,password=secret=,ssl=True", "***"),
            ("secret", "***"),
            ("", ""),
        ] {
            assert_eq!(without_password(url), shown, "{url}");
        }
    }
}
