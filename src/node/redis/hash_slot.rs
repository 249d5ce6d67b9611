//! A node in a Redis Cluster. The server of the node is the present master of one hash slot, and each dial asks the
//! servers of the url for that master.
//!
//! ```text
//!  seed ──► HELLO: a server of a cluster ──► SSUBSCRIBE sentry, EXISTS metadata, CLUSTER NODES
//!                                              │ answers            │ MOVED
//!                                              ▼                    ▼
//!                                         the master         the next server, at most MAX_REDIRECTIONS times
//! ```

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use redis::{ServerError, Value};

use super::{
    classify::{classify, classify_code},
    endpoint::Endpoint,
    handshake_error::ServerRole,
    login::{CredentialsProvider, Login},
    lookup::Lookups,
    named_master::NamedMaster,
    raw_connection::RawConnection,
    script::Script,
    tls::Connector,
};
use crate::{
    node::{
        dial::{DialLimit, DialStep},
        names::HashTag,
        operation::AnswerSize,
    },
    values::NodeError,
};

/// The largest number of redirections that one dial follows from one seed.
const MAX_REDIRECTIONS: usize = 4;

/// The additional size of the reply to `CLUSTER NODES`, which has one line for each server of a cluster. A cluster has
/// at most about a thousand servers.
const MEMBERS_SIZE: AnswerSize = AnswerSize { bytes: 1024 * 1024, values: 0 };

/// One hash slot of a Redis Cluster.
#[derive(Debug)]
pub(super) struct HashSlot {
    tag: HashTag,
    script: Arc<Script>,
    /// The servers of the url, at which dials begin.
    seeds: Vec<Endpoint>,
    login: Login,
    connector: Option<Connector>,
    /// The lookups of the host names of all servers of the cluster.
    lookups: Lookups,
    /// The number of failures. Modulo the number of seeds, this number is the index of the seed at which a dial begins.
    first: AtomicUsize,
}

/// A connection to the master of the slot.
#[derive(Debug)]
pub(super) struct SlotMaster {
    pub(super) raw: RawConnection,
    #[cfg_attr(
        not(feature = "__command"),
        expect(dead_code, reason = "the command opens further connections to this server")
    )]
    pub(super) endpoint: Endpoint,
    /// The ids of all servers of the cluster.
    pub(super) members: BTreeSet<String>,
}

/// The result of asking one server for the master.
enum Asked {
    /// The answer of the master.
    Master { raw: RawConnection, members: BTreeSet<String> },
    /// The address to which the server refers.
    Moved { host: Option<String>, port: u16 },
}

impl HashSlot {
    pub(super) fn new(
        tag: HashTag,
        seeds: &[(String, u16)],
        login: Login,
        connector: Option<Connector>,
    ) -> Self {
        let (lookups, first) = (Lookups::default(), AtomicUsize::new(0));
        let script = Script::with_tag(tag.clone());
        let slot = Self { tag, script, seeds: Vec::new(), login, connector, lookups, first };
        Self { seeds: seeds.iter().map(|(host, port)| slot.endpoint(host, *port)).collect(), ..slot }
    }

    /// Returns the same slot with the credentials of a provider.
    pub(super) fn with_provider(self, provider: Option<&CredentialsProvider>, node: &Arc<str>) -> Self {
        let Some(provider) = provider else { return self };
        let seeds = self.seeds.into_iter().map(|seed| seed.with_provider(provider, node)).collect();
        Self { login: self.login.with_provider(provider, node), seeds, ..self }
    }

    /// Returns the address of the node, which is the same for each master of the slot, and for each order of the seeds.
    pub(super) fn address(&self) -> String {
        let first = self.seeds.iter().map(Endpoint::address).min().unwrap_or_default();
        format!("{first}/{}", self.tag.name())
    }

    #[cfg(feature = "__command")]
    pub(super) fn tag(&self) -> &HashTag {
        &self.tag
    }

    #[cfg(feature = "__command")]
    pub(super) fn seeds(&self) -> &[Endpoint] {
        &self.seeds
    }

    pub(super) fn script(&self) -> &Arc<Script> {
        &self.script
    }

