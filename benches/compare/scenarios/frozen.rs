//! The cost of one server that does not answer.

use std::time::{Duration, Instant};

use super::{Effort, NODES};
use crate::{
    Problem,
    compare::{
        contestant::{Contender, Contestant},
        sample::{Sample, micros},
        section::Section,
        servers::Servers,
        verdict::{Target, Verdict},
    },
};

/// The time after a thaw in which the server processes the accumulated requests.
const RECOVERY: Duration = Duration::from_millis(200);

pub(super) async fn run(effort: Effort) -> Result<Section, Problem> {
    let servers = Servers::start(NODES).await;
    let mut contender = Contestant::Ours(servers.ours().await?).contender("r");
    let lasts = effort.pick(Duration::from_millis(300), Duration::from_secs(2));
    let (mut healthy, mut frozen) = <(Sample, Sample)>::default();
    measure(&mut contender, lasts / 4).await?;
    for _ in 0..effort.pick(5, 11) {
        healthy.push(measure(&mut contender, lasts).await?.median());
        frozen.push(while_frozen(&servers, async || measure(&mut contender, lasts).await).await?.median());
        tokio::time::sleep(RECOVERY).await;
    }
    let (rival_healthy, rival_frozen) = rival(&servers, effort).await?;
    let mut section =
        Section::new("frozen", "lock + unlock, one of 5 servers stopped", ["healthy_us", "frozen_us"]);
    section.row("ours", [healthy.median(), frozen.median()]);
    section.row("rslock", [rival_healthy.median(), rival_frozen.median()]);
    let ratio = frozen.ratio_to(&healthy);
    section.verdict(Verdict::of_ratio("median, frozen / healthy, ours", ratio, Target::AtMost(1.2)));
    let ratio = rival_frozen.median() / rival_healthy.median();
    section.verdict(Verdict::of("median, frozen / healthy, rslock", ratio, None));
    Ok(section)
}

/// Returns the times of rslock without and with a frozen server. Since rslock waits for every node, a few calls
/// suffice.
async fn rival(servers: &Servers, effort: Effort) -> Result<(Sample, Sample), Problem> {
    let mut contender = Contestant::Rival(servers.rival()).contender("r");
    let healthy = measure(&mut contender, Duration::from_millis(300)).await?;
    let few_calls = async || {
        let mut sample = Sample::default();
        for _ in 0..effort.pick(1, 5) {
            sample.push(once(&mut contender).await?);
        }
        Ok(sample)
    };
    Ok((healthy, while_frozen(servers, few_calls).await?))
}

async fn while_frozen<T>(
    servers: &Servers,
    work: impl AsyncFnOnce() -> Result<T, Problem>,
) -> Result<T, Problem> {
    let Some(server) = servers.all().get(1) else { return Err("there is no second server".into()) };
    server.freeze().await;
    let outcome = work().await;
    server.thaw().await;
    outcome
}

/// Returns the microseconds of each lock with its unlock.
async fn measure(contender: &mut Contender, lasts: Duration) -> Result<Sample, Problem> {
    let mut sample = Sample::default();
    let begin = Instant::now();
    while begin.elapsed() < lasts {
        sample.push(once(contender).await?);
    }
    Ok(sample)
}

async fn once(contender: &mut Contender) -> Result<f64, Problem> {
    let begin = Instant::now();
    contender.lock_and_unlock().await?;
    Ok(micros(begin.elapsed()))
}
