//! A TCP proxy between a client and a server, for faults that signals cannot cause.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use super::{server::Server, server_process::port::Port};

/// A direction through a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// The faults of one direction.
#[derive(Debug, Clone, Copy)]
struct Flow {
    gate: Gate,
    delay: Duration,
}

/// Whether bytes pass, wait in the proxy, or are discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Held,
    Cut,
}

/// Forwards connections to a server, in both directions, until a fault is set.
///
/// A fault applies to all present and future connections, and to bytes that wait in the proxy.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    plain_url: String,
    port: Port,
    /// The port of the server to which new connections lead.
    target: Arc<AtomicU16>,
    requests: watch::Sender<Flow>,
    replies: watch::Sender<Flow>,
    connections: Arc<Mutex<JoinSet<()>>>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a new port, and forwards to `server`.
    pub async fn before(server: &Server) -> Self {
        let port = Port::reserve();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        let listener = TcpListener::bind(address).await.expect("a reserved port is free");
        let open = Flow { gate: Gate::Open, delay: Duration::ZERO };
        let (requests, replies) = (watch::Sender::new(open), watch::Sender::new(open));
        let connections = Arc::new(Mutex::new(JoinSet::new()));
        let flows = (requests.subscribe(), replies.subscribe());
        let target = Arc::new(AtomicU16::new(server.port()));
        let listening = tokio::spawn(listen(listener, Arc::clone(&target), flows, Arc::clone(&connections)));
        Self {
            url: server.url_through(port.number()),
            plain_url: server.plain_url_through(port.number()),
            port,
            target,
            requests,
            replies,
            connections,
            listening,
        }
    }

    /// Returns the port of the proxy.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the URL of the server through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the URL by which a client of the redis crate connects to the server through the proxy.
    pub fn plain_url(&self) -> &str {
        &self.plain_url
    }

    /// Forwards future connections to another server. Present connections keep their server.
    pub fn lead_to(&self, server: &Server) {
        self.target.store(server.port(), Ordering::Relaxed);
    }

    /// Holds bytes back until the direction is [opened](Self::open). Held bytes arrive then, even if the
    /// sender has closed its connection.
    pub fn hold(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Held);
    }

    /// Discards bytes, including the bytes that were held back. Connections stay open, as in a network that loses
    /// each packet.
    pub fn cut(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Cut);
    }

    /// Lets bytes pass again.
    pub fn open(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Open);
    }

    /// Delays bytes that arrive from now on, and keeps their order.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.flow(direction).send_modify(|flow| flow.delay = delay);
    }

    /// Closes all connections, and discards the bytes in them. New connections are accepted.
    pub async fn drop_connections(&self) {
        self.connections.lock().await.shutdown().await;
    }

    fn flow(&self, direction: Direction) -> &watch::Sender<Flow> {
        match direction {
            Direction::Requests => &self.requests,
            Direction::Replies => &self.replies,
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections end with the last reference to their set. The other reference belongs to this task.
        self.listening.abort();
    }
}

async fn listen(
    listener: TcpListener,
    target: Arc<AtomicU16>,
    (requests, replies): (watch::Receiver<Flow>, watch::Receiver<Flow>),
    connections: Arc<Mutex<JoinSet<()>>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (requests, replies) = (requests.clone(), replies.clone());
        let server = target.load(Ordering::Relaxed);
        connections.lock().await.spawn(async move {
            // A dead server refuses the connection. The client then finds its connection closed.
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(pump(from_client, to_server, requests), pump(from_server, to_client, replies));
        });
    }
}

/// Forwards bytes in one direction until the sender has closed the connection and all bytes have passed.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut flow: watch::Receiver<Flow>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let delay = flow.clone();
    let read_all = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + delay.borrow().delay;
            if sender.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    let write_all_due = async move {
        while let Some((due, bytes)) = receiver.recv().await {
            tokio::time::sleep_until(due).await;
            let Ok(gate) = flow.wait_for(|flow| flow.gate != Gate::Held).await.map(|flow| flow.gate) else {
                return;
            };
            if gate == Gate::Open && to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // If the sender closed its connection while bytes were held or discarded, the receiver notices only
        // when the direction is open again.
        if flow.wait_for(|flow| flow.gate == Gate::Open).await.is_ok() {
            to.shutdown().await.ok();
        }
    };
    tokio::join!(read_all, write_all_due);
}
