//! The serialized form of durations in schedules: whole microseconds, the unit of simulated time.
//!
//! The largest number is [`Duration::MAX`], which means for ever.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sim::clock::micros;

pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    micros(*duration).serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let from_micros = |micros| if micros == u64::MAX { Duration::MAX } else { Duration::from_micros(micros) };
    u64::deserialize(deserializer).map(from_micros)
}
