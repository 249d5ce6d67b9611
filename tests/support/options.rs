//! The configuration of servers.

/// The configuration of one server. The server gets the configuration on its command line.
///
/// By default a server stores nothing on disk, so it restarts empty after a crash, like a Redis without
/// persistence.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    config: Vec<(String, String)>,
    password: Option<String>,
    is_persistent: bool,
    is_redis_cluster: bool,
}

impl ServerOptions {
    /// Returns options of a server with each acknowledged write on disk (`appendfsync always`).
    pub fn persistent() -> Self {
        let options = Self { is_persistent: true, ..Self::default() };
        options.config("appendonly", "yes").config("appendfsync", "always")
    }

    /// Adds one line of redis.conf. A later line of the same name replaces an earlier line.
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.config.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Demands a password of clients. The URLs of the fixture contain the password.
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self.config("requirepass", password)
    }

    /// Declares that data survives a crash. A caller uses this if its own config lines (such as `save 1 1`) make
    /// the server persistent.
    pub fn keeping_data(mut self) -> Self {
        self.is_persistent = true;
        self
    }

    /// Makes the server a Redis Cluster of one server. Such a cluster accepts commands two seconds after the start of the
    /// server, which no setting shortens. With a short node timeout, there is no longer delay.
    pub(super) fn into_redis_cluster(self) -> Self {
        let options = Self { is_redis_cluster: true, ..self };
        options.config("cluster-enabled", "yes").config("cluster-node-timeout", "500")
    }

    /// Whether the server listens at a bus port, for other servers of a Redis Cluster.
    pub(super) fn has_bus_port(&self) -> bool {
        self.config.iter().any(|(name, value)| name == "cluster-enabled" && value == "yes")
    }

    pub(super) fn is_redis_cluster(&self) -> bool {
        self.is_redis_cluster
    }

    pub(super) fn is_persistent(&self) -> bool {
        self.is_persistent
    }

    /// Returns the command line for a server on `port`, without the name of the program.
    pub(super) fn arguments(&self, port: u16) -> Vec<String> {
        let fixed = [("port", port.to_string()), ("bind", "127.0.0.1".to_owned()), ("save", String::new())];
        let chosen = self.config.iter().map(|(name, value)| (name.as_str(), value.clone()));
        fixed.into_iter().chain(chosen).flat_map(|(name, value)| argument(name, &value)).collect()
    }

    /// Returns the URL by which a server with these options on `port` is a node.
    pub(super) fn url(&self, port: u16) -> String {
        self.url_with_scheme(if self.is_redis_cluster { "redis+cluster" } else { "redis" }, port)
    }

    /// Returns the URL by which a client of the redis crate connects to the server.
    pub(super) fn plain_url(&self, port: u16) -> String {
        self.url_with_scheme("redis", port)
    }

    fn url_with_scheme(&self, scheme: &str, port: u16) -> String {
        match &self.password {
            Some(password) => format!("{scheme}://:{password}@127.0.0.1:{port}"),
            None => format!("{scheme}://127.0.0.1:{port}"),
        }
    }
}

/// Returns the arguments for one config line: the name, and each word of the value. An empty value and the word `""`
/// become an empty argument.
fn argument(name: &str, value: &str) -> Vec<String> {
    let words = if value.is_empty() { vec![value] } else { value.split_whitespace().collect() };
    let words = words.into_iter().map(|word| if word == "\"\"" { "" } else { word });
    let name = std::iter::once(format!("--{name}"));
    name.chain(words.map(str::to_owned)).collect()
}
