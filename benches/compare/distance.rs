//! Proxies that delay requests and replies, as if the servers were distant. The servers have no additional work.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc::unbounded_channel,
    task::JoinSet,
    time::{Instant, sleep_until},
};

use crate::Problem;

/// The proxies before the servers. Dropping the value ends the proxies.
#[derive(Debug)]
pub(crate) struct Distance {
    /// The urls of the proxies, in the order of the servers.
    pub(crate) urls: Vec<String>,
    _proxies: JoinSet<()>,
}

impl Distance {
    /// Delays requests and replies of each server by the duration at the same index of `delays`.
    pub(crate) async fn of(servers: &[String], delays: &[Duration]) -> Result<Self, Problem> {
        let (mut urls, mut proxies) = (Vec::new(), JoinSet::new());
        for (server, delay) in servers.iter().zip(delays.iter().copied()) {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            urls.push(format!("redis://{}", listener.local_addr()?));
            let server = server.trim_start_matches("redis://").to_owned();
            proxies.spawn(async move {
                let mut connections = JoinSet::new();
                while let Ok((client, _)) = listener.accept().await {
                    let Ok(server) = TcpStream::connect(&server).await else { continue };
                    drop((client.set_nodelay(true), server.set_nodelay(true)));
                    let ((from_client, to_client), (from_server, to_server)) =
                        (client.into_split(), server.into_split());
                    connections.spawn(forward(from_client, to_server, delay));
                    connections.spawn(forward(from_server, to_client, delay));
                }
            });
        }
        Ok(Self { urls, _proxies: proxies })
    }
}

/// Forwards all data in order, each part `delay` after its arrival.
async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut receiver) = unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            sender.send((Instant::now() + delay, buffer.iter().take(read).copied().collect())).ok();
        }
    };
    let write = async move {
        while let Some((at, part)) = receiver.recv().await {
            sleep_until(at).await;
            if to.write_all(&part).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
