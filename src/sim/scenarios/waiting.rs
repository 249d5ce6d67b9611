//! S77: waiters beside a queue node that answers late.

use super::*;

/// Runs four processes that lock for five milliseconds again and again. The messages of one node take longer by `farther`,
/// and the node hangs once, for 200 ms. Returns the number of turns of each process in the eight seconds after that, and
/// the longest time between two turns of one process.
fn beside_a_farther_node(seed: u64, nodes: usize, node: usize, farther: Duration) -> (Vec<usize>, Duration) {
    let hung_at = SECOND;
    let schedule = Schedule::without_faults(seed, nodes, 4)
        .with(Duration::ZERO, Fault::Far { node, lasts: Duration::MAX, by: farther })
        .with(hung_at, Fault::Hang { node, lasts: millis(200) });
    let report = Simulation::new(schedule).horizon(hung_at + 8 * SECOND).run(|process| async move {
        let quorum = quorum(&process);
        let lock = quorum.red_lock("r");
        loop {
            let guard = lock.lock().await.unwrap();
            process.sleep(millis(5)).await;
            guard.unlock().await.unwrap();
        }
    });
    assert_keeps(&report, &Promises::ALL.without(Promise::Liveness));
    let turns_of = |process| -> Vec<Duration> {
        granted(&report, process).into_iter().filter(|at| *at > hung_at).collect()
    };
    let gaps = |process| {
        let times: Vec<_> =
            [hung_at].into_iter().chain(turns_of(process)).chain([hung_at + 8 * SECOND]).collect();
        times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
    };
    ((0..4).map(|process| turns_of(process).len()).collect(), (0..4).map(gaps).max().unwrap())
}

#[test]
fn s77_a_queue_node_that_hung_once_and_is_farther_starves_no_client() {
    for (seed, nodes, farther) in [(0, 3, 1), (1, 3, 10), (2, 5, 1), (3, 5, 5), (4, 3, 30)] {
        for node in 0..nodes {
            let (turns, gap) = beside_a_farther_node(seed, nodes, node, millis(farther));
            let (fewest, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
            assert!(gap < SECOND, "seed {seed}, node {node} farther by {farther} ms: {gap:?}, {turns:?}");
            assert!(10 * fewest > *most, "seed {seed}, node {node} farther by {farther} ms: {turns:?}");
        }
    }
}
