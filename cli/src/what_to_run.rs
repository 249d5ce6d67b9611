//! The arguments of `run` and `elect` for the command to run under the lease.

use std::ffi::OsString;

use clap::Args;

/// The command to run: a program with its arguments, or a text for the shell.
#[derive(Args, Debug)]
pub(crate) struct WhatToRun {
    /// Run this text with `sh -c` instead of COMMAND
    #[arg(short = 'c', long = "command", value_name = "TEXT", conflicts_with = "words")]
    text: Option<OsString>,
    /// The command to run and its arguments
    #[arg(last = true, required_unless_present = "text", value_name = "COMMAND")]
    words: Vec<OsString>,
}

impl WhatToRun {
    /// Returns the program and its arguments.
    pub(crate) fn words(&self) -> Vec<OsString> {
        match &self.text {
            Some(text) => vec!["sh".into(), "-c".into(), text.clone()],
            None => self.words.clone(),
        }
    }
}
