//! The page `docs/evidence/suites.md`: each test that the page names exists, and each case has a test or a reason.
//!
//! The page names a test by a link from the name to the file, with the path of the file as the label of the link.

use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/evidence/suites.md")).unwrap()
}

/// Returns the name and the label of each link ``[`name`][label]``.
fn named_tests(page: &str) -> Vec<(&str, &str)> {
    let links = page.split("[`").skip(1).filter_map(|after| {
        let (name, rest) = after.split_once('`')?;
        let (label, _) = rest.strip_prefix("][")?.split_once(']')?;
        Some((name, label))
    });
    links.collect()
}

/// Returns whether the code has a test of this name.
fn has_test(code: &str, name: &str) -> bool {
    let mut is_test = false;
    for line in code.lines().map(str::trim_start) {
        if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else if !line.starts_with("//") {
            if is_test && line.contains(&format!("fn {name}(")) {
                return true;
            }
            is_test = false;
        }
    }
    false
}

/// Returns the cells of the rows below the heads of the tables.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| case ");
    page.lines()
        .filter(is_row)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

#[test]
fn each_test_that_the_page_names_exists() {
    let page = page();
    let named = named_tests(&page);
    let is_missing = |(name, file): &&(&str, &str)| {
        let code = fs::read_to_string(root().join(file)).unwrap_or_default();
        let link = format!("\n[{file}]: ../../{file}\n");
        !has_test(&code, name) || !page.contains(&link)
    };
    let missing: Vec<_> = named.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "no such test, or no link of the label: {missing:#?}");
    assert!(named.len() > 200, "only {} tests were found", named.len());
}

#[test]
fn each_case_has_a_test_or_a_reason() {
    let page = page();
    let rows = rows(&page);
    for row in &rows {
        assert!(row.len() == 2 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
    assert!(rows.len() > 150, "only {} cases were found", rows.len());
}

#[test]
fn names_of_tests_and_of_other_functions_are_distinguished() {
    let page = "| case | test |\n|---|---|\n| a `b` [c](d.rs) | [`one`][a.rs], [`two`][b/c.rs] |\n| e | |\n[a.rs]: a.rs\n";
    assert_eq!(named_tests(page), [("one", "a.rs"), ("two", "b/c.rs")]);
    assert_eq!(rows(page), [["a `b` [c](d.rs)", "[`one`][a.rs], [`two`][b/c.rs]"], ["e", ""]]);
    let code = "#[test]\nfn one() {}\nfn two() {}\n    #[tokio::test(start_paused = true)]\n    #[ignore]\n    // why\n    \
                async fn three() {}\n#[inline]\nfn four() {}\n";
    let tests = ["one", "two", "three", "four", "on"].map(|name| has_test(code, name));
    assert_eq!(tests, [true, false, true, false, false]);
}
