//! The names of keys and channels on a node, for clients and for the scripts.
//!
//! The lock itself is the key with the resource's own name. Names that are derived from it are
//! Redisson's or follow its rule: `{...}` round the resource, so that a cluster keeps them
//! together, unless the resource has a `{` already.

use crate::values::{LeaseId, READERS as READERS_OWNER, Resource};

/// The key of the node metadata.
pub(crate) const METADATA: &str = "redquorum:node";
/// The key that is there while a node must not vote.
pub(crate) const QUARANTINE: &str = "redquorum:quarantine";
/// The key that is there while there is any tombstone, wait queue or mark.
pub(crate) const DIRTY: &str = "redquorum:dirty";

/// What ends the name of a waiter that waits to share a resource.
const READER_SUFFIX: &str = ":shared";

// What goes before the name of a resource: in braces unless it has a brace, as Redisson does it.
const CHANNEL: &str = "redisson_lock__channel:";
const COUNTER: &str = "redisson_lock_token:";
const TOMBSTONE: &str = "redquorum:tombstone:";

// Always in braces: `a` and `{a}` are two elections, and have two queues and two marks. A waiter for
// one must not keep the other from anybody.
const SLOT: &str = "redquorum:slot:{";
const MULTI_PERMIT: &str = "redquorum:multi_permit:{";
const RELEASE_WATCHER: &str = "redquorum:release_watcher:{";
const READERS: &str = "redquorum:readers:{";
const LEADER: &str = "redquorum:leader:{";
const LATCH: &str = "redquorum:latch:{";
const QUEUE: &str = "redquorum:queue:{";
const ENTRY_TTL: &str = "redquorum:entry_ttl:{";
const LAST_WOKEN: &str = "redquorum:last_woken:{";
const YIELD_MARK: &str = "redquorum:yield_mark:{";
const WRITER_MARK: &str = "redquorum:writer_mark:{";
const WAKE: &str = "redquorum:wake:{";
const HEAD: &str = "redquorum:head:{";
const FORCE_UNLOCKED: &str = "redquorum:force_unlocked:{";

/// The script with these names in it: `$QUEUE` stands there for the text of one.
pub(crate) fn substitute_names(script: &str) -> String {
    let names = [
        ("$METADATA", METADATA),
        ("$QUARANTINE", QUARANTINE),
        ("$DIRTY", DIRTY),
        ("$CHANNEL", CHANNEL),
        ("$COUNTER", COUNTER),
        ("$TOMBSTONE", TOMBSTONE),
        ("$SHARED", READERS_OWNER),
        ("$READERS", READERS),
        ("$READER_SUFFIX", READER_SUFFIX),
        ("$LEADER", LEADER),
        ("$LATCH", LATCH),
        ("$QUEUE", QUEUE),
        ("$ENTRY_TTL", ENTRY_TTL),
        ("$LAST_WOKEN", LAST_WOKEN),
        ("$YIELD_MARK", YIELD_MARK),
        ("$WRITER_MARK", WRITER_MARK),
        ("$WAKE", WAKE),
        ("$HEAD", HEAD),
        ("$FORCE_UNLOCKED", FORCE_UNLOCKED),
    ];
    names.iter().fold(script.to_owned(), |text, (name, value)| text.replace(name, &format!("'{value}'")))
}

/// One slot of a semaphore.
pub(crate) fn slot(semaphore: &Resource, index: usize) -> Resource {
    let name = [SLOT.as_bytes(), semaphore.as_bytes(), format!("}}:{index}").as_bytes()].concat();
    Resource::internal(name)
}

/// Whether it is a slot of a semaphore.
pub(crate) fn is_slot(resource: &Resource) -> bool {
    resource.as_bytes().starts_with(SLOT.as_bytes())
}

/// Another slot of the semaphore that one is of; itself if it is of none.
#[cfg(test)]
pub(crate) fn sibling(slot: &Resource, index: usize) -> Resource {
    match slot
        .as_bytes()
        .strip_prefix(SLOT.as_bytes())
        .and_then(|name| name.iter().rposition(|byte| *byte == b'}'))
    {
        Some(end) => Resource::internal(
            [&slot.as_bytes()[..SLOT.len() + end], format!("}}:{index}").as_bytes()].concat(),
        ),
        None => slot.clone(),
    }
}

/// The lock of whose turn it is to acquire several permits of a semaphore.
pub(crate) fn multi_permit(semaphore: &Resource) -> Resource {
    Resource::internal(in_braces(MULTI_PERMIT, semaphore))
}

/// The lock of who looks out for the slots of a semaphore, or for others of which any is wanted.
pub(crate) fn release_watcher(name: &Resource) -> Resource {
    Resource::internal(in_braces(RELEASE_WATCHER, name))
}

/// The semaphore and the index of a slot; nothing if it is none.
pub(crate) fn read_slot(key: &Resource) -> Option<(Resource, u32)> {
    let rest = key.as_bytes().strip_prefix(SLOT.as_bytes())?;
    let (semaphore, index) = rest.split_at(rest.windows(2).rposition(|pair| pair == b"}:")?);
    let index = str::from_utf8(index.get(2..)?).ok()?.parse().ok()?;
    Some((Resource::new(semaphore).ok()?, index))
}

