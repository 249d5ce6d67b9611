//! The law of layers: every part of the library knows only of those below it.

use std::{fs, path::Path};

/// From the bottom to the top. A part may use those of the lines before its own.
const LAYERS: [&[&str]; 15] = [
    &["mutation", "mutex", "spawner"],
    &["values"],
    &["clock", "error"],
    &["algorithm"],
    &["node"],
    &["config"],
    &["observer"],
    &["metrics"],
    &["client"],
    &["lease"],
    &["acquire"],
    &["lock"],
    &["quorum"],
    &["election", "latch", "semaphore", "settings"],
    &["blocking", "model", "sim"],
];

/// These are written as a program of a user would be: they may use what is public.
const USERS: [&str; 2] = ["blocking", "sim"];

fn layer(part: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&part))
}

/// The parts that this source text names by `crate::` (not by `super::`), without those in comments
/// and from its tests on.
fn named(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut named = Vec::new();
    for after in code.split("crate::").skip(1) {
        let Some(tree) = after.strip_prefix('{') else {
            named.push(word(after));
            continue;
        };
        let (mut depth, mut begins) = (1, true);
        for (at, letter) in tree.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => begins = true,
                ' ' => {}
                _ if begins => {
                    named.push(word(&tree[at..]));
                    begins = false;
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    named
}

fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

/// What is wrong with the files of one part.
fn wrong(part: &str, path: &Path) -> Vec<String> {
    let shown = path.display();
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries
            .filter(|entry| !entry.ends_with("tests"))
            .flat_map(|entry| wrong(part, &entry))
            .collect();
    }
    if path.ends_with("tests.rs") || path.extension().is_none_or(|extension| extension != "rs") {
        return Vec::new();
    }
    let Some(own) = layer(part) else { return vec![format!("{shown}: {part} is in no layer")] };
    let is_allowed = |name: &String| {
        let is_public = name.starts_with(char::is_uppercase);
        name == part || (is_public && USERS.contains(&part)) || layer(name).is_some_and(|layer| layer < own)
    };
    let names = named(&fs::read_to_string(path).unwrap());
    names.into_iter().filter(|name| !is_allowed(name)).map(|name| format!("{shown}: uses {name}")).collect()
}

#[test]
fn no_part_of_the_library_uses_one_above_it() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut problems = Vec::new();
    for entry in fs::read_dir(source).unwrap() {
        let path = entry.unwrap().path();
        let part = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if part != "lib" {
            problems.extend(wrong(&part, &path));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_names_in_uses_are_found() {
    let source = "use crate::{\n    node::{Answer, Reply}, // lock::Nobody\n    values::Resource,\n};\n\
                  use crate::clock;\nfn a() -> crate::error::Error { crate::Quorum }\n\
                  #[cfg(test)]\nmod tests {\n    use crate::sim::Client;\n}\n";
    assert_eq!(named(source), ["node", "values", "clock", "error", "Quorum"]);
}
