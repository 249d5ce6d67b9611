//! A minimal HTTP client.

use std::net::SocketAddr;

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// Sends one request without a body, and returns the status and the body of the response.
pub(super) async fn request(server: SocketAddr, method: &str, path: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(server).await?;
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    let (head, body) = response.split_once("\r\n\r\n").context("the response has no head")?;
    let status = head.split(' ').nth(1).context("the response has no status")?;
    Ok((status.parse()?, body.to_owned()))
}
