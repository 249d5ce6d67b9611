//! Campaigns: elected, refused and failed candidates.

use std::{pin::Pin, time::Duration};

use futures::FutureExt;

use super::{
    NONE, TTL, Traces, all_behave, client, election_of_new_client, leader_value, locked_nodes, pass, thaw_all,
};
use crate::{
    LockOptions, MemoryCluster, Owner,
    error::ClosedReason,
    error::{ConfigError, Error, InvalidResource, NodeError},
    node::{Operation, memory::Behaviour},
};

const SECOND: Duration = Duration::from_secs(1);

/// Polls a campaign until every node has executed its lock, and leaves all further requests unanswered.
fn lock_all_nodes(cluster: &MemoryCluster, campaign: Pin<&mut impl Future>) {
    all_behave(cluster, &Behaviour::Hanging);
    assert!(campaign.now_or_never().is_none());
    cluster.servers().iter().for_each(|server| assert!(server.answer_next()));
}

#[tokio::test(start_paused = true)]
async fn queries_return_the_leader_once_its_campaign_has_returned() {
    let cluster = MemoryCluster::new(5);
    let election = election_of_new_client(&cluster);
    assert_eq!(leader_value(&election).await, None);
    let leadership = election.campaign("host-1").await.unwrap();
    assert!(leadership.is_valid() && leadership.ensure().is_ok());
    let leader = election_of_new_client(&cluster).leader().await.unwrap().unwrap();
    assert_eq!((leader.value(), leader.term()), (&b"host-1"[..], leadership.term()));
    let time_of_day = cluster.clock().time_of_day();
    let age = time_of_day.abs_diff(leader.since().duration_since(std::time::UNIX_EPOCH).unwrap());
    assert!(age < SECOND, "{age:?}");
}

