//! Changes of passwords while clients are connected, by the steps of `docs/OPERATIONS.md`.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use redquorum::{Credentials, LockGuard, LockOptions, Quorum, settings};
use redquorum_tests::{Cluster, ServerOptions, eventually};
use tokio::time::timeout;

/// The deadline of an effect that is immediate on an idle machine.
const SOON: Duration = Duration::from_secs(10);

/// Long enough for renewals on a machine under load.
const TTL: Duration = Duration::from_secs(3);

/// The user whose password changes. The test controls the servers as the default user.
const USER: &str = "locker";

async fn command_all(cluster: &Cluster, command: &[&str]) {
    for server in cluster.servers() {
        server.command(command).await;
    }
}

async fn cluster_with_user() -> Cluster {
    let cluster = Cluster::start_with(3, ServerOptions::default()).await;
    command_all(&cluster, &["ACL", "SETUSER", USER, "on", "~*", "&*", "+@all", ">first"]).await;
    cluster
}

/// Closes all connections of the user, and waits until each server has a new connection of the user.
async fn reconnect_user(cluster: &Cluster) {
    command_all(cluster, &["CLIENT", "KILL", "USER", USER]).await;
    for server in cluster.servers() {
        let is_connected = async || {
            let clients: String = server.query(&redis::cmd("CLIENT").arg("LIST").clone()).await;
            clients.contains(&format!("user={USER} "))
        };
        eventually(SOON, "the client has connected again", is_connected).await;
    }
}

/// Asserts that the lease is still valid after two ttls, which requires renewals.
async fn assert_renewed(guard: &LockGuard) {
    let lost = timeout(TTL * 2, guard.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
}

/// Changes the password from `first` to `second`, by the steps of `docs/OPERATIONS.md`, but closes the connections to
/// all nodes at once instead of one node after the other.
async fn rotate(cluster: &Cluster, give_new_password: impl FnOnce()) {
    command_all(cluster, &["ACL", "SETUSER", USER, ">second"]).await;
    give_new_password();
    command_all(cluster, &["ACL", "SETUSER", USER, "<first"]).await;
    reconnect_user(cluster).await;
}

#[tokio::test]
async fn a_rotation_of_the_password_costs_no_lease_if_a_provider_gives_the_present_password() {
    let cluster = cluster_with_user().await;
    let password = Arc::new(Mutex::new("first"));
    let provider = Arc::clone(&password);
    let quorum = Quorum::builder()
        .nodes(cluster.urls())
        .admit_new_nodes()
        .credentials(move |_| {
            let password = *provider.lock().unwrap();
            async move { Ok(Credentials::new(password).user(USER)) }
        })
        .connect()
        .await
        .unwrap();
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    rotate(&cluster, || *password.lock().unwrap() = "second").await;
    assert_renewed(&guard).await;
    assert_eq!(quorum.health().await.voting(), 3);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_provider_that_fails_costs_no_lease_while_its_last_credentials_are_valid() {
    let cluster = cluster_with_user().await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let quorum = Quorum::builder()
        .nodes(cluster.urls())
        .admit_new_nodes()
        .credentials(move |_| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                match call {
                    0..3 => Ok(Credentials::new("first").user(USER)),
                    _ if call.is_multiple_of(2) => panic!("the provider panics on purpose"),
                    _ => Err("the vault is sealed".into()),
                }
            }
        })
        .connect()
        .await
        .unwrap();
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    reconnect_user(&cluster).await;
    assert_renewed(&guard).await;
    assert!(calls.load(Ordering::SeqCst) >= 6);
    assert_eq!(quorum.health().await.voting(), 3);
    guard.unlock().await.unwrap();
}

#[tokio::test]
async fn a_rotation_in_the_settings_file_costs_no_lease_although_the_file_was_missing() {
    let cluster = cluster_with_user().await;
    let path = std::env::temp_dir().join(format!("redquorum-rotation-{}.toml", std::process::id()));
    let write = |password: &str| {
        let login = format!("://{USER}:{password}@");
        let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", &login)).collect();
        std::fs::write(&path, format!("nodes = {urls:?}\n")).unwrap();
    };
    write("first");
    let quorum = settings::load(Some(&path)).unwrap().admit_new_nodes().connect().await.unwrap();
    let guard = quorum.red_lock("r").options(LockOptions::new().ttl(TTL)).lock().await.unwrap();
    // While the file is incomplete or missing, the client uses the last credentials.
    std::fs::write(&path, "nodes = [\"redis://loc").unwrap();
    reconnect_user(&cluster).await;
    std::fs::remove_file(&path).unwrap();
    reconnect_user(&cluster).await;
    rotate(&cluster, || write("second")).await;
    assert_renewed(&guard).await;
    assert_eq!(quorum.health().await.voting(), 3);
    guard.unlock().await.unwrap();
    std::fs::remove_file(&path).unwrap();
}
