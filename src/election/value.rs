//! What a leader shows of itself.

use std::sync::Arc;

use crate::{error::ConfigError, node::LONGEST_VALUE};

/// What a leader shows of itself: up to 64 KiB of any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value(Arc<[u8]>);

impl Value {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, ConfigError> {
        if bytes.len() > LONGEST_VALUE {
            return Err(ConfigError::LeaderValue { length: bytes.len(), most: LONGEST_VALUE });
        }
        Ok(Self(bytes.into()))
    }

    pub(super) fn bytes(&self) -> &Arc<[u8]> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_any_bytes_but_not_too_many() {
        assert!(Value::new(b"").is_ok());
        assert!(Value::new(&[0xff; LONGEST_VALUE]).is_ok());
        let refused = ConfigError::LeaderValue { length: LONGEST_VALUE + 1, most: LONGEST_VALUE };
        assert_eq!(Value::new(&[0; LONGEST_VALUE + 1]).unwrap_err(), refused);
    }
}
