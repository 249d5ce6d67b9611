//! The names of resources.

use std::{fmt, sync::Arc};

use crate::values::shown_name;

/// The longest resource name, in bytes.
const MAX_RESOURCE_BYTES: usize = 512;

/// The prefixes of keys and channels that are no locks: the prefix of this crate, and the prefixes of Redisson that
/// this crate shares.
const RESERVED: [&[u8]; 3] = [b"redquorum:", b"redisson_lock_token:", b"redisson_lock__channel:"];

/// The name that a lock protects: 1 to 512 bytes, each of any value.
///
/// A clone is cheap. Resources are ordered by their bytes, and groups are locked in this order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<[u8]>);

/// The reason why bytes cannot name a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidResource {
    /// The name has no bytes.
    #[error("a resource without a name: expected 1 to {MAX_RESOURCE_BYTES} bytes")]
    Empty,
    /// The name has too many bytes.
    #[error("a resource name of {len} bytes: expected at most {max}")]
    #[non_exhaustive]
    TooLong {
        /// The number of bytes.
        len: usize,
        /// The largest number.
        max: usize,
    },
    /// The name begins with a prefix of node metadata, or of names that are derived from other resources.
    #[non_exhaustive]
    #[error(
        "the resource name {given:?} is reserved: expected one that does not begin with \"redquorum:\", \
         \"redisson_lock_token:\" or \"redisson_lock__channel:\""
    )]
    Reserved {
        /// The name. A name in the form of a url is not shown, because the url may hold a password: `given` has stars
        /// in its place.
        given: Arc<str>,
    },
}

impl Resource {
    /// Returns the resource with this name, and checks the name. A program need not call this function, because every
    /// call that takes a resource also takes bytes, and checks the bytes itself.
    ///
    /// # Errors
    ///
    /// [`InvalidResource`] if the name is empty or longer than 512 bytes, or begins with `redquorum:`,
    /// `redisson_lock_token:` or `redisson_lock__channel:`. Under these prefixes, nodes store their own metadata and
    /// metadata of other resources.
    pub fn new(name: impl AsRef<[u8]>) -> Result<Self, InvalidResource> {
        let name = name.as_ref();
        if name.is_empty() {
            return Err(InvalidResource::Empty);
        }
        if name.len() > MAX_RESOURCE_BYTES {
            return Err(InvalidResource::TooLong { len: name.len(), max: MAX_RESOURCE_BYTES });
        }
        if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
            return Err(InvalidResource::Reserved {
                given: shown_name(&Self(name.into()).to_string()).into(),
            });
        }
        Ok(Self(name.into()))
    }

    /// Returns a name of this crate without a check. The name may be reserved, and may be longer than 512 bytes if it
    /// is derived from a long name.
    pub(crate) fn internal(name: impl Into<Arc<[u8]>>) -> Self {
        Self(name.into())
    }

    /// Returns the name as sent to nodes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Resource {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&readable(&self.0))
    }
}

/// The characters that `escape_debug` escapes although they print, except the backslash, by which escapes begin.
const QUOTES: [char; 2] = ['\'', '"'];

/// The mark in place of the user and password of a url.
const HIDDEN: &str = "***";

/// Returns bytes in a readable form. Printable UTF-8 is shown unchanged, and backslashes, other bytes and characters
/// that do not print are escaped. The user and password of a url, which may have been given as a name by mistake, are
/// hidden.
pub(crate) fn readable(bytes: &[u8]) -> String {
    let shown: String = bytes
        .utf8_chunks()
        .map(|chunk| format!("{}{}", escaped(chunk.valid()), chunk.invalid().escape_ascii()))
        .collect();
    without_user_info(&shown).unwrap_or(shown)
}

fn escaped(text: &str) -> String {
    let pieces = text.split_inclusive(QUOTES).map(|piece| match piece.strip_suffix(QUOTES) {
        Some(text) => (text, piece.chars().next_back()),
        None => (piece, None),
    });
    pieces.flat_map(|(text, quote)| text.escape_debug().chain(quote)).collect()
}

/// Returns a text of the form `scheme://user:password@host` with stars in place of everything up to the last `@`,
/// because a password may have any characters. Returns `None` for a text of another form.
fn without_user_info(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let (_, host) = rest.rsplit_once('@')?;
    Some(format!("{scheme}://{HIDDEN}@{host}"))
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
    fn a_resource_name_has_1_to_512_bytes_and_no_reserved_prefix() {
        assert!(Resource::new(b"a{b}\n\x00\xff").is_ok());
        assert!(Resource::new([7; MAX_RESOURCE_BYTES]).is_ok());
        assert_eq!(Resource::new("").unwrap_err(), InvalidResource::Empty);
        assert_eq!(Resource::new([7; 513]).unwrap_err(), InvalidResource::TooLong { len: 513, max: 512 });
        for reserved in ["redquorum:node", "redisson_lock_token:{a}", "redisson_lock__channel:{a}"] {
            let given = reserved.into();
            assert_eq!(Resource::new(reserved).unwrap_err(), InvalidResource::Reserved { given });
        }
        let hidden = InvalidResource::Reserved { given: "***".into() };
        assert_eq!(Resource::new("redquorum:redis://:secret@a").unwrap_err(), hidden);
        for name in ["redquorum", "redisson_lock_token", "my:redisson_lock_token:{a}"] {
            assert!(Resource::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn the_user_and_password_of_a_url_are_not_shown() {
        for (name, shown) in [
            ("redis://:word@host:6379", "redis://***@host:6379"),
            ("lock:rediss://me:wo/rd@2@host", "lock:rediss://***@host"),
            ("redis://host:6379/0", "redis://host:6379/0"),
            ("me@example.org", "me@example.org"),
            ("a:b@c", "a:b@c"),
        ] {
            assert_eq!(Resource::new(name).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn unprintable_bytes_of_a_resource_name_are_shown_escaped() {
        for (name, escaped) in [
            (&b"a{b}:c"[..], "a{b}:c"),
            ("Gr\u{fc}\u{df}e/\u{6f22}\u{5b57}".as_bytes(), "Gr\u{fc}\u{df}e/\u{6f22}\u{5b57}"),
            (b"a\n\x1b[2J\\", "a\\n\\u{1b}[2J\\\\"),
            (b"a\xff\xc3b", "a\\xff\\xc3b"),
            ("a\u{202e}b".as_bytes(), "a\\u{202e}b"),
            (b"it's \"a\"", "it's \"a\""),
            ("'\u{9b}2J\u{202e}'".as_bytes(), "'\\u{9b}2J\\u{202e}'"),
        ] {
            let resource = Resource::new(name).unwrap();
            assert_eq!(resource.to_string(), escaped);
            assert_eq!(format!("{resource:?}"), format!("\"{escaped}\""));
        }
    }
}
