//! A pseudo-terminal whose settings and flow a test controls.

use std::{
    fs::File,
    io::{Read, Write},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use nix::{
    pty::{Winsize, openpty},
    sys::termios::{FlowArg, Termios, tcflow, tcgetattr},
};
use redquorum_tests::eventually;
use tokio::process::{Child, Command};

use super::redquorum::TIME_LIMIT;

const ROWS: u16 = 24;

/// A terminal, and all output that programs have written to it.
pub(super) struct Pty {
    keyboard: File,
    /// The side of the terminal that programs use. While this side is open, reads of the other side do
    /// not fail.
    programs: File,
    columns: u16,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Pty {
    pub(super) fn open(columns: u16) -> Self {
        let size = Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        let both = openpty(Some(&size), None).unwrap();
        let (keyboard, written) = (File::from(both.master), Arc::new(Mutex::new(Vec::new())));
        let (mut screen, written_by_thread) = (keyboard.try_clone().unwrap(), Arc::clone(&written));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                written_by_thread.lock().unwrap().extend(&buffer[..count]);
            }
        });
        Self { keyboard, programs: both.slave.into(), columns, written }
    }

    /// Starts a command on the terminal.
    pub(super) fn spawn(&self, mut command: Command) -> Child {
        let end = || Stdio::from(self.programs.try_clone().unwrap());
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm").spawn().unwrap()
    }

    /// Returns the present settings of the terminal.
    pub(super) fn settings(&self) -> Termios {
        tcgetattr(&self.programs).unwrap()
    }

    /// Blocks all writes to the terminal.
    pub(super) fn stop(&self) {
        tcflow(&self.programs, FlowArg::TCOOFF).unwrap();
    }

    /// Unblocks writes.
    pub(super) fn resume(&self) {
        tcflow(&self.programs, FlowArg::TCOON).unwrap();
    }

    /// Sends keys to the terminal.
    pub(super) fn press(&self, keys: &str) {
        (&self.keyboard).write_all(keys.as_bytes()).unwrap();
    }

    /// Returns all bytes that programs have written to the terminal.
    pub(super) fn written(&self) -> Vec<u8> {
        self.written.lock().unwrap().clone()
    }

    /// Returns the whole output as lines of text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.written()).replace("\r\n", "\n")
    }

    /// Returns the screen, with the alternate screen if a program uses it.
    pub(super) fn screen(&self) -> vt100::Parser {
        let mut screen = vt100::Parser::new(ROWS, self.columns, 0);
        screen.process(&self.written());
        screen
    }

    /// Waits until the screen shows this text.
    pub(super) async fn wait_until_shown(&self, words: &str) {
        let is_shown = async || self.screen().screen().contents().contains(words);
        eventually(TIME_LIMIT, &format!("{words:?} is shown"), is_shown).await;
    }
}
