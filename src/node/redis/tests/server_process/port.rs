//! Ports that stay free while their server is down.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use super::lock_file;

/// The first ephemeral port if the system does not report it: the default of Linux.
const FIRST_EPHEMERAL_PORT: u16 = 32768;

/// The lowest port to reserve. Lower ports have the well-known services of a developer's machine.
const LOWEST_PORT: u16 = 15000;

/// A port on which nothing listens, reserved among the test processes of this machine until this process
/// ends.
///
/// The port lies outside the range from which the system takes the local ends of connections. A port of that
/// range could be lost while its server is down: to the listener of another test, or to a client that
/// reconnects to the dead server and gets the same port as its own end, so that the client connects to
/// itself.
///
/// No port is reserved twice in the life of the process. Clients of an earlier server keep dialling its
/// address, and would register with the next server there, in this process or another.
#[derive(Debug)]
pub struct Port {
    number: u16,
}

impl Port {
    /// Reserves a port that is free according to the system.
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

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn try_reserve(number: u16) -> Option<Self> {
        /// The locked files. The system unlocks the files of a killed test process, and thereby frees its
        /// ports.
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
