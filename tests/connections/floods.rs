//! Nodes that send endless data which no client requested, on real servers behind a flooding proxy.
//!
//! Promises: the memory of the client stays bounded, a lock takes at most a node timeout while a quorum of other nodes
//! works, and the reply of the flooding node names the fault.

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
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, sink},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use super::{SOON, init_and_connect, refusal, replies_of};

/// The largest accepted growth of this process's memory in bytes, however much data two nodes send.
pub(super) const MAX_MEMORY_GROWTH: u64 = 20 << 20;

/// The maximum amount of data per connection, in bytes. If a client stores all of this data, the test fails, and the
/// memory of the machine still suffices.
const MAX_FLOOD_BYTES: usize = 256 << 20;

/// The size of the buffer in which the system keeps what a proxy has sent and a client has not received. By default, the
/// buffer grows to some megabytes, which a client receives for seconds after the end of a flood.
const SMALL_BUFFER: u32 = 64 << 10;

/// The command of a call, which is none of the commands of a handshake.
const CALL: &[u8] = b"EVALSHA";

/// The longest accepted time of a lock on a machine under load: at most a node timeout.
const MAX_LOCK_TIME: Duration = Duration::from_secs(1);

/// A node timeout with which the client gives up no connection during the longest flood of a test, [`SOON`]. The client
/// gives up a connection after four node timeouts without an answer, and a flooding proxy answers no call.
const PATIENT_NODE_TIMEOUT: Duration = Duration::from_secs(SOON.as_secs() / 4 + 1);

/// A kind of endless data, named after its type in RESP or its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flood {
    Bulk,
    Line,
    Array,
    /// Small arrays in each other, which take the most memory for each byte.
    Chains,
    Attributes,
    Replies,
    Notices,
    Invalidations,
    Confirmations,
    Nesting,
    Garbage,
}

pub(super) const FLOODS: [Flood; 11] = [
    Flood::Bulk,
    Flood::Line,
    Flood::Array,
    Flood::Chains,
    Flood::Attributes,
    Flood::Replies,
    Flood::Notices,
    Flood::Invalidations,
    Flood::Confirmations,
    Flood::Nesting,
    Flood::Garbage,
];

impl Flood {
    /// Returns the first bytes of the flood, and the bytes that repeat.
    pub(super) fn text(self) -> (&'static str, String) {
        match self {
            Self::Bulk => ("$1000000000\r\n", "a".repeat(1000)),
            Self::Line => ("+", "a".repeat(1000)),
            Self::Array => ("*1000000000\r\n", "_\r\n".repeat(300)),
            Self::Chains => ("*1000000000\r\n", format!("{}_\r\n", "*1\r\n".repeat(90)).repeat(3)),
            Self::Attributes => ("|1000000000\r\n", "_\r\n".repeat(300)),
            Self::Replies => ("", "+OK\r\n".repeat(200)),
            Self::Notices => ("", notice("another").repeat(20)),
            Self::Invalidations => ("", ">2\r\n$10\r\ninvalidate\r\n_\r\n".repeat(40)),
            Self::Confirmations => ("", ">3\r\n$9\r\nsubscribe\r\n$2\r\nsb\r\n:1\r\n".repeat(30)),
            Self::Nesting => ("", "*1\r\n".repeat(250)),
            Self::Garbage => ("", "no RESP at all \u{1}\u{2}\r\n".repeat(50)),
        }
    }

    /// Whether the client reports the flood with the right error. Some floods are invalid RESP3, and some are
    /// replies of a wrong form.
    fn is_reported_as(self, node_error: &NodeError) -> bool {
        match self {
            Self::Replies | Self::Confirmations => {
                matches!(node_error, NodeError::ReadLimit { .. } | NodeError::Protocol(_))
            }
            Self::Nesting | Self::Garbage => matches!(node_error, NodeError::Protocol(_)),
            _ => matches!(node_error, NodeError::ReadLimit { .. }),
        }
    }
}

/// Returns a release notice on the channel of a resource.
fn notice(resource: &str) -> String {
    notice_on(&format!("redisson_lock__channel:{{{resource}}}"))
}

/// Returns a notice on a channel.
pub(super) fn notice_on(channel: &str) -> String {
    format!(">3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n$1\r\n0\r\n", channel.len())
}

/// The time at which a flood begins on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FloodBegin {
    /// When the flood is set, or with the first byte of a later connection.
    AtOnce,
    /// In the place of the answer to a call, so that the client connects and registers before.
    AtCall,
}

