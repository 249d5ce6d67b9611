//! Help texts, which need no servers.
//!
//! Help texts are compared with the files in `help/`; `REDQUORUM_TEST_WRITE=1` writes them anew.

use std::path::Path;

use super::redquorum::{code, output, redquorum, stderr, stdout};

async fn shows(words: &[&str], name: &str) {
    let shown = output(redquorum(words.iter().chain(&["--help"]))).await;
    assert_eq!((code(&shown), stderr(&shown)), (0, String::new()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help").join(format!("{name}.txt"));
    if std::env::var_os("REDQUORUM_TEST_WRITE").is_some() {
        std::fs::write(&path, stdout(&shown)).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(stdout(&shown), expected, "{} differs", path.display());
}

#[tokio::test]
async fn the_help_of_the_whole_is_as_written_down() {
    shows(&[], "redquorum").await;
}

#[tokio::test]
async fn the_help_of_every_command_is_as_written_down() {
    for command in ["run", "elect", "observe"] {
        shows(&[command], command).await;
    }
}
