//! Servers that are far away: what goes to them and comes back takes longer, and they have no more to
//! do for that.

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

/// Proxies, which are gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Distance {
    pub(crate) urls: Vec<String>,
    _proxies: JoinSet<()>,
}

impl Distance {
    /// Puts each of these servers so far away, one way.
    pub(crate) async fn of(servers: &[String], ways: &[Duration]) -> Result<Self, Problem> {
        let (mut urls, mut proxies) = (Vec::new(), JoinSet::new());
        for (server, way) in servers.iter().zip(ways.iter().copied()) {
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
                    connections.spawn(carry(from_client, to_server, way));
                    connections.spawn(carry(from_server, to_client, way));
                }
            });
        }
        Ok(Self { urls, _proxies: proxies })
    }
}

/// Carries everything over in order, each part so long after it was read.
async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Duration) {
    let (on_its_way, mut arriving) = unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            on_its_way.send((Instant::now() + way, buffer.iter().take(read).copied().collect())).ok();
        }
    };
    let write = async move {
        while let Some((at, part)) = arriving.recv().await {
            sleep_until(at).await;
            if to.write_all(&part).await.is_err() {
                return;
            }
        }
    };
    tokio::join!(read, write);
}
