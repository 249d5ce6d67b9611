//! Nodes that send what nobody asked for, without an end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use redquorum::{Quorum, RedLock, error::NodeError};
use redquorum_tests::{Cluster, Stopwatch, eventually};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use super::{SOON, made, refusal, replies_of};

/// How much the memory of this process may grow, however much two nodes send.
const MOST_GROWTH: u64 = 20 << 20;

/// What a connection is flooded with at most: a client that takes all of it fails the test, and
/// does not take down the machine.
const FLOOD: usize = 256 << 20;

/// Longer than a lock takes on a machine under load, and no longer than a node timeout.
const PROMPTLY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flood {
    Bulk,
    Line,
    Array,
    Attributes,
    Replies,
    Notices,
    Invalidations,
    Confirmations,
    Nesting,
    Garbage,
}

const FLOODS: [Flood; 10] = [
    Flood::Bulk,
    Flood::Line,
    Flood::Array,
    Flood::Attributes,
    Flood::Replies,
    Flood::Notices,
    Flood::Invalidations,
    Flood::Confirmations,
    Flood::Nesting,
    Flood::Garbage,
];

impl Flood {
    /// What it begins with, and what then comes again and again.
    fn text(self) -> (&'static str, String) {
        match self {
            Self::Bulk => ("$1000000000\r\n", "a".repeat(1000)),
            Self::Line => ("+", "a".repeat(1000)),
            Self::Array => ("*1000000000\r\n", "_\r\n".repeat(300)),
            Self::Attributes => ("|1000000000\r\n", "_\r\n".repeat(300)),
            Self::Replies => ("", "+OK\r\n".repeat(200)),
            Self::Notices => ("", notice("another").repeat(20)),
            Self::Invalidations => ("", ">2\r\n$10\r\ninvalidate\r\n_\r\n".repeat(40)),
            Self::Confirmations => ("", ">3\r\n$9\r\nsubscribe\r\n$2\r\nsb\r\n:1\r\n".repeat(30)),
            Self::Nesting => ("", "*1\r\n".repeat(250)),
            Self::Garbage => ("", "no RESP at all \u{1}\u{2}\r\n".repeat(50)),
        }
    }

    /// Whether the client tells it as what it is. Some of it is no RESP3, and some answers what was
    /// asked, but not as a node does.
    fn is_told(self, node_error: &NodeError) -> bool {
        match self {
            Self::Replies | Self::Confirmations => {
                matches!(node_error, NodeError::ReadLimit { .. } | NodeError::Protocol(_))
            }
            Self::Nesting | Self::Garbage => matches!(node_error, NodeError::Protocol(_)),
            _ => matches!(node_error, NodeError::ReadLimit { .. }),
        }
    }
}

/// A message on the channel of a resource.
fn notice(resource: &str) -> String {
    let channel = format!("redisson_lock__channel:{{{resource}}}");
    format!(">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n$1\r\n0\r\n", channel.len())
}