/// The semaphore of which it is the turn to acquire several permits; nothing if it is not.
pub(crate) fn read_multi_permit(key: &Resource) -> Option<Resource> {
    read(MULTI_PERMIT, key)
}

/// For what somebody looks out; nothing if nobody does.
pub(crate) fn read_release_watcher(key: &Resource) -> Option<Resource> {
    read(RELEASE_WATCHER, key)
}

/// Whether a reserved name is that of a lock: a slot, or a lock by which clients of a semaphore take turns.
pub(crate) fn is_lock(name: &[u8]) -> bool {
    let key = Resource::internal(name);
    read_slot(&key).is_some() || read_multi_permit(&key).is_some() || read_release_watcher(&key).is_some()
}

fn read(prefix: &str, key: &Resource) -> Option<Resource> {
    let name = key.as_bytes().strip_prefix(prefix.as_bytes())?.strip_suffix(b"}")?;
    Resource::new(name).ok()
}

/// The name of a waiter that waits to share a resource.
pub(crate) fn reader(waiter: &LeaseId) -> LeaseId {
    LeaseId::from_wire(&[waiter.as_bytes(), READER_SUFFIX.as_bytes()].concat())
}

/// Whether a waiter waits to share a resource: its name says so.
pub(crate) fn is_reader(waiter: &LeaseId) -> bool {
    waiter.as_bytes().ends_with(READER_SUFFIX.as_bytes())
}

/// The channel on which the release of a resource is told, as Redisson names it.
pub(crate) fn notice_channel(resource: &Resource) -> Vec<u8> {
    named(CHANNEL, resource)
}

/// The key of a resource's fencing counter, as Redisson names it.
#[cfg(test)]
pub(crate) fn counter(resource: &Resource) -> Vec<u8> {
    named(COUNTER, resource)
}

/// The key of the tombstone that refuses late requests of an owner.
#[cfg(test)]
pub(crate) fn tombstone(resource: &Resource, owner: &LeaseId) -> Vec<u8> {
    let mut name = named(TOMBSTONE, resource);
    name.push(b':');
    name.extend_from_slice(owner.as_bytes());
    name
}

/// The key of what a leader says of itself, which is also the topic on which changes of it are
/// told.
pub(crate) fn leader(resource: &Resource) -> Resource {
    Resource::internal(in_braces(LEADER, resource))
}

/// The key of what a node knows of a latch, which is also the topic on which it is told that it is open.
pub(crate) fn latch(latch: &Resource) -> Resource {
    Resource::internal(in_braces(LATCH, latch))
}

/// The topic on which one waiter in the queue of a resource is told that it is its turn.
pub(crate) fn wake(resource: &Resource, waiter: &LeaseId) -> Resource {
    of_waiter(WAKE, resource, waiter)
}

/// The topic on which a waiter is told that it is one of the first two in the queue: these listen
/// for releases, too.
pub(crate) fn head(resource: &Resource, waiter: &LeaseId) -> Resource {
    of_waiter(HEAD, resource, waiter)
}

/// The topic on which a client is told that something of it was unlocked by force.
pub(crate) fn force_unlocked(client: &[u8]) -> Resource {
    Resource::internal([FORCE_UNLOCKED.as_bytes(), client, b"}"].concat())
}

/// The key that says until when each of those who share a resource does.
#[cfg(test)]
pub(crate) fn readers(resource: &Resource) -> Vec<u8> {
    in_braces(READERS, resource)
}

/// Whether a topic is one waiter's own.
#[cfg(test)]
pub(crate) fn is_of_waiter(topic: &Resource) -> bool {
    [WAKE, HEAD].iter().any(|prefix| topic.as_bytes().starts_with(prefix.as_bytes()))
}

/// The key of a resource's waiters, in the order of their arrivals.
#[cfg(test)]
pub(crate) fn queue(resource: &Resource) -> Vec<u8> {
    in_braces(QUEUE, resource)
}

/// The key that says which waiter was woken last, and when for the first time.
#[cfg(test)]
pub(crate) fn last_woken(resource: &Resource) -> Vec<u8> {
    in_braces(LAST_WOKEN, resource)
}

/// The key that is there while newcomers let the waiters for a resource go first.
#[cfg(test)]
pub(crate) fn yield_mark(resource: &Resource) -> Vec<u8> {
    in_braces(YIELD_MARK, resource)
}

/// The key that is there while readers let a writer go first whose turn it is.
#[cfg(test)]
pub(crate) fn writer_mark(resource: &Resource) -> Vec<u8> {
    in_braces(WRITER_MARK, resource)
}

/// The key that says until when each of their entries is kept.
#[cfg(test)]
pub(crate) fn entry_ttls(resource: &Resource) -> Vec<u8> {
    in_braces(ENTRY_TTL, resource)
}

