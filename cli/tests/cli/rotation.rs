//! Passwords and certificates that change while the command holds a lock.

use std::time::Duration;

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, eventually};
use tokio::time::sleep;

use super::{
    redquorum::{TIME_LIMIT, exit_code, redquorum, stderr, wait_for_output},
    scratch::Scratch,
};

/// The ttl of the lock.
const TTL: Duration = Duration::from_secs(3);

async fn command_all(cluster: &Cluster, command: &[&str]) {
    for server in cluster.servers() {
        server.command(command).await;
    }
}

#[tokio::test]
async fn a_new_password_in_the_settings_file_ends_no_lease() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let settings = scratch.path().join("redquorum.toml");
    let write = |password: &str| {
        let login = format!("://app:{password}@");
        let urls: Vec<_> = cluster.urls().iter().map(|url| url.replace("://", &login)).collect();
        std::fs::write(&settings, format!("nodes = {urls:?}\n")).unwrap();
    };
    write("first");
    command_all(&cluster, &["ACL", "SETUSER", "app", "on", ">first", "~*", "&*", "+@all"]).await;
    let script =
        format!("touch {}; until [ -e {} ]; do sleep 0.05; done", scratch.file("held"), scratch.file("end"));
    let mut run = redquorum(["--admit-new-nodes", "--config"]);
    run.arg(&settings).args(["run", "job", "--ttl", "3s", "--", "sh", "-c", &script]);
    let run = run.spawn().unwrap();
    scratch.wait_until_exists("held").await;
    command_all(&cluster, &["ACL", "SETUSER", "app", ">second"]).await;
    // First the file is half written, and later whole.
    std::fs::write(&settings, "nodes = [\"redis://app:sec").unwrap();
    command_all(&cluster, &["CLIENT", "KILL", "USER", "app"]).await;
    let is_connected = async || {
        let mut connected = 0;
        for server in cluster.servers() {
            let clients: String = server.query(cmd("CLIENT").arg("LIST")).await;
            connected += usize::from(clients.contains("user=app "));
        }
        connected == 3
    };
    eventually(TIME_LIMIT, "the last password is used", is_connected).await;
    write("second");
    command_all(&cluster, &["ACL", "SETUSER", "app", "<first"]).await;
    command_all(&cluster, &["CLIENT", "KILL", "USER", "app"]).await;
    eventually(TIME_LIMIT, "the new password is used", is_connected).await;
    sleep(2 * TTL).await;
    std::fs::write(scratch.path().join("end"), "").unwrap();
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
}
