//! The permission for `INFO`, without which the restart guard cannot identify an incarnation.

use redquorum::{
    RestartGuard,
    error::{ConfigError, NodeError},
};

use super::*;

/// Makes a user `locker` with all permissions and then these rules on each server, and returns the URLs of this user.
/// The helpers of the tests still control the servers as the default user.
async fn urls_of_a_user(cluster: &Cluster, rules: &[&str]) -> Vec<String> {
    for server in cluster.servers() {
        let user = ["ACL", "SETUSER", "locker", "on", ">first", "~*", "&*", "+@all"];
        server.command(&[&user, rules].concat()).await;
    }
    cluster.urls().into_iter().map(|url| url.replace("://", "://locker:first@")).collect()
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
        let text = error.to_string();
        for hint in ["INFO", "+info", "RestartGuard::Off"] {
            assert!(text.contains(hint), "{text} does not name {hint}");
        }
        // Each server refuses the user. The error names one of the servers.
        let names = |server: &Server| text.contains(&server.address());
        assert!(cluster.servers().iter().any(names), "{text} names no server");
    }
    let unguarded = builder(&*urls).restart_guard(RestartGuard::Off).connect().await.unwrap();
    unguarded.red_lock("r").try_lock().await.unwrap().unwrap().unlock().await.unwrap();
    let urls = urls_of_a_user(&cluster, &["+info"]).await;
    drop(lock_eventually(&builder(&*urls).connect().await.unwrap().red_lock("r")).await);
}

/// `init` needs the permission, too.
#[tokio::test]
async fn init_without_permission_for_info_is_refused() {
    let cluster = Cluster::start(3).await;
    let urls = urls_of_a_user(&cluster, &["-info"]).await;
    let outcome = admin::init(&builder(&*urls)).await;
    let Err(error) = outcome else { panic!("a quorum was made") };
    assert!(error.to_string().contains("+info"), "{error}");
    for server in cluster.servers() {
        assert!(server.keys().await.is_empty());
    }
}
