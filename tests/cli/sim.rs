//! `redquorum sim`. That a campaign ends with a case that fails is shown beside its code: none of this library does.

use super::{
    redquorum::{code, json, output, redquorum, stderr, stdout},
    scratch::Scratch,
};

#[tokio::test]
async fn a_campaign_needs_no_nodes_and_says_what_it_has_run() {
    for beyond in [None, Some("--beyond")] {
        let words = ["sim", "--cases", "20", "--seed", "3", "--nodes", "3,5", "--threads", "2"];
        let sim = output(redquorum(words.into_iter().chain(beyond))).await;
        assert_eq!((code(&sim), stderr(&sim)), (0, String::new()));
        assert!(stdout(&sim).starts_with("20 cases of seed 3 in "), "{}", stdout(&sim));
        assert!(stdout(&sim).ends_with("no promise was broken\n"), "{}", stdout(&sim));
    }
    let sim = json(&output(redquorum(["--json", "sim", "--cases", "5"])).await);
    assert_eq!((&sim[0]["cases"], &sim[0]["broken"]), (&5.into(), &serde_json::Value::Null));
    assert!(sim[0]["messages"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_case_from_a_file_is_run_again_and_breaks_its_promise_again() {
    let scratch = Scratch::new();
    let case = |nodes: usize| {
        let path = scratch.file(&format!("{nodes}.json"));
        let latency = r#"{"shortest":100,"longest":100}"#;
        let schedule = format!(r#"{{"seed":1,"nodes":{nodes},"clients":1,"latency":{latency}}}"#);
        std::fs::write(&path, format!("{{\"schedule\":{schedule},\"programs\":[[]]}}\n")).unwrap();
        path
    };
    let replay = async |path: String| output(redquorum(["--json", "sim", "--replay", &path])).await;
    let kept = replay(case(3)).await;
    assert_eq!(code(&kept), 0, "{}", stderr(&kept));
    assert_eq!(json(&kept)[0]["broken"], serde_json::Value::Null);
    // No client can be built of no nodes, which ends a simulated program by a panic.
    let broken = replay(case(0)).await;
    assert_eq!(code(&broken), 82, "{}", stderr(&broken));
    let report = json(&broken)[0]["broken"]["report"].as_str().unwrap().to_owned();
    assert!(report.contains("a task panicked"), "{report}");
}

#[tokio::test]
async fn a_file_that_holds_no_case_is_refused() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let sim = output(redquorum(["sim", "--replay", path])).await;
    assert_eq!(code(&sim), 64);
    assert!(stderr(&sim).contains("holds no case"), "{}", stderr(&sim));
    let sim = output(redquorum(["sim", "--replay", "/nowhere.json"])).await;
    assert_eq!(code(&sim), 74);
}
