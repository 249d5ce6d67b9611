//! Access to mutexes of the standard library, which may be poisoned.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if it is poisoned.
///
/// A mutex is poisoned if a thread has panicked while the mutex was locked. The data is consistent nevertheless: in
/// this crate, no code that can panic, such as a waker or code of the caller, runs between two writes that belong
/// together. A panic here would spread the panic of one task to all other tasks, and to the drops that unlock leases.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the data of a mutex that no other thread shares, even if the mutex is poisoned.
pub(crate) fn get_mut<T: ?Sized>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_poisoned_mutex_can_still_be_locked() {
        let mutex = Mutex::new(1);
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = lock(&mutex);
            *guard = 2;
            panic!("while the mutex is locked");
        }));
        assert!(panicked.is_err() && mutex.is_poisoned());
        assert_eq!(*lock(&mutex), 2);
    }
}
