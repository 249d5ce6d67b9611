//! The rule of layers: each part of the library uses only the parts below it, and only the external crates
//! listed for it.
//!
//! A part is a file or folder directly below `src`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The layers from the bottom to the top. A part may use the parts of the lines before its own.
const LAYERS: [&[&str]; 16] = [
    &["mutation", "mutex", "process"],
    &["spawner"],
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

/// The external crates of each part, or of a folder within a part. A part that is not listed uses no crate:
/// `algorithm`, the state of a node, the operations and the send queue are pure.
const CRATES: &[(&str, &[&str])] = &[
    ("acquire", &["futures", "tokio", "tracing"]),
    ("blocking", &["futures", "pollster", "thiserror", "tokio"]),
    ("client", &["futures", "rand", "rustix", "tokio", "tracing", "uuid"]),
    ("clock", &["futures", "rustix", "tokio", "tracing"]),
    ("election", &["futures", "tokio", "tracing"]),
    ("error", &["thiserror"]),
    ("latch", &["tokio"]),
    ("lease", &["futures", "tokio", "tracing"]),
    ("lock", &["futures", "tokio", "tracing", "uuid"]),
    ("metrics", &["metrics"]),
    ("model", &["stateright"]),
    ("node", &["futures", "tokio"]),
    ("node/memory", &["futures"]),
    ("node/operation", &[]),
    ("node/redis", &["futures", "redis", "rustls_native_certs", "tokio", "tokio_rustls", "tracing"]),
    ("node/remote", &["futures", "rand", "tokio", "tracing"]),
    ("node/send_queue", &[]),
    ("node/state", &[]),
    ("process", &["futures"]),
    ("quorum", &["futures", "redis", "tokio", "tracing"]),
    ("semaphore", &["futures", "tokio", "tracing"]),
    ("settings", &["serde", "toml"]),
    ("sim", &["futures", "proptest", "rand", "serde", "serde_json", "svg", "thiserror", "tokio", "uuid"]),
    ("spawner", &["futures", "tokio"]),
    ("values", &["serde", "thiserror", "uuid"]),
];

/// The parts that use the library as a program of a user does. These parts may use each public name.
const USERS: [&str; 2] = ["blocking", "sim"];

/// The public modules that `lib.rs` assembles.
const PUBLIC_MODULES: [&str; 2] = ["admin", "inspection"];

fn layer(part: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&part))
}

/// Returns the parts that a source text names by `crate::` (not by `super::`), without comments and tests.
///
/// A variable of a macro, such as `crate::$lock`, stands for a public name, unless a path continues after it.
/// `crate::` at the end of a text names no part.
fn names_in_uses(source: &str) -> Vec<String> {
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

/// Returns the source files at this path, without those of tests.
fn files(path: PathBuf) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        return entries.filter(|entry| !entry.ends_with("tests")).flat_map(files).collect();
    }
    let is_source =
        path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs");
    if is_source { vec![path] } else { Vec::new() }
}

/// Returns each source file of the library with its text. Paths are relative to `src`.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src");
    let mut sources = Vec::new();
    for path in files(root.clone()) {
        let text = fs::read_to_string(&path).unwrap();
        sources.push((path.strip_prefix(&root).unwrap().to_owned(), text));
    }
    sources
}

/// Returns the part that a file belongs to.
fn part_of(file: &Path) -> &str {
    Path::new(file.iter().next().unwrap()).file_stem().unwrap().to_str().unwrap()
}

/// Returns the uses of parts that the layers forbid to a file.
fn forbidden_uses(file: &Path, source: &str) -> Vec<String> {
    let (part, shown) = (part_of(file), file.display());
    let Some(own) = layer(part) else { return vec![format!("{shown}: {part} is in no layer")] };
    let is_allowed = |name: &String| {
        let is_item =
            name.starts_with(char::is_uppercase) || (name.starts_with('$') && !name.ends_with("::"));
        let is_public = is_item || PUBLIC_MODULES.contains(&&**name);
        name == part || (is_public && USERS.contains(&part)) || layer(name).is_some_and(|layer| layer < own)
    };
    names_in_uses(source)
        .into_iter()
        .filter(|name| !is_allowed(name))
        .map(|name| format!("{shown}: uses {name}"))
        .collect()
}

