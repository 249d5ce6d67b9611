//! The parser of the urls of nodes and master sets. An error shows only the part of a url that
//! [`address::without_password`] returns.

use std::net::IpAddr;

use redis::{Client, IntoConnectionInfo, parse_redis_url};

use super::{
    address, endpoint::Endpoint, handshake_error::ServerRole, hash_slot::HashSlot, login::Login,
    route::Destination, sentinel::MasterSet, tls::TlsSettings,
};
use crate::{error::ConfigError, node::names::HashTag};

/// The default port of Sentinels.
const SENTINEL_PORT: u16 = 26379;

/// The default port of the servers of a cluster.
const CLUSTER_PORT: u16 = 6379;

/// The default name of a hash tag.
const HASH_TAG: &str = "redquorum";

/// The largest length of the name of a hash tag. The name is part of all keys of the node, and nodes list no lock with a
/// name that is much longer than the longest resource.
const MAX_HASH_TAG: usize = 32;

/// The reason in the error of a master set without a name. The likely cause is a blank between Sentinels, which cuts
/// the url in two. The first part then has no name.
const NO_NAME: &str = "no name of a master set: a blank separates nodes, so write no blank between Sentinels";

/// The reason in the error of a port that no server can have.
const INVALID_PORT: &str = "its port is no number from 1 to 65535";

/// The hint in the error of a url with a `;`.
const SEPARATORS: &str = " (commas or blanks separate the urls of several nodes, `;` does not)";

/// The schemes of nodes that are one server.
const SCHEMES: [&str; 7] = ["redis", "rediss", "valkey", "valkeys", "unix", "redis+unix", "valkey+unix"];

/// The hint of every error, because an unescaped character of a password changes the meaning of the text after the
/// character.
const ESCAPES: &str = "write `/`, `?`, `#`, `%`, `@` and the blank of a user or a password as %2F, %3F, %23, %25, %40 and \
                       %20";

/// The hint after [`ESCAPES`] in the error of a url with several hosts, in which a comma separates the hosts.
const ESCAPES_IN_LISTS: &str = "and `,` as %2C";

/// The advice for a url in which a host other than the first has credentials, or a comma or an `@` of the credentials
/// is not escaped.
const CREDENTIALS_ONCE: &str =
    "write user and password once, before the first server, for all servers of the url";

/// The likely cause of a fault in the hosts of a url that has its `@` behind them.
const UNESCAPED: &str = "the url has a `/`, `?` or `#` before its `@`";

/// The fault of a host without a name.
const WITHOUT_HOST: &str = "a server without a host";

/// The advice for a url with a blank between hosts.
const NO_BLANK: &str = "write no blank after or before a comma";

/// Parses the url of a node or of a master set. `docs/REDIS.md` has all forms.
pub(super) fn parse(url: &str, tls_settings: &mut TlsSettings) -> Result<Destination, ConfigError> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "redis+sentinel" | "valkey+sentinel" => master_set(url, rest, false, tls_settings),
        "rediss+sentinel" | "valkeys+sentinel" => master_set(url, rest, true, tls_settings),
        "redis+cluster" | "valkey+cluster" => hash_slot(url, rest, false, tls_settings),
        "rediss+cluster" | "valkeys+cluster" => hash_slot(url, rest, true, tls_settings),
        _ => server(url, tls_settings),
    }
}