/// The resource that stands for all those with the same derived names: `a` for itself and for
/// `{a}`.
///
/// Two locks that share a counter skip some numbers of it, which harms nobody.
pub(crate) fn shared_key_alias(resource: &Resource) -> Resource {
    let bytes = resource.as_bytes();
    let inner = bytes.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
    inner
        .filter(|inner| !inner.contains(&b'{'))
        .and_then(|inner| Resource::new(inner).ok())
        .unwrap_or_else(|| resource.clone())
}

fn named(prefix: &str, resource: &Resource) -> Vec<u8> {
    let (prefix, resource) = (prefix.as_bytes(), resource.as_bytes());
    if resource.contains(&b'{') {
        [prefix, resource].concat()
    } else {
        [prefix, b"{", resource, b"}"].concat()
    }
}

fn in_braces(prefix: &str, resource: &Resource) -> Vec<u8> {
    [prefix.as_bytes(), resource.as_bytes(), b"}"].concat()
}

fn of_waiter(prefix: &str, resource: &Resource, waiter: &LeaseId) -> Resource {
    Resource::internal([&in_braces(prefix, resource), &b":"[..], waiter.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(name: &str) -> Resource {
        Resource::new(name).unwrap()
    }

    #[test]
    fn derived_names_have_braces_unless_the_resource_has_one() {
        assert_eq!(notice_channel(&resource("a")), b"redisson_lock__channel:{a}");
        assert_eq!(counter(&resource("a}")), b"redisson_lock_token:{a}}");
        assert_eq!(counter(&resource("x{a}")), b"redisson_lock_token:x{a}");
        assert_eq!(tombstone(&resource("a"), &LeaseId::from_wire(b"me:1")), b"redquorum:tombstone:{a}:me:1");
    }

    #[test]
    fn no_resource_has_the_name_of_a_key_or_a_channel_that_belongs_to_another() {
        let waiter = LeaseId::from_wire(b"me:1");
        for other in ["a", "x{a}", "{a}"].map(resource) {
            let topics = [leader(&other), wake(&other, &waiter), head(&other, &waiter)]
                .map(|topic| topic.as_bytes().to_vec());
            let told = topics.each_ref().map(|topic| notice_channel(&Resource::internal(topic.as_slice())));
            let kept = [
                counter(&other),
                tombstone(&other, &waiter),
                queue(&other),
                entry_ttls(&other),
                last_woken(&other),
                yield_mark(&other),
                readers(&other),
            ];
            let marks = [METADATA, QUARANTINE, DIRTY].map(|name| name.as_bytes().to_vec());
            for name in
                topics.into_iter().chain(told).chain(kept).chain(marks).chain([notice_channel(&other)])
            {
                let shown = name.escape_ascii().to_string();
                let refused = crate::values::InvalidResource::Reserved { given: shown.clone().into() };
                assert_eq!(Resource::new(name), Err(refused), "{shown}");
            }
        }
    }

    #[test]
    fn what_is_locked_of_a_semaphore_tells_which() {
        for name in ["gpu", "x}:7", "{a}"].map(resource) {
            assert_eq!(read_slot(&slot(&name, 12)), Some((name.clone(), 12)));
            assert_eq!(
                (read_multi_permit(&multi_permit(&name)), read_slot(&multi_permit(&name))),
                (Some(name.clone()), None)
            );
            assert_eq!(
                (read_release_watcher(&release_watcher(&name)), read_multi_permit(&release_watcher(&name))),
                (Some(name.clone()), None)
            );
            assert_eq!(
                (read_slot(&name), read_multi_permit(&name), read_multi_permit(&slot(&name, 1))),
                (None, None, None)
            );
        }
    }

    #[test]
    fn no_two_resources_share_the_key_of_a_leader() {
        assert_eq!(leader(&resource("a")).as_bytes(), b"redquorum:leader:{a}");
        assert_eq!(leader(&resource("{a}")).as_bytes(), b"redquorum:leader:{{a}}");
        let topic = leader(&Resource::new([b'a'; 512]).unwrap());
        assert_eq!(shared_key_alias(&topic), topic);
        assert_eq!(notice_channel(&leader(&resource("a"))), b"redisson_lock__channel:redquorum:leader:{a}");
    }

    #[test]
    fn no_two_waiters_share_a_topic_and_no_two_resources_a_queue() {
        let waiter = LeaseId::from_wire(b"me:1");
        let topic = wake(&resource("a"), &waiter);
        assert_eq!(topic.as_bytes(), b"redquorum:wake:{a}:me:1");
        assert_eq!(shared_key_alias(&topic), topic);
        assert_eq!(notice_channel(&topic), b"redisson_lock__channel:redquorum:wake:{a}:me:1");
        assert_ne!(wake(&resource("{a}"), &waiter), topic);
        assert_ne!(queue(&resource("{a}")), queue(&resource("a")));
    }

    #[test]
    fn shared_key_aliases_are_exactly_the_resources_with_equal_derived_names() {
        let names = ["a", "{a}", "{a", "a}", "{{a}}", "{}", "{a}b", "{a}}", "a}}", "{", "}"];
        for one in names.map(resource) {
            for other in names.map(resource) {
                assert_eq!(
                    counter(&one) == counter(&other),
                    shared_key_alias(&one) == shared_key_alias(&other),
                    "{one} and {other}"
                );
            }
        }
    }
}
