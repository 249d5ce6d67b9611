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

/// The place of the first shared option in a manual page: behind the options of each command, and before `--help`.
const FIRST_SHARED: usize = 500;

impl ManualPages {
    /// Prints or writes the pages.
    ///
    /// # Errors
    ///
    /// A directory or an output that cannot be written.
    pub(crate) fn perform(&self) -> Result<Exit, Failure> {
        let command = in_order_of_help(Arguments::described());
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

/// Orders the options of all pages as `--help` does: the options of the command, the shared options, and `--help`.
/// Otherwise, the options of a command and the shared options alternate.
fn in_order_of_help(command: clap::Command) -> clap::Command {
    let mut order = FIRST_SHARED;
    command.mut_args(|option| {
        if !option.is_global_set() {
            return option;
        }
        order += 1;
        option.display_order(order)
    })
}

/// Creates a directory, unless its path may be a misplaced url with a password.
fn create(directory: &Path) -> io::Result<()> {
    let text = directory.to_string_lossy();
    if shown_path(&text) == text { fs::create_dir_all(directory) } else { Ok(()) }
}
