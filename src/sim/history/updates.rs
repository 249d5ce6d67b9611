//! I4: a fenced register loses no accepted update, and shows no update to the holder of an older
//! lease.

use std::collections::HashMap;

use super::{Rule, event::Event, evidence::Access, index::IndexedEvent, violation::Violation};
use crate::values::{FencingToken, Resource};

/// The accepted accesses of each register.
#[derive(Default)]
pub(super) struct Registers<'h>(HashMap<&'h Resource, Accepted>);

impl<'h> Rule<'h> for Registers<'h> {
    fn on_event(&mut self, indexed: &IndexedEvent<'h>, found: &mut Vec<Violation>) {
        let (at, process) = (indexed.at, indexed.process);
        match indexed.event {
            Event::Read { register, token, value: Some(_) } => {
                let read =
                    IndexedAccess { entry: indexed.entry, access: Access { process, token: *token, at } };
                let accepted = self.0.entry(register).or_default();
                found.extend(accepted.stale_read(register, read.access));
                accepted.read(read);
            }
            Event::Written { register, token, is_accepted: true, .. } => {
                let write =
                    IndexedAccess { entry: indexed.entry, access: Access { process, token: *token, at } };
                let accepted = self.0.entry(register).or_default();
                found.extend(accepted.broken_write(register, write));
                accepted.write(write);
            }
            _ => {}
        }
    }
}

/// The accepted accesses of one register.
///
/// Two accesses have the same writer if both have a token and the tokens are equal. If an access
/// has no token, the accesses have the same writer if their processes are the same. Therefore the
/// other writers of a write are:
///
/// * **For a write with a token:** the writers with other tokens, and the other processes that
///   write without a token.
/// * **For a write without a token:** all other processes.
#[derive(Default)]
struct Accepted {
    /// The access with the largest token.
    newest: Option<Access>,
    /// The write with the largest token.
    newest_write: Option<Access>,
    /// The last read under each token.
    reads_by_token: HashMap<FencingToken, IndexedAccess>,
    /// The last read of each process without a token.
    reads_without_token: HashMap<usize, IndexedAccess>,
    /// The last read of each process, with or without a token.
    reads_by_process: HashMap<usize, IndexedAccess>,
    /// The last writes with a token, by token.
    writes_by_token: LastTwo<FencingToken>,
    /// The last writes without a token, by process.
    writes_without_token: LastTwo<usize>,
    /// The last writes with or without a token, by process.
    writes_by_process: LastTwo<usize>,
}

impl Accepted {
    fn read(&mut self, read: IndexedAccess) {
        let Access { process, token, .. } = read.access;
        match token {
            Some(token) => drop(self.reads_by_token.insert(token, read)),
            None => drop(self.reads_without_token.insert(process, read)),
        }
        self.reads_by_process.insert(process, read);
        self.claim(read.access);
    }

    fn write(&mut self, write: IndexedAccess) {
        let Access { process, token, .. } = write.access;
        match token {
            Some(token) => self.writes_by_token.push(token, write),
            None => self.writes_without_token.push(process, write),
        }
        self.writes_by_process.push(process, write);
        self.claim(write.access);
        self.newest_write = newer(self.newest_write, write.access);
    }

    /// Records an access with the largest token so far.
    fn claim(&mut self, access: Access) {
        self.newest = newer(self.newest, access);
    }

    /// Returns a violation if the register has accepted a write with a larger token than the read.
    fn stale_read(&self, register: &Resource, read: Access) -> Option<Violation> {
        let newest = self.newest_write.filter(|newest| read.token.is_some() && read.token < newest.token)?;
        Some(Violation::OldRead { register: register.clone(), newest, read })
    }

    /// Returns a violation if the write overwrites an update after the last read of its writer, or has a
    /// smaller token than an earlier access.
    fn broken_write(&self, register: &Resource, write: IndexedAccess) -> Option<Violation> {
        let (register, IndexedAccess { access: write, .. }) = (register.clone(), write);
        if let (Some(read), Some(lost)) = (self.read_for(write), self.other_write(write))
            && read.entry < lost.entry
        {
            return Some(Violation::LostUpdate { register, read: read.access, lost: lost.access, write });
        }
        let newest = self.newest.filter(|newest| write.token.is_some() && write.token < newest.token)?;
        Some(Violation::OldToken { register, newest, write })
    }

    /// Returns the last read by the same writer.
    fn read_for(&self, write: Access) -> Option<IndexedAccess> {
        match write.token {
            Some(token) => later(
                self.reads_by_token.get(&token).copied(),
                self.reads_without_token.get(&write.process).copied(),
            ),
            None => self.reads_by_process.get(&write.process).copied(),
        }
    }

    /// Returns the last write by another writer.
    fn other_write(&self, write: Access) -> Option<IndexedAccess> {
        match write.token {
            Some(token) => later(
                self.writes_by_token.other_than(&token),
                self.writes_without_token.other_than(&write.process),
            ),
            None => self.writes_by_process.other_than(&write.process),
        }
    }
}

/// An access, with the index of its entry.
#[derive(Clone, Copy)]
struct IndexedAccess {
    entry: usize,
    access: Access,
}

/// Returns the access with the larger token; of two accesses with the same token, the earlier access.
fn newer(newest: Option<Access>, access: Access) -> Option<Access> {
    if access.token > newest.and_then(|newest| newest.token) { Some(access) } else { newest }
}

/// Returns the access with the later entry.
fn later(a: Option<IndexedAccess>, b: Option<IndexedAccess>) -> Option<IndexedAccess> {
    a.into_iter().chain(b).max_by_key(|access| access.entry)
}

/// The last write, and the last write with a different key than the last write. These two determine
/// the last write whose key differs from any given key.
struct LastTwo<K> {
    last: Option<(K, IndexedAccess)>,
    other: Option<IndexedAccess>,
}

impl<K> Default for LastTwo<K> {
    fn default() -> Self {
        Self { last: None, other: None }
    }
}

impl<K: PartialEq> LastTwo<K> {
    fn push(&mut self, key: K, write: IndexedAccess) {
        self.other = self.other_than(&key);
        self.last = Some((key, write));
    }

    fn other_than(&self, key: &K) -> Option<IndexedAccess> {
        match &self.last {
            Some((last, write)) if last != key => Some(*write),
            Some(_) => self.other,
            None => None,
        }
    }
}
