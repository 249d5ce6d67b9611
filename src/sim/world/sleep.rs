//! Sleeps by the clock of a process.

use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::future::{BoxFuture, FutureExt};

use super::{World, event::WorldEvent};
use crate::{
    clock::{Clock, Instant, VIRTUAL_EPOCH},
    sim::clock::micros,
};

/// The clock of one simulated process.
#[derive(Clone, Debug)]
pub(crate) struct SimClock {
    pub(crate) world: World,
    pub(crate) process: usize,
}

impl Clock for SimClock {
    fn now(&self) -> Instant {
        Instant::from_origin(Duration::from_micros(self.world.lock().local(self.process)))
    }

    fn time_of_day(&self) -> Duration {
        VIRTUAL_EPOCH + self.now().since_origin()
    }

    /// Returns a microsecond, the unit of simulated time.
    fn granularity(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<'static, ()> {
        let (world, process) = (self.world.clone(), self.process);
        Sleep { world, process, until: micros(deadline.since_origin()), queued: None }.boxed()
    }
}

/// A sleep until a time of the process's clock. The sleep has a wake in the queue of events, or a
/// waker in `frozen_sleeps` if the clock is frozen.
struct Sleep {
    world: World,
    process: usize,
    /// The deadline, by the process's clock.
    until: u64,
    queued: Option<((u64, u64), Waker)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let waker = context.waker().clone();
        let mut state = this.world.lock();
        if state.local(this.process) >= this.until {
            return Poll::Ready(());
        }
        if let Some((key, queued)) = &this.queued
            && queued.will_wake(&waker)
            && state.queue.contains_key(key)
        {
            return Poll::Pending;
        }
        let stale = this.queued.take();
        let removed = stale.as_ref().and_then(|(key, _)| state.queue.remove(key));
        if let Some(process) = state.processes.get_mut(this.process) {
            match process.clock.global(this.until) {
                Some(at) => {
                    let key = state.at(at, WorldEvent::Wake(waker.clone()));
                    this.queued = Some((key, waker));
                }
                None => process.frozen_sleeps.push(waker),
            }
        }
        drop(state);
        // Both are dropped outside of the mutex, as in `drop`.
        drop((stale, removed));
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((key, _)) = self.queued.take() {
            let removed = self.world.lock().queue.remove(&key);
            // The event is dropped outside of the mutex, because its waker may run any code.
            drop(removed);
        }
    }
}
