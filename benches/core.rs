//! How long a lock and its unlock take on nodes in memory.
//!
//! ```text
//! cargo bench -p redquorum-benches --bench core
//! ```

#![allow(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use redquorum::Quorum;

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

criterion_group!(locks, in_memory);
criterion_main!(locks);
