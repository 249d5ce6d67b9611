//! The programs of `tests/api/programs` on real servers, each as one test. `simulated_balance` is not among them,
//! because it runs on simulated nodes.

use std::fs;

use redquorum::{Quorum, admin, settings};
use redquorum_tests::Cluster;

use super::servers::{builder, client};

#[path = "../api/programs/mod.rs"]
#[allow(dead_code, reason = "the binary `api` calls `main` of each program, on in-memory nodes")]
mod sources;

use sources::{
    account_batch, blocking_migration, gpu_pool, http_fenced_sql, leader_health, price_cache,
    startup_barrier, two_quorums,
};

/// Starts three servers, and two clients that stand for two processes.
async fn two_clients() -> (Cluster, [Quorum; 2]) {
    let cluster = Cluster::start(3).await;
    let clients = [client(&cluster).await, client(&cluster).await];
    (cluster, clients)
}

#[tokio::test]
async fn a_service_charges_invoices_under_locks() {
    let (_cluster, clients) = two_clients().await;
    http_fenced_sql::run(clients).await.unwrap();
}

#[tokio::test]
async fn an_instance_leads_and_another_follows() {
    let (_cluster, clients) = two_clients().await;
    leader_health::run(clients).await.unwrap();
}

#[tokio::test]
async fn many_instances_read_prices_and_one_instance_refreshes() {
    let (_cluster, clients) = two_clients().await;
    price_cache::run(clients).await.unwrap();
}

#[tokio::test]
async fn tasks_share_a_pool_of_gpus() {
    let (_cluster, clients) = two_clients().await;
    gpu_pool::run(clients).await.unwrap();
}

#[tokio::test]
async fn batches_of_transfers_lose_no_update() {
    let (_cluster, clients) = two_clients().await;
    account_batch::run(clients).await.unwrap();
}

#[tokio::test]
async fn no_shard_serves_before_all_shards_have_loaded() {
    let (_cluster, clients) = two_clients().await;
    startup_barrier::run(clients).await.unwrap();
}

#[tokio::test]
async fn a_migration_reads_its_settings_from_a_file() {
    let cluster = Cluster::start(3).await;
    let file = cluster.directory().join("redquorum.toml");
    fs::write(&file, format!("nodes = {:?}\n", cluster.urls())).unwrap();
    admin::init(&settings::load(Some(&file)).unwrap()).await.unwrap();
    let migration = tokio::task::spawn_blocking(move || blocking_migration::run_with(&file));
    migration.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_record_moves_under_the_locks_of_two_quorums() {
    let (in_east, in_west) = tokio::join!(Cluster::start(3), Cluster::start(3));
    let east = builder(&in_east).name("east").connect().await.unwrap();
    let west = builder(&in_west).name("west").connect().await.unwrap();
    two_quorums::run([east, west]).await.unwrap();
}
