//! The settings from a program's own arguments, and the precedence of the sources of settings.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{
    CONFIG_VARIABLE,
    files::Files,
    raw_settings::{Environment, Nodes, RawSettings},
};
#[cfg(feature = "__command")]
use crate::values::shown_name;
use crate::{error::ConfigError, node::redis::UrlSource, quorum::QuorumBuilder};

/// The settings from a program's own arguments, which override the environment and the file. By default, no setting
/// comes from arguments.
#[derive(Clone, Debug, Default)]
#[must_use = "arguments are for `load_from`"]
pub struct Arguments {
    file: Option<PathBuf>,
    /// Whether the file overrides the environment.
    is_file_first: bool,
    nodes: Vec<String>,
    files: Files,
}

#[cfg_attr(not(feature = "__command"), allow(dead_code, reason = "for the command alone"))]
impl Arguments {
    /// Returns arguments without any setting.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the settings file, in place of the file that `REDQUORUM_CONFIG` names.
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.file = Some(path.into());
        self
    }

    /// Sets the settings file as [`file`](Self::file) does, and lets its settings override the environment. If a user
    /// names a file for one call, exported variables must not lead the call to another quorum.
    pub fn file_before_environment(self, path: impl Into<PathBuf>) -> Self {
        Self { is_file_first: true, ..self.file(path) }
    }

    /// Sets the urls of all nodes. Without urls, the nodes come from the environment or the file.
    pub fn nodes<S: Into<String>>(mut self, urls: impl IntoIterator<Item = S>) -> Self {
        self.nodes = urls.into_iter().map(Into::into).collect();
        self
    }

    /// Sets a PEM file with the certificates of the CAs to trust.
    pub fn ca(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.ca = Some(path.into());
        self
    }

    /// Sets a PEM file with the client's certificate and its chain.
    pub fn certificate(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.certificate = Some(path.into());
        self
    }

    /// Sets a PEM file with the private key of the client's certificate.
    pub fn key(mut self, path: impl Into<PathBuf>) -> Self {
        self.files.key = Some(path.into());
        self
    }
}

/// Returns settings as [`load`](super::load) does, but with the arguments of a program, and with any function as the
/// environment: a map in a test, for example, or `|_| None` for an empty environment.
///
/// # Errors
///
/// [`ConfigError`], as [`load`](super::load).
pub fn load_from(
    arguments: &Arguments,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<QuorumBuilder, ConfigError> {
    let sources = Sources::read(arguments, &environment)?;
    let nodes_file = sources.nodes_file().map(urls_of);
    let Sources { arguments, variables, in_file, is_file_first, .. } = sources;
    let rest = if is_file_first { in_file.or(variables) } else { variables.or(in_file) };
    arguments.or(rest).builder(nodes_file)
}

/// Returns the source that reads the urls of a settings file again. The source keeps the absolute path, because the
/// process may change its directory.
fn urls_of(path: &Path) -> UrlSource {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    UrlSource::new(move || match RawSettings::read(&absolute) {
        Ok(settings) => Ok(settings.nodes.0),
        Err(error) => Err(error.to_string()),
    })
}

/// Returns the variables of the environment that a file [overrides](Arguments::file_before_environment) with another
/// value. A variable is left out if the arguments also have its setting.
///
/// # Errors
///
/// As [`load_from`].
#[cfg(feature = "__command")]
pub fn overridden_variables(
    arguments: &Arguments,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<&'static str>, ConfigError> {
    variables_beside_file(arguments, &environment, RawSettings::overridden_by)
}

/// Returns the variables of settings that all clients of a quorum share, if the variables apply because neither the
/// arguments nor a file before the environment have these settings.
///
/// # Errors
///
/// As [`load_from`].
#[cfg(feature = "__command")]
pub fn shared_variables_beside_file(
    arguments: &Arguments,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<&'static str>, ConfigError> {
    variables_beside_file(arguments, &environment, RawSettings::shared_beside)
}

/// Returns the source of a setting for an error: the variable, the file, or `the default`.
///
/// # Errors
///
/// As [`load_from`].
#[cfg(feature = "__command")]
pub fn source_of(
    setting: &str,
    arguments: &Arguments,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<String, ConfigError> {
    let Sources { arguments, variables, in_file, path, is_file_first } =
        Sources::read(arguments, &environment)?;
    if arguments.variable_if_given(setting).is_some() {
        return Ok("the arguments".to_owned());
    }
    let variable = variables.variable_if_given(setting).map(str::to_owned);
    let file = in_file.variable_if_given(setting).and(path);
    let file = file.map(|path| shown_name(&path.to_string_lossy()).to_owned());
    let given = if is_file_first { file.or(variable) } else { variable.or(file) };
    Ok(given.unwrap_or_else(|| "the default".to_owned()))
}

/// Returns the variables that `select` finds, if the file overrides the environment; otherwise no variables.
///
/// # Errors
///
/// As [`load_from`].
#[cfg(feature = "__command")]
fn variables_beside_file(
    arguments: &Arguments,
    environment: &dyn Fn(&str) -> Option<OsString>,
    select: VariableSelection,
) -> Result<Vec<&'static str>, ConfigError> {
    let Sources { arguments, variables, in_file, is_file_first, .. } = Sources::read(arguments, environment)?;
    Ok(if is_file_first { select(&variables, &in_file, &arguments) } else { Vec::new() })
}

/// A function that selects variables by the settings of the environment, the file and the arguments, in this order.
#[cfg(feature = "__command")]
type VariableSelection = fn(&RawSettings, &RawSettings, &RawSettings) -> Vec<&'static str>;

/// The settings of each source.
struct Sources {
    arguments: RawSettings,
    variables: RawSettings,
    in_file: RawSettings,
    /// The path of the settings file.
    path: Option<PathBuf>,
    is_file_first: bool,
}

impl Sources {
    fn read(
        arguments: &Arguments,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, ConfigError> {
        let environment = Environment(environment);
        let Arguments { file, is_file_first, nodes, files } = arguments.clone();
        let arguments = RawSettings { nodes: Nodes(nodes), files, ..RawSettings::default() };
        let variables = RawSettings::of_environment(&environment)?;
        let path = file.or_else(|| environment.path(CONFIG_VARIABLE));
        let in_file = path.as_deref().map(RawSettings::read).transpose()?.unwrap_or_default();
        Ok(Self { arguments, variables, in_file, path, is_file_first })
    }

    /// Returns the path of the settings file if the urls of the nodes are those of the file.
    fn nodes_file(&self) -> Option<&Path> {
        let is_from_file = self.is_file_first && !self.in_file.nodes.is_empty();
        let is_overridden =
            !self.arguments.nodes.is_empty() || (!self.variables.nodes.is_empty() && !is_from_file);
        self.path.as_deref().filter(|_| !is_overridden)
    }
}
