//! The checked value that a candidate proclaims as the leader.

use std::sync::Arc;

use crate::{
    error::{ConfigError, out_of_range},
    node::MAX_VALUE_BYTES,
};

/// The value that a leader proclaims: up to 64 KiB of any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value(Arc<[u8]>);

impl Value {
    pub(super) fn new(bytes: &[u8]) -> Result<Self, ConfigError> {
        if bytes.len() > MAX_VALUE_BYTES {
            let given = format!("{} bytes", bytes.len());
            return Err(out_of_range("value", given, format!("at most {MAX_VALUE_BYTES} bytes")));
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
    fn a_value_has_any_bytes_up_to_the_largest_length() {
        assert!(Value::new(b"").is_ok());
        assert!(Value::new(&[0xff; MAX_VALUE_BYTES]).is_ok());
        let refused = Value::new(&[0; MAX_VALUE_BYTES + 1]).unwrap_err();
        assert_eq!(refused.to_string(), "value is 65537 bytes: expected at most 65536 bytes");
    }
}
