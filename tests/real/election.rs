//! Elections on real servers: the time without a leader after a resignation, a crash or the loss of servers,
//! and what observers receive.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redis::cmd;
use redquorum::{
    Error, LockOptions, Quorum,
    election::{Election, Leader, Leaders, Leadership},
    error::LossReason,
};
use redquorum_tests::{Cluster, Direction, Proxy, Stopwatch, eventually};

use super::{
    behaviours::loss,
    servers::{
        FIRST_POLL, RARE_POLLS, SOON, builder, client, remaining, repeat_until_woken, wait_for_queue_entries,
        wait_for_subscribers,
    },
};

const TTL: Duration = Duration::from_secs(2);

/// The interval of fallback polls of candidates, without jitter.
const POLL: Duration = Duration::from_millis(500);

/// The additional time that a machine under load may need.
const SLACK: Duration = Duration::from_millis(700);

/// Returns an election with a short ttl and frequent polls.
fn election(quorum: &Quorum) -> Election {
    let polls = LockOptions::new().ttl(TTL).quorum_timeout(SOON).poll_interval(POLL);
    quorum.election("scheduler").options(polls)
}

async fn candidate(cluster: &Cluster) -> Election {
    election(&client(cluster).await)
}

/// Waits until the election shows this leader.
async fn wait_for_leader(election: &Election, leadership: &Leadership) {
    let shows_leader = async || {
        let leader = election.leader().await.ok().flatten();
        leader.is_some_and(|leader| leader.term() == leadership.term())
    };
    eventually(SOON, "the election shows the leader", shows_leader).await;
}

/// Returns the next leader that the observer receives.
async fn next_leader(leaders: &mut Leaders) -> Leader {
    let next = tokio::time::timeout(SOON, leaders.next()).await;
    next.expect("the observer receives no leader").expect("the stream of leaders has ended")
}

/// Connects a client through a proxy before each server.
async fn client_behind_proxies(cluster: &Cluster) -> (Quorum, Vec<Proxy>) {
    let proxies = join_all(cluster.servers().iter().map(Proxy::before)).await;
    let urls = proxies.iter().map(|proxy| proxy.url().to_owned());
    let quorum = Quorum::builder().nodes(urls).admit_new_nodes().connect().await.unwrap();
    (quorum, proxies)
}

/// Discards all bytes in both directions. The connections stay open.
fn cut(proxies: &[Proxy]) {
    for proxy in proxies {
        proxy.cut(Direction::Requests);
        proxy.cut(Direction::Replies);
    }
}

fn open(proxies: &[Proxy]) {
    for proxy in proxies {
        proxy.open(Direction::Requests);
        proxy.open(Direction::Replies);
    }
}

/// In at least half of the rounds, the candidate leads before its first poll, so a notice must have woken the
/// candidate.
#[tokio::test]
async fn after_a_resignation_a_candidate_leads_within_some_round_trips() {
    let cluster = Cluster::start(5).await;
    let candidates = join_all([client(&cluster), client(&cluster)]).await;
    let candidates: Vec<_> =
        candidates.iter().map(|quorum| quorum.election("scheduler").options(RARE_POLLS)).collect();
    let mut leadership = candidates[0].campaign("v").await.unwrap();
    let (mut vacancies, mut undelayed) = (Vec::new(), Vec::new());
    let mut woken = 0;
    let mut round_trips = Vec::new();
    for round in 1..=10 {
        let watch = Stopwatch::start();
        candidates[0].leader().await.unwrap();
        round_trips.push(watch.elapsed());
        let next = candidates[round % 2].clone();
        let called = Instant::now();
        let campaign = tokio::spawn(async move { (next.campaign("v").await, Instant::now()) });
        wait_for_queue_entries(&cluster, "scheduler", 1).await;
        let (term, resigned) = (leadership.term(), Instant::now());
        let vacancy = Stopwatch::start();
        leadership.resign().await.unwrap();
        let (next, elected) =
            tokio::time::timeout(SOON, campaign).await.expect("no candidate leads").unwrap();
        undelayed.push(vacancy.undelayed());
        let next = next.unwrap();
        assert!(next.term() > term);
        woken += usize::from(elected - called < FIRST_POLL);
        vacancies.push(elected.saturating_duration_since(resigned));
        leadership = next;
        wait_for_queue_entries(&cluster, "scheduler", 0).await;
    }
    // The machine may delay any vacancy and any round trip. Therefore the shortest vacancy is compared with the longest
    // round trip.
    let (shortest, round_trip) = (vacancies.iter().min().unwrap(), round_trips.iter().max().unwrap());
    assert!(undelayed.iter().all(|vacancy| *vacancy < POLL / 2), "{undelayed:?} of {vacancies:?}");
    assert!(woken >= 5, "{woken} of 10 candidates led before their first poll");
    assert!(*shortest < *round_trip * 20, "{vacancies:?}, where a round trip takes {round_trips:?}");
}

