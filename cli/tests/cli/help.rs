//! What is printed without any servers: help, completions, manual pages.
//!
//! Help texts are compared with the files in `help/`; `REDQUORUM_TEST_WRITE=1` writes them anew.

use std::path::Path;

use super::{
    redquorum::{code, output, redquorum, stderr, stdout},
    scratch::Scratch,
};

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
    for command in [
        "run",
        "elect",
        "observe",
        "inspect",
        "list",
        "top",
        "force-unlock",
        "init",
        "reconfigure",
        "doctor",
        "bench",
        "completions",
        "man",
    ] {
        shows(&[command], command).await;
    }
}

#[tokio::test]
async fn completions_are_there_for_every_shell() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(redquorum(["completions", shell])).await;
        assert_eq!(code(&script), 0, "{}", stderr(&script));
        assert!(stdout(&script).contains("kill-after"), "{shell}");
        assert!(!stdout(&script).contains("exec-child"), "{shell} would complete what is not for people");
    }
}

#[tokio::test]
async fn manual_pages_are_printed_or_written_one_for_each_command() {
    let page = output(redquorum(["man"])).await;
    assert!(stdout(&page).contains(".TH redquorum 1"), "{}", stdout(&page));
    let scratch = Scratch::new();
    let written = output(redquorum(["man", scratch.path().to_str().unwrap()])).await;
    assert_eq!((code(&written), stdout(&written)), (0, String::new()), "{}", stderr(&written));
    for page in ["redquorum.1", "redquorum-run.1", "redquorum-elect.1", "redquorum-observe.1"] {
        assert!(scratch.read(page).contains(".SH NAME"), "{page}");
    }
    assert!(!scratch.path().join("redquorum-exec-child.1").exists());
    let nowhere = output(redquorum(["man", "/nowhere"])).await;
    assert_eq!(code(&nowhere), 74, "{}", stderr(&nowhere));
}
