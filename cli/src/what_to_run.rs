//! The command that is run under a lease, as it stands on the command line.

use std::ffi::OsString;

use clap::Args;

/// What to run: words, or a text for the shell.
#[derive(Args, Debug)]
pub(crate) struct WhatToRun {
    /// Run this text by `sh -c`, in place of COMMAND
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with = "words")]
    text: Option<OsString>,
    /// The command to run, and its arguments
    #[arg(last = true, required_unless_present = "text", value_name = "COMMAND")]
    words: Vec<OsString>,
}

impl WhatToRun {
    /// The program, and its arguments.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match &self.text {
            Some(text) => vec!["sh".into(), "-c".into(), text.clone()],
            None => self.words.clone(),
        }
    }
}
