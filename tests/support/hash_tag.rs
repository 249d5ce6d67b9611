//! The names of keys and channels in a Redis Cluster of one server, for tests that use the names of a standalone server.
//!
//! On a node in a cluster, a hash tag precedes each resource. A test names keys as on a standalone server: [`add_to`]
//! translates the keys of a command, and [`remove_from`] translates the names in replies.

use std::ops::Range;

use redis::{Arg, Cmd};

/// The hash tag of the nodes in a Redis Cluster whose URL names no tag.
const TAG: &str = "{redquorum}";

/// The prefixes of names in which the resource is in braces, unless the resource contains a brace. A resource with a tag
/// contains a brace.
const OF_RESOURCE: [&str; 3] = ["redisson_lock__channel:", "redisson_lock_token:", TOMBSTONE];

const TOMBSTONE: &str = "redquorum:tombstone:";

/// The prefixes of names that are resources themselves, or that contain the id of a client. No other name has only one
/// tag: all other names with braces are derived from a resource that has a tag already.
const WITH_ONE_TAG: [&str; 4] = [
    "redquorum:slot:{",
    "redquorum:multi_permit:{",
    "redquorum:release_watcher:{",
    "redquorum:force_unlocked:{",
];

/// Returns the command with the names of a node in a cluster in the place of its keys and channels. Commands without keys,
/// and commands that no test sends with the name of a key, stay the same.
pub(super) fn add_to(cmd: &Cmd) -> Cmd {
    let words: Vec<&[u8]> = cmd
        .args_iter()
        .filter_map(|word| match word {
            Arg::Simple(word) => Some(word),
            _ => None,
        })
        .collect();
    let names = names_in(&words);
    let mut tagged = Cmd::new();
    for (index, word) in words.iter().enumerate() {
        if names.contains(&index) {
            tagged.arg(bytes_of(&with_tag(&text_of(word))));
        } else {
            tagged.arg(*word);
        }
    }
    tagged
}

/// Returns the name on a standalone server of a key or channel of a node in a cluster.
pub(super) fn remove_from(name: &str) -> String {
    if !name.contains(TAG) {
        return name.to_owned();
    }
    let Some(prefix) = OF_RESOURCE.iter().find(|prefix| name.starts_with(**prefix)) else {
        return without_tags(name);
    };
    let (resource, suffix) = split_suffix(prefix, &name[prefix.len()..]);
    let resource = without_tags(resource);
    if resource.contains('{') {
        format!("{prefix}{resource}{suffix}")
    } else {
        format!("{prefix}{{{resource}}}{suffix}")
    }
}

/// Returns the positions of keys and channels among the words of a command.
fn names_in(words: &[&[u8]]) -> Range<usize> {
    let word = |index: usize| {
        words.get(index).map_or_else(String::new, |word| String::from_utf8_lossy(word).to_uppercase())
    };
    match &*word(0) {
        "DEL" | "EXISTS" | "UNLINK" => 1..words.len(),
        "EVAL" => 3..3 + word(2).parse::<usize>().unwrap_or(0),
        "GET" | "HDEL" | "HGET" | "HGETALL" | "HKEYS" | "HLEN" | "HMGET" | "HSET" | "PERSIST" | "PEXPIRE"
        | "PTTL" | "SET" | "TYPE" | "ZADD" | "ZCARD" | "ZRANGE" => 1..2,
        "PUBSUB" if word(1) == "NUMSUB" => 2..words.len(),
        _ => 0..0,
    }
}

fn with_tag(name: &str) -> String {
    let Some(prefix) = OF_RESOURCE.iter().find(|prefix| name.starts_with(**prefix)) else {
        return resource_with_tag(name);
    };
    let (resource, suffix) = split_suffix(prefix, &name[prefix.len()..]);
    let resource = resource.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(resource);
    format!("{prefix}{}{suffix}", resource_with_tag(resource))
}

/// Returns the name on a node in a cluster of a resource, or of a key or topic that always has braces.
fn resource_with_tag(name: &str) -> String {
    let derived = name.strip_prefix("redquorum:").and_then(|rest| rest.split_once(":{"));
    match derived {
        Some((kind, resource)) if !WITH_ONE_TAG.iter().any(|prefix| name.starts_with(prefix)) => {
            format!("{TAG}redquorum:{kind}:{{{TAG}{resource}")
        }
        _ => format!("{TAG}{name}"),
    }
}

fn without_tags(name: &str) -> String {
    name.replace(TAG, "")
}

/// Returns the text without the lease id of a tombstone, and the lease id with its colon. A lease id has the form
/// `label/uuid:number` or `uuid:number`. The default label, a host and a process id, has a colon, too.
fn split_suffix<'a>(prefix: &str, rest: &'a str) -> (&'a str, &'a str) {
    if prefix != TOMBSTONE {
        return (rest, "");
    }
    let mut colons = rest.rmatch_indices(':').map(|(index, _)| index).skip(1);
    let Some(colon) = colons.next() else { return (rest, "") };
    let label_end = rest[colon + 1..].split_once('/').map_or("", |(label_end, _)| label_end);
    let is_process = !label_end.is_empty() && label_end.bytes().all(|byte| byte.is_ascii_digit());
    rest.split_at(if is_process { colons.next().unwrap_or(colon) } else { colon })
}
/// Returns a text with one character for each byte, because a name may be no UTF-8.
fn text_of(name: &[u8]) -> String {
    name.iter().map(|byte| char::from(*byte)).collect()
}

/// Returns the bytes of a text of [`text_of`].
fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().filter_map(|byte| u8::try_from(byte).ok()).collect()
}
