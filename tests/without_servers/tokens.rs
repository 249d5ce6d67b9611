//! Fencing tokens in JSON, the format in which stores may keep them.

use redquorum::{FencingToken, Quorum};
use serde_json::json;

#[tokio::test]
async fn a_token_is_a_number_in_json_and_other_values_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let token = quorum.red_lock("r").lock().await.unwrap().fencing_token();
    let stored = serde_json::to_value(token).unwrap();
    assert_eq!(stored, json!(token.as_u64()));
    assert_eq!(serde_json::from_value::<FencingToken>(stored).unwrap(), token);
    for wrong in [json!(0), json!(-1), json!(1_u64 << 53), json!(1.5), json!("7"), json!(null)] {
        serde_json::from_value::<FencingToken>(wrong).unwrap_err();
    }
}