/// The first bytes of a flood, the bytes that repeat, and the begin.
type SetFlood = (&'static str, String, FloodBegin);

/// A proxy before a server. While a flood is set, the proxy floods all present and later connections.
pub(super) struct FloodingProxy {
    pub(super) url: String,
    flood: watch::Sender<Option<SetFlood>>,
    /// The number of accepted connections.
    dials: Arc<AtomicUsize>,
    /// The bytes of all floods so far.
    sent: Arc<AtomicU64>,
    listening: JoinHandle<()>,
}

impl FloodingProxy {
    /// Starts a proxy with the usual buffers of the system.
    async fn before(server: u16) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), server)
    }

    /// Starts a proxy that has little of a flood on its way when the flood ends.
    pub(super) fn with_small_buffer_before(server: u16) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(SMALL_BUFFER).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self::on(socket.listen(1024).unwrap(), server)
    }

    fn on(listener: TcpListener, server: u16) -> Self {
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let (dials, sent) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        let flood = watch::Sender::new(None);
        let (dialled, sent_by_tasks, floods) = (Arc::clone(&dials), Arc::clone(&sent), flood.subscribe());
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                dialled.fetch_add(1, Relaxed);
                tokio::spawn(serve(client, server, floods.clone(), Arc::clone(&sent_by_tasks)));
            }
        });
        Self { url, flood, dials, sent, listening }
    }

    /// Starts a flood on present and later connections.
    fn flood(&self, text: (&'static str, String)) {
        self.flood_from(FloodBegin::AtOnce, text);
    }

    /// Starts a flood that begins at this time on each connection.
    pub(super) fn flood_from(&self, begin: FloodBegin, (prefix, text): (&'static str, String)) {
        self.flood.send_replace(Some((prefix, text, begin)));
    }

    /// Ends the flood and the flooded connections. Later connections reach the server again.
    pub(super) fn stop_flood(&self) {
        self.flood.send_replace(None);
    }

    /// Returns the number of connections, and of bytes of floods, until now.
    pub(super) fn counts(&self) -> (usize, u64) {
        (self.dials.load(Relaxed), self.sent.load(Relaxed))
    }
}

impl Drop for FloodingProxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Forwards one connection until a flood begins, and then sends the flood to the client.
async fn serve(
    mut client: TcpStream,
    server: u16,
    mut floods: watch::Receiver<Option<SetFlood>>,
    sent: Arc<AtomicU64>,
) {
    let mut server = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let (mut request, mut reply) = ([0; 4096], [0; 4096]);
    let (prefix, text) = loop {
        let set = floods.borrow_and_update().clone();
        let at_call = match set {
            Some((prefix, text, FloodBegin::AtOnce)) => break (prefix, text),
            Some((prefix, text, FloodBegin::AtCall)) => Some((prefix, text)),
            None => None,
        };
        tokio::select! {
            changed = floods.changed() => if changed.is_err() { return },
            read = from_server.read(&mut reply) => {
                let Ok(length @ 1..) = read else { return };
                if to_client.write_all(&reply[..length]).await.is_err() { return }
            }
            read = from_client.read(&mut request) => {
                let Ok(length @ 1..) = read else { return };
                let is_call = request[..length].windows(CALL.len()).any(|bytes| bytes == CALL);
                if let Some(flood) = at_call.filter(|_| is_call) { break flood }
                if to_server.write_all(&request[..length]).await.is_err() { return }
            }
        }
    };
    let mut unread = sink();
    tokio::select! {
        _ = copy(&mut from_client, &mut unread) => {}
        _ = send_flood(&mut to_client, prefix, &text, &sent) => {}
        // A chunk that the client reads slowly must not prolong the flood.
        _ = floods.wait_for(Option::is_none) => {}
    }
}

/// Sends the flood until the maximum amount is sent.
async fn send_flood(
    to: &mut (impl AsyncWrite + Unpin),
    prefix: &str,
    text: &str,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    to.write_all(prefix.as_bytes()).await?;
    let chunk = text.repeat(64);
    for _ in 0..MAX_FLOOD_BYTES.checked_div(chunk.len()).unwrap_or(0) {
        to.write_all(chunk.as_bytes()).await?;
        sent.fetch_add(u64::try_from(chunk.len()).unwrap(), Relaxed);
    }
    if chunk.is_empty() {
        // A flood of its first bytes alone: the connection stays silent.
        std::future::pending::<()>().await;
    }
    Ok(())
}

/// Returns the resident memory of this process in bytes, as Linux reports it.
pub(super) fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    resident.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Locks and unlocks, and returns the time that this took.
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
        let flooding = FloodingProxy::before(cluster.server(0).port()).await;
        flooding.flood(flood.text());
        let error = Quorum::builder()
            .nodes([&flooding.url])
            .connect_timeout(Duration::from_secs(2))
            .connect()
            .await
            .unwrap_err();
        let replies = replies_of(error);
        let (_, reply) = replies.iter().next().unwrap();
        let node_error = refusal(reply).unwrap_or_else(|| panic!("{flood:?}: {reply}"));
        assert!(flood.is_reported_as(node_error), "{flood:?}: {node_error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_flooding_nodes_of_five_cost_neither_memory_nor_time() {
    let cluster = Cluster::processes(5).await;
    let mut nodes = cluster.urls()[..3].to_vec();
    let flooding = [
        FloodingProxy::before(cluster.server(3).port()).await,
        FloodingProxy::before(cluster.server(4).port()).await,
    ];
    nodes.extend(flooding.iter().map(|flooding| flooding.url.clone()));
    let builder = Quorum::builder().nodes(nodes);
    let warm = init_and_connect(builder.clone()).await;
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
        for flooding in &flooding {
            flooding.sent.store(0, Relaxed);
            flooding.flood(flood.text());
        }
        let (begin, mut times, mut are_reported) = (Instant::now(), Vec::new(), false);
        while !are_reported || times.len() < 200 {
            assert!(begin.elapsed() < SOON, "{flood:?}: the replies of the nodes do not name the flood");
            times.push(lock_and_unlock(&lock).await);
            let guard = lock.lock().await.unwrap();
            let replies = guard.node_replies();
            are_reported = replies
                .iter()
                // The first three nodes have no flooding proxy.
                .skip(3)
                .all(|(_, reply)| refusal(reply).is_some_and(|error| flood.is_reported_as(error)));
            guard.unlock().await.unwrap();
            most = most.max(memory());
            assert!(most < before + MAX_MEMORY_GROWTH, "{flood:?}: {most} bytes from {before}");
        }
        let longest = *times.iter().max().unwrap();
        let (calm, times) = (median(calm), median(times));
        let sent = flooding.iter().map(|flooding| flooding.sent.load(Relaxed)).sum::<u64>();
        let grown = most - before;
        eprintln!("{flood:?}: {calm:?}, flooded {times:?}, at most {longest:?}; sent {sent}, grown {grown}");
        assert!(longest < MAX_LOCK_TIME, "{flood:?}: a lock took {longest:?}");
        // The shutdown waits for pending unlocks, which these nodes confirm only after the flood.
        flooding.iter().for_each(FloodingProxy::stop_flood);
        quorum.shutdown().await;
    }
}

