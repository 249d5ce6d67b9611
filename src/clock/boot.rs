//! Boot time.
