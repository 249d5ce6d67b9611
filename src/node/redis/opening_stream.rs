//! The first bytes that a server sends during a TLS handshake. A server without TLS may send its reason for a refusal
//! in the clear.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::mutex::lock;

/// The largest number of bytes that are recorded. An error reply is shorter.
const MAX_OPENING_BYTES: usize = 512;

/// The first bytes that were read from a stream. The value outlives the stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening(Arc<Mutex<Vec<u8>>>);

impl Opening {
    pub(super) fn bytes(&self) -> Vec<u8> {
        lock(&self.0).clone()
    }
}

/// A stream that records the bytes of its first read.
#[derive(Debug)]
pub(super) struct OpeningStream<S> {
    stream: S,
    /// `None` after the first read.
    opening: Option<Opening>,
}

impl<S> OpeningStream<S> {
    pub(super) fn new(stream: S) -> (Self, Opening) {
        let opening = Opening::default();
        (Self { stream, opening: Some(opening.clone()) }, opening)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for OpeningStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if let Some(opening) = self.opening.take() {
            lock(&opening.0).extend(buffer.filled().iter().skip(before).take(MAX_OPENING_BYTES));
        }
        Poll::Ready(read)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for OpeningStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