/// Returns the crates that the library depends on, including dev-dependencies.
fn dependencies() -> Vec<String> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let manifest = fs::read_to_string(manifest).unwrap();
    let (mut section, mut names) = ("", Vec::new());
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let listed = match section {
            "[dependencies]" | "[dev-dependencies]" => Some(line),
            "[target]" => line.split_once("dependencies.").map(|(_, name)| name),
            _ => None,
        };
        let name = listed.and_then(|listed| listed.split_once(" = "));
        names.extend(name.map(|(name, _)| name.replace('-', "_")));
    }
    names
}

/// Returns the text without the trees of `use` statements, such as `{redis::Route}` in `use
/// crate::node::{redis::Route}`. A name in such a tree is no crate.
fn without_trees(code: &str) -> String {
    let (mut rest, mut kept) = (code, String::new());
    while let Some(at) = rest.find("::{") {
        let (before, tree) = rest.split_at(at + "::".len());
        kept.push_str(before);
        let mut depth = 0;
        let end = tree.find(|letter| {
            depth += i32::from(letter == '{') - i32::from(letter == '}');
            depth == 0
        });
        rest = end.map_or("", |end| &tree[end..]);
    }
    kept + rest
}

/// Whether a source text contains a path that begins with this external crate, outside of comments and tests.
fn uses_crate(source: &str, name: &str) -> bool {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let code = without_trees(&lines.collect::<Vec<_>>().join("\n"));
    let path = format!("{name}::");
    let begins = |at: usize| {
        let before = &code[..at];
        // A path from the root such as `::redis::Cmd` belongs to the crate. The path `crate::node::redis::`
        // does not.
        let before =
            before.strip_suffix("::").filter(|before| !before.ends_with(is_word_letter)).unwrap_or(before);
        !before.ends_with(|letter| is_word_letter(letter) || letter == ':')
    };
    code.match_indices(&path).any(|(at, _)| begins(at))
}

fn is_word_letter(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

#[test]
fn no_part_of_the_library_uses_a_part_above_it() {
    let sources = sources();
    let parts = sources.iter().filter(|(file, _)| part_of(file) != "lib");
    let problems: Vec<String> = parts.flat_map(|(file, source)| forbidden_uses(file, source)).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn each_part_of_the_library_uses_the_crates_listed_for_it() {
    let dependencies = dependencies();
    let mut unused: BTreeMap<&str, BTreeSet<&str>> =
        CRATES.iter().map(|(folder, crates)| (*folder, crates.iter().copied().collect())).collect();
    let mut problems = Vec::new();
    for (file, source) in sources() {
        let folders = CRATES
            .iter()
            .filter(|(folder, _)| file.starts_with(folder) || file == Path::new(&format!("{folder}.rs")));
        let (folder, listed) = folders.max_by_key(|(folder, _)| folder.len()).copied().unwrap_or_default();
        for name in dependencies.iter().filter(|name| uses_crate(&source, name)) {
            if !listed.contains(&&**name) {
                problems.push(format!("{}: uses the crate {name}", file.display()));
            }
            if let Some(unused) = unused.get_mut(folder) {
                unused.remove(&**name);
            }
        }
    }
    let unused =
        unused.into_iter().flat_map(|(folder, crates)| crates.into_iter().map(move |name| (folder, name)));
    problems
        .extend(unused.map(|(folder, name)| format!("{folder}: lists the crate {name} and does not use it")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn the_crates_in_paths_are_found() {
    for source in ["use redis::Cmd;", "use {\n    redis::Cmd,\n};", "fn a(b: ::redis::Cmd)", "#[redis::a]"] {
        assert!(uses_crate(source, "redis"), "{source}");
    }
    for source in [
        "use crate::node::redis::Script;",
        "use crate::{\n    node::{redis::Script},\n};",
        "// redis::Cmd",
        "my_redis::Cmd",
        "#[cfg(test)]\nmod tests {\nredis::a",
    ] {
        assert!(!uses_crate(source, "redis"), "{source}");
    }
}

#[test]
fn the_names_in_uses_are_found() {
    let source = "use crate::{\n    node::{Answer, Reply}, // lock::Nobody\n    values::Resource,\n};\n\
                  use crate::clock;\nfn a() -> crate::error::Error { crate::Quorum }\n\
                  crate::$lock; crate::$part::Name; \"[`crate::\"\n\
                  #[cfg(test)]\nmod tests {\n    use crate::sim::Client;\n}\n";
    assert_eq!(names_in_uses(source), ["node", "values", "clock", "error", "Quorum", "$lock", "$part::"]);
}
