//! The limit of bytes that a server may send without completing an answer. Every connection that this crate drives
//! reads through a [`BudgetedStream`].

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{
    read_pause::ReadPause,
    reply_scanner::{ReplyLimit, ReplyScanner, ReplyTooLarge},
};
use crate::{
    mutex::lock,
    node::{
        operation::{AnswerSize, ORDINARY_VALUES},
        request::MAX_OPERATIONS,
    },
    values::NodeError,
};

/// The largest number of bytes before an expected answer or notice is complete, if all answers are ordinary. The longest
/// of these answers has a third of this number of bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The largest number of values in one reply, if all answers are ordinary: twice the number in the longest reply to a
/// call.
const MAX_VALUES: usize = 2 * MAX_OPERATIONS * ORDINARY_VALUES;

/// The number of bytes that are read in a row. After these bytes, the task yields to other tasks, even if more bytes
/// can be read. The number is small, so that a flood of notices delays other tasks little, such as those that wait for a
/// loss.
const MAX_BYTES_IN_A_ROW: usize = 4 * 1024;

/// The largest number of the first bytes from a server that are recorded. An error reply is shorter.
const MAX_OPENING_BYTES: usize = 512;

/// The bytes that were read from one connection since an expected answer or notice was last complete.
///
/// A server may flood a client by an endless reply, or by unexpected replies and pushes. In each case, bytes arrive
/// that complete no expected answer or notice. These bytes are counted, and the connection ends if their number
/// exceeds the limit. The connection also ends if a reply announces more values or a longer text than is expected.
///
/// The task that sends on the connection also polls the stream. Therefore no two threads change the count at the same
/// time.
#[derive(Debug)]
pub(super) struct ReadBudget {
    count: AtomicUsize,
    most_bytes: AtomicUsize,
    most_values: AtomicUsize,
    /// The limits that were exceeded; `None` if none was.
    exceeded: Mutex<Option<ReplyLimit>>,
    has_ended: AtomicBool,
    /// The first bytes from the server, which may state the reason of a failed handshake.
    opening: Mutex<Vec<u8>>,
}

impl ReadBudget {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(MAX_BYTES),
            most_values: AtomicUsize::new(MAX_VALUES),
            exceeded: Mutex::default(),
            has_ended: AtomicBool::new(false),
            opening: Mutex::default(),
        }
    }

    /// Resets the count, because an expected answer or notice is complete.
    pub(super) fn reset(&self) {
        self.count.store(0, Relaxed);
    }

    /// Sets the limits to the size of ordinary answers and this additional size.
    pub(super) fn expect(&self, additional: AnswerSize) {
        self.most_bytes.store(MAX_BYTES + additional.bytes, Relaxed);
        self.most_values.store(MAX_VALUES + additional.values, Relaxed);
    }

    /// Removes the limit, for a connection whose user does not call `reset` after each answer.
    #[cfg(feature = "__command")]
    pub(super) fn lift(&self) {
        self.most_bytes.store(usize::MAX, Relaxed);
        self.most_values.store(usize::MAX, Relaxed);
    }

    /// Whether the stream has ended or failed, except by an exceeded limit.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Relaxed)
    }

    /// Returns the error of an exceeded limit; `None` if no limit was exceeded.
    pub(super) fn node_error(&self) -> Option<NodeError> {
        let exceeded = *lock(&self.exceeded);
        exceeded.map(|ReplyLimit { bytes, values }| NodeError::ReadLimit { most: bytes, most_values: values })
    }

    /// Returns the first bytes from the server.
    pub(super) fn opening(&self) -> Vec<u8> {
        lock(&self.opening).clone()
    }

    /// Adds to the first bytes from the server. Returns whether there is room for more bytes.
    fn record_opening(&self, bytes: &[u8]) -> bool {
        let mut opening = lock(&self.opening);
        let room = MAX_OPENING_BYTES - opening.len();
        opening.extend(bytes.iter().take(room));
        opening.len() < MAX_OPENING_BYTES
    }

    /// Counts bytes that were read, and the values that they announce.
    fn take(&self, bytes: &[u8], scanner: &mut ReplyScanner) -> io::Result<()> {
        let count = self.count.load(Relaxed).saturating_add(bytes.len());
        self.count.store(count, Relaxed);
        let limit =
            ReplyLimit { bytes: self.most_bytes.load(Relaxed), values: self.most_values.load(Relaxed) };
        let scanned = scanner.scan(bytes, limit);
        if count > limit.bytes || scanned == Err(ReplyTooLarge) {
            *lock(&self.exceeded) = Some(limit);
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(())
    }

    fn record_failure<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|_| self.has_ended.store(true, Relaxed))
    }
}

