//! A node behind Sentinels. The server of the node is the present master of a set, and each dial queries the Sentinels
//! for that master.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use redis::Value;

use super::{
    endpoint::Endpoint,
    handshake_error::ServerRole,
    login::{CredentialsProvider, Login},
    lookup::Lookups,
    raw_connection::RawConnection,
    tls::Connector,
};
use crate::{
    node::dial::{DialLimit, DialStep},
    values::NodeError,
};

/// A master and its replicas, which Sentinels watch under a common name.
#[derive(Debug)]
pub(super) struct MasterSet {
    name: String,
    sentinels: Vec<Endpoint>,
    login: Login,
    connector: Option<Connector>,
    /// The lookups of host names of masters, which the endpoints of all dials share.
    lookups: Lookups,
    /// The number of failures. Modulo the number of Sentinels, this number is the index of the Sentinel that a dial
    /// queries first, so the dial after a failure begins with another Sentinel.
    first: AtomicUsize,
}

/// The master that a Sentinel names.
#[derive(Debug)]
pub(super) struct NamedMaster {
    pub(super) endpoint: Endpoint,
    /// The address of the Sentinel.
    sentinel: String,
}

impl NamedMaster {
    /// Adds the address of the master to an error. The url has only the addresses of the Sentinels, and the Sentinels
    /// may name an address that this client cannot reach.
    pub(super) fn explain(&self, error: NodeError) -> NodeError {
        let explained = |why: &str| {
            let (master, sentinel) = (self.endpoint.address(), &self.sentinel);
            format!("the master {master}, which the Sentinel {sentinel} names: {why}").into()
        };
        match error {
            NodeError::Unreachable(why) => NodeError::Unreachable(explained(&why)),
            NodeError::NotExecuted(why) => NodeError::NotExecuted(explained(&why)),
            NodeError::DialTimedOut(why) => NodeError::DialTimedOut(explained(&why)),
            NodeError::NoAuth(why) => NodeError::NoAuth(explained(&why)),
            NodeError::NoPermission(why) => NodeError::NoPermission(explained(&why)),
            NodeError::Tls(why) => NodeError::Tls(explained(&why)),
            NodeError::Protocol(why) => NodeError::Protocol(explained(&why)),
            NodeError::Server(why) => NodeError::Server(explained(&why)),
            NodeError::TimedOut => NodeError::Unreachable(explained(&error.to_string())),
            NodeError::Disconnected => NodeError::NotExecuted(explained(&error.to_string())),
            other => other,
        }
    }
}

impl MasterSet {
    pub(super) fn new(
        name: String,
        sentinels: Vec<Endpoint>,
        login: Login,
        connector: Option<Connector>,
    ) -> Self {
        let (lookups, first) = (Lookups::default(), AtomicUsize::new(0));
        Self { name, sentinels, login, connector, lookups, first }
    }

    /// Returns the same set with the credentials of providers: for the master, and for the Sentinels.
    pub(super) fn with_providers(
        self,
        master: Option<&CredentialsProvider>,
        sentinels: Option<&CredentialsProvider>,
        node: &Arc<str>,
    ) -> Self {
        let Self { login, sentinels: endpoints, .. } = &self;
        let login = master.map_or_else(|| login.clone(), |master| login.clone().with_provider(master, node));
        let with_provider = |endpoint: &Endpoint| match sentinels {
            Some(provider) => endpoint.clone().with_provider(provider, node),
            None => endpoint.clone(),
        };
        let sentinels = endpoints.iter().map(with_provider).collect();
        Self { login, sentinels, ..self }
    }

    /// Returns the address of the set, which is the same after every failover, and for every order of the Sentinels.
    pub(super) fn address(&self) -> String {
        let first = self.sentinels.iter().map(Endpoint::address).min().unwrap_or_default();
        format!("{first}/{}", self.name)
    }

    /// Queries one Sentinel after another, and returns the master that the first usable answer names.
    ///
    /// All Sentinels together have less time than one step of the dial, so that a dead Sentinel delays the dial little.
    pub(super) async fn master(&self, limit: DialLimit<'_>) -> Result<NamedMaster, NodeError> {
        let count = self.sentinels.len();
        let share = u32::try_from(count + 1).unwrap_or(u32::MAX);
        let mut failures = Vec::new();
        let first = self.first.load(Ordering::Relaxed);
        for sentinel in self.sentinels.iter().cycle().skip(first % count.max(1)).take(count) {
            match self.query(sentinel, limit.share(share)).await {
                Ok((host, port)) => {
                    return Ok(NamedMaster {
                        endpoint: self.endpoint(&host, port),
                        sentinel: sentinel.address(),
                    });
                }
                Err(why) => failures.push(format!("{}: {why}", sentinel.address())),
            }
            self.advance_first();
        }
        Err(NodeError::NoMaster(failures.join("; ").into()))
    }

    /// Makes the next dial begin with another Sentinel, because the Sentinel just queried failed, or named a server
    /// that cannot be used.
    pub(super) fn advance_first(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the endpoint of a server of the set.
    pub(super) fn endpoint(&self, host: &str, port: u16) -> Endpoint {
        Endpoint::tcp(host, port, self.connector.clone(), self.login.clone())
            .with_role(ServerRole::Master)
            .with_lookups(&self.lookups)
    }

    #[cfg(any(test, feature = "settings"))]
    pub(super) fn sentinels(&self) -> &[Endpoint] {
        &self.sentinels
    }

    async fn query(&self, sentinel: &Endpoint, limit: DialLimit<'_>) -> Result<(String, u16), String> {
        let opened = RawConnection::open(sentinel, limit).await;
        let mut raw = opened.map_err(|node_error| node_error.to_string())?;
        let mut command = redis::cmd("SENTINEL");
        let pending = raw.start(command.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.name).clone());
        let answer = limit.step(DialStep::Query, raw.receive(pending)).await.flatten();
        match answer.map_err(|node_error| node_error.to_string())? {
            Value::Nil => Err(format!("watches no master by the name of {}", self.name)),
            answer => redis::from_redis_value(answer).map_err(|error| error.to_string()),
        }
    }
}