fn server(url: &str, tls_settings: &mut TlsSettings) -> Result<Destination, ConfigError> {
    // A `;` in a wrong url is likely to separate urls.
    let separators = if url.contains(';') { SEPARATORS } else { "" };
    let refused = |reason: String| ConfigError::Url {
        url: address::without_password(url).into(),
        reason: format!("{reason}{separators}: write a node's url like redis://10.0.0.1:6379, and {ESCAPES}")
            .into(),
    };
    let mut parsed = parse_redis_url(url).ok_or_else(|| refused(fault_of_text(url)))?;
    if !url.contains("://") {
        return Err(refused(fault_of_text(url)));
    }
    if parsed.port() == Some(0) {
        return Err(refused(INVALID_PORT.to_owned()));
    }
    let is_secured = matches!(parsed.scheme(), "rediss" | "valkeys");
    match parsed.fragment() {
        None => {}
        Some("insecure") if is_secured => {
            let why = "`#insecure` would trust any server that answers: give the CA of the server by \
                `ca_certificates`";
            return Err(refused(why.to_owned()));
        }
        Some(_) => return Err(refused("a `#` in it has to be written as %23".to_owned())),
    }
    let is_socket = parsed.scheme().ends_with("unix");
    let known: &[&str] = if is_socket { &["db", "user", "pass", "protocol"] } else { &["protocol"] };
    // The error does not quote the parameter, because a password that was not escaped may be part of it.
    if parsed.query_pairs().any(|(name, _)| !known.contains(&&*name)) {
        return Err(refused(format!("the only parameters after its `?` are: {}", known.join(", "))));
    }
    // The redis crate would quote another value in its error.
    let is_known_protocol = |value: &str| ["2", "3", "resp2", "resp3"].contains(&value);
    if parsed.query_pairs().any(|(name, value)| name == "protocol" && !is_known_protocol(&value)) {
        return Err(refused("`protocol` is none of 2, 3, resp2 and resp3".to_owned()));
    }
    if is_secured {
        // The redis crate gets a url without TLS, because its meaning of `rediss` depends on features that other crates
        // have switched on. The connector adds TLS.
        parsed.set_scheme("redis").map_err(|()| refused("it is no url of a server".to_owned()))?;
    }
    if !is_socket && parsed.host_str().is_none_or(str::is_empty) {
        return Err(refused("it has no host".to_owned()));
    }
    // The path is not quoted, because a password that was not escaped may be part of it.
    let database = parsed.path().trim_matches('/');
    if !is_socket && !database.is_empty() && database.parse::<i64>().is_err() {
        let rule = "the text after the host is no number of a database, as in redis://10.0.0.1:6379/1";
        return Err(refused(rule.to_owned()));
    }
    let client = Client::open(parsed).map_err(|error| refused(address::reason(&error)))?;
    let settings = client.get_connection_info().redis_settings();
    refuse_login(settings.username(), settings.password(), settings.db()).map_err(refused)?;
    let connector = is_secured.then(|| tls_settings.connector(url)).transpose()?;
    Ok(Destination::Server(Endpoint::of(&client, connector)))
}

/// Returns the fault of a text that is no url of a server. The fault quotes no part of the text.
fn fault_of_text(text: &str) -> String {
    let fault = match text.split_once("://") {
        // A list of urls is cut at each blank, so the text may be the second half of a url.
        None => {
            "no `scheme://` begins it (a blank separates nodes, so write no blank after or before a comma between the \
             servers of one cluster or the Sentinels of one node)"
        }
        // Such as redis-cluster, which other libraries use.
        Some((scheme, _)) if scheme.to_ascii_lowercase().contains("cluster") => {
            "the scheme of a Redis Cluster is redis+cluster or rediss+cluster: read first what a cluster as one node \
             promises, and what three small servers beside the cluster promise (docs/CLUSTER.md)"
        }
        Some((scheme, _)) if !SCHEMES.contains(&&*scheme.to_ascii_lowercase()) => {
            "its scheme is none of redis, rediss, unix, redis+sentinel and redis+cluster (or valkey, valkeys, redis+unix, \
             valkey+unix, rediss+sentinel, valkey+sentinel, valkeys+sentinel, rediss+cluster, valkey+cluster and \
             valkeys+cluster)"
        }
        Some((_, rest)) if has_invalid_port(rest) => INVALID_PORT,
        Some(_) => "it is no url of a server",
    };
    fault.to_owned()
}

/// Whether a url has a host with a port that is no number from 1 to 65535. `rest` is the text after `://`.
fn has_invalid_port(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let server = authority.rsplit_once('@').map_or(authority, |(_, server)| server);
    match server.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && !server.ends_with(']') => {
            !port.is_empty() && !port.parse::<u16>().is_ok_and(|port| port > 0)
        }
        _ => false,
    }
}

