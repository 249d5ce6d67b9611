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

/// The time that the end waits for a blocked terminal.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The alternate screen of the terminal, which is restored at the end. Messages are suppressed meanwhile,
/// because they would overwrite the drawing.
///
/// A separate thread writes, because a terminal can block a write without limit, and signals and keys
/// have to be handled meanwhile. While a page is being written, none is drawn.
pub(crate) struct Drawing {
    terminal: Terminal<CrosstermBackend<Page>>,
    /// The pieces of the drawn page.
    drawn: Receiver<Vec<u8>>,
    writer: Sender<WriterCommand>,
    written: mpsc::UnboundedReceiver<io::Result<()>>,
    is_writing: bool,
    /// Whether a request to draw was skipped since the page that is on the screen.
    is_stale: bool,
    messages: Messages,
}

/// The buffer of a page, which passes the pieces on.
struct Page(Sender<Vec<u8>>);

/// A command to the writing thread.
enum WriterCommand {
    /// Writes a page and reports the end to [`Drawing`].
    Write(Vec<u8>),
    /// Writes the last bytes and reports the end to this sender.
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
    /// Switches the terminal to the alternate screen.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if the terminal does not support it,
    /// [`Exit::System`](crate::exit::Exit::System) if the system refuses the thread.
    pub(crate) fn begin(messages: &Messages) -> Result<Self, Failure> {
        let failed = |error| Failure::internal("draw on the terminal", error);
        let ((page, drawn), (writer, commands), (done, written)) =
            (channel(), channel(), mpsc::unbounded_channel());
        let terminal = Terminal::new(CrosstermBackend::new(Page(page))).map_err(failed)?;
        let thread = thread::Builder::new().name("drawing".to_owned());
        let drawing = thread.spawn(move || write_all(&commands, &done));
        drawing.map_err(|error| Failure::not_started("a thread to draw", &error))?;
        let mut first = Vec::new();
        queue!(first, EnterAlternateScreen).map_err(failed)?;
        enable_raw_mode().map_err(failed)?;
        // The message of a panic has to be readable, so the hook restores the terminal first.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            ratatui::restore();
            hook(info);
        }));
        messages.suppress();
        writer.send(WriterCommand::Write(first)).ok();
        let (is_writing, is_stale, messages) = (true, true, messages.clone());
        Ok(Self { terminal, drawn, writer, written, is_writing, is_stale, messages })
    }

    /// Draws a page. While the last page is being written, the page is drawn later, when
    /// [`redraw_due`](Self::redraw_due) returns.
    ///
    /// # Errors
    ///
    /// A terminal that cannot be drawn on.
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

    /// Waits until a skipped page can be drawn.
    ///
    /// # Errors
    ///
    /// A terminal that could not be written to.
    ///
    /// # Cancel safety
    ///
    /// A dropped future loses no event.
    pub(crate) async fn redraw_due(&mut self) -> Result<(), Failure> {
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
        // First the raw mode, which makes a shell unusable and ends without waiting. A closed terminal
        // needs no restoring, so errors are ignored.
        disable_raw_mode().ok();
        let mut last = Vec::new();
        let (done, is_done) = sync_channel(1);
        if queue!(last, LeaveAlternateScreen, Show).is_ok()
            && self.writer.send(WriterCommand::End(last, done)).is_ok()
        {
            is_done.recv_timeout(END_TIMEOUT).ok();
        }
        self.messages.resume();
    }
}

fn write_all(commands: &Receiver<WriterCommand>, done: &mpsc::UnboundedSender<io::Result<()>>) {
    let write = |bytes: &[u8]| {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    while let Ok(command) = commands.recv() {
        match command {
            // The receiver may have been dropped meanwhile.
            WriterCommand::Write(bytes) => drop(done.send(write(&bytes))),
            WriterCommand::End(bytes, done) => {
                write(&bytes).ok();
                done.send(()).ok();
            }
        }
    }
}