/// A stream that ends when the bytes read exceed its [`ReadBudget`].
#[derive(Debug)]
pub(super) struct BudgetedStream<S> {
    stream: S,
    budget: Arc<ReadBudget>,
    scanner: ReplyScanner,
    in_a_row: usize,
    pause: ReadPause,
    /// Whether the next bytes belong to the first bytes of the server.
    is_opening: bool,
}

impl<S> BudgetedStream<S> {
    pub(super) fn new(stream: S, budget: &Arc<ReadBudget>) -> Self {
        let (budget, scanner) = (Arc::clone(budget), ReplyScanner::new());
        Self { stream, budget, scanner, in_a_row: 0, pause: ReadPause::default(), is_opening: true }
    }
}

impl<S: AsyncRead + Unpin> BudgetedStream<S> {
    /// Handles a failed write: records the first bytes from the server. The server may have sent the reason before it
    /// closed the connection, and the user of the stream does not read after a failed write.
    fn write_failed(&mut self, error: io::Error, context: &mut Context<'_>) -> io::Error {
        let mut bytes = [0; MAX_OPENING_BYTES];
        while self.is_opening {
            let mut buffer = ReadBuf::new(&mut bytes);
            let Poll::Ready(Ok(())) = Pin::new(&mut self.stream).poll_read(context, &mut buffer) else {
                break;
            };
            self.is_opening = !buffer.filled().is_empty() && self.budget.record_opening(buffer.filled());
        }
        error
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BudgetedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.pause.poll_end(context));
        if self.in_a_row >= MAX_BYTES_IN_A_ROW {
            self.in_a_row = 0;
            self.pause.begin(context);
            return Poll::Pending;
        }
        let (before, room) =
            (buffer.filled().len(), buffer.remaining().min(MAX_BYTES_IN_A_ROW - self.in_a_row));
        let mut part = ReadBuf::new(buffer.initialize_unfilled_to(room));
        let Poll::Ready(outcome) = Pin::new(&mut self.stream).poll_read(context, &mut part) else {
            self.in_a_row = 0;
            return Poll::Pending;
        };
        let length = part.filled().len();
        buffer.advance(length);
        self.budget.record_failure(outcome)?;
        if length == 0 {
            self.budget.has_ended.store(true, Relaxed);
        }
        if self.is_opening {
            self.is_opening = self.budget.record_opening(&buffer.filled()[before..]);
        }
        self.in_a_row += length;
        let Self { budget, scanner, .. } = &mut *self;
        Poll::Ready(budget.take(&buffer.filled()[before..], scanner))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for BudgetedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = ready!(Pin::new(&mut self.stream).poll_write(context, bytes));
        let outcome = outcome.map_err(|error| self.write_failed(error, context));
        Poll::Ready(self.budget.record_failure(outcome))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices));
        let outcome = outcome.map_err(|error| self.write_failed(error, context));
        Poll::Ready(self.budget.record_failure(outcome))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = ready!(Pin::new(&mut self.stream).poll_flush(context));
        let outcome = outcome.map_err(|error| self.write_failed(error, context));
        Poll::Ready(self.budget.record_failure(outcome))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_with_an_error_after_too_many_unexpected_bytes() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::repeat(b'a'), &budget);
        let mut buffer = vec![0; MAX_BYTES];
        for _ in 0..10 {
            stream.read_exact(&mut buffer).await.unwrap();
            budget.reset();
        }
        stream.read_exact(&mut buffer).await.unwrap();
        assert_eq!(budget.node_error(), None);
        let error = stream.read_exact(&mut buffer[..1]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        budget.expect(AnswerSize { bytes: 1, values: 1 });
        let limit = NodeError::ReadLimit { most: MAX_BYTES, most_values: MAX_VALUES };
        assert_eq!(budget.node_error(), Some(limit));
        assert!(!budget.has_ended(), "the limit counts as the end of the stream");
    }

    #[tokio::test]
    async fn the_read_limit_grows_with_the_expected_answers() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::repeat(b'a'), &budget);
        budget.expect(AnswerSize { bytes: 100_000, values: 10 });
        let mut buffer = vec![0; MAX_BYTES + 100_000];
        stream.read_exact(&mut buffer).await.unwrap();
        stream.read_exact(&mut buffer[..1]).await.unwrap_err();
        let limit = NodeError::ReadLimit { most: buffer.len(), most_values: MAX_VALUES + 10 };
        assert_eq!(budget.node_error(), Some(limit));
    }

    #[tokio::test]
    async fn a_stream_ends_with_an_error_when_a_reply_announces_too_many_values() {
        let budget = Arc::new(ReadBudget::new());
        for additional in [0, 10] {
            budget.expect(AnswerSize { bytes: 0, values: additional });
            let accepted = format!("*{}\r\n", MAX_VALUES + additional);
            let mut stream = BudgetedStream::new(accepted.as_bytes(), &budget);
            stream.read_exact(&mut vec![0; accepted.len()]).await.unwrap();
            assert_eq!(budget.node_error(), None);
        }
        let refused = format!("*{}\r\n", MAX_VALUES + 11);
        let mut stream = BudgetedStream::new(refused.as_bytes(), &budget);
        let error = stream.read_exact(&mut vec![0; refused.len()]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        let limit = NodeError::ReadLimit { most: MAX_BYTES, most_values: MAX_VALUES + 10 };
        assert_eq!(budget.node_error(), Some(limit));
    }

    #[tokio::test]
    async fn a_read_without_pauses_yields_to_other_tasks() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::repeat(b'a'), &budget);
        let (mut read, mut buffer) = (0, [0; 1000]);
        let mut context = Context::from_waker(std::task::Waker::noop());
        while read <= 2 * MAX_BYTES_IN_A_ROW {
            let mut buffer = ReadBuf::new(&mut buffer);
            if Pin::new(&mut stream).poll_read(&mut context, &mut buffer).is_pending() {
                break;
            }
            read += buffer.filled().len();
        }
        assert!(
            (MAX_BYTES_IN_A_ROW..MAX_BYTES_IN_A_ROW + 1000).contains(&read),
            "{read} bytes before the first pause"
        );
    }

    #[tokio::test]
    async fn a_wake_of_the_task_does_not_end_the_pause_of_a_stream() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::repeat(b'a'), &budget);
        let mut buffer = [0; MAX_BYTES_IN_A_ROW];
        let mut read = || {
            let mut context = Context::from_waker(std::task::Waker::noop());
            Pin::new(&mut stream).poll_read(&mut context, &mut ReadBuf::new(&mut buffer)).is_ready()
        };
        assert!(read());
        assert_eq!([read(), read(), read()], [false; 3]);
        tokio::task::yield_now().await;
        assert_eq!([read(), read()], [true, false]);
    }

    #[tokio::test]
    async fn the_end_of_a_stream_is_recorded() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::empty(), &budget);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(budget.has_ended());
    }

    #[tokio::test]
    async fn the_first_bytes_are_recorded() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(tokio::io::repeat(b'a'), &budget);
        stream.read_exact(&mut [0; 7]).await.unwrap();
        assert_eq!(budget.opening(), b"aaaaaaa");
        stream.read_exact(&mut [0; 2 * MAX_OPENING_BYTES]).await.unwrap();
        assert_eq!(budget.opening(), [b'a'; MAX_OPENING_BYTES]);
    }

    /// A stream of a server that has sent a reason and accepts no bytes.
    struct ClosedStream(io::Cursor<&'static [u8]>);

    impl AsyncRead for ClosedStream {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_read(context, buffer)
        }
    }

    impl AsyncWrite for ClosedStream {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_failed_write_records_the_reason_that_the_server_has_sent() {
        let budget = Arc::new(ReadBudget::new());
        let mut stream = BudgetedStream::new(ClosedStream(io::Cursor::new(b"-ERR why\r\n")), &budget);
        stream.write_all(b"HELLO").await.unwrap_err();
        assert_eq!(budget.opening(), b"-ERR why\r\n");
    }
}
