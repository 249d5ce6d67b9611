//! The names that locks are taken on.

use std::{fmt, sync::Arc};

use crate::error::ConfigError;

/// The longest resource name, in bytes.
pub(crate) const LONGEST: usize = 512;

/// How the names of this crate's own keys begin, Redisson's aside.
const RESERVED: &[u8] = b"redquorum:";

/// What a lock protects, by name: 1 to 512 bytes, any of them legal in a Redis key.
///
/// Cheap to clone. Ordered by its bytes, which is the order in which groups are taken.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<[u8]>);

impl Resource {
    /// A resource of this name.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Resource`] if the name is empty or longer than 512 bytes, [`ConfigError::ReservedResource`] if it begins
    /// with `redquorum:`: what nodes know of themselves is kept under such names.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, ConfigError> {
        let name = name.as_ref();
        if name.is_empty() || name.len() > LONGEST {
            return Err(ConfigError::Resource { length: name.len() });
        }
        if name.starts_with(RESERVED) {
            return Err(ConfigError::ReservedResource { given: name.escape_ascii().to_string().into() });
        }
        Ok(Self(name.into()))
    }

    /// A name of this crate's own: reserved, and somewhat longer than others where it is made of one.
    pub(crate) fn internal(name: impl Into<Arc<[u8]>>) -> Self {
        Self(name.into())
    }

    /// The name as it stands on the wire.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_make_a_name_but_not_none_and_not_too_many() {
        assert_eq!(Resource::new(b"a{b}\n\x00\xff").unwrap().to_string(), "a{b}\\n\\x00\\xff");
        assert!(Resource::new([7; LONGEST]).is_ok());
        assert_eq!(Resource::new("").unwrap_err(), ConfigError::Resource { length: 0 });
        assert_eq!(Resource::new([7; 513]).unwrap_err(), ConfigError::Resource { length: 513 });
        let given = "redquorum:node".into();
        assert_eq!(Resource::new("redquorum:node").unwrap_err(), ConfigError::ReservedResource { given });
        assert!(Resource::new("redquorum").is_ok());
    }
}
