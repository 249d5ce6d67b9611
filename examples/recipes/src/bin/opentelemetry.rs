//! Traces and metrics of a quorum through OpenTelemetry.
//!
//! The program prints the traces and metrics, and needs no collector. A service uses the exporters of the crate
//! `opentelemetry-otlp` in place of `opentelemetry-stdout`, and a batch exporter in place of the
//! simple exporter. The rest stays the same.
//!
//! Runs on five in-memory nodes, or on real ones after `redquorum init --if-needed`:
//!
//! ```text
//! cargo run -p redquorum-recipes --bin opentelemetry
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 \
//!     cargo run -p redquorum-recipes --bin opentelemetry
//! ```

use metrics_opentelemetry::{
    OpenTelemetryMetrics, OpenTelemetryRecorder,
    metrics::{KeyName, set_global_recorder},
};
use opentelemetry::{metrics::MeterProvider, trace::TracerProvider};
use opentelemetry_sdk::{metrics::SdkMeterProvider, trace::SdkTracerProvider};
use opentelemetry_stdout::{MetricExporter, SpanExporter};
use redquorum::{Error, Quorum, metrics::ALL};
use tracing::{instrument, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// Buckets in seconds, from the round trip of a near node to the default ttl.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Buckets of ratios, finer below the two thirds of a ttl that an undisturbed renewal leaves.
const RATIOS: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 1.0];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // The exporters are installed first, because spans and metrics of earlier clients are not exported.
    let traces = export_traces()?;
    let metrics = export_metrics()?;

    let quorum = connect().await?;
    charge(&quorum, 42).await?;
    quorum.shutdown().await;

    // The shutdown flushes the exporters. Without the flush, the last spans and metrics would be lost.
    traces.shutdown()?;
    metrics.shutdown()?;
    Ok(())
}

/// Charges an invoice in a span of the program, which has the span of the lock call inside.
#[instrument(skip(quorum))]
async fn charge(quorum: &Quorum, invoice: u64) -> Result<(), Error> {
    let guard = quorum.red_lock(format!("invoice:{invoice}")).lock().await?;
    tracing::info!(token = %guard.fencing_token(), "charged");
    guard.unlock().await?;
    Ok(())
}

/// Exports the spans of the library and of this program.
///
/// At the level INFO, each lease has a span, with a link to the span that locked. At DEBUG, each lock
/// call has a span, too. At TRACE, each vote has an event.
fn export_traces() -> anyhow::Result<SdkTracerProvider> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(SpanExporter::default()).build();
    let exported = Targets::new()
        .with_target("redquorum", LevelFilter::DEBUG)
        .with_target(env!("CARGO_CRATE_NAME"), LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("recipe"));
    tracing_subscriber::registry().with(layer.with_filter(exported)).try_init()?;
    Ok(provider)
}

/// Exports the metrics of the library, once a minute and at the end.
///
/// The library sends metrics to the facade `metrics`. The recorder receives these metrics, and exports them.
fn export_metrics() -> anyhow::Result<SdkMeterProvider> {
    let provider = SdkMeterProvider::builder().with_periodic_exporter(MetricExporter::default()).build();
    let recorder = OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(provider.meter("recipe")));
    recorder.set_histogram_bounds(with_suffix("_seconds"), &SECONDS);
    recorder.set_histogram_bounds(with_suffix("_ratio"), &RATIOS);
    set_global_recorder(recorder)?;
    Ok(provider)
}

/// Returns the metrics of a unit, which is the suffix of their names.
fn with_suffix(suffix: &str) -> impl Iterator<Item = KeyName> {
    ALL.iter().map(|metric| metric.name).filter(move |name| name.ends_with(suffix)).map(KeyName::from)
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
