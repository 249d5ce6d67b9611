//! What a client is made in.

use std::sync::Arc;

use rand::{SeedableRng, rngs::StdRng};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::{clock::Clock, observer::Observer, spawner::Spawner, values::Label};

/// What a client lives in.
#[derive(Debug)]
pub(crate) struct ClientDependencies {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    /// The client's identity.
    pub(crate) client: Uuid,
    /// What it calls itself.
    pub(crate) label: Label,
    /// What its jitter comes from.
    pub(crate) random: StdRng,
}

impl ClientDependencies {
    /// The real world: tasks run on a tokio runtime, and random numbers come from the operating
    /// system, 122 bits of them for the client's uuid. A client without a label is called by host and
    /// process.
    pub(crate) fn new(
        clock: Arc<dyn Clock>,
        runtime: Handle,
        observer: Arc<dyn Observer>,
        label: Option<Label>,
    ) -> Self {
        let client = Uuid::new_v4();
        // The jitter needs to differ between clients, not to be secret.
        let random = StdRng::seed_from_u64(client.as_u64_pair().1);
        let label = label.unwrap_or_else(|| Label::of_process(&host(), std::process::id()));
        Self { clock, spawner: Arc::new(runtime), observer, client, label, random }
    }
}

/// The name of this machine, or what stands for one that does not tell.
fn host() -> String {
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    let told = rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(any(not(target_os = "linux"), redquorum_portable))]
    let told =
        ["HOSTNAME", "COMPUTERNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_default();
    if told.is_empty() { "host".to_owned() } else { told }
}
