//! Durations in schedules that are printed: whole microseconds, which is what simulated time
//! counts.
//!
//! The largest number is [`Duration::MAX`]: for ever.

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
