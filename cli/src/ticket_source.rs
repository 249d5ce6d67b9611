//! The text of a ticket, from standard input or a file. An argument would show the secret of the ticket to other users
//! of the machine.

use std::{
    fs::File,
    io::{self, Read, stdin},
    os::fd::AsFd,
    path::Path,
};

use redquorum::Ticket;

use crate::failure::Failure;

/// The largest text of a ticket: a thousand resources of 512 bytes, in hexadecimal digits.
const MAX_BYTES: usize = 1 << 21;

/// Reads a ticket: the first line of standard input if the path is `-`, and otherwise the first line of a file.
///
/// # Errors
///
/// [`Exit::Io`](crate::exit::Exit::Io) if the text cannot be read, [`Exit::Usage`](crate::exit::Exit::Usage) if the text
/// is no ticket.
pub(crate) fn read(from: &Path) -> Result<Ticket, Failure> {
    let is_stdin = from.as_os_str() == "-";
    let opened =
        if is_stdin { stdin().as_fd().try_clone_to_owned().map(File::from) } else { File::open(from) };
    let line = opened.and_then(first_line).map_err(|error| Failure::file(from, &error))?;
    let source = if is_stdin { "standard input".to_owned() } else { from.display().to_string() };
    String::from_utf8_lossy(&line).parse().map_err(|error| Failure::usage(format!("{source}: {error}")))
}

/// Reads up to the end of the first line, byte by byte, so that the command under the lock can read the following lines.
fn first_line(mut file: impl Read) -> io::Result<Vec<u8>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < MAX_BYTES {
        match file.read_exact(&mut byte) {
            Ok(()) if byte == *b"\n" => break,
            Ok(()) => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_ends_at_the_first_line_and_the_rest_stays() {
        let mut input = &b"ticket\nrest"[..];
        assert_eq!(first_line(&mut input).unwrap(), b"ticket");
        assert_eq!(input, b"rest");
    }
}
