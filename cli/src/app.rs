//! What every command has at hand.

use std::time::Duration;

use redquorum::{__command::connectors, Quorum, QuorumBuilder};

use crate::{
    arguments::General, exit::Exit, failure::Failure, messages::Messages, narration::narrate_connecting,
    output::Output, settings::Settings, shortage::Teller, supervise::signals::Signals,
};

/// How long the process stays for nodes that do not confirm an unlock, and for a lease that no
/// quorum has unlocked. What is left then ends with its ttl.
const GRACE: Duration = Duration::from_secs(2);
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

    /// Connects the quorum, works with it, and shuts it down whatever came out, so that nothing is
    /// left on a node.
    ///
    /// # Errors
    ///
    /// Why it cannot be connected, or that of the work.
    pub(crate) async fn with_quorum(
        &self,
        settings: &Settings,
        work: impl AsyncFnOnce(&Quorum) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.with_quorum_of(settings, settings.builder(), work).await
    }

    /// The same with settings that are not all those of the configuration.
    ///
    /// # Errors
    ///
    /// Why it cannot be connected, or that of the work.
    pub(crate) async fn with_quorum_of<T>(
        &self,
        settings: &Settings,
        builder: QuorumBuilder,
        work: impl AsyncFnOnce(&Quorum) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let quorum = self.connect(settings, builder).await?;
        self.work_with(quorum, work).await
    }

    /// The same for work that hears signals, which are taken over before anything is waited for: one
    /// that ends it also ends the connecting, which leaves nothing on a node.
    ///
    /// # Errors
    ///
    /// Why it cannot be connected, or that of the work.
    pub(crate) async fn with_quorum_and_signals(
        &self,
        settings: &Settings,
        builder: QuorumBuilder,
        work: impl AsyncFnOnce(&Quorum, &mut Signals) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        let mut signals = Signals::register()?;
        let quorum = tokio::select! {
            biased;
            signal = signals.end(&self.messages) => return Ok(Exit::Signal(signal as u8)),
            quorum = self.connect(settings, builder) => quorum?,
        };
        self.work_with(quorum, async |quorum| work(quorum, &mut signals).await).await
    }

    async fn connect(&self, settings: &Settings, builder: QuorumBuilder) -> Result<Quorum, Failure> {
        let nodes = connectors(&builder)?;
        let mut teller = Teller::default();
        let needed = settings.effective.votes_needed;
        let quorum = tokio::select! {
            biased;
            quorum = builder.connect() => quorum?,
            never = narrate_connecting(&nodes, needed, &mut teller, &self.messages) => match never {},
        };
        if let Some(message) = teller.hear(None) {
            self.messages.notice(&message);
        }
        Ok(quorum)
    }

    async fn work_with<T>(
        &self,
        quorum: Quorum,
        work: impl AsyncFnOnce(&Quorum) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let done = work(&quorum).await;
        #[expect(clippy::disallowed_methods, reason = "no lease depends on it, and a suspend may prolong it")]
        let ended = tokio::time::timeout(END, quorum.shutdown_within(GRACE)).await;
        match ended {
            Ok(shutdown) if shutdown.is_complete() => {}
            Ok(shutdown) => self.messages.notice(&shutdown.to_string()),
            Err(_) => self.messages.notice("no quorum has confirmed the unlock: the lock ends with its ttl"),
        }
        done
    }
}