/// A hop before a server that floods its clients while it is told to, those of later as well.
struct Hostile {
    url: String,
    flood: watch::Sender<Option<(&'static str, String)>>,
    dials: Arc<AtomicUsize>,
    sent: Arc<AtomicU64>,
    listening: JoinHandle<()>,
}

impl Hostile {
    async fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (dials, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let flood = watch::Sender::new(None);
        let (dialled, told, floods) = (Arc::clone(&dials), Arc::clone(&sent), flood.subscribe());
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                dialled.fetch_add(1, Relaxed);
                tokio::spawn(serve(client, server, floods.clone(), Arc::clone(&told)));
            }
        });
        Self { url, flood, dials, sent, listening }
    }

    fn flood(&self, (prefix, text): (&'static str, String)) {
        self.flood.send_replace(Some((prefix, text)));
    }

    fn behave(&self) {
        self.flood.send_replace(None);
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn serve(
    mut client: TcpStream,
    server: u16,
    mut floods: watch::Receiver<Option<(&'static str, String)>>,
    sent: Arc<AtomicU64>,
) {
    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let flood = tokio::select! {
        _ = copy(&mut from_server, &mut to_client) => return,
        _ = copy(&mut from_client, &mut to_server) => return,
        flood = floods.wait_for(Option::is_some) => flood.ok().and_then(|flood| flood.clone()),
    };
    let Some((prefix, text)) = flood else { return };
    let mut unread = sink();
    tokio::select! {
        _ = copy(&mut from_client, &mut unread) => {}
        _ = pour(&mut to_client, prefix, &text, &floods, &sent) => {}
    }
}

async fn pour(
    to: &mut (impl AsyncWrite + Unpin),
    prefix: &str,
    text: &str,
    floods: &watch::Receiver<Option<(&'static str, String)>>,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    to.write_all(prefix.as_bytes()).await?;
    let chunk = text.repeat(64);
    for _ in 0..FLOOD / chunk.len() {
        if floods.borrow().is_none() {
            break;
        }
        to.write_all(chunk.as_bytes()).await?;
        sent.fetch_add(u64::try_from(chunk.len()).unwrap(), Relaxed);
    }
    Ok(())
}

/// What this process has in memory, in bytes, as Linux counts it.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Locks and unlocks, and returns how long that took.
async fn lock_and_unlock(lock: &RedLock) -> Duration {
    let watch = Stopwatch::start();
    lock.lock().await.unwrap().unlock().await.unwrap();
    watch.undelayed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_names_a_server_that_floods_from_the_first_byte() {
    let cluster = Cluster::processes(1).await;
    for flood in FLOODS {
        let hostile = Hostile::before(cluster.server(0).port()).await;
        hostile.flood(flood.text());
        let error = Quorum::builder()
            .nodes([&hostile.url])
            .connect_timeout(Duration::from_secs(2))
            .connect()
            .await
            .unwrap_err();
        let replies = replies_of(error);
        let (_, reply) = replies.iter().next().unwrap();
        let told = refusal(reply).unwrap_or_else(|| panic!("{flood:?}: {reply}"));
        assert!(flood.is_told(told), "{flood:?}: {told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_of_five_that_flood_take_neither_memory_nor_time() {
    let cluster = Cluster::processes(5).await;
    let mut nodes = cluster.urls()[..3].to_vec();
    let hostile =
        [Hostile::before(cluster.server(3).port()).await, Hostile::before(cluster.server(4).port()).await];
    nodes.extend(hostile.iter().map(|hostile| hostile.url.clone()));
    let builder = Quorum::builder().nodes(nodes);
    let warm = made(builder.clone()).await;
    for _ in 0..200 {
        lock_and_unlock(&warm.red_lock("r")).await;
    }
    warm.shutdown().await;
    let before = memory();
    let mut most = before;
    for flood in FLOODS {
        let quorum = builder.clone().connect().await.unwrap();
        let lock = quorum.red_lock("r");
        let mut calm = Vec::new();
        for _ in 0..50 {
            calm.push(lock_and_unlock(&lock).await);
        }
        for hostile in &hostile {
            hostile.sent.store(0, Relaxed);
            hostile.flood(flood.text());
        }
        let (begin, mut times, mut are_told) = (Instant::now(), Vec::new(), false);
        while !are_told || times.len() < 200 {
            assert!(begin.elapsed() < SOON, "{flood:?}: the nodes' replies do not name it");
            times.push(lock_and_unlock(&lock).await);
            let guard = lock.lock().await.unwrap();
            let replies = guard.node_replies();
            are_told = replies
                .iter()
                .skip(3)
                .all(|(_, reply)| refusal(reply).is_some_and(|told| flood.is_told(told)));
            guard.unlock().await.unwrap();
            most = most.max(memory());
            assert!(most < before + MOST_GROWTH, "{flood:?}: {most} bytes from {before}");
        }
        let longest = *times.iter().max().unwrap();
        let (calm, times) = (median(calm), median(times));
        let sent = hostile.iter().map(|hostile| hostile.sent.load(Relaxed)).sum::<u64>();
        let grown = most - before;
        eprintln!("{flood:?}: {calm:?}, flooded {times:?}, at most {longest:?}; sent {sent}, grown {grown}");
        assert!(longest < PROMPTLY, "{flood:?}: a lock took {longest:?}");
        // What must be delivered to them is told when they are heard of again.
        hostile.iter().for_each(Hostile::behave);
        quorum.shutdown().await;
    }
}

/// They are what was asked for, so the connection stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_notices_that_a_waiter_asked_for_takes_no_memory_and_starves_nobody() {
    let cluster = Cluster::processes(3).await;
    let hostile = Hostile::before(cluster.server(2).port()).await;
    let nodes = [cluster.server(0).url(), cluster.server(1).url(), hostile.url.clone()];
    let quorum = made(Quorum::builder().nodes(nodes)).await;
    let holder = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let subscribers = async |server: usize, resource: &str| {
        let channel = format!("redisson_lock__channel:{{{resource}}}");
        let told = cluster.server(server).command(&["PUBSUB", "NUMSUB", &channel]).await;
        redis::from_redis_value::<(String, u32)>(told).unwrap().1
    };
    // A waiter listens to releases at two of the nodes; which these are depends on the name.
    let mut number = 0;
    let (resource, held, waiting) = loop {
        number += 1;
        let resource = format!("held{number}");
        let held = holder.red_lock(&resource).lock().await.unwrap();
        let waits = quorum.red_lock(&resource);
        let waiting = tokio::spawn(async move { waits.lock().await });
        let listens = async || {
            let both = [subscribers(0, &resource).await, subscribers(1, &resource).await];
            both.iter().sum::<u32>() + subscribers(2, &resource).await == 2
        };
        eventually(SOON, "the waiter listens", listens).await;
        if subscribers(2, &resource).await == 1 {
            break (resource, held, waiting);
        }
        waiting.abort();
        held.unlock().await.unwrap();
    };
    let lock = quorum.red_lock("r");
    lock_and_unlock(&lock).await;
    let before = memory();
    hostile.flood(("", notice(&resource).repeat(20)));
    let begin = Instant::now();
    let mut times = Vec::new();
    while hostile.sent.load(Relaxed) < 16 << 20 || times.len() < 200 {
        assert!(begin.elapsed() < SOON, "{} bytes sent, {} locks", hostile.sent.load(Relaxed), times.len());
        times.push(lock_and_unlock(&lock).await);
        assert!(memory() < before + MOST_GROWTH, "{} bytes from {before}", memory());
    }
    let longest = *times.iter().max().unwrap();
    eprintln!("flooded {:?}, at most {longest:?}; grown {}", median(times), memory() - before);
    assert!(longest < PROMPTLY, "a lock took {longest:?}");
    assert_eq!(hostile.dials.load(Relaxed), 2, "the connection was closed");
    held.unlock().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting).await.expect("the waiter starves").unwrap().unwrap();
    hostile.behave();
    drop(guard);
}