/// The proxies discard all bytes of the leader. As after a crash of its process, the servers receive neither renewals
/// nor an unlock.
#[tokio::test]
async fn after_a_crash_a_candidate_leads_within_a_ttl_and_a_poll() {
    let cluster = Cluster::start(5).await;
    let (quorum, proxies) = client_behind_proxies(&cluster).await;
    let first = election(&quorum).campaign("host-1").await.unwrap();
    let second = candidate(&cluster).await;
    let campaign = tokio::spawn({
        let second = second.clone();
        async move { second.campaign("host-2").await }
    });
    wait_for_queue_entries(&cluster, "scheduler", 1).await;
    let crashed = Stopwatch::start();
    cut(&proxies);
    let next = tokio::time::timeout(SOON, campaign).await.expect("no candidate leads").unwrap().unwrap();
    let vacancy = crashed.undelayed();
    assert!(!first.is_valid(), "two leaders at once");
    assert!(next.term() > first.term());
    assert!(vacancy <= TTL + POLL * 3 / 2 + SLACK, "{vacancy:?}");
    wait_for_leader(&second, &next).await;
}

#[tokio::test]
async fn the_loss_of_a_minority_of_servers_changes_no_leader() {
    let cluster = Cluster::start(5).await;
    let leadership = candidate(&cluster).await.campaign("host-1").await.unwrap();
    let other = candidate(&cluster).await;
    let mut leaders = other.observe().unwrap();
    assert_eq!(next_leader(&mut leaders).await.value_str(), "host-1");
    cluster.server(0).kill().await;
    cluster.server(1).freeze().await;
    let watch = async {
        tokio::select! {
            why = leadership.lost() => panic!("{why}"),
            next = other.campaign("host-2") => panic!("{next:?}"),
            leader = leaders.next() => panic!("{leader:?}"),
        }
    };
    assert!(tokio::time::timeout(3 * TTL, watch).await.is_err());
    let leader = other.leader().await.unwrap().unwrap();
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
    leadership.proclaim("host-1, on three of five").await.unwrap();
    assert_eq!(next_leader(&mut leaders).await.value_str(), "host-1, on three of five");
    leadership.resign().await.unwrap();
}

#[tokio::test]
async fn the_loss_of_a_majority_deposes_the_leader_on_time() {
    let cluster = Cluster::start(5).await;
    let first = candidate(&cluster).await;
    let leadership = first.campaign("host-1").await.unwrap();
    let second = candidate(&cluster).await;
    let frozen = Stopwatch::start();
    for server in cluster.some(0..3) {
        server.freeze().await;
    }
    let lost = tokio::time::timeout(SOON, leadership.lost()).await.expect("the leadership is not lost");
    assert_eq!(lost.reason, LossReason::Expired);
    assert!(frozen.undelayed() <= TTL + SLACK, "{frozen:?}");
    assert!(!leadership.is_valid() && leadership.remaining().is_zero());
    assert!(matches!(leadership.proclaim("late").await, Err(Error::LeaseLost(_))));
    assert!(second.leader().await.is_err(), "a leader without a quorum of nodes");
    let campaigns =
        [first, second].map(|election| tokio::spawn(async move { election.campaign("next").await }));
    let [one, other] = campaigns;
    for server in cluster.some(0..3) {
        server.thaw().await;
    }
    let elected = async {
        tokio::select! {
            next = one => next,
            next = other => next,
        }
    };
    let next = tokio::time::timeout(SOON, elected).await.expect("no candidate leads").unwrap().unwrap();
    assert!(next.is_valid() && next.term() > leadership.term());
}

#[tokio::test]
async fn observers_see_leaders_and_their_values() {
    let cluster = Cluster::start(3).await;
    let election = candidate(&cluster).await;
    let mut leaders = candidate(&cluster).await.observe().unwrap();
    let leadership = election.campaign("host-1").await.unwrap();
    let leader = election.leader().await.unwrap().expect("no leader is seen after a campaign");
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
    assert!(leader.since().elapsed().unwrap() < SOON);
    assert_eq!(next_leader(&mut leaders).await, leader);
    let binary = [0, 0xff, b'\r', b'\n', b'}'].repeat(10_000);
    leadership.proclaim(&binary).await.unwrap();
    assert_eq!(next_leader(&mut leaders).await.value(), binary);
    let term = leadership.term();
    leadership.resign().await.unwrap();
    assert_eq!(election.leader().await.unwrap(), None);
    let leadership = election.campaign("host-1").await.unwrap();
    let leader = next_leader(&mut leaders).await;
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
    assert!(leader.term() > term);
}

