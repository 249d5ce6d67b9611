//! The context of a command: shared options, output, and a connected quorum.

use std::time::Duration;

use redquorum::{__command::connectors, Quorum, QuorumBuilder};

use crate::{
    arguments::General,
    exit::Exit,
    failure::Failure,
    messages::Messages,
    output::Output,
    settings::Settings,
    shortage::{NO_QUORUM, ShortageReporter},
    supervise::signals::Signals,
    wait_report::report_connecting,
};

/// The time that a shutdown waits for the last nodes to confirm an unlock, after a quorum has confirmed. On nodes
/// that do not confirm, the key ends by its ttl.
const CONFIRMATION_TIMEOUT: Duration = Duration::from_secs(2);

/// The time limit of the whole shutdown, which otherwise waits longer if no quorum confirms an unlock. After this
/// time, the lease ends by its ttl.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// The context of a command.
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

    /// Returns the settings of the quorum, and reports the environment variables that a file overrides.
    ///
    /// # Errors
    ///
    /// As [`Settings::gather`].
    pub(crate) fn settings(&self) -> Result<Settings, Failure> {
        let settings = Settings::gather(&self.general, |name| std::env::var_os(name))?;
        if let Some(notice) = &settings.notice {
            self.messages.notice(notice);
        }
        Ok(settings)
    }

    /// Connects the quorum, does the work, and shuts the quorum down. The shutdown follows a failure
    /// too, so that no key is left on a node.
    ///
    /// # Errors
    ///
    /// The failure to connect, or of the work.
    pub(crate) async fn with_quorum(
        &self,
        settings: &Settings,
        work: impl AsyncFnOnce(&Quorum) -> Result<Exit, Failure>,
    ) -> Result<Exit, Failure> {
        self.with_quorum_of(settings, settings.builder(), work).await
    }

    /// Does the same as [`with_quorum`](Self::with_quorum), with a builder that may differ from the settings, such as
    /// a read-only builder.
    ///
    /// # Errors
    ///
    /// The failure to connect, or of the work.
    pub(crate) async fn with_quorum_of<T>(
        &self,
        settings: &Settings,
        builder: QuorumBuilder,
        work: impl AsyncFnOnce(&Quorum) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let quorum = self.connect(settings, builder).await?;
        self.work_with(quorum, work).await
    }

    /// Does the same as [`with_quorum_of`](Self::with_quorum_of), for work that handles signals. The
    /// signals are registered before the quorum connects. If a signal demands the end of the process while the
    /// quorum connects, the command ends at once. No key is left on a node, because nothing was locked yet.
    ///
    /// # Errors
    ///
    /// The failure to connect, or of the work.
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
        let mut reporter = ShortageReporter::default();
        let needed = settings.effective.votes_needed;
        let quorum = tokio::select! {
            biased;
            quorum = builder.connect() => quorum
                .map_err(|error| reporter.mark_reported(settings.connect_failure(error)))?,
            never = report_connecting(&nodes, needed, NO_QUORUM, &mut reporter, &self.messages) => match never {},
        };
        if let Some(message) = reporter.report(None) {
            self.messages.notice(&message);
        }
        Ok(quorum)
    }

    async fn work_with<T>(
        &self,
        quorum: Quorum,
        work: impl AsyncFnOnce(&Quorum) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let result = work(&quorum).await;
        #[expect(
            clippy::disallowed_methods,
            reason = "no lease depends on this time limit, and a suspended machine may prolong it"
        )]
        let shutdown =
            tokio::time::timeout(SHUTDOWN_TIMEOUT, quorum.shutdown_within(CONFIRMATION_TIMEOUT)).await;
        match shutdown {
            Ok(shutdown) if shutdown.is_complete() => {}
            Ok(shutdown) => self.messages.notice(&shutdown.to_string()),
            Err(_) => self.messages.notice("no quorum has confirmed the unlock: the lock ends with its ttl"),
        }
        result
    }
}
