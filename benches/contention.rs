//! The cost of contention, measured in simulations: the real lock code over simulated nodes, in
//! virtual time.
//!
//! Every contender is a separate process. A contender locks the resource, holds the lock for a round trip or a
//! millisecond, whichever is longer, unlocks, and locks again. The run ends when all contenders together have had a
//! fixed number of grants. The figures are
//!
//! * attempts per grant, and messages per grant: all messages in both directions, including the messages for
//!   connections;
//! * the hand-off, from an unlock to the next grant: the median, and the 99th percentile. The next grant may be to the
//!   same contender. A lock whose waiters only sleep and poll mostly grants to the same contender, so read the hand-off
//!   together with the spread;
//! * the spread: the number of grants of the unluckiest and of the luckiest contender.
//!
//! The first table shows contenders that lock again at once, for several numbers of nodes and round trips. The second
//! table also shows contenders that rest for as long as they have held the lock. The plot, an SVG, shows the second
//! table.
//!
//! ```text
//! cargo run --release -p redquorum-benches --example contention
//! cargo run --release -p redquorum-benches --example contention -- \
//!     --nodes 5 --contenders 2,10 --plot contention.svg
//! ```

#![expect(clippy::print_stdout, reason = "an example prints its results")]

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use clap::Parser;
use plotters::{
    chart::{ChartBuilder, LabelAreaPosition},
    drawing::{DrawingArea, IntoDrawingArea},
    element::PathElement,
    prelude::{IntoLogRange, SVGBackend},
    series::LineSeries,
    style::{BLACK, BLUE, Color, RED, RGBColor, WHITE},
};
use redquorum::sim::{End, Latency, Process, Report, Schedule, Simulation, history::Event};
use tokio::sync::Notify;

/// Measures the cost of waiting for a lock.
#[derive(Parser)]
struct Arguments {
    /// The numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [3, 5, 7, 9])]
    nodes: Vec<usize>,
    /// The numbers of contenders.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 5, 10, 30, 100])]
    contenders: Vec<usize>,
    /// The file for the plot (default: no plot).
    #[arg(long)]
    plot: Option<PathBuf>,
}

/// Whether contenders lock again at once, and the colour in the plot.
const MANNERS: [(bool, RGBColor); 2] = [(true, RED), (false, BLUE)];

const MILLISECOND: Duration = Duration::from_millis(1);

/// The parameters of one measurement.
#[derive(Clone, Copy, Debug)]
struct Cell {
    contenders: usize,
    nodes: usize,
    round_trip: Duration,
    locks_at_once: bool,
}

/// The results of one measurement.
#[derive(Clone, Copy, Debug)]
struct Figures {
    attempts: f64,
    messages: f64,
    hand_off: Duration,
    slowest_hand_offs: Duration,
    fewest: usize,
    most: usize,
}

/// The number of grants, and a notification of all contenders when the number suffices.
#[derive(Debug, Default)]
struct Grants {
    count: AtomicUsize,
    all_granted: Notify,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    println!("contenders lock again at once");
    heading();
    for nodes in arguments.nodes {
        for round_trip in [100, 1_000, 10_000, 100_000].map(Duration::from_micros) {
            for &contenders in &arguments.contenders {
                row(Cell { contenders, nodes, round_trip, locks_at_once: true })?;
            }
        }
    }
    let mut compared = Vec::new();
    println!("\nfive nodes, a round trip of a millisecond");
    heading();
    for (locks_at_once, _) in MANNERS {
        for &contenders in &arguments.contenders {
            let cell = Cell { contenders, nodes: 5, round_trip: MILLISECOND, locks_at_once };
            compared.extend(row(cell)?.map(|figures| (cell, figures)));
        }
    }
    if let Some(path) = arguments.plot {
        plot(&path, &compared)?;
        println!("\nplotted to {}", path.display());
    }
    Ok(())
}

fn heading() {
    println!(
        "{:12} {:>5} {:>10} {:>10} | {:>8} {:>8} {:>9} {:>9} {:>9}",
        "come again",
        "nodes",
        "round trip",
        "contenders",
        "attempts",
        "messages",
        "hand-off",
        "p99",
        "grants"
    );
}

/// Measures a cell and prints the figures. Returns `None` if ten minutes were too short for the grants.
///
/// # Errors
///
/// If the run ends by a panic or a busy loop.
fn row(cell: Cell) -> anyhow::Result<Option<Figures>> {
    let figures = measure(cell);
    print!("{cell} | ");
    match &figures {
        Ok(figures) => println!("{figures}"),
        Err(end) => println!("{}", describe(end)),
    }
    match figures {
        Ok(figures) => Ok(Some(figures)),
        Err(End::Horizon) => Ok(None),
        Err(end) => anyhow::bail!("{cell}: {}", describe(&end)),
    }
}

/// Returns the description of a run's end.
fn describe(end: &End) -> String {
    match end {
        End::Done => "done".to_owned(),
        End::Horizon => "not enough grants in ten minutes".to_owned(),
        End::Exhausted => "more events than the budget allows: a busy loop".to_owned(),
        End::Panicked(message) => format!("a task panicked: {message}"),
        _ => "an end that this example does not know".to_owned(),
    }
}