/// Parses `[user:password@]host[:port],...` `/name` `[?db=...&sentinel_user=...&sentinel_pass=...&sentinel_tls=...]`.
/// `is_secured`: the scheme requires TLS for the master, and for the Sentinels unless `sentinel_tls` is given.
fn master_set(
    url: &str,
    rest: &str,
    is_secured: bool,
    tls_settings: &mut TlsSettings,
) -> Result<Destination, ConfigError> {
    let refused = |reason: String| ConfigError::Url {
        url: address::without_password(url).into(),
        reason: format!(
            "{reason}: write the url of a node behind Sentinels like \
             redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster, and {ESCAPES}, {ESCAPES_IN_LISTS}"
        )
        .into(),
    };
    let (authority, tail) = rest.split_once('/').ok_or_else(|| refused(NO_NAME.to_owned()))?;
    let (addresses, common) = hosts_in(authority, tail, "Sentinel", SENTINEL_PORT).map_err(refused)?;
    let mut common = parse_redis_url(&common).ok_or_else(|| refused("it is no url".to_owned()))?;
    let name = common.path().trim_matches('/').to_owned();
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)) {
        let rule = "the name of a master set has letters, digits, '-', '_' and '.' alone";
        return Err(refused(rule.to_owned()));
    }
    let (mut database, mut user, mut password) = (0, None, None);
    let mut are_sentinels_secured = is_secured;
    for (key, value) in common.query_pairs() {
        match &*key {
            "db" => {
                let number = value.parse().map_err(|_| refused("the database is no number".to_owned()))?;
                database = number;
            }
            "sentinel_user" => user = Some(value.into_owned()),
            "sentinel_pass" => password = Some(value.into_owned()),
            "sentinel_tls" => {
                are_sentinels_secured = match &*value {
                    "yes" => true,
                    "no" => false,
                    _ => return Err(refused("sentinel_tls is neither yes nor no".to_owned())),
                }
            }
            _ => {
                let known =
                    "the only parameters after its `?` are: db, sentinel_user, sentinel_pass, sentinel_tls";
                return Err(refused(known.to_owned()));
            }
        }
    }
    common.set_query(None);
    common.set_path("");
    let info = common.into_connection_info().map_err(|error| refused(address::reason(&error)))?;
    let settings = info.redis_settings();
    refuse_login(settings.username(), settings.password(), database).map_err(refused)?;
    refuse_login(user.as_deref(), password.as_deref(), 0)
        .map_err(|why| refused(format!("Sentinels: {why}")))?;
    let mut sentinel_credentials = redis::RedisConnectionInfo::default();
    if let Some(password) = password {
        sentinel_credentials = sentinel_credentials.set_password(password);
    }
    if let Some(user) = user {
        sentinel_credentials = sentinel_credentials.set_username(user);
    }
    let mut connector = |is_secured: bool| is_secured.then(|| tls_settings.connector(url)).transpose();
    let (master_connector, sentinel_connector) = (connector(is_secured)?, connector(are_sentinels_secured)?);
    let sentinel_login = Login::new(&sentinel_credentials, 0);
    let sentinels = addresses
        .iter()
        .map(|(host, port)| Endpoint::tcp(host, *port, sentinel_connector.clone(), sentinel_login.clone()))
        .map(|endpoint| endpoint.with_role(ServerRole::Sentinel))
        .collect();
    Ok(Destination::MasterSet(MasterSet::new(
        name,
        sentinels,
        Login::new(settings, database),
        master_connector,
    )))
}

/// Parses `[user:password@]host[:port],...` `[/name]`. `is_secured`: the scheme requires TLS.
fn hash_slot(
    url: &str,
    rest: &str,
    is_secured: bool,
    tls_settings: &mut TlsSettings,
) -> Result<Destination, ConfigError> {
    let refused = |reason: String| ConfigError::Url {
        url: address::without_password(url).into(),
        reason: format!(
            "{reason}: write the url of a Redis Cluster like redis+cluster://10.0.0.1:6379,10.0.0.2:6379 or \
             redis+cluster://10.0.0.1:6379,10.0.0.2:6379/name, and {ESCAPES}, {ESCAPES_IN_LISTS}"
        )
        .into(),
    };
    // The parameters after a `?` belong to the tail, which has the name.
    let (authority, tail) = match rest.find(['/', '?', '#']) {
        Some(end) => (&rest[..end], rest[end..].trim_start_matches('/')),
        None => (rest, ""),
    };
    let (addresses, common) = hosts_in(authority, tail, "server", CLUSTER_PORT).map_err(refused)?;
    let mut common = parse_redis_url(&common).ok_or_else(|| refused("it is no url".to_owned()))?;
    if common.query_pairs().any(|(name, _)| name == "db") {
        return Err(refused("a Redis Cluster has database 0 alone, so `db` cannot be given".to_owned()));
    }
    if common.query().is_some() {
        return Err(refused("there are no parameters after its `?`".to_owned()));
    }
    // The name is taken from the text, because the parser of urls removes names such as `.` and `..`. The name is not
    // quoted, because a password that was not escaped may be part of it.
    let name = match tail.split(['?', '#']).next().unwrap_or_default().trim_matches('/') {
        "" => HASH_TAG,
        name => name,
    };
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        let why =
            "a Redis Cluster has database 0 alone, and a name of digits alone would look like a database";
        return Err(refused(why.to_owned()));
    }
    if name.len() > MAX_HASH_TAG
        || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        || name.bytes().all(|byte| byte == b'.')
    {
        let rule = format!(
            "the name after the hosts, which is the hash tag of all keys, has at most {MAX_HASH_TAG} letters, digits, \
             '-', '_' and '.' alone, and a name of dots alone stands for a directory"
        );
        return Err(refused(rule));
    }
    let tag = HashTag::new(name);
    common.set_path("");
    let info = common.into_connection_info().map_err(|error| refused(address::reason(&error)))?;
    let settings = info.redis_settings();
    refuse_login(settings.username(), settings.password(), 0).map_err(refused)?;
    let connector = is_secured.then(|| tls_settings.connector(url)).transpose()?;
    Ok(Destination::HashSlot(HashSlot::new(tag, &addresses, Login::new(settings, 0), connector)))
}

