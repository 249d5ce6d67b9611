//! Traces and metrics of a quorum through OpenTelemetry.
//!
//! It prints them, so that no collector is needed. A service takes the exporters of the crate
//! `opentelemetry-otlp` in place of `opentelemetry-stdout`, a batch exporter in place of the simple
//! one, and changes nothing else.
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
use redquorum::{
    LockGuard, Quorum,
    error::ConnectError,
    metrics::{ALL, Kind},
};
use tracing::{instrument, level_filters::LevelFilter};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// In seconds: from the round trip of a near node to the default ttl.
const SECONDS: [f64; 14] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0];

/// Finer where it becomes dangerous.
const SHARES: [f64; 10] = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 1.0];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Both before the first quorum is connected.
    let traces = export_traces()?;
    let figures = export_figures()?;

    let quorum = connect().await?;
    charge(&quorum, 42).await?;
    quorum.shutdown().await;

    // What is not exported by now would be lost.
    traces.shutdown()?;
    figures.shutdown()?;
    Ok(())
}

/// A span of the program: those of the library come to be inside of it, and their events tell owner,
/// token and votes.
#[instrument(skip(quorum))]
async fn charge(quorum: &Quorum, invoice: u64) -> anyhow::Result<()> {
    let guard: LockGuard = quorum.red_lock(format!("invoice:{invoice}")).lock().await?;
    tracing::info!(token = %guard.fencing_token(), "charged");
    guard.unlock().await?;
    Ok(())
}

/// At the level debug, the library has a span for each call to lock; at trace, each vote is an event
/// besides.
fn export_traces() -> anyhow::Result<SdkTracerProvider> {
    let provider = SdkTracerProvider::builder().with_simple_exporter(SpanExporter::default()).build();
    let exported = Targets::new()
        .with_target("redquorum", LevelFilter::DEBUG)
        .with_target(env!("CARGO_CRATE_NAME"), LevelFilter::INFO);
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("recipe"));
    tracing_subscriber::registry().with(layer.with_filter(exported)).try_init()?;
    Ok(provider)
}

/// The library's figures go to the `metrics` facade, of which this is a recorder. It is exported once
/// a minute, and at the end.
fn export_figures() -> anyhow::Result<SdkMeterProvider> {
    let provider = SdkMeterProvider::builder().with_periodic_exporter(MetricExporter::default()).build();
    let recorder = OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(provider.meter("recipe")));
    recorder.set_histogram_bounds(named(Kind::Seconds), &SECONDS);
    recorder.set_histogram_bounds(named(Kind::Ratio), &SHARES);
    set_global_recorder(recorder)?;
    Ok(provider)
}

/// The metrics of the library that are of a kind.
fn named(kind: Kind) -> impl Iterator<Item = KeyName> {
    ALL.iter().filter(move |metric| metric.kind == kind).map(|metric| KeyName::from(metric.name))
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
