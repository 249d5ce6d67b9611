//! The terminal that `top` draws on.

use std::{
    io::{self, Write},
    panic,
    sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    thread,
    time::Duration,
};

use ratatui::{
    Terminal,
    backend::CrosstermBackend,
    crossterm::{
        cursor::Show,
        queue,
        terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
    },
};
use tokio::sync::mpsc;

use super::screen::Screen;
use crate::{failure::Failure, messages::Messages};

/// How long the end waits for a terminal that takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// A screen of our own on the terminal, which is given back as it was. Messages wait meanwhile, or they
/// would stand in the middle of it.
///
/// A thread of its own writes: a terminal may take nothing for as long as somebody likes, and signals
/// and keys are to be heard all the same. While it writes one picture, none is drawn.
pub(crate) struct Drawing {
    terminal: Terminal<CrosstermBackend<Page>>,
    /// What was drawn, in pieces.
    drawn: Receiver<Vec<u8>>,
    writer: Sender<WriterCommand>,
    written: mpsc::UnboundedReceiver<io::Result<()>>,
    is_writing: bool,
    /// What is on the screen is not what was to be drawn last.
    is_stale: bool,
    messages: Messages,
}

/// Takes what is drawn.
struct Page(Sender<Vec<u8>>);

/// A command to the writing thread.
enum WriterCommand {
    Write(Vec<u8>),
    /// Writes, and reports the end here and not to [`Drawing`].
    End(Vec<u8>, SyncSender<()>),
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drawing {
    /// Takes the terminal.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if it is none to draw on.
    pub(crate) fn begin(messages: &Messages) -> Result<Self, Failure> {
        let failed = |error| Failure::internal("drawing on the terminal", error);
        let ((page, drawn), (writer, orders), (done, written)) =
            (channel(), channel(), mpsc::unbounded_channel());
        let terminal = Terminal::new(CrosstermBackend::new(Page(page))).map_err(failed)?;
        let thread = thread::Builder::new().name("drawing".to_owned());
        thread.spawn(move || write_all(&orders, &done)).map_err(failed)?;
        let mut first = Vec::new();
        queue!(first, EnterAlternateScreen).map_err(failed)?;
        enable_raw_mode().map_err(failed)?;
        // What a panic says is to be read.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            ratatui::restore();
            hook(info);
        }));
        messages.hold();
        writer.send(WriterCommand::Write(first)).ok();
        let (is_writing, is_stale, messages) = (true, true, messages.clone());
        Ok(Self { terminal, drawn, writer, written, is_writing, is_stale, messages })
    }

    /// Draws, or if the last picture is still being written, later.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub(crate) fn draw(&mut self, screen: &mut Screen) -> Result<(), Failure> {
        self.is_stale = self.is_writing;
        if self.is_writing {
            return Ok(());
        }
        self.terminal.draw(|frame| screen.draw(frame)).map_err(|error| Failure::output(&error))?;
        let page: Vec<u8> = self.drawn.try_iter().flatten().collect();
        self.is_writing = self.writer.send(WriterCommand::Write(page)).is_ok();
        Ok(())
    }

    /// Ready when it is to be drawn again, as it could not be before.
    ///
    /// # Errors
    ///
    /// If the terminal could not be written to.
    ///
    /// # Cancel safety
    ///
    /// Dropping it loses nothing.
    pub(crate) async fn is_wanted(&mut self) -> Result<(), Failure> {
        while let Some(written) = self.written.recv().await {
            written.map_err(|error| Failure::output(&error))?;
            self.is_writing = false;
            if self.is_stale {
                return Ok(());
            }
        }
        std::future::pending().await
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        // This waits for nobody, and matters most: single keys are no lines for the shell. Where the
        // terminal is gone, there is nothing to give back.
        disable_raw_mode().ok();
        let mut last = Vec::new();
        let (done, is_done) = sync_channel(1);
        if queue!(last, LeaveAlternateScreen, Show).is_ok()
            && self.writer.send(WriterCommand::End(last, done)).is_ok()
        {
            is_done.recv_timeout(PATIENCE).ok();
        }
        self.messages.release();
    }
}

fn write_all(orders: &Receiver<WriterCommand>, done: &mpsc::UnboundedSender<io::Result<()>>) {
    let write = |bytes: &[u8]| {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    while let Ok(order) = orders.recv() {
        match order {
            // Nobody hears it who has ended meanwhile.
            WriterCommand::Write(bytes) => drop(done.send(write(&bytes))),
            WriterCommand::End(bytes, done) => {
                write(&bytes).ok();
                done.send(()).ok();
            }
        }
    }
}
