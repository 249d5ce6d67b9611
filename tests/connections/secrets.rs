//! The texts of all public types, with secrets in every place where a program can have put them.
//!
//! Promise: no `Debug` or `Display` text shows a password, a url with a password or a private key.

use std::{collections::BTreeMap, fmt::Debug, time::Duration};

use redquorum::{
    Credentials, Error, Fence, FencingToken, LockOptions, MemoryCluster, MultiLock, Owner, Quorum,
    QuorumBuilder, RestartGuard, Ticket,
    admin::{self, Replacement},
    error::{ConfigError, InvalidResource, NodeReply, Refusal},
    settings,
};
use redquorum_tests::{Cluster, Kind, ServerOptions};

/// A part of every password, url and key of these tests.
const SECRET: &str = "hush";

/// A label that may be a url, a name that may be one, and a path that may be one.
const URL: &str = "redis://me:hush@10.0.0.1";

/// A ttl after which the quarantine of a new server ends soon.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// The modules with public types of locks, nodes and errors. `sim` and `metrics` have no nodes on servers, and no texts
/// of a user.
const MODULES: [&str; 4] = [
    include_str!("../../src/lib.rs"),
    include_str!("../../src/election/mod.rs"),
    include_str!("../../src/error/mod.rs"),
    include_str!("../../src/blocking/mod.rs"),
];

/// The texts of each public type, by the name of the type.
#[derive(Default)]
struct Texts(BTreeMap<String, Vec<String>>);

impl Texts {
    fn add(&mut self, value: &impl Debug) {
        self.add_text(value, format!("{value:?} {value:#?}"));
    }