/// Returns the hosts and ports in `[user:password@]host[:port],...`, and the text of a url of one of these hosts. This
/// url also has the parts that all hosts have in common. `role` is the role of a host, for errors.
fn hosts_in(
    authority: &str,
    tail: &str,
    role: &str,
    default_port: u16,
) -> Result<(Vec<(String, u16)>, String), String> {
    let (credentials, hosts) = match authority.split_once('@') {
        Some((credentials, hosts)) => (Some(credentials), hosts),
        None => (None, authority),
    };
    if hosts.contains('@') {
        return Err(format!("there are two `@`: {CREDENTIALS_ONCE}"));
    }
    if credentials.is_some_and(|credentials| credentials.contains(',')) {
        return Err(format!("there is a `,` before the `@`: {CREDENTIALS_ONCE}"));
    }
    let prefix = credentials.map(|credentials| format!("{credentials}@")).unwrap_or_default();
    // Each host is parsed as a url of one host. These urls differ in the host alone, so the last one also has the parts
    // that all have in common.
    let mut addresses = Vec::new();
    let mut last = None;
    let count = hosts.split(',').count();
    for (number, host) in (1..).zip(hosts.split(',')) {
        // Without credentials, the first host and its port may be the user and the beginning of a password, of a url that
        // was cut at a blank.
        let is_clear = credentials.is_some() || number > 1;
        let refused = |fault: &str| {
            if tail.contains('@') {
                return format!("{role} {number} of {count}: it cannot be read as host:port ({UNESCAPED})");
            }
            let shown = address::clear_server(host).filter(|_| is_clear);
            let shown = shown.map(|text| format!(" ({text})")).unwrap_or_default();
            format!("{role} {number} of {count}{shown}: {fault}")
        };
        if let Some(fault) = fault_of_host(host) {
            return Err(refused(&fault));
        }
        let url = format!("redis://{prefix}{host}/{tail}");
        let parsed = parse_redis_url(&url).ok_or_else(|| refused("it cannot be read as host:port"))?;
        let name = parsed.host_str().filter(|host| !host.is_empty());
        let name = name.ok_or_else(|| refused(WITHOUT_HOST))?;
        if parsed.fragment().is_some() {
            return Err("a `#` in it has to be written as %23".to_owned());
        }
        addresses.push((name.to_owned(), parsed.port().unwrap_or(default_port)));
        last = Some(url);
    }
    Ok((addresses, last.ok_or_else(|| format!("no {role}"))?))
}

/// Returns the fault of a text that is not of the form `host[:port]`.
fn fault_of_host(text: &str) -> Option<String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    if text.contains(|character: char| character.is_whitespace()) {
        return Some(format!("there is a blank: {NO_BLANK}"));
    }
    if host.is_empty() {
        return Some(WITHOUT_HOST.to_owned());
    }
    if host.contains(':') && !host.starts_with('[') {
        return Some("an IPv6 address is in brackets, such as [2001:db8::2]:7001".to_owned());
    }
    if port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().unwrap_or(0) == 0) {
        return Some("a port is a number from 1 to 65535".to_owned());
    }
    let is_wildcard = |address: IpAddr| address.is_unspecified();
    if address::plain_host(host).parse().is_ok_and(is_wildcard) {
        return Some("a client cannot connect to a wildcard address (0.0.0.0 or ::)".to_owned());
    }
    None
}

/// Refuses a login that the redis crate would ignore in part, or that a server would refuse at every connection.
fn refuse_login(user: Option<&str>, password: Option<&str>, database: i64) -> Result<(), String> {
    if user.is_some() && password.is_none() {
        return Err("the url has a user but no password, so the user would be ignored; add the password (any text for a \
             `nopass` user)"
            .to_owned());
    }
    if database < 0 {
        return Err(format!("database {database}: expected 0 or more"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