    /// Returns the endpoint of a server of the cluster.
    pub(super) fn endpoint(&self, host: &str, port: u16) -> Endpoint {
        Endpoint::tcp(host, port, self.connector.clone(), self.login.clone())
            .with_role(ServerRole::ClusterNode)
            .with_lookups(&self.lookups)
    }

    /// Connects to the master of the slot, with a subscription that ends when the server loses the slot.
    ///
    /// All seeds but the last together have less time than one step of the dial, so that a dead seed delays the dial
    /// little.
    ///
    /// # Errors
    ///
    /// If every seed fails: the reason of the first server that answered, or the reasons of all seeds.
    pub(super) async fn open_master(
        &self,
        client_name: &str,
        limit: DialLimit<'_>,
    ) -> Result<SlotMaster, NodeError> {
        let count = self.seeds.len();
        let share = limit.share(u32::try_from(count).unwrap_or(u32::MAX));
        let mut failures: Vec<(String, NodeError)> = Vec::new();
        let first = self.first.load(Ordering::Relaxed) % count.max(1);
        for (index, seed) in self.seeds.iter().cycle().skip(first).take(count).enumerate() {
            let limit = if index + 1 < count { share } else { limit };
            match self.open_from(seed, client_name, limit).await {
                Ok(master) => return Ok(master),
                Err(error) => failures.push((seed.address(), error)),
            }
            // A seed may be cut off from the cluster. Therefore, after each failure, the next dial begins with another
            // seed.
            self.first.fetch_add(1, Ordering::Relaxed);
        }
        let of_server = failures.iter().position(|(_, error)| error.is_answer());
        if let Some(index) = of_server.or_else(|| (failures.len() == 1).then_some(0)) {
            return Err(failures.swap_remove(index).1);
        }
        let reasons: Vec<String> = failures.iter().map(|(seed, error)| format!("{seed}: {error}")).collect();
        Err(NodeError::NoSlotMaster(reasons.join("; ").into()))
    }

    /// Connects to the master to which a seed leads.
    async fn open_from(
        &self,
        seed: &Endpoint,
        client_name: &str,
        limit: DialLimit<'_>,
    ) -> Result<SlotMaster, NodeError> {
        let mut named: Option<NamedMaster> = None;
        for _ in 0..=MAX_REDIRECTIONS {
            let endpoint = named.as_ref().map_or(seed, |named| &named.endpoint);
            let asked = self.ask(endpoint, client_name, limit).await;
            let asked = asked.map_err(|error| match &named {
                Some(named) => named.explain(error),
                None => error,
            })?;
            let endpoint = endpoint.clone();
            match asked {
                Asked::Master { raw, members } => return Ok(SlotMaster { raw, endpoint, members }),
                Asked::Moved { host, port } => {
                    // Without a host, the other server has the host of this server.
                    let named_by = format!("the server {}", endpoint.address());
                    let endpoint = match host {
                        Some(host) => self.endpoint(&host, port),
                        None => endpoint.with_port(port),
                    };
                    named = Some(NamedMaster { endpoint, named_by });
                }
            }
        }
        let why = format!("{} leads to more than {MAX_REDIRECTIONS} servers in turn", seed.address());
        Err(NodeError::NoSlotMaster(why.into()))
    }

    /// Asks a server whether the server is the master of the slot, and subscribes to the channel of the sentry.
    ///
    /// A replica also accepts the subscription, so the reply for the metadata key decides. The subscription precedes
    /// that reply. If the server loses the slot afterwards, the subscription ends.
    async fn ask(
        &self,
        endpoint: &Endpoint,
        client_name: &str,
        limit: DialLimit<'_>,
    ) -> Result<Asked, NodeError> {
        let mut raw =
            RawConnection::open_cluster_node(endpoint, client_name, self.tag.as_str(), limit).await?;
        let sentry = self.tag.sentry();
        raw.pushes.expect_sentry(sentry.clone().into_bytes());
        raw.budget.expect(MEMBERS_SIZE);
        let metadata = self.tag.metadata();
        let commands = [("SSUBSCRIBE", &*sentry), ("EXISTS", &metadata), ("CLUSTER", "NODES")];
        let [subscribed, exists, members] =
            commands.map(|(name, argument)| raw.start(redis::cmd(name).arg(argument).clone()));
        for pending in [subscribed, exists] {
            let reply = limit.step(DialStep::SlotMaster, raw.receive_reply(pending)).await??;
            let Value::ServerError(error) = reply else { continue };
            return match redirection(&error) {
                Some(moved) => moved,
                None => Err(raw.with_user(refusal(&error))),
            };
        }
        let members = limit.step(DialStep::SlotMaster, raw.receive(members)).await??;
        let members: String = redis::from_redis_value(members).map_err(|error| classify(&error.into()))?;
        let members = members.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
        raw.budget.expect(AnswerSize::default());
        Ok(Asked::Master { raw, members })
    }
}

