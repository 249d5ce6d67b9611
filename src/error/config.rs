//! Settings that cannot work.

use std::{sync::Arc, time::Duration};

use crate::{
    error::counted,
    values::{Fingerprint, InvalidResource, Resource},
};

/// A setting that cannot work: which, what was given, and what would be right.
///
/// Settings of a quorum are checked when it is built, those of a lock when it is first used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A quorum of nothing.
    #[error("no nodes were given: name at least one, or an odd number such as 3 or 5 for a quorum")]
    NoNodes,
    /// The environment names no nodes.
    #[error(
        "the environment variable REDQUORUM_NODES is not set, or empty: name the nodes, such as \
         redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3"
    )]
    NoNodesVariable,
    /// A client that only looks was to change something.
    #[error(
        "this quorum was built by `read_only`, so it only looks: to lock, to lead, to unlock by \
         force or to make a quorum takes one that was built without"
    )]
    ReadOnly,
    /// A semaphore of nothing, or of too much.
    #[error("{given} permits were given: a semaphore has at least 1, and at most {most}")]
    Permits {
        /// How many permits were given.
        given: u32,
        /// How many are possible.
        most: u32,
    },
    /// A slot that a semaphore does not have.
    #[error("slot {given}: a semaphore with {permits} permits has slots from 0 to {}", permits - 1)]
    Slot {
        /// Which slot was given.
        given: usize,
        /// How many permits there are.
        permits: usize,
    },
    /// More permits at once than there are, or than may be had.
    #[error("{given} permits at once were wanted: this semaphore gives at least 1, and at most {most}")]
    PermitsAtOnce {
        /// How many were wanted.
        given: u32,
        /// How many are possible.
        most: u32,
    },
    /// A latch that nobody opens, or too many.
    #[error("a latch for {given} arrivals: it takes at least 1 to open one, and at most {most}")]
    LatchCount {
        /// How many arrivals were given.
        given: u32,
        /// How many are possible.
        most: u32,
    },
    /// A latch that is kept for too short a time, or too long.
    #[error("a latch that is kept for {given:?}: that is possible for {least:?} to {most:?}")]
    LatchKept {
        /// What was given.
        given: Duration,
        /// The shortest time.
        least: Duration,
        /// The longest time.
        most: Duration,
    },
    /// The id of an arrival is empty, or too long.
    #[error("the id of an arrival is {given} bytes long: it has at least 1, and at most {most}")]
    Arrival {
        /// How long it is.
        given: usize,
        /// How long it may be.
        most: usize,
    },
    /// More nodes than a quorum can count.
    #[error("{given} nodes were given: at most {most} make a quorum")]
    TooManyNodes {
        /// How many nodes were given.
        given: usize,
        /// How many are possible.
        most: usize,
    },
    /// One server would have two votes.
    #[error(
        "node {address} was given twice: each server has one vote, whatever its databases and users, \
         name it once"
    )]
    DuplicateNode {
        /// The address that stands twice.
        address: Arc<str>,
    },
    /// A node's address cannot be read.
    #[error("{url:?} is no node address ({reason}): write it like redis://10.0.0.1:6379")]
    Url {
        /// What was given, without its password.
        url: Arc<str>,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// The address of a node behind Sentinels cannot be read.
    #[error(
        "{url:?} names no master set of Sentinels ({reason}): write it like \
         redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/mymaster"
    )]
    SentinelUrl {
        /// What was given, without its passwords.
        url: Arc<str>,
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// A node's address asks for TLS, which this build has not.
    #[error(
        "{url:?} asks for TLS, which this program was built without: switch on redquorum's feature `tls`"
    )]
    NoTls {
        /// What was given, without its password.
        url: Arc<str>,
    },
    /// The certificates of a CA cannot be read.
    #[error("the certificates of the CA cannot be used ({reason}): expected PEM with at least one")]
    CaCertificates {
        /// What is wrong with them.
        reason: Arc<str>,
    },
    /// A client certificate, or its key, cannot be used.
    #[error(
        "the client certificate cannot be used ({reason}): expected PEM of the certificate and its \
         chain, and PEM of its own private key without a passphrase"
    )]
    ClientCertificate {
        /// What is wrong with it.
        reason: Arc<str>,
    },
    /// The crypto provider that the process has installed can make no TLS 1.2 or 1.3.
    #[error(
        "the process's crypto provider cannot make TLS ({reason}): install another one for rustls, \
         or none for *ring*"
    )]
    CryptoProvider {
        /// What it lacks.
        reason: Arc<str>,
    },
    /// The system has no CAs that it trusts.
    #[error(
        "this system has no certificates of CAs to trust ({reason}): install them, or give those of \
         your own by `Tls::ca`"
    )]
    NoSystemCas {
        /// Where they were looked for, or what is wrong with them.
        reason: Arc<str>,
    },
    /// Fewer votes than a majority, or more than there are nodes.
    #[error(
        "{} needed of {}: a majority is {majority}, so give {majority} to {nodes}",
        counted(*given, "vote"),
        counted(*nodes, "node")
    )]
    VotesNeeded {
        /// What was asked for.
        given: usize,
        /// How many nodes are configured.
        nodes: usize,
        /// The least that is accepted.
        majority: usize,
    },
    /// A ttl of which nothing is left after drift and margin, or not much of which.
    #[error("a ttl of {given:?} leaves no time to work after drift and margin: give {least:?} or more")]
    TtlTooShort {
        /// What was asked for.
        given: Duration,
        /// The least that is accepted.
        least: Duration,
    },
    /// A ttl above the quorum's largest.
    #[error(
        "a ttl of {given:?} is above the quorum's max_ttl of {most:?}: shorten it, or raise max_ttl \
         for all clients"
    )]
    TtlTooLong {
        /// What was asked for.
        given: Duration,
        /// The quorum's `max_ttl`.
        most: Duration,
    },
    /// A node timeout that leaves a lock no time.
    #[error(
        "a node timeout of {given:?} does not fit a ttl of {ttl:?}: it has to be above zero and below the ttl"
    )]
    NodeTimeout {
        /// What was asked for.
        given: Duration,
        /// The ttl that it was checked against.
        ttl: Duration,
    },
    /// An attempt timeout out of range.
    #[error(
        "an attempt timeout of {given:?} is out of range: it has to be above zero and at most the \
         max_ttl of {most:?}"
    )]
    AttemptTimeout {
        /// What was asked for.
        given: Duration,
        /// The quorum's `max_ttl`.
        most: Duration,
    },
    /// A time that is longer than any use of it.
    #[error("a {setting} of {given:?} is too long: expected at most {most:?}")]
    TooLong {
        /// Of what.
        setting: &'static str,
        /// What was asked for.
        given: Duration,
        /// The most that is accepted.
        most: Duration,
    },
    /// A drift that is no share of time.
    #[error("a drift of {given} is out of range: give a share from 0 to below 0.5, such as 0.01")]
    Drift {
        /// What was asked for, as it was written.
        given: Arc<str>,
    },
    /// A counter life below `max_ttl`.
    #[error(
        "a counter ttl of {given:?} is below the max_ttl of {least:?}: a counter has to outlive every lease"
    )]
    CounterTtl {
        /// What was asked for.
        given: Duration,
        /// The quorum's `max_ttl`.
        least: Duration,
    },
    /// A limit on holding that allows no holding.
    #[error("a max_hold of {given:?} is out of range: it has to be above zero")]
    MaxHold {
        /// What was asked for.
        given: Duration,
    },
    /// Fallback polls that cannot be made.
    #[error(
        "polls every {first:?} to {longest:?}: both have to be at least {least:?}, the first at most \
         the second"
    )]
    Polls {
        /// The first poll.
        first: Duration,
        /// The longest.
        longest: Duration,
        /// The least that is accepted.
        least: Duration,
    },
    /// A delay between failures so short that they would make a busy loop.
    #[error("a retry delay of {given:?} is out of range: it has to be at least {least:?}")]
    RetryDelay {
        /// What was asked for.
        given: Duration,
        /// The least that is accepted.
        least: Duration,
    },
    /// A quorum name that is empty, too long, or not plain.
    #[error("the quorum name \"{given}\" is not plain: expected 1 to 64 letters, digits, '-', '_' or '.'")]
    QuorumName {
        /// What was asked for, escaped.
        given: Arc<str>,
    },
    /// A label that is empty, too long, or not one line of characters that print.
    #[error("the label \"{given}\" cannot be shown: expected 1 to {most} bytes of characters that print")]
    Label {
        /// What was asked for, escaped.
        given: Arc<str>,
        /// The most bytes that it may have.
        most: usize,
    },
    /// A name that is not one of a resource.
    #[error(transparent)]
    Resource(#[from] InvalidResource),
    /// What a leader is to proclaim is too long for every node to keep.
    #[error("a leader's value of {length} bytes: expected {most} at most")]
    LeaderValue {
        /// Its length.
        length: usize,
        /// The most that is accepted.
        most: usize,
    },
    /// A group of nothing.
    #[error("a group of no resources was to be locked: name at least one")]
    EmptyGroup,
    /// More resources of one quorum in a group than its nodes can take at once.
    #[error("a group of {given} resources of one quorum was to be locked: expected at most {most}")]
    GroupTooLarge {
        /// How many were given.
        given: usize,
        /// How many are possible.
        most: usize,
    },
    /// One resource stands twice in a group.
    #[error("{resource} stands twice in one group: name each resource of a quorum once")]
    DuplicateResource {
        /// Which.
        resource: Resource,
    },
    /// Two clients of one quorum in a group, or two quorums that cannot be told apart: they have no
    /// order.
    #[error(
        "two clients of one quorum ({fingerprint}) are in one group: take its locks from one client, \
         or name quorums apart"
    )]
    QuorumTwice {
        /// Which.
        fingerprint: Fingerprint,
    },
    /// There is no async runtime to work on.
    #[error("no tokio runtime: build the quorum inside of one, it runs its tasks there")]
    NoRuntime,
    /// The blocking API could not start the thread that it works on.
    #[cfg(feature = "blocking")]
    #[error(
        "no thread for the blocking API could be started: {error}; raise the limit of threads or of \
         open files"
    )]
    NoThread {
        /// What the system said.
        error: Arc<str>,
    },
}
