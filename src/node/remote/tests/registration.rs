//! The first registration of a connection, and the later registrations when the server may have changed.

use super::{duplicate_servers::ServerRegistration, fake::registered, *};
use crate::{
    lock::tests::traces::Traces,
    node::{Abstention, Registration},
    values::Fingerprint,
};

impl Fixture {
    /// Returns a node that has registered.
    async fn registered() -> Self {
        let fixture = Self::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
        fixture.pass(1).await;
        assert_eq!(fixture.fake.sent_texts(), ["register", "registered in first incarnation"]);
        fixture
    }

    /// Returns a node whose server answers registrations by `answer`.
    async fn answering(answer: Answer) -> Self {
        let fixture = Self::registering(DialBehaviour::Refusing, Some(NewNodes::Quarantine));
        fixture.fake.set_registration(answer);
        fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
        fixture.pass(200).await;
        fixture
    }

    /// Registers this incarnation for another node of the same client.
    fn register_other(&self, incarnation: &str) -> Result<ServerRegistration, NodeError> {
        self.connected_servers.register(&"other".into(), &incarnation.into())
    }

    /// Returns the error with which the node refuses a lock.
    fn refusal(&self) -> NodeError {
        match error(self.lock(1)) {
            NodeError::Handshake(refused) => (*refused).clone(),
            other => other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_until_the_connection_has_registered() {
    let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
    let reply = fixture.lock(1);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(fixture.fake.sent_texts(), ["register", "registered in first incarnation", "lock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_quorum_or_unknown_incarnation_gets_no_calls() {
    let other_quorum = Fingerprint::new("other");
    let fixture = Fixture::answering(Answer::WrongQuorum { fingerprint: other_quorum.clone() }).await;
    assert_eq!(fixture.refusal(), NodeError::WrongQuorum(other_quorum.as_str().into()));
    let fixture = Fixture::answering(Answer::Error(NodeError::RunIdForbidden)).await;
    assert_eq!(fixture.refusal(), NodeError::RunIdForbidden);
    assert!(!fixture.fake.sent_texts().contains(&"lock 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_wrong_clock_gets_no_calls() {
    let clock_off = NodeError::ClockOff { gap: Duration::from_secs(7200), is_node_ahead: true };
    let fixture = Fixture::answering(Answer::Error(clock_off.clone())).await;
    assert_eq!(fixture.refusal(), clock_off);
}

#[tokio::test(start_paused = true)]
async fn a_server_behind_two_addresses_of_one_client_has_one_vote() {
    let fixture = Fixture::registered().await;
    let refused = fixture.register_other("first incarnation");
    assert_eq!(
        refused.unwrap_err(),
        NodeError::SameServer { other: "fake:1".into(), incarnation: "first incarnation".into() }
    );
    let _moved = fixture.register_other("next incarnation").unwrap();
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    fixture.pass(200).await;
    assert!(matches!(fixture.refusal(), NodeError::SameServer { .. }));
    assert!(
        fixture.register_other("first incarnation").is_ok(),
        "no node is registered for the first incarnation any more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_registers_again_after_an_abstention() {
    let abstention = Abstention::NotRegistered;
    for answer in [Answer::Abstains(abstention), Answer::RenewedInQuarantine(abstention)] {
        let fixture = Fixture::registered().await;
        fixture.fake.answer_lock(answer.clone());
        assert_eq!(fixture.lock(1).await, [answer]);
        fixture.pass(1).await;
        assert_eq!(fixture.fake.sent_texts(), ["lock 1", "register", "registered in first incarnation"]);
        assert_eq!((fixture.fake.dials().len(), fixture.fake.connections()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_replaced_if_a_registration_returns_another_incarnation() {
    let fixture = Fixture::registered().await;
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
    drop(fixture.lock(1).await);
    fixture.pass(200).await;
    let sent_texts = [
        "lock 1",
        "register",
        "registered in next incarnation",
        "register",
        "registered in next incarnation",
    ];
    assert_eq!(fixture.fake.sent_texts(), sent_texts);
    assert_eq!((fixture.fake.dials().len(), fixture.fake.connections()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_refused_registration_is_not_reported_as_a_registration() {
    let fixture = Fixture::registered().await;
    assert_eq!(*fixture.monitor.0.lock().unwrap(), [false]);
    fixture.fake.set_registration(Answer::WrongQuorum { fingerprint: Fingerprint::new("other") });
    fixture.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
    drop(fixture.lock(1).await);
    fixture.pass(200).await;
    assert_eq!(*fixture.monitor.0.lock().unwrap(), [false]);
    fixture.fake.set_registration(registered("first incarnation"));
    fixture.pass(2000).await;
    assert_eq!(*fixture.monitor.0.lock().unwrap(), [false, false]);
}

/// Breaks a connection, lets the next connection succeed after the time `outage` with this answer to
/// the registration, and returns the warnings.
async fn warnings_after_reconnect(outage: Duration, answer: Answer) -> Vec<String> {
    let fixture = Fixture::registered().await;
    let traces = Traces::begin();
    fixture.fake.set_registration(answer);
    fixture.fake.set_dial_behaviour(DialBehaviour::Refusing);
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    tokio::time::sleep(outage).await;
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    while fixture.fake.connections() == 0 {
        fixture.pass(1).await;
    }
    fixture.pass(1).await;
    traces.warned()
}

#[tokio::test(start_paused = true)]
async fn another_incarnation_without_a_quarantine_causes_a_warning() {
    let soon = Duration::from_millis(1);
    let warned = warnings_after_reconnect(soon, registered("next incarnation")).await;
    assert!(matches!(&warned[..], [warning] if warning.starts_with("another server answers")), "{warned:?}");
    assert!(
        warnings_after_reconnect(soon, registered("first incarnation")).await.is_empty(),
        "the incarnation has not changed"
    );
    let quarantined =
        Registration { incarnation: Some("next incarnation".into()), quarantine: Some(QUARANTINE) };
    assert!(
        warnings_after_reconnect(soon, Answer::Registered(quarantined)).await.is_empty(),
        "the node is in quarantine after a restart"
    );
    assert!(
        warnings_after_reconnect(QUARANTINE, registered("next incarnation")).await.is_empty(),
        "the quarantine after a restart may be over"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_lost_the_script_gets_it_with_a_registration_before_any_call() {
    let fixture = Fixture::registered().await;
    fixture.fake.freeze();
    let replies = [fixture.lock(1), fixture.lock(2)];
    fixture.pass(1).await;
    fixture.fake.revive();
    fixture.fake.lose_script();
    for reply in replies {
        assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    }
    let sent_texts = [
        "lock 1, lock 2",
        "register",
        "register with the script",
        "load",
        "registered in first incarnation",
        "lock 1, lock 2",
    ];
    assert_eq!(fixture.fake.sent_texts(), sent_texts);
}

#[tokio::test(start_paused = true)]
async fn a_client_registers_by_name_if_another_client_has_delivered_the_script() {
    let fixture = Fixture::registered().await;
    fixture.fake.freeze();
    let reply = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.revive();
    fixture.fake.lose_script();
    fixture.fake.get_script();
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    let sent_texts = ["lock 1", "register", "registered in first incarnation", "lock 1"];
    assert_eq!(fixture.fake.sent_texts(), sent_texts);
}

#[tokio::test(start_paused = true)]
async fn a_new_connection_brings_the_script_to_a_node_that_still_lacks_it_after_a_pause() {
    let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
    fixture.fake.forget_script();
    assert_eq!(fixture.lock(1).await, [Answer::Granted { vote: 1 }]);
    let sent_texts = [
        "register",
        "register",
        "register with the script",
        "load",
        "registered in first incarnation",
        "lock 1",
    ];
    assert_eq!(fixture.fake.sent_texts(), sent_texts);
}

#[tokio::test(start_paused = true)]
async fn a_connection_registers_again_after_an_abstention_of_a_node_without_the_script() {
    let fixture = Fixture::registered().await;
    fixture.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
    fixture.fake.freeze();
    let reply = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.revive();
    fixture.fake.answer_and_forget_script();
    drop(reply.await);
    assert_eq!(fixture.lock(2).await, [Answer::Granted { vote: 1 }]);
    let sent_texts = fixture.fake.sent_texts();
    let with_script = sent_texts.iter().position(|text| text == "register with the script");
    assert!(with_script < sent_texts.iter().position(|text| text == "lock 2"), "{sent_texts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_replica_is_replaced() {
    let fixture = Fixture::registered().await;
    fixture.fake.answer_lock(Answer::Error(NodeError::ReadOnly));
    assert_eq!(error_of(fixture.lock(1).await), NodeError::ReadOnly);
    fixture.fake.set_registration(Answer::Error(NodeError::ReadOnly));
    fixture.pass(200).await;
    assert_eq!(fixture.refusal(), NodeError::ReadOnly);
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.pass(2_000).await;
    assert_eq!(fixture.lock(2).await, [Answer::Granted { vote: 1 }]);
}
