//! What a client is made in.

use std::sync::Arc;

use rand::{SeedableRng, rngs::StdRng};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::{clock::Clock, observer::Observer, spawner::Spawner};

/// What a client lives in.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) spawner: Arc<dyn Spawner>,
    pub(crate) observer: Arc<dyn Observer>,
    /// The client's identity.
    pub(crate) client: Uuid,
    /// What its jitter comes from.
    pub(crate) random: StdRng,
}

impl Surroundings {
    /// The real world: tasks run on a tokio runtime, and random numbers come from the operating
    /// system, 122 bits of them for the client's uuid.
    pub(crate) fn new(clock: Arc<dyn Clock>, runtime: Handle, observer: Arc<dyn Observer>) -> Self {
        let client = Uuid::new_v4();
        // The jitter needs to differ between clients, not to be secret.
        let random = StdRng::seed_from_u64(client.as_u64_pair().1);
        Self { clock, spawner: Arc::new(runtime), observer, client, random }
    }
}
