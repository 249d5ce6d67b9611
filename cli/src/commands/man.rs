//! `redquorum man`: prints or writes manual pages.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use clap::Args;
use clap_mangen::Man;
use redquorum::__command::shown_path;

use crate::{arguments::Arguments, exit::Exit, failure::Failure};

/// Print the manual page, or write the pages of all commands
#[derive(Args, Debug)]
pub(crate) struct ManualPages {
    /// The directory for one file per command, such as /usr/local/share/man/man1; created if missing
    directory: Option<PathBuf>,
}

impl ManualPages {
    /// Prints or writes the pages.
    ///
    /// # Errors
    ///
    /// A directory or an output that cannot be written.
    pub(crate) fn perform(&self) -> Result<Exit, Failure> {
        let command = Arguments::described();
        match &self.directory {
            Some(directory) => create(directory)
                .and_then(|()| clap_mangen::generate_to(command, directory))
                .map_err(|error| Failure::file(directory, &error))?,
            None => {
                let mut page = Vec::new();
                let written = Man::new(command).render(&mut page);
                written
                    .and_then(|()| io::stdout().write_all(&page))
                    .map_err(|error| Failure::output(&error))?;
            }
        }
        Ok(Exit::Success)
    }
}

/// Creates a directory, unless its path may be a misplaced url with a password.
fn create(directory: &Path) -> io::Result<()> {
    let text = directory.to_string_lossy();
    if shown_path(&text) == text { fs::create_dir_all(directory) } else { Ok(()) }
}
