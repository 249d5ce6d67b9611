//! `redquorum bench`: measures the speed of locks on these nodes.

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
    waiting::WaitLine,
};

/// The smallest counter ttl that the library accepts. A counter has to outlive every lease.
const MIN_COUNTER_TTL: Duration = Duration::from_secs(1);

/// Measure the speed of locks on these nodes
///
/// Tasks of one client lock and unlock without a pause, each with its own resource. The load
/// affects other users of the servers. The resources have random names, and their keys are deleted
/// at the end. A signal, such as Ctrl-C, ends the measurement early. The report shows locks and
/// unlocks, and the response time of each node under the load.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The number of tasks
    #[arg(long, value_name = "N", default_value = "8")]
    tasks: NonZero<usize>,
    /// The time of the measurement
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,
    /// The ttl of the locks; the node timeout is a tenth of it [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    ttl: Option<Duration>,
    /// The beginning of the names, for a user with permissions for certain names only
    #[arg(long, default_value = "redquorum-bench:")]
    prefix: String,
}

impl Bench {
    /// Measures, prints the report, and deletes the keys.
    ///
    /// # Errors
    ///
    /// The failure to connect, or [`Exit::NoQuorum`] if no lock was acquired.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let ttl = self.ttl.unwrap_or(settings.effective.ttl);
        let builder =
            settings.builder().ttl(ttl).counter_ttl(settings.effective.max_ttl.max(MIN_COUNTER_TTL));
        let resources = self.resources();
        let seconds = duration::shown(self.duration);
        let tasks = counted(self.tasks.get(), "task");
        let verb = if self.tasks.get() == 1 { "loads" } else { "load" };
        app.messages.notice(&format!("{tasks} {verb} the servers for {seconds}"));
        let waiting = WaitLine::show(&app.messages, format!("measuring for {seconds}"));
        // `None` until the quorum is connected. Without a connected quorum there are no keys to delete.
        let mut residue = None;
        let done = app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let residue = residue.insert(Residue::new(settings.effective.max_ttl));
            let end = time_or_signal(self.duration, signals, &app.messages);
            let (report, left) = self.measure(quorum, &resources, settings.effective.max_ttl, end).await?;
            residue.add(left);
            drop(waiting);
            app.output.print(&report)?;
            if report.has_locked() {
                return Ok(Exit::Success);
            }
            let message = format!("no lock was acquired within {seconds}: `redquorum doctor` shows why");
            Err(Failure::new(Exit::NoQuorum, message))
        });
        let done = done.await;
        if let Some(residue) = residue {
            residue.delete(&settings, &resources).await;
        }
        done
    }

    /// Returns a resource for each task, with a random part that all tasks of this run share.
    fn resources(&self) -> Vec<String> {
        let Self { prefix, tasks, .. } = self;
        let run = Uuid::new_v4().simple();
        (0..tasks.get()).map(|task| format!("{prefix}{run}:{task}")).collect()
    }

    async fn measure(
        &self,
        quorum: &Quorum,
        resources: &[String],
        tombstone_ttl: Duration,
        end: impl Future<Output = ()>,
    ) -> Result<(BenchReport, Residue), Failure> {
        let (over, is_over) = watch::channel(false);
        let inspected = resources.first().map_or("", String::as_str);
        let start = stopwatch::now();
        let ending = async {
            end.await;
            over.send_replace(true);
            Ok(start.elapsed())
        };
        let (took, load, nodes) = tokio::try_join!(
            ending,
            Load::run(quorum, resources, tombstone_ttl, &is_over),
            nodes::watch(quorum, inspected, is_over.clone()),
        )?;
        Ok((BenchReport::new(resources.len(), took, &load, &nodes), load.residue))
    }
}

/// Waits until the time is over, or a signal demands the end.
async fn time_or_signal(time: Duration, signals: &mut Signals, messages: &Messages) {
    tokio::select! {
        biased;
        _ = signals.end(messages) => {}
        () = stopwatch::pause(time) => {}
    }
}
