//! `redquorum completions`: for shells.

use std::io::Write;

use clap::Args;
use clap_complete::Shell;

use crate::{arguments::Arguments, exit::Exit, failure::Failure};

/// Print what a shell needs to complete the arguments
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// Which shell
    shell: Shell,
}

impl Completions {
    /// Prints the script.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn perform(&self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::described(), "redquorum", &mut script);
        std::io::stdout().write_all(&script).map_err(|error| Failure::output(&error))?;
        Ok(Exit::Success)
    }
}
