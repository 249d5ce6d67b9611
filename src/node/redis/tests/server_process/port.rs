//! Addresses that stay free while their server is down.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use super::lock_file;

/// Used where the system does not say; it is the default of Linux.
const FIRST_EPHEMERAL_PORT: u16 = 32768;

/// Below it live the well-known services of a developer's machine.
const LOWEST_PORT: u16 = 15000;

/// A port on which nothing listens, reserved among the test processes of this machine until this
/// process ends.
///
/// The port lies outside the range from which the system takes the local ends of connections. One
/// from that range would be lost now and then while its server is killed: to another test's
/// listener, or to a client that reconnects to the dead server and happens to be given the very
/// same port as its own end, so that it connects to itself.
///
/// No port is reserved twice while the process lives: clients of an earlier server go on dialling
/// its address, and would register with whatever comes after it, in this process or another.
#[derive(Debug)]
pub struct Port {
    number: u16,
}

impl Port {
    /// Reserves a port that the system says is free.
    pub fn reserve() -> Self {
        let candidates = LOWEST_PORT..first_ephemeral_port();
        assert!(
            !candidates.is_empty(),
            "the system leaves no ports between {LOWEST_PORT} and its ephemeral ones"
        );
        std::iter::repeat_with(|| rand::random_range(candidates.clone()))
            .take(1000)
            .find_map(Self::try_reserve)
            .expect("one of 1000 random ports is free")
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn try_reserve(number: u16) -> Option<Self> {
        /// Files that are locked as long as they are open, so the system frees the reservations of
        /// a killed test process.
        static RESERVED: Mutex<BTreeMap<u16, File>> = Mutex::new(BTreeMap::new());
        let reservation = lock_file::open(&format!("port-{number}")).expect("temporary files can be written");
        reservation.try_lock().ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?;
        RESERVED.lock().unwrap_or_else(PoisonError::into_inner).insert(number, reservation);
        Some(Self { number })
    }
}

fn first_ephemeral_port() -> u16 {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(FIRST_EPHEMERAL_PORT)
}
