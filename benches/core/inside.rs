//! Micro-benchmarks of what is private: the pure core, and the encoding of a request.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion};
use redquorum::bench::{Calls, Core};

pub(crate) fn decisions(criterion: &mut Criterion) {
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
    criterion.bench_function("decision/queue_node/5", |bencher| {
        bencher.iter(|| core.queue_node(black_box("invoice:42")));
    });
}

pub(crate) fn encoding(criterion: &mut Criterion) {
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
