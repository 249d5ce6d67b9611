//! The delivery of the script to a node that lacks it.
//!
//! Clients that find an empty node at the same time would all send the whole text, and the node would hash each text.
//! Therefore a client pauses for a random time, and then sends a call by name once more. Only if the node still lacks
//! the script, the client sends the text.
//!
//! ```text
//!            lacking            pause over            lacking
//!  Present ──────────► Pausing ────────────► Asking ──────────► Sending
//!     ▲                   │                    │                   │
//!     └────────────────── executed ────────────┘      loaded ──────┘
//! ```

use std::time::Duration;

use crate::clock::Instant;

/// The longest pause before a client asks again for the script. Of 2,000 clients that find an empty node together, a
/// few dozen send the text: those whose pauses end before the first text has arrived.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// The longest pause as a share of the node timeout, because calls wait meanwhile.
const MAX_PAUSE_SHARE: u32 = 8;

/// The state of the script on the node, as far as this client has evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ScriptDelivery {
    /// No call has found that the script is missing.
    #[default]
    Present,
    /// A call has found that the script is missing, and the client pauses.
    Pausing { until: Instant },
    /// A call by name follows the pause, and is unanswered.
    Asking,
    /// The text is sent, and the node has not confirmed it.
    Sending,
}

impl ScriptDelivery {
    /// Returns the length of a pause. `random` is at least 0 and below 1.
    pub(super) fn pause(node_timeout: Duration, random: f64) -> Duration {
        MAX_PAUSE.min(node_timeout / MAX_PAUSE_SHARE).mul_f64(random)
    }

    /// Handles a call that the node did not execute because the node lacks the script. Returns whether to send the
    /// text now.
    #[must_use]
    pub(super) fn on_lacking(&mut self, now: Instant, pause: Duration) -> bool {
        let is_due = *self == Self::Asking;
        *self = match *self {
            Self::Present => Self::Pausing { until: now + pause },
            Self::Asking => Self::Sending,
            pausing_or_sending => pausing_or_sending,
        };
        is_due
    }

    /// Returns the end of the pause.
    pub(super) fn pause_end(self) -> Option<Instant> {
        match self {
            Self::Pausing { until } => Some(until),
            Self::Present | Self::Asking | Self::Sending => None,
        }
    }

    /// Handles the passing of time. Returns whether the pause is over, after which the client sends a call by name.
    #[must_use]
    pub(super) fn tick(&mut self, now: Instant) -> bool {
        let is_over = self.pause_end().is_some_and(|end| end <= now);
        if is_over {
            *self = Self::Asking;
        }
        is_over
    }

    /// Handles a call by name that the node executed. Returns whether another client has delivered the script since this
    /// client found that the script is missing.
    pub(super) fn on_executed(&mut self) -> bool {
        let is_delivered = matches!(self, Self::Pausing { .. } | Self::Asking);
        if is_delivered {
            *self = Self::Present;
        }
        is_delivered
    }

    /// Handles the confirmation of the text.
    pub(super) fn on_loaded(&mut self) {
        *self = Self::Present;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_millis(30);

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn the_text_is_sent_only_if_the_script_is_still_missing_after_the_pause() {
        let mut delivery = ScriptDelivery::default();
        assert!(!delivery.on_lacking(at(0), PAUSE));
        assert!(!delivery.on_lacking(at(1), PAUSE), "another call of the same time");
        assert_eq!(delivery.pause_end(), Some(at(30)));
        assert!(!delivery.tick(at(29)));
        assert!(delivery.tick(at(30)));
        assert!(delivery.on_lacking(at(31), PAUSE));
        assert!(!delivery.on_executed(), "the answer to the call with the text");
        delivery.on_loaded();
        assert_eq!(delivery, ScriptDelivery::Present);
    }

    #[test]
    fn no_text_is_sent_if_another_client_delivers_the_script() {
        let mut delivery = ScriptDelivery::default();
        assert!(!delivery.on_executed());
        assert!(!delivery.on_lacking(at(0), PAUSE));
        assert!(delivery.tick(at(40)));
        assert!(delivery.on_executed());
        assert_eq!(delivery, ScriptDelivery::Present);
    }

    #[test]
    fn a_pause_is_a_random_part_of_50_ms_and_of_an_eighth_of_the_node_timeout() {
        let pause = |node_timeout, random| ScriptDelivery::pause(Duration::from_millis(node_timeout), random);
        assert_eq!(pause(1000, 0.5), Duration::from_millis(25));
        assert_eq!(pause(80, 0.5), Duration::from_millis(5));
        assert_eq!(pause(1000, 0.0), Duration::ZERO);
    }
}