    /// Adds an error with its sources.
    fn add_error(&mut self, error: &(impl std::error::Error + 'static)) {
        let sources = std::iter::successors(Some(error as &dyn std::error::Error), |error| error.source());
        let texts: Vec<String> = sources.map(|error| format!("{error} {error:?} {error:#?}")).collect();
        self.add_text(error, texts.join(" "));
    }

    /// Adds a value that is also shown to users.
    fn add_shown(&mut self, value: &(impl Debug + std::fmt::Display)) {
        self.add_text(value, format!("{value} {value:?} {value:#?}"));
    }

    /// Adds a text of a type, without the arguments and the path of the type.
    fn add_text<T>(&mut self, _value: &T, text: String) {
        let path = std::any::type_name::<T>();
        let path = path.split('<').next().unwrap_or_default();
        let name = path.rsplit("::").next().unwrap_or_default();
        self.0.entry(name.to_owned()).or_default().push(text);
    }
}

/// Returns the names of the public types: the names of `pub use` that begin with a capital letter, and the types that a
/// module itself defines.
fn public_types() -> impl Iterator<Item = String> {
    let items = MODULES.into_iter().flat_map(|source| {
        let code = source.split("#[cfg(test)]").next().unwrap_or_default();
        let uses = code.split("pub use ").skip(1).map(|rest| rest.split(';').next().unwrap_or_default());
        let own = ["pub struct ", "pub enum "].into_iter().flat_map(|keyword| {
            code.split(keyword).skip(1).map(|rest| rest.split(['<', ' ', ';']).next().unwrap_or_default())
        });
        uses.chain(own).collect::<Vec<_>>()
    });
    let names = items.flat_map(|item| item.split(|character: char| !character.is_ascii_alphanumeric()));
    let is_type = |name: &&str| name.starts_with(|first: char| first.is_ascii_uppercase());
    names.filter(is_type).map(str::to_owned)
}

/// Returns a builder with a secret in each of its settings.
fn builder_with_secrets() -> QuorumBuilder {
    let client = redis::Client::open("redis://me:hush@10.0.0.9").unwrap();
    Quorum::builder()
        .nodes([
            URL,
            "redis://:hush@10.0.0.2/database",
            "redis+sentinel://me:hush@10.0.0.3/set?sentinel_user=eye&sentinel_pass=hush",
            "unix:///run/redis.sock?pass=hush",
            "hush",
            "me:hush@10.0.0.4",
        ])
        .clients([client])
        .credentials(|_| async { Ok(Credentials::new("hush")) })
        .sentinel_credentials(|_| async { Ok(Credentials::new("hush")) })
        .ca_certificates("hush")
        .ca_certificates_file(URL)
        .client_certificate("hush", "hush")
        .name(URL)
        .label(URL)
}

fn config_error(error: Error) -> ConfigError {
    match error {
        Error::Config(error) => error,
        error => panic!("{error}"),
    }
}

/// Adds builders and credentials, and the errors of settings that are secrets by mistake.
async fn add_settings(texts: &mut Texts) {
    let builder = builder_with_secrets();
    texts.add(&builder);
    texts.add(&builder.client_certificate_files(URL, URL));
    texts.add(&Credentials::new("hush").user("me"));
    texts.add(&LockOptions::new());
    texts.add(&RestartGuard::PerVote);
    let plain = || Quorum::builder().nodes(["redis://10.0.0.1"]);
    for refused in [
        builder_with_secrets(),
        plain().name(URL),
        plain().label(URL),
        plain().ca_certificates_file(URL),
        plain().client_certificate("hush", "hush"),
        plain().nodes(["redis://me:hush@10.0.0.1"]),
    ] {
        let error = refused.connect().await.unwrap_err();
        texts.add_error(&error);
        texts.add_error(&config_error(error));
    }
    texts.add_error(&settings::load(Some(URL.as_ref())).unwrap_err());
}

/// Adds the values of a client whose nodes need a password, and the reports about the nodes.
async fn add_client(texts: &mut Texts, builder: &QuorumBuilder) {
    texts.add(&admin::init_if_needed(builder).await.unwrap());
    texts.add_error(&admin::init(builder).await.unwrap_err());
    let (quorum, owner) = (builder.clone().connect().await.unwrap(), Owner::new());
    let lock = quorum.red_lock("r").owned_by(&owner);
    let guard = lock.lock().await.unwrap();
    let across = MultiLock::across([quorum.red_lock("z")]);
    let (semaphore, election) = (quorum.semaphore("s", 2), quorum.election("e"));
    let leadership = election.campaign("v").await.unwrap();
    let mut leaders = election.observe().unwrap();
    texts.add(&leaders.next().await.unwrap());
    texts.add(&leaders);
    texts.add(&leadership);
    texts.add(&election);
    texts.add(&semaphore.acquire().await.unwrap());
    texts.add(&semaphore);
    texts.add(&quorum.rw_lock("rw").read().await.unwrap());
    texts.add(&quorum.rw_lock("rw"));
    texts.add(&quorum.multi_lock(["a", "b"]));
    texts.add(&across.lock().await.unwrap());
    texts.add(&across);
    texts.add(&quorum.any_of(["x", "y"]));
    let latch = quorum.latch("l", 2);
    latch.arrive_as(URL).await.unwrap();
    texts.add(&latch);
    let ticketed = quorum.red_lock("t").lock().await.unwrap();
    let ticket = ticketed.into_ticket(Duration::from_secs(5)).await.unwrap();
    let ticket_text = ticket.to_string();
    let ticket_secret = ticket_text.split('.').nth(1).unwrap();
    let debug = format!("{ticket:?} {ticket:#?}").replace('-', "");
    assert!(!debug.contains(ticket_secret), "{debug}");
    texts.add(&ticket);
    texts.add(&owner);
    texts.add(&lock);
    texts.add(&guard.lease());
    texts.add(&guard);
    texts.add_shown(guard.id());
    texts.add_shown(guard.resource());
    texts.add_shown(&guard.node_replies());
    let inspection = quorum.inspect("r").await.unwrap();
    texts.add(&inspection.state());
    texts.add_shown(inspection.nodes().next().unwrap());
    texts.add_shown(&inspection);
    let inspection_of_latch = quorum.inspect("l").await.unwrap();
    texts.add(&inspection_of_latch.latch().unwrap());
    texts.add_shown(&inspection_of_latch);
    texts.add_shown(&quorum.health().await);
    let listing = admin::list(&quorum, |_| true).await.unwrap();
    texts.add_shown(listing.locks().next().unwrap().0);
    texts.add(&listing);
    texts.add(&quorum);
    texts.add_shown(&quorum.shutdown().await);
    let Error::LeaseLost(lost) = guard.ensure().unwrap_err() else { panic!("another error") };
    texts.add_shown(&lost.reason);
    texts.add_error(&lost);
    let Error::Closed(reason) = lock.lock().await.unwrap_err() else { panic!("another error") };
    texts.add_error(&reason);
    add_blocking_client(texts, builder);
}

/// Adds the values of a replacement of a node. All urls have a password.
async fn add_replacement(texts: &mut Texts) {
    let cluster = Cluster::start_as(Kind::Processes, 4, ServerOptions::default().password(SECRET)).await;
    let [nodes @ .., new] = &*cluster.urls() else { panic!("no servers") };
    let builder = Quorum::builder().nodes(nodes).ttl(SHORT_TTL).max_ttl(SHORT_TTL);
    admin::init(&builder).await.unwrap();
    let replacement = Replacement::new(&nodes[0], new);
    texts.add(&replacement);
    texts.add(&admin::abandon_replacement(&builder, &replacement).await.unwrap());
    let replaced = admin::replace(&builder, &replacement).await.unwrap();
    assert_eq!(replaced.nodes.len(), nodes.len());
    texts.add(&replaced);
}

fn add_blocking_client(texts: &mut Texts, builder: &QuorumBuilder) {
    let (quorum, timed_out) = std::thread::scope(|scope| {
        let client = scope.spawn(|| {
            let quorum = builder.clone().connect_blocking().unwrap();
            let timed_out =
                quorum.election("without candidates").observe().unwrap().next_within(Duration::ZERO);
            (quorum, timed_out.unwrap_err())
        });
        client.join().unwrap()
    });
    texts.add(&quorum);
    texts.add_error(&timed_out);
}

/// Adds the errors of a client with a wrong password.
async fn add_refusals(texts: &mut Texts, builder: QuorumBuilder) {
    let wrong = builder.credentials(|_| async { Ok(Credentials::new("wrong hush").user("me")) });
    let Error::NoQuorum(no_quorum) = wrong.connect().await.unwrap_err() else { panic!("another error") };
    for (_, reply) in no_quorum.node_replies().iter() {
        texts.add_shown(reply);
        let NodeReply::Failed(error) = reply else { panic!("{reply}") };
        assert!(error.to_string().ends_with("(user me)"), "{error}");
        texts.add_error(error);
    }
    texts.add_error(&no_quorum);
}

/// Adds the values that have no text of a client.
fn add_plain_values(texts: &mut Texts) {
    let token: FencingToken = "7".parse().unwrap();
    let mut fence = Fence::default();
    fence.write(token).unwrap();
    texts.add_error(&fence.write("6".parse().unwrap()).unwrap_err());
    texts.add(&fence);
    texts.add_shown(&token);
    texts.add_error(&URL.parse::<FencingToken>().unwrap_err());
    texts.add_error(&URL.parse::<Ticket>().unwrap_err());
    texts.add_error(&InvalidResource::Empty);
    texts.add_shown(&Refusal::RolledBack);
    texts.add(&MemoryCluster::new(1));
}

#[tokio::test]
async fn no_text_of_a_public_type_shows_a_secret() {
    let cluster = Cluster::start_as(Kind::Processes, 3, ServerOptions::default().password(SECRET)).await;
    let builder = Quorum::builder().nodes(cluster.urls());
    let mut texts = Texts::default();
    add_settings(&mut texts).await;
    add_client(&mut texts, &builder).await;
    add_refusals(&mut texts, builder).await;
    add_replacement(&mut texts).await;
    add_plain_values(&mut texts);
    let shown: Vec<_> = texts.0.iter().filter(|(_, texts)| texts.concat().contains(SECRET)).collect();
    assert!(shown.is_empty(), "{shown:#?}");
    let missing: Vec<String> = public_types().filter(|name| !texts.0.contains_key(name)).collect();
    assert!(missing.is_empty(), "types without a text: {missing:?}");
}