/// Returns the figures, or the end of a run that did not complete.
fn measure(cell: Cell) -> Result<Figures, End> {
    let grants = (2 * cell.contenders).max(100);
    let mut schedule = Schedule::without_faults(1, cell.nodes, cell.contenders);
    let one_way = cell.round_trip / 2;
    schedule.latency = Latency::between(one_way.mul_f64(0.8), one_way.mul_f64(1.2));
    let granted = Arc::new(Grants::default());
    // The budget is larger than any cell needs.
    let simulation = Simulation::new(schedule).budget(1_700_000).horizon(Duration::from_secs(600));
    let report = simulation.run(|process| contend(process, cell, Arc::clone(&granted), grants));
    if report.end == End::Done { Ok(figures(&report)) } else { Err(report.end) }
}

async fn contend(process: Process, cell: Cell, granted: Arc<Grants>, enough: usize) {
    let quorum = process.quorum().expect("a simulation has nodes");
    let lock = quorum.red_lock("contended");
    let hold = cell.round_trip.max(MILLISECOND);
    loop {
        let finished = granted.all_granted.notified();
        if granted.count.load(Ordering::Relaxed) >= enough {
            return;
        }
        let guard = tokio::select! {
            biased;
            () = finished => return,
            guard = lock.lock() => guard.expect("all nodes answer"),
        };
        process.sleep(hold).await;
        if granted.count.fetch_add(1, Ordering::Relaxed) + 1 == enough {
            granted.all_granted.notify_waiters();
        }
        let unlocked = guard.unlock().await.expect("the lease is renewed");
        assert!(unlocked.has_quorum(), "all nodes answer");
        if !cell.locks_at_once {
            process.sleep(hold).await;
        }
    }
}

fn figures(report: &Report) -> Figures {
    let mut attempts = 0;
    let processes = 0..report.schedule.processes;
    let mut grants: BTreeMap<usize, usize> = processes.map(|process| (process, 0)).collect();
    let mut hand_offs = Vec::new();
    let mut unlocked = None;
    for entry in report.history.entries() {
        match entry.event {
            Event::Began { .. } => attempts += 1,
            Event::Granted { .. } => {
                *grants.entry(entry.process).or_default() += 1;
                hand_offs.extend(unlocked.take().map(|at| entry.at - at));
            }
            Event::Ended { is_unlocked: true, .. } => unlocked = Some(entry.at),
            _ => {}
        }
    }
    hand_offs.sort_unstable();
    let percentile = |percent| hand_offs.get(hand_offs.len() * percent / 100).copied().unwrap_or_default();
    let all: usize = grants.values().sum();
    Figures {
        attempts: f64::from(attempts) / all as f64,
        messages: report.messages as f64 / all as f64,
        hand_off: percentile(50),
        slowest_hand_offs: percentile(99),
        fewest: grants.values().copied().min().unwrap_or(0),
        most: grants.values().copied().max().unwrap_or(0),
    }
}

fn manner(locks_at_once: bool) -> &'static str {
    if locks_at_once { "at once" } else { "later" }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { contenders, nodes, round_trip, locks_at_once } = self;
        write!(f, "{:12} {nodes:>5} {:>7.1} ms {contenders:>10}", manner(*locks_at_once), millis(*round_trip))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempts, messages, fewest, most, .. } = self;
        let (hand_off, slowest) = (millis(self.hand_off), millis(self.slowest_hand_offs));
        write!(f, "{attempts:>8.2} {messages:>8.1} {hand_off:>6.2} ms {slowest:>6.2} ms {fewest:>4}..{most}")
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn plot(path: &Path, compared: &[(Cell, Figures)]) -> anyhow::Result<()> {
    let root = SVGBackend::new(path, (1200, 500)).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(600);
    panel(&left, "hand-off, median (ms)", compared, |figures| millis(figures.hand_off))?;
    panel(&right, "messages per grant", compared, |figures| figures.messages)?;
    root.present()?;
    Ok(())
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    compared: &[(Cell, Figures)],
    value: impl Fn(&Figures) -> f64,
) -> anyhow::Result<()> {
    let values = || compared.iter().map(|(_, figures)| value(figures));
    let most = values().fold(f64::MIN, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{title}: 5 nodes, round trip 1 ms"), ("sans-serif", 18))
        .margin(15)
        .set_label_area_size(LabelAreaPosition::Left, 50)
        .set_label_area_size(LabelAreaPosition::Bottom, 40)
        .build_cartesian_2d((1.0..100.0).log_scale(), 0.0..most * 1.1)?;
    chart.configure_mesh().x_desc("contenders").draw()?;
    for (locks_at_once, colour) in MANNERS {
        let of_manner = compared.iter().filter(|(cell, _)| cell.locks_at_once == locks_at_once);
        let points = of_manner.map(|(cell, figures)| (cell.contenders as f64, value(figures)));
        let line = LineSeries::new(points, colour.stroke_width(2)).point_size(4);
        let sample = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2));
        chart.draw_series(line)?.label(manner(locks_at_once)).legend(sample);
    }
    let mut labels = chart.configure_series_labels();
    labels
        .position(plotters::chart::SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .draw()?;
    Ok(())
}
