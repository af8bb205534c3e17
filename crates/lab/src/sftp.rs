//! SFTP, version 3, on the lab's hosts: as much of it as OpenSSH's server needs to read and write whole files.

use std::collections::HashMap;
use std::io;

use daedal_dial::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::proxmox::{Datacenter, NoFile};

/// Longest packet, as OpenSSH has it.
const PACKET_LIMIT: usize = 256 * 1024;
/// Most bytes of a file.
const FILE_LIMIT: usize = 16 << 20;

const OK: u32 = 0;
const END: u32 = 1;
const MISSING: u32 = 2;
const FAILURE: u32 = 4;
const MALFORMED: u32 = 5;
const UNSUPPORTED: u32 = 8;

const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";

const WRITE: u32 = 0x02;
const CREATE: u32 = 0x08;
const TRUNCATE: u32 = 0x10;

/// An open file.
struct Open {
    path: String,
    bytes: Vec<u8>,
    writes: bool,
}

/// One session.
struct Session {
    datacenter: Datacenter,
    host: String,
    open: HashMap<u32, Open>,
    next: u32,
}

/// An answer: its type, and what follows the number of the question.
type Answer = (u8, Vec<u8>);

/// Serves one session to its end.
pub(crate) async fn serve(mut stream: impl Stream, datacenter: Datacenter, host: String) -> io::Result<()> {
    let mut session = Session { datacenter, host, open: HashMap::new(), next: 0 };
    let (kind, _) = receive(&mut stream).await?;
    if kind != 1 {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let extension = |name: &str| [text(name.as_bytes()), text(b"1")].concat();
    let hello = [&3_u32.to_be_bytes()[..], &extension(POSIX_RENAME), &extension(FSYNC)].concat();
    send(&mut stream, 2, &hello).await?;
    loop {
        let (kind, body) = match receive(&mut stream).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            received => received?,
        };
        let mut body = Body(&body);
        let Some(id) = body.number() else { return Err(io::ErrorKind::InvalidData.into()) };
        let (kind, answer) = session.answer(kind, body).unwrap_or_else(|| status(MALFORMED, "Bad message"));
        send(&mut stream, kind, &[&id.to_be_bytes()[..], &answer].concat()).await?;
    }
}

impl Session {
    /// None for a question that cannot be understood.
    fn answer(&mut self, kind: u8, mut body: Body<'_>) -> Option<Answer> {
        Some(match kind {
            3 => {
                let (path, flags) = (body.path()?, body.number()?);
                self.open(path, flags)
            }
            4 => {
                let handle = body.handle()?;
                match self.open.remove(&handle) {
                    Some(file) => self.close(file),
                    None => status(FAILURE, "Invalid handle"),
                }
            }
            5 => {
                let (handle, offset, length) = (body.handle()?, body.long()?, body.number()?);
                self.read(handle, offset, length)
            }
            6 => {
                let (handle, offset) = (body.handle()?, body.long()?);
                self.write(handle, offset, body.text()?)
            }
            // Attributes of a file: it has no others than those that it got when it was made.
            9 | 10 => status(OK, "Success"),
            13 => match self.datacenter.remove_file(&self.host, &body.path()?) {
                Ok(()) => status(OK, "Success"),
                Err(error) => refused(error),
            },
            200 => match body.text()? {
                name if name == POSIX_RENAME.as_bytes() => {
                    let (from, to) = (body.path()?, body.path()?);
                    match self.datacenter.rename_file(&self.host, &from, &to) {
                        Ok(()) => status(OK, "Success"),
                        Err(error) => refused(error),
                    }
                }
                name if name == FSYNC.as_bytes() => status(OK, "Success"),
                _ => status(UNSUPPORTED, "Operation unsupported"),
            },
            _ => status(UNSUPPORTED, "Operation unsupported"),
        })
    }

    fn open(&mut self, path: String, flags: u32) -> Answer {
        let there = self.datacenter.read_file(&self.host, &path);
        let bytes = match there {
            Ok(_) if flags & TRUNCATE != 0 => Vec::new(),
            Ok(bytes) => bytes,
            Err(_) if flags & CREATE != 0 => Vec::new(),
            Err(_) => return status(MISSING, "No such file"),
        };
        let writes = flags & WRITE != 0;
        // What is opened to be written is there at once, and empty if it is cut.
        if writes && let Err(error) = self.datacenter.write_file(&self.host, &path, bytes.clone()) {
            return refused(error);
        }
        self.next += 1;
        self.open.insert(self.next, Open { path, bytes, writes });
        (102, text(&self.next.to_be_bytes()))
    }

    fn close(&mut self, file: Open) -> Answer {
        if !file.writes {
            return status(OK, "Success");
        }
        match self.datacenter.write_file(&self.host, &file.path, file.bytes) {
            Ok(()) => status(OK, "Success"),
            Err(error) => refused(error),
        }
    }

    fn read(&self, handle: u32, offset: u64, length: u32) -> Answer {
        let Some(file) = self.open.get(&handle) else { return status(FAILURE, "Invalid handle") };
        let rest =
            usize::try_from(offset).ok().and_then(|offset| file.bytes.get(offset..)).unwrap_or_default();
        match rest {
            [] => status(END, "End of file"),
            rest => (103, text(&rest[..rest.len().min(length as usize)])),
        }
    }

    fn write(&mut self, handle: u32, offset: u64, bytes: &[u8]) -> Answer {
        let Some(file) = self.open.get_mut(&handle).filter(|file| file.writes) else {
            return status(FAILURE, "Invalid handle");
        };
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        let Some(end) = at.checked_add(bytes.len()).filter(|end| *end <= FILE_LIMIT) else {
            return status(FAILURE, "File too large");
        };
        file.bytes.resize(file.bytes.len().max(end), 0);
        file.bytes[at..end].copy_from_slice(bytes);
        // A session that is cut short leaves what was written so far.
        match self.datacenter.write_file(&self.host, &file.path, file.bytes.clone()) {
            Ok(()) => status(OK, "Success"),
            Err(error) => refused(error),
        }
    }
}

fn refused(error: NoFile) -> Answer {
    match error {
        NoFile::Missing => status(MISSING, "No such file"),
        NoFile::Full => status(FAILURE, "No space left on device"),
    }
}

fn status(code: u32, message: &str) -> Answer {
    (101, [&code.to_be_bytes()[..], &text(message.as_bytes()), &text(b"en")].concat())
}

/// A text with its length before it.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}

/// What is left to read of a question.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn long(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_be_bytes(*number))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(text)
    }

    fn path(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.text()?).into_owned())
    }

    fn handle(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.text()?.try_into().ok()?))
    }
}

async fn send(stream: &mut impl Stream, kind: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
    stream.write_all(&[&length.to_be_bytes()[..], &[kind], body].concat()).await?;
    stream.flush().await
}

async fn receive(stream: &mut impl Stream) -> io::Result<(u8, Vec<u8>)> {
    let length = stream.read_u32().await? as usize;
    if length == 0 || length > PACKET_LIMIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut packet = vec![0; length];
    stream.read_exact(&mut packet).await?;
    let body = packet.split_off(1);
    Ok((packet.first().copied().unwrap_or_default(), body))
}