/// The connections of the observer end during a change of the leader, and then the subscriptions end before a change of
/// the value. The observer receives each change before a poll or the end of the ttl is due. Therefore the new
/// subscription must have caused a query.
#[tokio::test]
async fn an_observer_catches_up_after_reconnecting() {
    let cluster = Cluster::start(3).await;
    let slow =
        |quorum: &Quorum| quorum.election("scheduler").options(RARE_POLLS.ttl(Duration::from_secs(60)));
    let election = slow(&client(&cluster).await);
    // Each round has a client of its own, because a client dials ever more slowly after short-lived
    // connections.
    repeat_until_woken("the observer catches up", async || {
        let (quorum, proxies) = client_behind_proxies(&cluster).await;
        let first = election.campaign("host-1").await.unwrap();
        let mut leaders = slow(&quorum).observe().unwrap();
        assert_eq!(next_leader(&mut leaders).await.term(), first.term());
        let seen = Instant::now();
        cut(&proxies);
        first.resign().await.unwrap();
        let second = election.campaign("host-1").await.unwrap();
        second.proclaim("host-1, again").await.unwrap();
        let silence = tokio::time::timeout(Duration::from_millis(100), leaders.next()).await;
        assert!(silence.is_err(), "the connections were not cut");
        open(&proxies);
        for proxy in &proxies {
            proxy.drop_connections().await;
        }
        let leader = next_leader(&mut leaders).await;
        assert_eq!((leader.value(), leader.term()), (&b"host-1, again"[..], second.term()));
        second.resign().await.unwrap();
        seen.elapsed()
    })
    .await;

    let leadership = election.campaign("host-1").await.unwrap();
    repeat_until_woken("the observer catches up", async || {
        let quorum = client(&cluster).await;
        let mut leaders = slow(&quorum).observe().unwrap();
        assert_eq!(next_leader(&mut leaders).await.term(), leadership.term());
        for server in cluster.servers() {
            wait_for_subscribers(server, "redquorum:leader:{scheduler}", 1).await;
        }
        leadership.proclaim("host-1, before").await.unwrap();
        assert_eq!(next_leader(&mut leaders).await.value_str(), "host-1, before");
        let seen = Instant::now();
        for server in cluster.servers() {
            let killed: u64 = server.query(cmd("CLIENT").arg("KILL").arg("TYPE").arg("pubsub")).await;
            assert!(killed >= 1, "no connection was killed");
        }
        leadership.proclaim("host-1, after").await.unwrap();
        assert_eq!(next_leader(&mut leaders).await.value_str(), "host-1, after");
        seen.elapsed()
    })
    .await;
}

#[tokio::test]
async fn the_leader_record_exists_beside_the_lock_for_at_most_a_ttl() {
    let cluster = Cluster::start(3).await;
    let leadership = candidate(&cluster).await.campaign("host-1").await.unwrap();
    let key = "redquorum:leader:{scheduler}";
    for server in cluster.servers() {
        let is_there = async || remaining(server, key).await > TTL / 3;
        eventually(SOON, "every server has the leader record", is_there).await;
        let fields = ["owner", "term", "number", "value", "since"];
        let found: Vec<String> = server.query(cmd("HMGET").arg(key).arg(&fields)).await;
        let holds: Option<u32> = server.query(cmd("HGET").arg("scheduler").arg(&found[0])).await;
        assert_eq!(holds, Some(1), "the owner of the leader record does not hold the lock");
        assert_eq!(found[1..4], [leadership.term().to_string(), "1".into(), "host-1".into()]);
        assert!(found[4].parse::<u64>().unwrap() > 1_600_000_000_000);
        server.command(&["DEL", key]).await;
    }
    for server in cluster.servers() {
        let is_back = async || remaining(server, key).await > TTL / 3;
        eventually(TTL, "the server has the leader record again", is_back).await;
    }
    leadership.resign().await.unwrap();
    for server in cluster.servers() {
        assert!(remaining(server, key).await <= TTL);
    }
}

#[tokio::test]
async fn the_work_of_a_deposed_leader_stops() {
    let cluster = Cluster::start(3).await;
    let (quorum, proxies) = client_behind_proxies(&cluster).await;
    let leadership = election(&quorum).campaign("host-1").await.unwrap();
    assert_eq!(leadership.fencing_token(), leadership.term());
    let began = Stopwatch::start();
    let work = leadership.while_valid(async {
        cut(&proxies);
        std::future::pending::<()>().await;
    });
    let lost = tokio::time::timeout(SOON, work).await.expect("the work was not stopped").unwrap_err();
    assert_eq!(loss(lost), LossReason::Expired);
    assert!(began.undelayed() <= TTL + SLACK, "{began:?}");
    let _next = candidate(&cluster).await.campaign("host-2").await.unwrap();
}

#[tokio::test]
async fn a_server_that_restarts_empty_changes_no_leader() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).connect().await.unwrap();
    let leadership = election(&quorum).campaign("host-1").await.unwrap();
    cluster.server(2).restart_empty().await;
    let lost = tokio::time::timeout(2 * TTL, leadership.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    let is_there = async || remaining(cluster.server(2), "redquorum:leader:{scheduler}").await > TTL / 3;
    eventually(SOON, "the server has the leader record", is_there).await;
}