#[tokio::test(start_paused = true)]
async fn a_campaign_with_a_limit_ends_after_the_limit() {
    let cluster = MemoryCluster::new(3);
    let leadership = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let start = tokio::time::Instant::now();
    let refused = election_of_new_client(&cluster).try_campaign_for("host-2", SECOND).await.unwrap();
    assert!(refused.is_none());
    assert_eq!(start.elapsed(), SECOND);
    leadership.resign().await.unwrap();
    let next = election_of_new_client(&cluster).try_campaign_for("host-2", SECOND).await.unwrap().unwrap();
    assert_eq!(leader_value(&election_of_new_client(&cluster)).await.as_deref(), Some("host-2"));
    drop(next);
    all_behave(&cluster, &Behaviour::Hanging);
    let unknown = election_of_new_client(&cluster).try_campaign_for("host-3", SECOND).await;
    assert!(matches!(unknown, Err(Error::NoQuorum(_))), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_candidate_is_elected_within_20_ms_of_a_resignation() {
    let cluster = MemoryCluster::new(5);
    let first = election_of_new_client(&cluster).campaign("host-1").await.unwrap();
    let term = first.term();
    let second = election_of_new_client(&cluster);
    let mut campaign = std::pin::pin!(second.campaign("host-2"));
    assert!(campaign.as_mut().now_or_never().is_none());
    pass(10 * TTL).await;
    assert!(campaign.as_mut().now_or_never().is_none(), "two candidates lead at once");
    assert!(first.is_valid());
    let resigned = tokio::time::Instant::now();
    assert_eq!(first.resign().await.unwrap().done(), 3);
    let next = campaign.await.unwrap();
    assert!(next.term() > term);
    assert!(resigned.elapsed() < Duration::from_millis(20), "{:?}", resigned.elapsed());
    assert_eq!(leader_value(&second).await.as_deref(), Some("host-2"));
}

#[tokio::test(start_paused = true)]
async fn the_drop_of_a_leadership_resigns() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let leadership = election.campaign("host-1").await.unwrap();
    assert!(election_of_new_client(&cluster).try_campaign("host-2").await.unwrap().is_none());
    drop(leadership);
    assert_eq!(leader_value(&election).await, None);
    assert!(election_of_new_client(&cluster).try_campaign("host-2").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_campaign_of_the_same_owner_does_not_re_enter_the_leadership() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    Owner::new()
        .scope(async {
            let _leadership = election.campaign("host-1").await.unwrap();
            assert!(election.try_campaign("host-1").await.unwrap().is_none());
            let campaign = tokio::time::timeout(10 * SECOND, election.campaign("host-1")).await;
            assert!(campaign.is_err(), "two candidates lead at once");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_campaign_leaves_no_key() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    all_behave(&cluster, &Behaviour::Hanging);
    let campaign = tokio::time::timeout(SECOND / 2, election.campaign("host-1")).await;
    assert!(campaign.is_err());
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE);

    // The campaign is dropped after the lock round, and before any node has recorded the value.
    let mut campaign = Box::pin(election.campaign("host-1"));
    lock_all_nodes(&cluster, campaign.as_mut());
    assert!(campaign.as_mut().now_or_never().is_none());
    assert_eq!(locked_nodes(&cluster), [0, 1, 2]);
    drop(campaign);
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn a_campaign_returns_only_after_a_quorum_has_recorded_the_value() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let mut campaign = Box::pin(election.campaign("host-1"));
    lock_all_nodes(&cluster, campaign.as_mut());
    let early_end = tokio::time::timeout(3 * SECOND, campaign.as_mut()).await;
    assert!(early_end.is_err(), "the campaign has ended before a quorum recorded the value");
    thaw_all(&cluster);
    let leadership = campaign.await.unwrap();
    assert!(leadership.is_valid());
    assert_eq!(leader_value(&election).await.as_deref(), Some("host-1"));
}

#[tokio::test(start_paused = true)]
async fn a_campaign_records_its_value_within_a_second_of_the_end_of_an_outage() {
    for outage in (10..20).map(Duration::from_secs) {
        let cluster = MemoryCluster::new(3);
        let election = election_of_new_client(&cluster);
        let mut campaign = Box::pin(election.campaign("host-1"));
        all_behave(&cluster, &Behaviour::Hanging);
        assert!(campaign.as_mut().now_or_never().is_none());
        cluster.servers().iter().for_each(|server| assert!(server.answer_next()));
        all_behave(&cluster, &Behaviour::Failing(NodeError::Unreachable("down".into())));
        assert!(tokio::time::timeout(outage, campaign.as_mut()).await.is_err());
        all_behave(&cluster, &Behaviour::Granting);
        let leads = tokio::time::timeout(SECOND, campaign).await;
        assert!(leads.is_ok_and(|leadership| leadership.unwrap().is_valid()), "after {outage:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_tries_again_if_the_lease_is_lost_before_the_value_is_recorded() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster).options(LockOptions::new().quorum_timeout(10 * TTL));
    let mut campaign = Box::pin(election.campaign("host-1"));
    lock_all_nodes(&cluster, campaign.as_mut());
    assert!(tokio::time::timeout(2 * TTL, campaign.as_mut()).await.is_err());
    thaw_all(&cluster);
    let leadership = campaign.await.unwrap();
    assert!(leadership.is_valid());
    let terms = cluster.servers()[0].take_log().into_iter().filter_map(|entry| match entry {
        Operation::Proclaim(proclaim) => Some(proclaim.proclamation.term),
        _ => None,
    });
    let terms: Vec<u64> = terms.collect();
    assert!(terms.is_sorted() && terms.first() < terms.last(), "{terms:?}");
    assert_eq!(terms.last(), Some(&leadership.term().as_u64()));
}

#[tokio::test(start_paused = true)]
async fn a_second_of_publishing_without_a_quorum_causes_one_warning() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let mut campaign = Box::pin(election.campaign("host-1"));
    lock_all_nodes(&cluster, campaign.as_mut());
    all_behave(&cluster, &Behaviour::Failing(NodeError::Unreachable("down".into())));
    let traces = Traces::begin();
    assert!(tokio::time::timeout(SECOND * 9 / 10, campaign.as_mut()).await.is_err());
    assert!(traces.warned().is_empty(), "{:?}", traces.warned());
    assert!(tokio::time::timeout(5 * SECOND, campaign.as_mut()).await.is_err());
    assert_eq!(traces.warned(), ["waiting without a quorum"]);
    let shortage = traces.only("waiting without a quorum").field("shortage").to_owned();
    assert!(shortage.contains("no quorum") && shortage.contains("down"), "{shortage}");
    all_behave(&cluster, &Behaviour::Granting);
    assert!(campaign.await.unwrap().is_valid());
}

#[tokio::test(start_paused = true)]
async fn try_campaign_fails_and_unlocks_if_no_quorum_records_the_value() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let mut attempt = Box::pin(election.try_campaign("host-1"));
    lock_all_nodes(&cluster, attempt.as_mut());
    assert!(matches!(attempt.await, Err(Error::NoQuorum(_))));
    thaw_all(&cluster);
    assert_eq!(locked_nodes(&cluster), NONE);
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_an_error_at_first_use() {
    let cluster = MemoryCluster::new(1);
    let quorum = client(&cluster);
    let too_long = vec![0; 64 * 1024 + 1];
    let refused = "value is 65537 bytes: expected at most 65536 bytes";
    let election = quorum.election("e");
    assert_eq!(election.campaign(&too_long).await.unwrap_err().to_string(), refused);
    assert_eq!(election.try_campaign(&too_long).await.unwrap_err().to_string(), refused);
    assert_eq!(election.leader().await.unwrap(), None);
    let fixed = quorum.election("e").options(LockOptions::new().without_renewal());
    for refused in [fixed.campaign("v").await.map(drop), fixed.observe().map(drop)] {
        assert!(matches!(refused, Err(Error::Config(ConfigError::Unsupported { .. }))), "{refused:?}");
    }
    let nameless = quorum.election("");
    let refused = Error::from(ConfigError::Resource(InvalidResource::Empty));
    assert_eq!(nameless.leader().await.unwrap_err(), refused);
    assert_eq!(nameless.observe().unwrap_err(), refused);
    assert_eq!(nameless.campaign("v").await.unwrap_err(), refused);
    let longest = quorum.election([b'n'; 512]);
    assert!(longest.try_campaign(vec![0; 64 * 1024]).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_quorum_or_after_shutdown_return_an_error() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    for node in 0..2 {
        cluster.servers()[node].behave(Behaviour::Failing(NodeError::ReadOnly));
    }
    assert!(matches!(election.leader().await, Err(Error::NoQuorum(_))));
    assert!(matches!(election.try_campaign("host-1").await, Err(Error::NoQuorum(_))));
    let quorum = client(&cluster);
    quorum.shutdown().await;
    let election = quorum.election("e");
    assert_eq!(election.campaign("host-1").await.unwrap_err(), Error::Closed(ClosedReason::ShutDown));
    assert_eq!(election.leader().await.unwrap_err(), Error::Closed(ClosedReason::ShutDown));
    assert_eq!(election.observe().unwrap_err(), Error::Closed(ClosedReason::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn a_lock_on_the_name_blocks_campaigns_but_is_no_leader() {
    let cluster = MemoryCluster::new(3);
    let election = election_of_new_client(&cluster);
    let _guard = client(&cluster).red_lock("e").lock().await.unwrap();
    assert_eq!(leader_value(&election).await, None);
    assert!(election.try_campaign("host-1").await.unwrap().is_none());
}
