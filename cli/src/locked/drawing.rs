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

/// The longest time that the restoration waits for a blocked terminal.
const END_TIMEOUT: Duration = Duration::from_secs(1);

/// The drawing on the alternate screen of the terminal. A drop restores the terminal. Messages are suppressed
/// until then, because they would overwrite the drawing.
///
/// A separate thread writes the pages, because a terminal can block a write without limit, and signals and keys still
/// have to be handled. While a page is being written, no other page is drawn.
pub(crate) struct Drawing {
    terminal: Terminal<CrosstermBackend<Page>>,
    /// The pieces of the page that ratatui has drawn.
    drawn: Receiver<Vec<u8>>,
    writer: Sender<WriterCommand>,
    written: mpsc::UnboundedReceiver<io::Result<()>>,
    is_writing: bool,
    /// Whether a page has to be drawn after the present write, because a request to draw was skipped.
    is_stale: bool,
    messages: Messages,
}

/// The output of ratatui, which sends the pieces of a page to [`Drawing::draw`].
struct Page(Sender<Vec<u8>>);

/// A command to the writing thread.
enum WriterCommand {
    /// Writes a page, and reports the result to [`Drawing`].
    Write(Vec<u8>),
    /// Writes the last bytes, and then notifies this sender.
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
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if the terminal cannot be set up for drawing,
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
        // The hook restores the terminal before the message of a panic, so that the message is readable.
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

    /// Draws a page. While the page before is being written, nothing is drawn. The caller draws again when
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

    /// Waits until a page can be drawn that was skipped. Without a skipped page, waits on.
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
        // The raw mode is ended first, because this call does not wait for the terminal, and a shell is unusable in raw
        // mode. Errors are ignored, because a closed terminal needs no restoration.
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

/// Performs the commands until [`Drawing`] is dropped.
fn write_all(commands: &Receiver<WriterCommand>, done: &mpsc::UnboundedSender<io::Result<()>>) {
    let write = |bytes: &[u8]| {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    while let Ok(command) = commands.recv() {
        match command {
            // A send fails if `Drawing` was dropped during the write.
            WriterCommand::Write(bytes) => drop(done.send(write(&bytes))),
            WriterCommand::End(bytes, done) => {
                write(&bytes).ok();
                done.send(()).ok();
            }
        }
    }
}
