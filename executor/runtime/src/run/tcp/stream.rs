//! Reads and writes with a deadline.

use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// The time until `deadline`, as a socket timeout.
fn left(deadline: Instant) -> Result<Duration, Error> {
    match deadline.saturating_duration_since(Instant::now()) {
        left if left.is_zero() => Err(Error::new(ErrorKind::TimedOut, "nothing came in time")),
        left => Ok(left),
    }
}

/// Fills `bytes` by `deadline`, with as many reads as it takes.
pub(super) fn read_by(
    mut stream: &TcpStream,
    mut bytes: &mut [u8],
    deadline: Instant,
) -> Result<(), Error> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(bytes) {
            Ok(0) => return Err(Error::new(ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` by `deadline`.
pub(super) fn write_by(
    mut stream: &TcpStream,
    mut bytes: &[u8],
    deadline: Instant,
) -> Result<(), Error> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match stream.write(bytes) {
            Ok(0) => return Err(Error::new(ErrorKind::WriteZero, "it takes nothing more")),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether a retry may succeed; the deadline is checked before it.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
