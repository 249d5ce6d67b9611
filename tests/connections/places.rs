//! The forms in which a program names its nodes, on real servers: databases, Unix sockets, clients of the `redis`
//! crate, and single addresses of a host.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, cmd};
use redquorum::{
    __command::connectors,
    Error, Quorum, admin,
    error::{AdminError, ConfigError, NodeError},
};
use redquorum_tests::{Cluster, Kind, Server, ServerOptions};

use super::{assert_locks, init_and_connect};

/// Returns the names of the databases that have keys.
async fn databases(server: &Server) -> Vec<String> {
    let info = server.info("keyspace").await;
    info.lines().filter_map(|line| line.split_once(':')).map(|(database, _)| database.to_owned()).collect()
}

#[tokio::test]
async fn all_keys_are_in_the_database_of_the_url() {
    let cluster = Cluster::processes(3).await;
    let urls = cluster.urls().into_iter().map(|url| url + "/3");
    let guard = assert_locks(&init_and_connect(Quorum::builder().nodes(urls)).await).await;
    for server in cluster.servers() {
        assert_eq!(databases(server).await, ["db3"]);
    }
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_missing_or_forbidden_database_is_reported() {
    let cluster = Cluster::processes(1).await;
    let url = cluster.server(0).url();
    let unknown = Quorum::builder().nodes([format!("{url}/16")]).connect().await.unwrap_err();
    assert!(unknown.to_string().contains("DB index is out of range"), "{unknown}");
    cluster.server(0).command(&["ACL", "SETUSER", "me", "on", ">word", "~*", "&*", "+@all", "-select"]).await;
    let url = url.replace("//", "//me:word@");
    let forbidden = Quorum::builder().nodes([format!("{url}/3")]).connect().await.unwrap_err();
    assert!(forbidden.to_string().contains("select"), "{forbidden}");
    drop(assert_locks(&init_and_connect(Quorum::builder().nodes([url])).await).await);
}

/// The databases of one server fail together, so a server has only one vote.
#[tokio::test]
async fn two_databases_of_one_server_are_refused_as_one_server() {
    let cluster = Cluster::processes(1).await;
    let (port, url) = (cluster.server(0).port(), cluster.server(0).url());
    let error =
        Quorum::builder().nodes([format!("{url}/0"), format!("{url}/1")]).connect().await.unwrap_err();
    let Error::Config(ConfigError::Url { url: address, .. }) = &error else { panic!("{error:?}") };
    assert_eq!(**address, format!("127.0.0.1:{port}"));
    assert!(error.to_string().contains("even if the urls differ in database"), "{error}");
    let other = format!("redis://localhost:{port}/1");
    let builder = Quorum::builder().nodes([url, other]);
    let Err(AdminError::Config(from_init)) = admin::init(&builder).await else {
        panic!("two nodes of one server were accepted")
    };
    let Err(Error::Config(connected)) = builder.connect().await else {
        panic!("two nodes of one server were accepted")
    };
    let run_id = cluster.server(0).run_id().await;
    for error in [from_init, connected] {
        let ConfigError::Server { reason: NodeError::SameServer { .. }, .. } = &error else {
            panic!("{error:?}")
        };
        assert!(error.to_string().contains(&format!("run_id {run_id}")), "{error}");
    }
}

#[tokio::test]
async fn a_node_is_reached_by_its_socket_with_user_password_and_database() {
    let options = ServerOptions::default().config("unixsocket", "redis.sock");
    let cluster = Cluster::start_as(Kind::Processes, 1, options).await;
    let server = cluster.server(0);
    server.command(&["ACL", "SETUSER", "me", "on", ">p&w@d", "~*", "&*", "+@all"]).await;
    let socket = cluster.directory().join(server.port().to_string()).join("redis.sock");
    let socket = socket.display();
    for scheme in ["unix", "redis+unix"] {
        server.command(&["FLUSHALL"]).await;
        let url = format!("{scheme}://{socket}?db=2&user=me&pass=p%26w%40d");
        let quorum = init_and_connect(Quorum::builder().nodes([url])).await;
        let guard = assert_locks(&quorum).await;
        assert_eq!(guard.node_replies().iter().next().unwrap().0, socket.to_string());
        assert_eq!(databases(server).await, ["db2"]);
        guard.unlock().await.unwrap();
    }
    let url = format!("unix://{socket}?user=me&pass=other");
    let error = Quorum::builder().nodes([url]).connect().await.unwrap_err();
    assert!(error.to_string().contains("authentication failed"), "{error}");
    let both = [format!("unix://{socket}"), server.url()];
    let Err(Error::Config(error)) = Quorum::builder().nodes(both).connect().await else {
        panic!("two addresses of one server were accepted")
    };
    assert!(matches!(error, ConfigError::Server { reason: NodeError::SameServer { .. }, .. }), "{error:?}");
}

#[tokio::test]
async fn clients_of_the_redis_crate_and_urls_make_nodes_of_one_quorum() {
    let cluster = Cluster::start_as(Kind::Processes, 3, ServerOptions::default().password("word")).await;
    let urls = cluster.urls();
    // Nodes use RESP3, whatever protocol the given client has.
    let clients = [format!("{}/2?protocol=resp2", urls[0]), format!("{}/2", urls[1])];
    let clients = clients.map(|url| Client::open(url).unwrap());
    let builder = Quorum::builder().clients(clients.clone()).nodes([format!("{}/2", urls[2])]);
    let guard = assert_locks(&init_and_connect(builder).await).await;
    let replies = guard.node_replies();
    let nodes: Vec<&str> = replies.iter().map(|(address, _)| address).collect();
    let addresses: Vec<String> =
        cluster.servers().iter().map(|server| format!("127.0.0.1:{}", server.port())).collect();
    assert_eq!(nodes, addresses);
    for server in cluster.servers() {
        assert_eq!(databases(server).await, ["db2"]);
    }
    guard.unlock().await.unwrap();
    // The given client can still be used with its own protocol.
    let mut connection = clients[0].get_multiplexed_async_connection().await.unwrap();
    assert_eq!(cmd("PING").query_async::<String>(&mut connection).await.unwrap(), "PONG");
    let twice =
        Quorum::builder().nodes([&*urls[0]]).clients([clients[0].clone()]).connect().await.unwrap_err();
    let Error::Config(ConfigError::Url { url: address, .. }) = &twice else { panic!("{twice:?}") };
    assert_eq!(**address, *nodes[0]);
}

#[tokio::test]
async fn a_builder_shows_no_password() {
    let client = Client::open("redis://me:secret@10.0.0.2").unwrap();
    let urls = ["redis://me:secret@10.0.0.1", "redis+sentinel://a/m?sentinel_pass=secret"];
    let builder = Quorum::builder().nodes(urls).clients([client]);
    let shown = format!("{builder:?}");
    assert!(shown.contains("10.0.0.1") && shown.contains("10.0.0.2") && !shown.contains("secret"), "{shown}");
}

#[tokio::test]
async fn a_node_can_be_connected_at_one_address_of_its_host() {
    let cluster = Cluster::processes(1).await;
    let server = cluster.server(0);
    let named = server.url().replace("127.0.0.1", "localhost");
    let node_of = |url: &str| connectors(&Quorum::builder().nodes([url])).unwrap().remove(0);
    let node = node_of(&named).at([127, 0, 0, 1].into()).unwrap();
    assert_eq!(node.address(), format!("127.0.0.1:{}", server.port()));
    let mut connection = node.connect(AsyncConnectionConfig::new(), Duration::from_secs(5)).await.unwrap();
    let info: String = cmd("INFO").arg("server").query_async(&mut connection).await.unwrap();
    assert!(info.contains(&server.run_id().await), "{info}");
    let socket = node_of("unix:///run/redis.sock");
    assert!(socket.at([127, 0, 0, 1].into()).is_none(), "a socket got another address");
}
