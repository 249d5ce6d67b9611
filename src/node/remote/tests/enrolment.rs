//! What a connection says before any call, and again when the node may have become another one.

use super::{fake::enrolled, *};
use crate::node::{Abstention, Fingerprint};

impl Scene {
    /// A node that answers enrolments, with some time to do it.
    async fn enrolled() -> Self {
        let scene = Self::enrolling(Door::Open, Some(Enrol { admits_new: false }));
        scene.pass(1).await;
        assert_eq!(scene.fake.told(), ["enrol", "enrolled in first run"]);
        scene
    }

    /// A node that answers the enrolment so.
    async fn answering(answer: Answer) -> Self {
        let scene = Self::enrolling(Door::Refusing, Some(Enrol { admits_new: false }));
        scene.fake.set_enrolment(answer);
        scene.fake.set_door(Door::Open);
        scene.pass(200).await;
        scene
    }

    fn refusal(&self) -> Fault {
        match fault(self.lock(1)) {
            Fault::Handshake(refused) => (*refused).clone(),
            other => other,
        }
    }

    fn next_run(&self) -> Answer {
        enrolled("next run", self.clock.time_of_day())
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_until_the_connection_has_enrolled() {
    let scene = Scene::enrolling(Door::Open, Some(Enrol { admits_new: false }));
    let reply = scene.lock(1);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(scene.fake.told(), ["enrol", "enrolled in first run", "lock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_quorum_or_whose_run_is_not_to_be_known_takes_no_calls() {
    let theirs = Fingerprint::new("theirs");
    let scene = Scene::answering(Answer::Foreign { fingerprint: theirs.clone() }).await;
    assert_eq!(scene.refusal(), Fault::OtherQuorum(theirs));
    let scene = Scene::answering(Answer::Fault(Fault::RunIdForbidden)).await;
    assert_eq!(scene.refusal(), Fault::RunIdForbidden);
    assert!(!scene.fake.told().contains(&"lock 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_time_is_off_by_more_than_an_hour_takes_no_calls() {
    const HOUR: Duration = Duration::from_secs(3600);
    let now = TokioClock::new().time_of_day();
    for off in [now + HOUR * 2, now - HOUR * 2] {
        let scene = Scene::answering(enrolled("first run", off)).await;
        let Fault::ClockOff(by) = scene.refusal() else { panic!("{:?}", scene.refusal()) };
        assert!(by > HOUR && by < 3 * HOUR, "{by:?}");
    }
    let scene = Scene::answering(enrolled("first run", now + HOUR / 2)).await;
    assert_eq!(scene.lock(1).await, [Answer::Granted { vote: 1 }]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_node_was_flushed_enrols_again_at_once_and_lives_on() {
    let answers = [Abstention::NotEnrolled].map(|why| [Answer::Abstains(why), Answer::Healed(why)]);
    for answer in answers.into_iter().flatten() {
        let scene = Scene::enrolled().await;
        scene.fake.answer_lock(answer.clone());
        assert_eq!(scene.lock(1).await, [answer]);
        scene.pass(1).await;
        assert_eq!(scene.fake.told(), ["lock 1", "enrol", "enrolled in first run"]);
        assert_eq!((scene.fake.dials().len(), scene.fake.links()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_another_server_answers_is_replaced() {
    let scene = Scene::enrolled().await;
    scene.fake.set_enrolment(scene.next_run());
    scene.fake.answer_lock(Answer::Abstains(Abstention::NotEnrolled));
    drop(scene.lock(1).await);
    scene.pass(200).await;
    let told = ["lock 1", "enrol", "enrolled in next run", "enrol", "enrolled in next run"];
    assert_eq!(scene.fake.told(), told);
    assert_eq!((scene.fake.dials().len(), scene.fake.links()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_lost_the_script_is_enrolled_again_before_anything_else() {
    let scene = Scene::enrolled().await;
    scene.fake.freeze();
    let reply = scene.lock(1);
    scene.pass(1).await;
    scene.fake.revive();
    scene.fake.lose_script();
    scene.pass(1).await;
    scene.fake.say(LinkEvent::Loaded);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(scene.fake.told(), ["lock 1", "load", "enrol", "enrolled in first run", "lock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_replica_is_given_up() {
    let scene = Scene::enrolled().await;
    scene.fake.answer_lock(Answer::Fault(Fault::ReadOnly));
    assert_eq!(fault_of(scene.lock(1).await), Fault::ReadOnly);
    scene.fake.set_enrolment(Answer::Fault(Fault::ReadOnly));
    scene.pass(200).await;
    assert_eq!(scene.refusal(), Fault::ReadOnly);
    scene.fake.set_enrolment(scene.next_run());
    scene.pass(2_000).await;
    assert_eq!(scene.lock(2).await, [Answer::Granted { vote: 1 }]);
}
