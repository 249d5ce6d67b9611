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
    &["__command", "blocking", "model", "sim"],
];

/// The parts that are written like a program of a user: they may use everything public.
const USERS: [&str; 2] = ["blocking", "sim"];

/// The modules that `lib.rs` makes of public names.
const PUBLIC_MODULES: [&str; 2] = ["admin", "inspection"];

fn layer(part: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&part))
}

/// The parts that this source text names by `crate::` (not by `super::`), without comments and tests. A variable of a
/// macro, such as `crate::$lock`, is a public name unless a path goes on behind it. A text that ends with `crate::`
/// names nothing.
fn named(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let code: String = code.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut named = Vec::new();
    for after in code.split("crate::").skip(1).filter(|after| !after.starts_with('"')) {
        if let Some(variable) = after.strip_prefix('$') {
            let name = word(variable);
            let is_module = variable[name.len()..].starts_with("::");
            named.push(if is_module { format!("${name}::") } else { format!("${name}") });
            continue;
        }
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
        let is_item =
            name.starts_with(char::is_uppercase) || (name.starts_with('$') && !name.ends_with("::"));
        let is_public = is_item || PUBLIC_MODULES.contains(&&**name);
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
                  crate::$lock; crate::$part::Name; \"[`crate::\"\n\
                  #[cfg(test)]\nmod tests {\n    use crate::sim::Client;\n}\n";
    assert_eq!(named(source), ["node", "values", "clock", "error", "Quorum", "$lock", "$part::"]);
}
