//! What a poisoned mutex means, decided once.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, a poisoned one as well.
///
/// Poison says that a thread panicked while it held the lock, not that the data is broken. In this
/// crate nothing that can panic, above all no waker and no caller's code, runs between two writes
/// that belong together, so the data is whole. To panic here instead would carry one task's panic
/// into every other, and into the drops that give locks back.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is in a mutex that nobody else has, a poisoned one as well.
pub(crate) fn get_mut<T: ?Sized>(mutex: &mut Mutex<T>) -> &mut T {
    mutex.get_mut().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_mutex_outlives_a_panic_under_it() {
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
