//! `redquorum bench`: how fast locks are on these nodes.

use std::{num::NonZero, time::Duration};

use clap::Args;
use redquorum::Quorum;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    app::App,
    bench::{load::Load, nodes, report::BenchReport, residue::Residue},
    counted::counted,
    duration,
    exit::Exit,
    failure::Failure,
    messages::Messages,
    stopwatch,
    supervise::signals::Signals,
    waiting::Waiting,
};

/// A counter outlives every lease, and no less is accepted.
const LEAST_COUNTER_TTL: Duration = Duration::from_secs(1);

/// Measure how fast locks are on these nodes
///
/// Tasks of one client lock and unlock, each a resource of its own, as often as they can. It loads
/// the servers, so their other users will notice. The resources have a random name which nobody
/// else has, and what is left of them is deleted at the end; a signal such as that of Ctrl-C ends
/// it early. Below locks and unlocks, each node: how fast it answered a question meanwhile.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// How many tasks
    #[arg(long, value_name = "N", default_value = "8")]
    tasks: NonZero<usize>,
    /// For how long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,
    /// The ttl of the locks, of which the node timeout is a tenth [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// How their names begin, for a user who may lock only certain names
    #[arg(long, default_value = "redquorum-bench:")]
    prefix: String,
}

impl Bench {
    /// Measures, prints, and cleans up.
    ///
    /// # Errors
    ///
    /// Why there is no quorum to measure, or [`Exit::NoQuorum`] if no lock could be had.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let ttl = self.ttl.unwrap_or(settings.effective.ttl);
        let builder =
            settings.builder().ttl(ttl).counter_ttl(settings.effective.max_ttl.max(LEAST_COUNTER_TTL));
        let resources = self.resources();
        let seconds = duration::shown(self.duration);
        let tasks = counted(self.tasks.get(), "task");
        let verb = if self.tasks.get() == 1 { "loads" } else { "load" };
        app.messages.notice(&format!("{tasks} {verb} the servers for {seconds}"));
        let waiting = Waiting::show(&app.messages, format!("measuring for {seconds}"));
        // None where nothing was begun, for which no node is to be waited for once more.
        let mut residue = None;
        let done = app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let residue = residue.insert(Residue::new(settings.effective.max_ttl));
            let over = end(self.duration, signals, &app.messages);
            let (report, left) = self.measure(quorum, &resources, settings.effective.max_ttl, over).await?;
            residue.add(left);
            drop(waiting);
            app.output.print(&report)?;
            if report.has_locked() {
                return Ok(Exit::Success);
            }
            Err(Failure::new(Exit::NoQuorum, "no lock could be taken: `redquorum doctor` says why"))
        });
        let done = done.await;
        if let Some(residue) = residue {
            residue.delete(&settings, &resources).await;
        }
        done
    }

    /// Names that nobody else has: 122 random bits.
    fn resources(&self) -> Vec<String> {
        let Self { prefix, tasks, .. } = self;
        let run = Uuid::new_v4().simple();
        (0..tasks.get()).map(|task| format!("{prefix}{run}:{task}")).collect()
    }

    async fn measure(
        &self,
        quorum: &Quorum,
        resources: &[String],
        tombstones_last: Duration,
        end: impl Future<Output = ()>,
    ) -> Result<(BenchReport, Residue), Failure> {
        let (over, is_over) = watch::channel(false);
        let asked = resources.first().map_or("", String::as_str);
        let start = stopwatch::now();
        let ending = async {
            end.await;
            over.send_replace(true);
            Ok(start.elapsed())
        };
        let (took, load, nodes) = tokio::try_join!(
            ending,
            Load::run(quorum, resources, tombstones_last, &is_over),
            nodes::watch(quorum, asked, is_over.clone()),
        )?;
        Ok((BenchReport::new(resources.len(), took, &load, &nodes), load.residue))
    }
}

/// The end of the time, or a signal that asks for it.
async fn end(lasts: Duration, signals: &mut Signals, messages: &Messages) {
    tokio::select! {
        biased;
        _ = signals.end(messages) => {}
        () = stopwatch::pause(lasts) => {}
    }
}
