//! The pause of a stream in favour of other tasks.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures::task::AtomicWaker;

/// A pause of reading, until the runtime has run the other tasks that are ready.
///
/// A wake of the task that reads, such as for a call, does not end the pause. Otherwise, if a thousand tasks send an
/// unlock during a flood, each of them would wait for a read of the flood.
#[derive(Debug, Default)]
pub(super) struct ReadPause(Option<Arc<PauseState>>);

#[derive(Debug, Default)]
struct PauseState {
    task: AtomicWaker,
    is_over: AtomicBool,
}

impl ReadPause {
    /// Begins a pause. Its end wakes the task of `context`.
    pub(super) fn begin(&mut self, context: &Context<'_>) {
        let state = Arc::new(PauseState::default());
        state.task.register(context.waker());
        let waker = Waker::from(Arc::clone(&state));
        // After the first poll of this future, the runtime wakes the given waker when the other ready tasks have run.
        let yielding = pin!(tokio::task::yield_now());
        if yielding.poll(&mut Context::from_waker(&waker)).is_ready() {
            waker.wake();
        }
        self.0 = Some(state);
    }

    /// Waits for the end of the pause; ready without a pause.
    pub(super) fn poll_end(&mut self, context: &Context<'_>) -> Poll<()> {
        if let Some(state) = &self.0 {
            state.task.register(context.waker());
            if !state.is_over.load(Ordering::SeqCst) {
                return Poll::Pending;
            }
        }
        self.0 = None;
        Poll::Ready(())
    }
}

impl Wake for PauseState {
    fn wake(self: Arc<Self>) {
        self.is_over.store(true, Ordering::SeqCst);
        self.task.wake();
    }
}
