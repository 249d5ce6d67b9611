//! The dependencies of a client: clock, tasks, observer, identity and randomness. The simulator has dependencies of its
//! own.

use std::sync::Arc;

use rand::{RngExt, SeedableRng, rngs::StdRng};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::{
    algorithm::lease::RenewalOffset,
    clock::Clock,
    observer::Observer,
    spawner::Spawner,
    values::{Label, TicketSecret},
};

/// The dependencies of a client, from the real world or from a simulated world.
#[derive(Debug)]
pub(crate) struct ClientDependencies {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    /// The identity of the client.
    pub(crate) client_id: Uuid,
    /// The secret from which the secrets of tickets derive.
    pub(crate) ticket_secret: TicketSecret,
    pub(crate) label: Label,
    /// The source of jitter.
    pub(crate) rng: StdRng,
    pub(crate) renewal_offset: RenewalOffset,
}

impl ClientDependencies {
    /// Returns the dependencies from the real world. Tasks run on a tokio runtime, and the client id has 122 random
    /// bits of the operating system, as has the secret of tickets. Without a label, the client gets a label of host and process id.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        runtime: Handle,
        observer: Arc<dyn Observer>,
        label: Option<Label>,
    ) -> Self {
        let client_id = Uuid::new_v4();
        // The jitter must differ from client to client, but need not be secret.
        let rng = StdRng::seed_from_u64(client_id.as_u64_pair().1);
        let renewal_offset = random_renewal_offset(client_id.as_u64_pair().0);
        let label = label.unwrap_or_else(|| Label::of_process(&host(), std::process::id()));
        let ticket_secret = TicketSecret::new(Uuid::new_v4());
        Self {
            clock,
            spawner: Arc::new(runtime),
            observer,
            client_id,
            ticket_secret,
            label,
            rng,
            renewal_offset,
        }
    }
}

/// Returns the renewal offset of a client. A generator of its own leaves the other random numbers of the client as they
/// are.
pub(crate) fn random_renewal_offset(seed: u64) -> RenewalOffset {
    RenewalOffset::of_client(StdRng::seed_from_u64(seed).random_range(0.0..1.0))
}

/// Returns the name of this machine, or "host" if the name is unknown.
fn host() -> String {
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(any(not(target_os = "linux"), redquorum_portable))]
    let name =
        ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    if name.is_empty() { "host".to_owned() } else { name }
}
