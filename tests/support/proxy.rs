//! A TCP hop between a client and a server, for the faults that signals cannot make.

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

/// One way through a [`Proxy`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client.
    Replies,
}

/// What happens to bytes that want to pass in one direction.
#[derive(Debug, Clone, Copy)]
struct Flow {
    gate: Gate,
    delay: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    Held,
    Cut,
}

/// Forwards connections to a server, both ways until told otherwise.
///
/// Faults apply to all connections, present and future, and to bytes that are under way in the
/// proxy.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    port: Port,
    target: Arc<AtomicU16>,
    requests: watch::Sender<Flow>,
    replies: watch::Sender<Flow>,
    connections: Arc<Mutex<JoinSet<()>>>,
    listening: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a port of its own and forwards to `server`.
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
            port,
            target,
            requests,
            replies,
            connections,
            listening,
        }
    }

    /// The port where clients reach the server by way of the proxy.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of the server by way of the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Leads connections that come from now on to another server; those that are there stay where
    /// they are.
    pub fn lead_to(&self, server: &Server) {
        self.target.store(server.port(), Ordering::Relaxed);
    }

    /// Keeps bytes back until the direction is [opened](Self::open); they arrive then, even if
    /// their sender has hung up.
    pub fn hold(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Held);
    }

    /// Swallows bytes, those held back too, while the connections stay up: what a network does that
    /// loses every packet.
    pub fn cut(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Cut);
    }

    /// Lets bytes pass again.
    pub fn open(&self, direction: Direction) {
        self.flow(direction).send_modify(|flow| flow.gate = Gate::Open);
    }

    /// Makes bytes that come in from now on arrive so much later, in their order.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.flow(direction).send_modify(|flow| flow.delay = delay);
    }

    /// Closes all connections and forgets the bytes in them; new ones are accepted.
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
        // The connections end with the set, whose other owner this is.
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
            // A server that is down refuses the connection, and so the client finds this one
            // closed.
            let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).await else { return };
            client.set_nodelay(true).and_then(|()| server.set_nodelay(true)).ok();
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::join!(pump(from_client, to_server, requests), pump(from_server, to_client, replies));
        });
    }
}

/// Carries bytes in one direction until their sender ends it and all of them have passed.
async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut flow: watch::Receiver<Flow>) {
    let (under_way, mut arrived) = mpsc::unbounded_channel();
    let delay = flow.clone();
    let take_in = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let due = Instant::now() + delay.borrow().delay;
            if under_way.send((due, buffer[..length].to_vec())).is_err() {
                return;
            }
        }
    };
    let hand_out = async move {
        while let Some((due, bytes)) = arrived.recv().await {
            tokio::time::sleep_until(due).await;
            let Ok(gate) = flow.wait_for(|flow| flow.gate != Gate::Held).await.map(|flow| flow.gate) else {
                return;
            };
            if gate == Gate::Open && to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        // A sender that hung up while its bytes were held back or cut must not be noticed before
        // they are let through.
        if flow.wait_for(|flow| flow.gate == Gate::Open).await.is_ok() {
            to.shutdown().await.ok();
        }
    };
    tokio::join!(take_in, hand_out);
}
