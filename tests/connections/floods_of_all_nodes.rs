//! Floods of all nodes at once, of a client that waits for latches, leads elections and holds leases.
//!
//! Promises: the client's memory stays bounded, each loss is announced in time, and all calls work again soon after the
//! end of the flood.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use futures::future::join_all;
use redquorum::{Error, Lease, LockGuard, LockOptions, Quorum};
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::task::JoinSet;

use super::{
    SOON,
    floods::{FLOODS, Flood, FloodBegin, FloodingProxy, MAX_MEMORY_GROWTH, memory, notice_on},
    init_and_connect,
};

const NODES: usize = 5;
const LATCHES: usize = 64;
const ELECTIONS: usize = 8;
const LEASES: usize = 1_000;

/// The ttl of leases and leaderships. A flood ends when the last of them is lost.
const TTL: Duration = Duration::from_secs(2);

/// The time after a flood within which everything works again.
const MAX_HEAL_TIME: Duration = Duration::from_secs(3);

/// The longest accepted time from the end of a validity until the task that waits for the loss runs, on a machine under
/// load.
const MAX_LATENESS: Duration = Duration::from_millis(100);

/// The interval at which memory and validities are read.
const SAMPLE: Duration = Duration::from_millis(20);

/// The first bytes of a flood, and the bytes that repeat.
type FloodText = (&'static str, String);

/// A client whose nodes are all behind flooding proxies, and what the client does.
struct Scene {
    cluster: Cluster,
    proxies: Vec<FloodingProxy>,
    client: Quorum,
    /// A client without proxies.
    outside: Quorum,
    leases: HeldLeases,
    /// The waiting calls of latches.
    waits: JoinSet<()>,
    campaigns: Campaigns,
}

/// The held leases, and the tasks that wait for their losses.
struct HeldLeases {
    leases: Vec<Lease>,
    validities: Arc<Mutex<Vec<Validity>>>,
    /// Each task returns the time from the end of the validity until it ran.
    losses: JoinSet<Duration>,
}

/// The rest of a validity, and a stopwatch that was started when the rest was read.
#[derive(Clone, Copy)]
struct Validity {
    read_at: Stopwatch,
    remaining: Duration,
}

/// The candidates of the elections. Each candidate campaigns again after its leadership is lost.
struct Campaigns {
    tasks: JoinSet<()>,
    /// The number of present leaderships.
    led: Arc<AtomicUsize>,
}

impl Scene {
    async fn begin() -> Self {
        let cluster = Cluster::processes(NODES).await;
        let proxies = proxies_before(&cluster);
        let nodes = proxies.iter().map(|proxy| proxy.url.clone());
        let client = init_and_connect(Quorum::builder().nodes(nodes)).await;
        let outside = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
        let leases = HeldLeases::begin(&client).await;
        let mut waits = JoinSet::new();
        for number in 0..LATCHES {
            let latch = client.latch(latch_name(number), 1);
            waits.spawn(async move { latch.wait().await.unwrap() });
        }
        let campaigns = Campaigns::begin(&client).await;
        let scene = Self { cluster, proxies, client, outside, leases, waits, campaigns };
        eventually(SOON, "the latches are subscribed", async || scene.channels().await.len() > LATCHES).await;
        scene
    }

    /// Returns the channels to which the client has subscribed at every node.
    async fn channels(&self) -> Vec<String> {
        let mut common: Option<Vec<String>> = None;
        for server in self.cluster.servers() {
            let reply = server.command(&["PUBSUB", "CHANNELS"]).await;
            let channels: Vec<String> = redis::from_redis_value(reply).unwrap();
            common = Some(match common {
                None => channels,
                Some(common) => common.into_iter().filter(|channel| channels.contains(channel)).collect(),
            });
        }
        common.unwrap_or_default()
    }
}

impl Campaigns {
    async fn begin(client: &Quorum) -> Self {
        let (mut tasks, led) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for number in 0..ELECTIONS {
            let election = client.election(format!("election{number}")).options(LockOptions::new().ttl(TTL));
            let led = Arc::clone(&led);
            tasks.spawn(async move {
                loop {
                    match election.campaign("host").await {
                        Ok(leadership) => {
                            led.fetch_add(1, Relaxed);
                            leadership.lost().await;
                            assert!(!leadership.is_valid());
                            led.fetch_sub(1, Relaxed);
                        }
                        Err(Error::NoQuorum(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        let campaigns = Self { tasks, led };
        eventually(SOON, "all elections are led", async || campaigns.led() == ELECTIONS).await;
        campaigns
    }

    fn led(&self) -> usize {
        self.led.load(Relaxed)
    }
}

/// Starts a proxy before each server. The measured times begin at the end of a flood, so little of the flood may still be
/// on its way.
fn proxies_before(cluster: &Cluster) -> Vec<FloodingProxy> {
    cluster.servers().iter().map(|server| FloodingProxy::with_small_buffer_before(server.port())).collect()
}

fn latch_name(number: usize) -> String {
    format!("latch{number}")
}

impl HeldLeases {
    async fn begin(client: &Quorum) -> Self {
        let lock = |number| client.red_lock(lease_name(number)).options(LockOptions::new().ttl(TTL));
        let mut guards: Vec<LockGuard> = Vec::new();
        while guards.len() < LEASES {
            let locks: Vec<_> = (guards.len()..LEASES).take(50).map(lock).collect();
            let locked = join_all(locks.iter().map(|lock| lock.lock())).await;
            guards.extend(locked.into_iter().map(Result::unwrap));
        }
        let leases: Vec<Lease> = guards.iter().map(|guard| guard.lease()).collect();
        let validities = Arc::new(Mutex::new(leases.iter().map(Validity::read).collect()));
        let mut losses = JoinSet::new();
        for (number, guard) in guards.into_iter().enumerate() {
            let validities: Arc<Mutex<Vec<Validity>>> = Arc::clone(&validities);
            losses.spawn(async move {
                guard.lost().await;
                assert!(!guard.is_valid());
                let Validity { read_at, remaining } = validities.lock().unwrap()[number];
                read_at.undelayed().saturating_sub(remaining)
            });
        }
        Self { leases, validities, losses }
    }

    /// Reads the validities of the leases that are not lost.
    fn read_validities(&self) {
        let mut validities = self.validities.lock().unwrap();
        for (validity, lease) in validities.iter_mut().zip(&self.leases) {
            let read = Validity::read(lease);
            if !read.remaining.is_zero() {
                *validity = read;
            }
        }
    }
}

impl Validity {
    fn read(lease: &Lease) -> Self {
        Self { read_at: Stopwatch::start(), remaining: lease.remaining() }
    }
}

fn lease_name(number: usize) -> String {
    format!("lease{number}")
}

/// Reads the memory of this process on a thread of its own, until the value is dropped.
struct MemoryMeter {
    before: u64,
    most: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl MemoryMeter {
    fn start() -> Self {
        let before = memory();
        let (most, is_over) = (Arc::new(AtomicU64::new(before)), Arc::new(AtomicBool::new(false)));
        let meter = Self { before, most: Arc::clone(&most), is_over: Arc::clone(&is_over) };
        std::thread::spawn(move || {
            while !is_over.load(Relaxed) {
                most.fetch_max(memory(), Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        meter
    }

    fn growth(&self) -> u64 {
        self.most.load(Relaxed) - self.before
    }
}

impl Drop for MemoryMeter {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
    }
}

/// Floods the client from all nodes until all leases are lost, and checks what the client promises. `text` returns the
/// flood of a node, by the number of the node and the channels to which the client has subscribed.
async fn survive(name: &str, begin: FloodBegin, text: impl Fn(usize, &[String]) -> FloodText) {
    let mut scene = Scene::begin().await;
    let channels = scene.channels().await;
    let meter = MemoryMeter::start();
    let flooded = Instant::now();
    for (number, proxy) in scene.proxies.iter().enumerate() {
        proxy.flood_from(begin, text(number, &channels));
    }
    let waiting = scene.client.red_lock("waiting");
    let waiting = tokio::spawn(async move { waiting.lock().await.map(drop) });
    let mut latenesses = Vec::new();
    while latenesses.len() < LEASES || scene.campaigns.led() > 0 {
        assert!(flooded.elapsed() < SOON, "{name}: {} leases are lost", latenesses.len());
        scene.leases.read_validities();
        tokio::time::sleep(SAMPLE).await;
        while let Some(lateness) = scene.leases.losses.try_join_next() {
            latenesses.push(lateness.unwrap());
        }
    }
    // Half of the latches open while the client cannot see it.
    for number in 0..LATCHES / 2 {
        scene.outside.latch(latch_name(number), 1).arrive().await.unwrap();
    }
    let (lasted, during) = (flooded.elapsed(), meter.growth());
    let counts: Vec<_> = scene.proxies.iter().map(FloodingProxy::counts).collect();
    scene.proxies.iter().for_each(FloodingProxy::stop_flood);
    let heal = Stopwatch::start();
    // The arrivals of the other client are no part of the healing, so they take one round trip together.
    let arrivals = (LATCHES / 2..LATCHES).map(|number| scene.outside.latch(latch_name(number), 1));
    join_all(arrivals.map(|latch| async move { latch.arrive().await.unwrap() })).await;
    let arrived = heal.undelayed();
    waiting.await.unwrap().unwrap();
    let locks = heal.undelayed();
    while let Some(waited) = scene.waits.join_next().await {
        waited.unwrap();
    }
    let latches = heal.undelayed();
    eventually(SOON, "all elections are led again", async || scene.campaigns.led() == ELECTIONS).await;
    let elections = heal.undelayed();
    // A lock returns at the answer of a quorum, so its replies do not tell whether the other nodes are connected.
    eventually(SOON, "the client is connected to all nodes", async || {
        scene.client.health().await.voting() == NODES
    })
    .await;
    let nodes = heal.undelayed();
    latenesses.sort();
    eprintln!(
        "{name}: flooded {lasted:?}, memory {during} and {} bytes, late {:?} to {:?}; heal: arrivals {arrived:?}, locks \
         {locks:?}, latches {latches:?}, elections {elections:?}, nodes {nodes:?}; dials and bytes {counts:?}",
        meter.growth(),
        latenesses[LEASES / 2],
        latenesses[LEASES - 1],
    );
    assert!(meter.growth() < MAX_MEMORY_GROWTH, "{name}: the memory grew by {} bytes", meter.growth());
    assert!(latenesses[LEASES - 1] < MAX_LATENESS, "{name}: a loss came {:?} late", latenesses[LEASES - 1]);
    let longest = [locks, latches, elections, nodes].into_iter().max().unwrap();
    assert!(longest < MAX_HEAL_TIME, "{name}: healed after {longest:?}");
    scene.campaigns.tasks.shutdown().await;
    scene.client.shutdown().await;
    for server in scene.cluster.servers() {
        let left = async || !server.keys().await.iter().any(|key| key.starts_with("lease"));
        eventually(SOON, "no lease is left on a node", left).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_survives_different_floods_of_all_nodes() {
    let kinds = [Flood::Bulk, Flood::Chains, Flood::Notices, Flood::Replies, Flood::Confirmations];
    survive("mixed", FloodBegin::AtOnce, |number, _| kinds[number].text()).await;
}

/// All calls that wait for a connection are sent together, so the client expects the longest answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_survives_floods_in_the_place_of_answers() {
    survive("chains at a call", FloodBegin::AtCall, |_, _| Flood::Chains.text()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_survives_floods_of_subscribed_notices() {
    let notices = |channels: &[String]| channels.iter().map(|channel| notice_on(channel)).collect();
    survive("subscribed notices", FloodBegin::AtOnce, |_, channels| ("", notices(channels))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_survives_halves_of_a_bulk_string() {
    survive("halves", FloodBegin::AtCall, |_, _| ("$1000\r\nabc", String::new())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures each flood for some seconds"]
async fn the_client_survives_each_flood_of_all_nodes() {
    for flood in FLOODS {
        for begin in [FloodBegin::AtOnce, FloodBegin::AtCall] {
            survive(&format!("{flood:?} {begin:?}"), begin, |_, _| flood.text()).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_during_connect_delays_the_connection_until_shortly_after_its_end() {
    let cluster = Cluster::processes(NODES).await;
    let proxies = proxies_before(&cluster);
    let builder = Quorum::builder().nodes(proxies.iter().map(|proxy| proxy.url.clone()));
    init_and_connect(builder.clone().connect_timeout(SOON)).await.shutdown().await;
    for (begin, flood) in [(FloodBegin::AtOnce, Flood::Array), (FloodBegin::AtCall, Flood::Chains)] {
        let meter = MemoryMeter::start();
        proxies.iter().for_each(|proxy| proxy.flood_from(begin, flood.text()));
        let dials = || proxies.iter().map(|proxy| proxy.counts().0).collect::<Vec<_>>();
        let before = dials();
        let connecting = tokio::spawn(builder.clone().connect_timeout(SOON).connect());
        // After eight dials, the delay between dials has its longest value.
        let many = async || before.iter().zip(dials()).all(|(before, now)| now >= before + 8);
        eventually(SOON, "the client dials each node again and again", many).await;
        assert!(!connecting.is_finished());
        proxies.iter().for_each(FloodingProxy::stop_flood);
        let heal = Stopwatch::start();
        let quorum = connecting.await.unwrap().unwrap();
        let connected = heal.undelayed();
        quorum.red_lock("r").lock().await.unwrap().unlock().await.unwrap();
        eprintln!("{begin:?}: connected after {connected:?}, memory {} bytes", meter.growth());
        assert!(connected < MAX_HEAL_TIME, "{begin:?}: connected after {connected:?}");
        assert!(meter.growth() < MAX_MEMORY_GROWTH, "{begin:?}: the memory grew by {} bytes", meter.growth());
        quorum.shutdown().await;
    }
}
