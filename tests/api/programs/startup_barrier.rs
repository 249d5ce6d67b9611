//! Eight shards. One of them migrates the data, once. Then each shard loads its data, and serves only when all shards
//! have loaded.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use futures::future::try_join_all;
use redquorum::{Error, Quorum};

const SHARDS: u32 = 8;

/// Loads the data of a shard, and returns when all shards have loaded.
async fn start(quorum: &Quorum, release: &str, shard: u32, data: &Data) -> anyhow::Result<()> {
    data.load(shard).await;
    let loaded = quorum.latch(format!("loaded:{release}"), SHARDS);
    loaded.arrive_as(shard.to_be_bytes()).await?; // a restarted shard counts once
    while !loaded.wait_for(Duration::from_secs(10)).await? {
        eprintln!("{} of {SHARDS} shards have loaded", loaded.arrivals().await?);
    }
    Ok(())
}

/// Migrates the data if no shard has done so, and returns when the data is migrated.
async fn migrate(quorum: &Quorum, release: &str, data: &Data) -> Result<(), Error> {
    let done = quorum.latch(format!("migrated:{release}"), 1);
    if done.arrivals().await? == 0 {
        let lock = quorum.red_lock("migration");
        let migration = lock.run(async |_| {
            if done.arrivals().await? > 0 {
                return Ok(());
            }
            data.migrate().await;
            done.arrive().await
        });
        migration.await??;
    }
    done.wait().await
}

#[tokio::main]
pub(crate) async fn main() -> anyhow::Result<()> {
    run(super::in_memory()?).await
}

/// Starts all shards at once. The shards use the two clients in turn, as the shards of two processes would.
pub(crate) async fn run(clients: [Quorum; 2]) -> anyhow::Result<()> {
    const RELEASE: &str = "2026-11";
    let data = Data::default();
    let shards = (0..SHARDS).map(async |shard| {
        let quorum = &clients[shard as usize % clients.len()];
        migrate(quorum, RELEASE, &data).await?;
        assert_eq!(data.migrations.load(Ordering::Relaxed), 1);
        start(quorum, RELEASE, shard, &data).await?;
        assert_eq!(data.loaded.load(Ordering::Relaxed), SHARDS, "shard {shard} serves too early");
        anyhow::Ok(())
    });
    try_join_all(shards).await?;
    assert_eq!(data.migrations.load(Ordering::Relaxed), 1);

    // The latch is open, so a restarted shard does not wait. Its second arrival does not count.
    start(&clients[0], RELEASE, 3, &data).await?;
    assert_eq!(clients[1].latch(format!("loaded:{RELEASE}"), SHARDS).arrivals().await?, SHARDS);

    let next = clients[0].latch("loaded:2026-12", SHARDS);
    next.arrive_as(0_u32.to_be_bytes()).await?;
    assert!(!next.wait_for(Duration::from_millis(100)).await?, "one arrival opened the latch");
    Ok(())
}

/// A stand-in for the data of all shards.
#[derive(Default)]
struct Data {
    migrations: AtomicU32,
    loaded: AtomicU32,
}

impl Data {
    async fn load(&self, shard: u32) {
        tokio::time::sleep(Duration::from_millis(5 * u64::from(shard))).await;
        self.loaded.fetch_add(1, Ordering::Relaxed);
    }

    async fn migrate(&self) {
        tokio::time::sleep(Duration::from_millis(20)).await;
        self.migrations.fetch_add(1, Ordering::Relaxed);
    }
}
