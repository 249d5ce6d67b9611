//! `redquorum man`: manual pages.

use std::{io::Write, path::PathBuf};

use clap::Args;
use clap_mangen::Man;

use crate::{arguments::Arguments, exit::Exit, failure::Failure};

/// Print the manual page, or write those of all commands
#[derive(Args, Debug)]
pub(crate) struct Pages {
    /// Where to write one file for each command, such as /usr/local/share/man/man1
    directory: Option<PathBuf>,
}

impl Pages {
    /// Prints or writes the pages.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub(crate) fn perform(&self) -> Result<Exit, Failure> {
        let command = Arguments::described();
        match &self.directory {
            Some(directory) => clap_mangen::generate_to(command, directory)
                .map_err(|error| Failure::file(directory, &error))?,
            None => {
                let mut page = Vec::new();
                let written = Man::new(command).render(&mut page);
                written
                    .and_then(|()| std::io::stdout().write_all(&page))
                    .map_err(|error| Failure::output(&error))?;
            }
        }
        Ok(Exit::Success)
    }
}
