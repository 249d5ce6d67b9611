//! `redquorum bench`: measures the speed of locks on these nodes.

use std::time::Duration;

use clap::Args;
use redquorum::Quorum;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    app::App,
    bench::{load::Load, nodes, report::BenchReport, residue::Residue},
    counted::counted,
    duration::{self, GivenDuration},
    exit::Exit,
    failure::Failure,
    messages::Messages,
    stopwatch,
    supervise::signals::Signals,
    waiting::WaitLine,
};

/// The smallest counter ttl that the library accepts. A counter has to outlive every lease.
const MIN_COUNTER_TTL: Duration = Duration::from_secs(1);

/// The largest number of tasks. The client works in one thread, so more tasks would measure this machine instead of the
/// nodes: on two busy cores, 4,000 tasks locked 1,300 times in a second, and 5,000 tasks hardly at all.
const MAX_TASKS: usize = 4_000;

/// Measure the speed of locks on these nodes
///
/// Tasks of one client lock and unlock without a pause, each with its own resource. The load
/// affects other users of the servers. The resources have random names, and their keys are deleted
/// at the end. A signal, such as Ctrl-C, ends the measurement early. The report shows locks and
/// unlocks, and the response time of each node under the load.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The number of tasks: 1 to 4000
    #[arg(long, value_name = "N", value_parser = number_of_tasks, default_value = "8", allow_negative_numbers = true)]
    tasks: usize,
    /// The time of the measurement, above 0
    #[arg(long, value_name = "DURATION", value_parser = time_of_measurement, default_value = "10s")]
    duration: GivenDuration,
    /// The ttl of the locks; the node timeout is a tenth of it [default: the file's, or 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_given)]
    ttl: Option<GivenDuration>,
    /// The beginning of the names, for a user with permissions for certain names only
    #[arg(long, default_value = "redquorum-bench:")]
    prefix: String,
}

fn number_of_tasks(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(tasks) if (1..=MAX_TASKS).contains(&tasks) => Ok(tasks),
        Ok(0) | Err(_) => Err(format!("expected a number from 1 to {MAX_TASKS}")),
        Ok(_) => Err(format!(
            "expected at most {MAX_TASKS}, because more tasks would measure the memory and the processor of this \
             machine"
        )),
    }
}

fn time_of_measurement(text: &str) -> Result<GivenDuration, String> {
    match duration::parse_given(text) {
        Ok(time) if time.is_zero() => {
            Err("nothing can be measured in no time: give a longer duration".to_owned())
        }
        parsed => parsed,
    }
}

impl Bench {
    /// Measures, prints the report, and deletes the keys.
    ///
    /// # Errors
    ///
    /// The failure to connect, or [`Exit::NoQuorum`] if no lock was acquired.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let ttl = self.ttl.as_deref().copied().unwrap_or(settings.effective.ttl);
        let builder =
            settings.builder().ttl(ttl).counter_ttl(settings.effective.max_ttl.max(MIN_COUNTER_TTL));
        let resources = self.resources();
        let seconds = &self.duration;
        let tasks = counted(self.tasks, "task");
        let verb = if self.tasks == 1 { "loads" } else { "load" };
        app.messages.notice(&format!("{tasks} {verb} the servers for {seconds}"));
        let waiting = WaitLine::show(&app.messages, format!("measuring for {seconds}"));
        // `None` until the quorum is connected. Without a connected quorum there are no keys to delete.
        let mut residue = None;
        let done = app.with_quorum_and_signals(&settings, builder, async |quorum, signals| {
            let residue = residue.insert(Residue::new(settings.effective.max_ttl));
            let end = time_or_signal(*self.duration, signals, &app.messages);
            let (report, load) = self.measure(quorum, &resources, settings.effective.max_ttl, end).await?;
            residue.add(load.residue);
            drop(waiting);
            app.output.print(&report)?;
            if let Some(error) = load.last_error {
                app.messages.notice(&format!("the last failure: {}", error.in_one_line()));
            }
            if report.has_locked() {
                return Ok(Exit::Success);
            }
            Err(Failure::new(Exit::NoQuorum, "no lock was acquired: `redquorum doctor` shows why"))
        });
        let done = done.await;
        if let Some(residue) = residue {
            residue.delete(&settings, &resources).await;
        }
        done.map_err(|failure| duration::shown_as_given(failure, "ttl", self.ttl.as_ref()))
    }

    /// Returns a resource for each task, with a random part that all tasks of this run share.
    fn resources(&self) -> Vec<String> {
        let Self { prefix, tasks, .. } = self;
        let run = Uuid::new_v4().simple();
        (0..*tasks).map(|task| format!("{prefix}{run}:{task}")).collect()
    }

    async fn measure(
        &self,
        quorum: &Quorum,
        resources: &[String],
        tombstone_ttl: Duration,
        end: impl Future<Output = ()>,
    ) -> Result<(BenchReport, Load), Failure> {
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
        Ok((BenchReport::new(resources.len(), took, &load, &nodes), load))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_beyond_the_limit_are_refused_with_the_reason() {
        assert_eq!((number_of_tasks("1"), number_of_tasks("4000")), (Ok(1), Ok(MAX_TASKS)));
        for (text, words) in [
            ("0", "from 1 to 4000"),
            ("-1", "from 1 to 4000"),
            ("many", "from 1 to 4000"),
            ("4001", "at most 4000, because"),
            ("100000", "at most 4000, because"),
        ] {
            let error = number_of_tasks(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_measurement_in_no_time_is_refused() {
        assert_eq!(time_of_measurement("1ms").map(|time| *time), Ok(Duration::from_millis(1)));
        for text in ["0", "0s"] {
            assert!(time_of_measurement(text).unwrap_err().contains("no time"), "{text}");
        }
        assert!(time_of_measurement("1").unwrap_err().contains("the unit is missing"));
    }
}