/// Returns the server to which a reply `MOVED slot host:port` refers; `None` for any other error.
fn redirection(error: &ServerError) -> Option<Result<Asked, NodeError>> {
    if error.code() != "MOVED" {
        return None;
    }
    let details = error.details().unwrap_or_default();
    let address = details.split(' ').nth(1).and_then(|address| address.rsplit_once(':'));
    let moved = address.and_then(|(host, port)| Some((host, port.parse().ok()?)));
    Some(match moved {
        // The server does not know the host name of the other server (`cluster-preferred-endpoint-type`).
        None | Some(("?", _)) => Err(NodeError::NoSlotMaster(
            format!("the server refers to a server without an address (MOVED {details})").into(),
        )),
        Some(("", port)) => Ok(Asked::Moved { host: None, port }),
        Some((host, port)) => Ok(Asked::Moved { host: Some(host.to_owned()), port }),
    })
}

/// Returns the error of a server that refuses a question.
fn refusal(error: &ServerError) -> NodeError {
    let details = error.details().unwrap_or_default();
    if details.to_ascii_lowercase().contains("unknown command")
        && details.to_ascii_lowercase().contains("ssubscribe")
    {
        return NodeError::Server(
            // The code marks an error that lasts.
            "ERR the server has no sharded channels (SSUBSCRIBE): Redis 7.0 or later, or Valkey, is required in a cluster"
                .into(),
        );
    }
    classify_code(error.code(), details)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> ServerError {
        match redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap() {
            Value::ServerError(error) => error,
            other => panic!("{other:?}"),
        }
    }

    fn target(line: &str) -> Option<(Option<String>, u16)> {
        match redirection(&error(line)).unwrap() {
            Ok(Asked::Moved { host, port }) => Some((host, port)),
            Ok(Asked::Master { .. }) => panic!("a redirection leads to another server"),
            Err(error) => {
                assert!(matches!(error, NodeError::NoSlotMaster(_)), "{error}");
                None
            }
        }
    }

    #[test]
    fn a_redirection_names_a_host_or_the_host_of_the_server_itself() {
        let named = |host: &str, port| Some((Some(host.to_owned()), port));
        assert_eq!(target("MOVED 5496 10.0.0.2:7001"), named("10.0.0.2", 7001));
        assert_eq!(target("MOVED 5496 node-2.example:7001"), named("node-2.example", 7001));
        assert_eq!(target("MOVED 5496 2001:db8::2:7001"), named("2001:db8::2", 7001));
        assert_eq!(target("MOVED 5496 :7001"), Some((None, 7001)));
        for line in ["MOVED 5496 ?:7001", "MOVED 5496 host:port", "MOVED 5496", "MOVED"] {
            assert_eq!(target(line), None, "{line}");
        }
        assert!(redirection(&error("ASK 5496 10.0.0.2:7001")).is_none());
    }

    #[test]
    fn a_server_without_sharded_channels_is_named() {
        let refused = refusal(&error("ERR unknown command `SSUBSCRIBE`, with args beginning with: `{a}`"));
        assert!(refused.to_string().contains("Redis 7.0 or later"), "{refused}");
        // By this code, a connect fails at once.
        assert!(matches!(&refused, NodeError::Server(text) if text.starts_with("ERR ")), "{refused}");
        assert_eq!(refusal(&error("ASK 5496 10.0.0.2:7001")), NodeError::SlotMigrating);
        assert!(matches!(refusal(&error("CLUSTERDOWN Hash slot not served")), NodeError::ClusterDown(_)));
    }
}
