//! Ports that stay free while their server is down.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use super::lock_file;

/// The first ephemeral port if the system does not report its own: the default of Linux.
const FIRST_EPHEMERAL_PORT: u16 = 32768;

/// The lowest port to reserve. Well-known services use lower ports.
const LOWEST_PORT: u16 = 15000;

/// The difference between the port of a server and its bus port, at which the other servers of a Redis Cluster reach the
/// server. Redis before 7.0 has no setting for the bus port.
pub(crate) const BUS_PORT_OFFSET: u16 = 10_000;

/// A port without a listener, which no other test process of this machine can reserve until this
/// process ends.
///
/// The port is not an ephemeral port, which the system may assign to the local end of a connection. While the server of
/// an ephemeral port is down, the port could go to the listener of another test, or to a client that dials the dead
/// server and then connects to itself.
///
/// A process reserves no port twice. Clients of an earlier server continue to dial the address of that server, and
/// would register with the next server at the same address.
#[derive(Debug)]
pub struct Port {
    number: u16,
}

impl Port {
    /// Reserves a port that is free according to the system.
    pub fn reserve() -> Self {
        Self::reserve_random(0)
    }

    /// Reserves a port for a server of a Redis Cluster, and its bus port.
    ///
    /// An ephemeral port would often be taken. After a client has closed a connection, the system keeps the client's port
    /// for a minute, and refuses the port to a listener.
    pub fn reserve_with_bus_port() -> Self {
        Self::reserve_random(BUS_PORT_OFFSET)
    }

    /// Reserves a port, and the port that is higher by `offset`.
    fn reserve_random(offset: u16) -> Self {
        let candidates = LOWEST_PORT..first_ephemeral_port().saturating_sub(offset);
        assert!(
            !candidates.is_empty(),
            "the system leaves no ports between {LOWEST_PORT} and its ephemeral ports, less {offset}"
        );
        std::iter::repeat_with(|| rand::random_range(candidates.clone()))
            .take(1000)
            .find_map(|number| {
                let port = Self::try_reserve(number)?;
                if offset > 0 {
                    Self::try_reserve(number + offset)?;
                }
                Some(port)
            })
            .expect("one of 1000 random ports is free")
    }

    /// Returns the number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn try_reserve(number: u16) -> Option<Self> {
        /// The locked files of the reserved ports. When a test process is killed, the system
        /// unlocks its files, and other processes can reserve the ports.
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
