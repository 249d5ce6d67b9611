//! `redquorum completions`: prints completion scripts of shells.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::{arguments::Arguments, exit::Exit, failure::Failure};

/// Print the completion script of a shell
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    ///
    /// An output that cannot be written.
    pub(crate) fn perform(&self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::described(), "redquorum", &mut script);
        std::io::stdout().write_all(&script).map_err(|error| Failure::output(&error))?;
        Ok(Exit::Success)
    }
}
