//! The names of locks and elections as they are shown.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use redquorum::Resource;

/// A name as reports show it: what is UTF-8 as it is, everything else and control characters
/// escaped.
pub(crate) fn shown(name: &OsStr) -> String {
    Resource::new(name.as_bytes())
        .map_or_else(|_| name.to_string_lossy().escape_debug().to_string(), |resource| resource.to_string())
}
