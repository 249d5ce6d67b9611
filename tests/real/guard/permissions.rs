//! What the restart guard may ask of servers, and which of them it takes for which.

use redquorum::{
    RestartGuard,
    error::{ConfigError, NodeError},
};

use super::*;

/// The urls of a user of its own, so that the fixture stays in charge of the servers.
async fn urls_of_a_user(cluster: &Cluster, rules: &[&str]) -> Vec<String> {
    for server in cluster.servers() {
        let user = ["ACL", "SETUSER", "locker", "on", ">first", "~*", "&*", "+@all"];
        server.command(&[&user, rules].concat()).await;
    }
    cluster.urls().into_iter().map(|url| url.replace("redis://", "redis://locker:first@")).collect()
}

#[tokio::test]
async fn the_error_of_a_user_without_info_names_the_remedy() {
    let cluster = Cluster::start(3).await;
    admin::init(&builder(cluster.urls())).await.unwrap();
    let urls = urls_of_a_user(&cluster, &["-info"]).await;
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        let outcome = builder(&*urls).restart_guard(guard).connect().await;
        let Err(Error::Config(error)) = outcome else { panic!("{outcome:?}") };
        assert!(matches!(error, ConfigError::Server { reason: NodeError::RunIdForbidden, .. }), "{error:?}");
        let told = error.to_string();
        for hint in ["INFO", "+info", "RestartGuard::Off"] {
            assert!(told.contains(hint), "{told} does not name {hint}");
        }
        // Each server refuses the user: the first in the order given of those that have answered is named.
        let names = |server: &Server| told.contains(&format!("127.0.0.1:{}", server.port()));
        assert!(cluster.servers().iter().any(names), "{told} names no server");
    }
    let trusting = builder(&*urls).restart_guard(RestartGuard::Off).connect().await.unwrap();
    trusting.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
    let urls = urls_of_a_user(&cluster, &["+info"]).await;
    drop(had(&builder(&*urls).connect().await.unwrap().red_lock("r")).await);
}

/// Nor are its servers made a quorum without it.
#[tokio::test]
async fn a_user_who_may_not_call_info_makes_no_quorum() {
    let cluster = Cluster::start(3).await;
    let urls = urls_of_a_user(&cluster, &["-info"]).await;
    let outcome = admin::init(&builder(&*urls)).await;
    let Err(error) = outcome else { panic!("a quorum was made") };
    assert!(error.to_string().contains("+info"), "{error}");
    for server in cluster.servers() {
        assert!(server.keys().await.is_empty());
    }
}
