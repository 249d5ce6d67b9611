//! Micro-benchmarks: the pure core, the encoding of a request, and a lock with its unlock on nodes in memory.
//!
//! `cargo bench --features bench --bench core`. The feature shows what is private otherwise, and is no part of the API.

#![allow(missing_docs, reason = "criterion's macros make public functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use redquorum::{
    Quorum,
    bench::{Calls, Core},
};

fn decisions(criterion: &mut Criterion) {
    for nodes in [1, 3, 5, 9] {
        let core = Core::new(nodes).expect("a quorum may have so many nodes");
        // What is measured has to be the way to a decision.
        assert!(core.tally() && core.attempt() && core.wait().expect("the default pacing is right"));
        let mut group = criterion.benchmark_group("decision");
        group.bench_function(BenchmarkId::new("tally", nodes), |bencher| {
            bencher.iter(|| black_box(&core).tally());
        });
        group.bench_function(BenchmarkId::new("attempt", nodes), |bencher| {
            bencher.iter(|| black_box(&core).attempt());
        });
        group.bench_function(BenchmarkId::new("wait", nodes), |bencher| {
            bencher.iter(|| black_box(&core).wait());
        });
        group.finish();
    }
    let core = Core::new(5).expect("a quorum may have five nodes");
    criterion.bench_function("decision/arbiter/5", |bencher| {
        bencher.iter(|| core.arbiter(black_box("invoice:42")));
    });
}

fn encoding(criterion: &mut Criterion) {
    let calls = Calls::new().expect("the defaults are right");
    let mut group = criterion.benchmark_group("encoding");
    for entries in [1, 8, 64] {
        group.bench_function(BenchmarkId::new("lock", entries), |bencher| {
            bencher.iter(|| calls.lock(black_box(entries)));
        });
        group.bench_function(BenchmarkId::new("unlock", entries), |bencher| {
            bencher.iter(|| calls.unlock(black_box(entries)));
        });
    }
    group.finish();
}

fn in_memory(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime can be made");
    let mut group = criterion.benchmark_group("in_memory");
    for nodes in [1, 3, 5, 9] {
        let quorum =
            runtime.block_on(async { Quorum::in_memory(nodes) }).expect("so many nodes are a quorum");
        let lock = quorum.red_lock("invoice:42");
        group.bench_function(BenchmarkId::new("lock_and_unlock", nodes), |bencher| {
            bencher.iter(|| {
                runtime.block_on(async {
                    let guard = lock.lock().await.expect("nobody else is there");
                    guard.unlock().await.expect("all nodes answer")
                })
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decisions, encoding, in_memory);
criterion_main!(benches);
