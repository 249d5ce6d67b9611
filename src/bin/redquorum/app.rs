//! What every command has at hand.

use std::time::Duration;

use redquorum::{Quorum, QuorumBuilder};

use crate::{
    arguments::General, exit::Exit, failure::Failure, messages::Messages, output::Output, settings::Settings,
};

/// How long the process stays for unlocks that are still owed to nodes. What is left then ends with its ttl.
const END: Duration = Duration::from_secs(3);

/// What every command has at hand.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) general: General,
    pub(crate) output: Output,
    pub(crate) messages: Messages,
}

impl App {
    pub(crate) fn new(general: General, messages: Messages) -> Self {
        Self { output: Output::new(general.json), general, messages }
    }

    /// Which quorum, with which settings.
    ///
    /// # Errors
    ///
    /// As [`Settings::gather`].
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        Settings::gather(&self.general, |name| std::env::var_os(name))
    }

    /// Connects the quorum, works with it, and shuts it down whatever came out, so that nothing is left on a node.
    ///
    /// # Errors
    ///
    /// Why it cannot be connected, or that of the work.
    pub(crate) async fn with_quorum(
        &self,
        settings: &Settings,
        work: impl AsyncFnOnce(&Quorum) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.with_quorum_of(settings.builder(), work).await
    }

    /// The same with settings that are not all those of the configuration.
    ///
    /// # Errors
    ///
    /// Why it cannot be connected, or that of the work.
    pub(crate) async fn with_quorum_of(
        &self,
        builder: QuorumBuilder,
        work: impl AsyncFnOnce(&Quorum) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let quorum = builder.connect().await?;
        let done = work(&quorum).await;
        #[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
        let ended = tokio::time::timeout(END, quorum.shutdown()).await;
        if ended.is_err() {
            self.messages
                .notice("some nodes have not confirmed the unlock: what they keep ends with its ttl");
        }
        done
    }
}
