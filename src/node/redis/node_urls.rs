//! The urls of several nodes in one text, which is the value of a variable or of an option.

use std::ffi::OsStr;

use crate::error::ConfigError;

/// The environment variable with the urls of nodes.
pub(crate) const NODES_VARIABLE: &str = "REDQUORUM_NODES";

/// Returns the urls of nodes in one text, as in the environment variable `REDQUORUM_NODES`. Blanks or commas separate
/// the urls. A comma that is not followed by `scheme://` is part of a url, which may name several Sentinels.
///
/// This function does not check the urls. [`QuorumBuilder`](crate::QuorumBuilder) does.
#[must_use]
pub(crate) fn node_urls(text: &str) -> Vec<String> {
    let mut urls: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let mut is_first = true;
        for part in word.split(',') {
            match urls.last_mut().filter(|_| !is_first && !begins_url(part)) {
                Some(url) => {
                    url.push(',');
                    url.push_str(part);
                }
                None => urls.push(part.to_owned()),
            }
            is_first = false;
        }
    }
    urls.iter().map(|url| url.trim_matches(',').to_owned()).filter(|url| !url.is_empty()).collect()
}

/// Returns the urls of nodes in the value of [`NODES_VARIABLE`].
///
/// # Errors
///
/// [`ConfigError::Variable`] if the value is not UTF-8. The value is not shown, because it may hold passwords.
pub(crate) fn node_urls_of_variable(value: &OsStr) -> Result<Vec<String>, ConfigError> {
    let text = value.to_str().ok_or_else(|| {
        let reason = "expected UTF-8: write any other byte of a password as %FF".into();
        ConfigError::Variable { name: NODES_VARIABLE, given: "".into(), reason }
    });
    text.map(node_urls)
}

fn begins_url(part: &str) -> bool {
    let is_of_scheme = |character: char| character.is_ascii_alphanumeric() || "+-.".contains(character);
    part.split_once("://").is_some_and(|(scheme, _)| !scheme.is_empty() && scheme.chars().all(is_of_scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_separates_urls_only_before_a_scheme() {
        for (text, urls) in [
            ("redis://a,redis://b", &["redis://a", "redis://b"][..]),
            (" redis://a,rediss://b\n unix:///c, ", &["redis://a", "rediss://b", "unix:///c"]),
            ("redis://a , redis://b", &["redis://a", "redis://b"]),
            (
                "redis+sentinel://h1:1,h2:2/mymaster,redis://h3",
                &["redis+sentinel://h1:1,h2:2/mymaster", "redis://h3"],
            ),
            ("redis://a:p,w@b", &["redis://a:p,w@b"]),
            ("", &[]),
            (" , ", &[]),
        ] {
            assert_eq!(node_urls(text), urls, "{text:?}");
        }
    }
}