/// The client has subscribed to these notices for a waiter, so the client must not close the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_subscribed_notices_costs_no_memory_and_starves_no_waiter() {
    let cluster = Cluster::processes(3).await;
    let flooding = FloodingProxy::before(cluster.server(2).port()).await;
    let nodes = [cluster.server(0).url(), cluster.server(1).url(), flooding.url.clone()];
    let builder = Quorum::builder().nodes(nodes).node_timeout(PATIENT_NODE_TIMEOUT);
    let quorum = init_and_connect(builder).await;
    let holder = Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    let subscribers = async |server: usize, resource: &str| {
        let channel = format!("redisson_lock__channel:{{{resource}}}");
        let reply = cluster.server(server).command(&["PUBSUB", "NUMSUB", &channel]).await;
        redis::from_redis_value::<(String, u32)>(reply).unwrap().1
    };
    // A waiter subscribes to release notices at two of the three nodes. The name of the resource decides at which
    // nodes. Therefore the test looks for a name with a subscription at the flooding node.
    let mut number = 0;
    let (resource, held, waiting) = loop {
        number += 1;
        let resource = format!("held{number}");
        let held = holder.red_lock(&resource).lock().await.unwrap();
        let waits = quorum.red_lock(&resource);
        let waiting = tokio::spawn(async move { waits.lock().await });
        let is_subscribed = async || {
            let both = [subscribers(0, &resource).await, subscribers(1, &resource).await];
            both.iter().sum::<u32>() + subscribers(2, &resource).await == 2
        };
        eventually(SOON, "the waiter is subscribed", is_subscribed).await;
        if subscribers(2, &resource).await == 1 {
            break (resource, held, waiting);
        }
        waiting.abort();
        held.unlock().await.unwrap();
    };
    let lock = quorum.red_lock("r");
    lock_and_unlock(&lock).await;
    let before = memory();
    flooding.flood(("", notice(&resource).repeat(20)));
    let begin = Instant::now();
    let mut times = Vec::new();
    while flooding.sent.load(Relaxed) < 16 << 20 || times.len() < 200 {
        assert!(begin.elapsed() < SOON, "{} bytes sent, {} locks", flooding.sent.load(Relaxed), times.len());
        times.push(lock_and_unlock(&lock).await);
        assert!(memory() < before + MAX_MEMORY_GROWTH, "{} bytes from {before}", memory());
    }
    let longest = *times.iter().max().unwrap();
    eprintln!("flooded {:?}, at most {longest:?}; grown {}", median(times), memory() - before);
    assert!(longest < MAX_LOCK_TIME, "a lock took {longest:?}");
    assert_eq!(flooding.dials.load(Relaxed), 2, "the client dialled again because its connection was closed");
    held.unlock().await.unwrap();
    let guard = tokio::time::timeout(SOON, waiting)
        .await
        .expect("the waiter did not lock before the deadline")
        .unwrap()
        .unwrap();
    flooding.stop_flood();
    drop(guard);
}
