//! Clients that wait for each other, in `redquorum list` and `redquorum doctor`, and different numbers of permits.

use redquorum::{Quorum, admin};
use redquorum_tests::{Cluster, eventually};

use super::{
    redquorum::{TIME_LIMIT, command_on, exit_code, json, output, run, stderr, stdout, wait_for_output},
    terminal::on_a_terminal_of,
};

/// Returns clients with these labels.
async fn clients<const N: usize>(cluster: &Cluster, labels: [&str; N]) -> [Quorum; N] {
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let mut clients = Vec::new();
    for label in labels {
        clients.push(builder().label(label).connect().await.unwrap());
    }
    clients.try_into().unwrap()
}

/// Waits until this number of clients waits for a lock.
async fn wait_until_queued(quorum: &Quorum, name: &str, waiters: u32) {
    let is_queued = async || quorum.inspect(name).await.unwrap().waiters() == waiters;
    eventually(TIME_LIMIT, &format!("{waiters} wait for {name}"), is_queued).await;
}

fn wait_for(quorum: &Quorum, name: &str) -> tokio::task::JoinHandle<()> {
    let lock = quorum.red_lock(name);
    tokio::spawn(async move { drop(lock.lock().await) })
}

#[tokio::test]
async fn clients_that_wait_for_each_other_are_marked_in_a_list() {
    let cluster = Cluster::start(3).await;
    let [web, job, other] = clients(&cluster, ["web-1", "job-2", "other"]).await;
    let _held = [web.red_lock("a").lock().await.unwrap(), job.red_lock("b").lock().await.unwrap()];
    let waiter = wait_for(&other, "a");
    wait_until_queued(&web, "a", 1).await;
    let list = async || output(command_on(&cluster, ["list"])).await;
    let doctor = async || {
        let doctor = output(command_on(&cluster, ["--json", "doctor", "--watch", "0", "--all"])).await;
        let waits = json(&doctor).into_iter().filter(|finding| finding["check"] == "waits");
        waits.map(|finding| (finding["level"].clone(), finding["found"].to_string())).collect::<Vec<_>>()
    };
    let shown = list().await;
    assert!(!stdout(&shown).contains('*'), "a chain of waits is no cycle: {}", stdout(&shown));
    assert_eq!(doctor().await, [("ok".into(), "\"no clients wait for each other\"".to_owned())]);
    // The first waiter of `a` is still the other client.
    let waiters = [wait_for(&web, "b"), wait_for(&job, "a")];
    wait_until_queued(&web, "b", 1).await;
    wait_until_queued(&web, "a", 2).await;
    cluster.server(2).kill().await;
    // The server may have had the wait queue of a lock. Then the waiters enter the queue of another server.
    wait_until_queued(&web, "b", 1).await;
    wait_until_queued(&web, "a", 2).await;
    let shown = list().await;
    assert_eq!(exit_code(&shown), 0, "{}", stderr(&shown));
    let text = stdout(&shown);
    for name in ["a", "b"] {
        assert!(text.lines().any(|line| line.starts_with(name) && line.contains(" held* ")), "{text}");
    }
    assert!(text.lines().last().unwrap().starts_with("* 2 clients wait for each other: "), "{text}");
    let listing = json(&output(command_on(&cluster, ["--json", "list"])).await).remove(0);
    let [cycle] = &**listing["cycles"].as_array().unwrap() else { panic!("{listing}") };
    let mut steps: Vec<String> = cycle
        .as_array()
        .unwrap()
        .iter()
        .map(|step| format!("{} {}", step["label"], step["waits_for"]))
        .collect();
    steps.sort();
    assert_eq!(steps, [r#""job-2" "a""#, r#""web-1" "b""#]);
    assert!(listing["locks"].as_array().unwrap().iter().all(|lock| lock["in_cycle"] == true), "{listing}");
    let [(level, found)] = &*doctor().await else { panic!("one cycle is one finding") };
    assert_eq!(level, "warn");
    assert!(found.contains("2 clients wait for each other") && found.contains("web-1/"), "{found}");
    // A terminal of 80 columns has the labels.
    let shown = on_a_terminal_of(24, 80, &command_on(&cluster, ["list"])).spawn().unwrap();
    let text = stdout(&wait_for_output(shown).await).replace('\r', "");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let joined = text.lines().collect::<Vec<_>>().join(" ");
    assert!(joined.contains("job-2 waits for a of web-1"), "{text}");
    assert!(joined.contains("web-1 waits for b of job-2"), "{text}");
    waiter.abort();
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Readers, groups and permits, each with two clients that wait for each other.
#[tokio::test]
async fn cycles_of_readers_groups_and_permits_are_marked() {
    let cluster = Cluster::start(3).await;
    let [reader, other_reader, group, other_group, permit, other_permit] =
        clients(&cluster, ["r1", "r2", "g1", "g2", "p1", "p2"]).await;
    let (doc, other_doc) = (reader.rw_lock("doc"), other_reader.rw_lock("doc"));
    let _readers = [doc.read().await.unwrap(), other_doc.read().await.unwrap()];
    let (left, right) = (group.multi_lock(["left", "free"]), other_group.multi_lock(["right"]));
    let _groups = [left.lock().await.unwrap(), right.lock().await.unwrap()];
    let (gpu, other_gpu) = (permit.semaphore("gpu", 2), other_permit.semaphore("gpu", 2));
    let _permits = [gpu.acquire().await.unwrap(), gpu.acquire().await.unwrap()];
    let _held = other_permit.red_lock("model").lock().await.unwrap();
    let (for_right, for_left) = (group.multi_lock(["right"]), other_group.multi_lock(["left", "new"]));
    let for_model = permit.red_lock("model");
    let waiters = [
        tokio::spawn(async move { drop(doc.write().await) }),
        tokio::spawn(async move { drop(other_doc.write().await) }),
        tokio::spawn(async move { drop(for_right.lock().await) }),
        tokio::spawn(async move { drop(for_left.lock().await) }),
        tokio::spawn(async move { drop(for_model.lock().await) }),
        tokio::spawn(async move { drop(other_gpu.acquire().await) }),
    ];
    cluster.server(1).kill().await;
    let list_cycles = async || {
        let listing = json(&output(command_on(&cluster, ["--json", "list"])).await).remove(0);
        listing["cycles"].as_array().unwrap().clone()
    };
    // The waiters of a wait queue on the killed server enter another queue first.
    let has_three = async || list_cycles().await.len() == 3;
    eventually(TIME_LIMIT, "the list shows three cycles", has_three).await;
    let cycles = list_cycles().await;
    let step = |step: &serde_json::Value| {
        let permit = if step["permit"] == true { "any permit of " } else { "" };
        let (label, lock) = (step["label"].as_str().unwrap(), step["waits_for"].as_str().unwrap());
        format!("{label} waits for {permit}{lock}")
    };
    let mut steps: Vec<String> =
        cycles.iter().flat_map(|cycle| cycle.as_array().unwrap().iter().map(step)).collect();
    steps.sort();
    let expected = [
        "g1 waits for right",
        "g2 waits for left",
        "p1 waits for model",
        "p2 waits for any permit of gpu",
        "r1 waits for doc",
        "r2 waits for doc",
    ];
    assert_eq!(steps, expected);
    let shown = on_a_terminal_of(24, 80, &command_on(&cluster, ["list"])).spawn().unwrap();
    let text = stdout(&wait_for_output(shown).await).replace('\r', "");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for row in ["doc ", "left ", "right ", "slot 0 of gpu ", "slot 1 of gpu ", "model "] {
        assert!(text.lines().any(|line| line.starts_with(row) && line.contains('*')), "{row}: {text}");
    }
    let free = text.lines().find(|line| line.starts_with("free ")).expect(&text);
    assert!(!free.contains('*'), "no client waits for this lock: {text}");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_different_number_of_permits_is_a_notice_with_both_numbers() {
    let cluster = Cluster::start(3).await;
    let first = output(run(&cluster, &["gpu", "-n", "2"], "true")).await;
    assert_eq!((exit_code(&first), stderr(&first)), (0, String::new()));
    cluster.server(0).kill().await;
    let second = output(run(&cluster, &["gpu", "-n", "3"], "true")).await;
    let notice = "gpu has 3 permits here, but another client counted 2 in the last 10 minutes, so 3 or more";
    assert_eq!((exit_code(&second), stderr(&second).matches(notice).count()), (0, 1), "{}", stderr(&second));
    // The number of the last client is recorded.
    let third = output(run(&cluster, &["gpu", "-n", "3"], "true")).await;
    assert!(
        exit_code(&third) == 0 && !stderr(&third).contains("another client counted"),
        "{}",
        stderr(&third)
    );
    let shown = output(run(&cluster, &["--json", "gpu", "-n", "1"], "exit 3")).await;
    assert_eq!(exit_code(&shown), 3);
    let notice = r#"{"notice":{"message":"gpu has 1 permit here, but another client counted 3"#;
    assert!(stderr(&shown).lines().any(|line| line.starts_with(notice)), "{}", stderr(&shown));
}
