//! Files by SFTP, version 3: as much of it as it takes to read a small file and to put one in its place.

use std::io;

use daedal_dial::BoxStream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longest packet that is read.
const PACKET_LIMIT: usize = 256 * 1024;
/// Bytes that every server takes, and gives, at once.
const CHUNK: usize = 32 * 1024;
const VERSION: u32 = 3;

/// Types of packets.
mod kind {
    pub const INIT: u8 = 1;
    pub const VERSION: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CLOSE: u8 = 4;
    pub const READ: u8 = 5;
    pub const WRITE: u8 = 6;
    pub const FSET_STAT: u8 = 10;
    pub const REMOVE: u8 = 13;
    pub const RENAME: u8 = 18;
    pub const STATUS: u8 = 101;
    pub const HANDLE: u8 = 102;
    pub const DATA: u8 = 103;
    pub const EXTENDED: u8 = 200;
}

/// How a file is opened.
mod open {
    pub const READ: u32 = 0x01;
    pub const WRITE: u32 = 0x02;
    pub const CREATE: u32 = 0x08;
    pub const TRUNCATE: u32 = 0x10;
}

const OK: u32 = 0;
const END: u32 = 1;
/// Attributes that are nothing but permissions.
const PERMISSIONS: u32 = 0x04;
/// Readable by the owner alone.
const PRIVATE: u32 = 0o600;

/// What follows the name of a file that is not whole yet.
const PART: &str = ".part";
/// Extensions of OpenSSH: a rename onto a file that is there, and a write that is on the disk.
const POSIX_RENAME: &str = "posix-rename@openssh.com";
const FSYNC: &str = "fsync@openssh.com";

/// One session, of one question at a time.
pub(crate) struct Sftp {
    stream: BoxStream,
    asked: u32,
    extensions: Vec<Vec<u8>>,
}

impl Sftp {
    /// Begins a session on a channel whose subsystem has started.
    pub(crate) async fn begin(stream: BoxStream) -> io::Result<Self> {
        let mut sftp = Self { stream, asked: 0, extensions: Vec::new() };
        sftp.send(kind::INIT, &VERSION.to_be_bytes()).await?;
        let (answer, body) = sftp.receive().await?;
        let mut body = Body(&body);
        match (answer, body.number()) {
            (kind::VERSION, Ok(version)) if version >= VERSION => {}
            _ => return Err(bad("it does not speak SFTP version 3")),
        }
        while !body.0.is_empty() {
            sftp.extensions.push(body.text()?.to_vec());
            // Its version.
            body.text()?;
        }
        Ok(sftp)
    }

    fn has(&self, extension: &str) -> bool {
        self.extensions.iter().any(|one| one == extension.as_bytes())
    }

    /// What is in a file of at most so many bytes; none if there is no such file.
    pub(crate) async fn read(&mut self, path: &str, limit: usize) -> io::Result<Option<Vec<u8>>> {
        let handle = match self.open(path, open::READ, None).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        let read = loop {
            let mut body = text(&handle);
            body.extend((bytes.len() as u64).to_be_bytes());
            body.extend((CHUNK as u32).to_be_bytes());
            let (answer, body) = self.ask(kind::READ, &body).await?;
            let mut body = Body(&body);
            match answer {
                kind::DATA => bytes.extend(body.text()?),
                kind::STATUS => break body.status_or(END),
                _ => return Err(bad("it answers a read with something else")),
            }
            if bytes.len() > limit {
                break Err(bad("the file is too large"));
            }
        };
        self.done(kind::CLOSE, &text(&handle)).await?;
        read.map(|()| Some(bytes))
    }

    /// Writes a file as a whole, readable by its owner alone. Until it is whole it has another name.
    pub(crate) async fn write(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let part = format!("{path}{PART}");
        self.write_part(&part, bytes).await?;
        let (from, to) = (text(part.as_bytes()), text(path.as_bytes()));
        if self.has(POSIX_RENAME) {
            return self.done(kind::EXTENDED, &[text(POSIX_RENAME.as_bytes()), from, to].concat()).await;
        }
        // Version 3 by itself renames onto nothing that is there.
        self.remove(path).await?;
        self.done(kind::RENAME, &[from, to].concat()).await
    }

    /// Removes a file, if it is there.
    pub(crate) async fn remove(&mut self, path: &str) -> io::Result<()> {
        match self.done(kind::REMOVE, &text(path.as_bytes())).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    async fn write_part(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        let flags = open::WRITE | open::CREATE | open::TRUNCATE;
        let handle = self.open(path, flags, Some(PRIVATE)).await?;
        let written = self.fill(&handle, bytes).await;
        // What is on the disk is known only once it is closed.
        let closed = self.done(kind::CLOSE, &text(&handle)).await;
        written.and(closed)
    }

    async fn fill(&mut self, handle: &[u8], bytes: &[u8]) -> io::Result<()> {
        // One that was there has its own permissions, and is empty now.
        self.done(kind::FSET_STAT, &[text(handle), attributes(Some(PRIVATE))].concat()).await?;
        let mut offset = 0_u64;
        for chunk in bytes.chunks(CHUNK) {
            let body = [&text(handle)[..], &offset.to_be_bytes(), &text(chunk)].concat();
            self.done(kind::WRITE, &body).await?;
            offset += chunk.len() as u64;
        }
        match self.has(FSYNC) {
            true => self.done(kind::EXTENDED, &[text(FSYNC.as_bytes()), text(handle)].concat()).await,
            false => Ok(()),
        }
    }

    async fn open(&mut self, path: &str, flags: u32, mode: Option<u32>) -> io::Result<Vec<u8>> {
        let mut body = text(path.as_bytes());
        body.extend(flags.to_be_bytes());
        body.extend(attributes(mode));
        let (answer, told) = self.ask(kind::OPEN, &body).await?;
        let mut told = Body(&told);
        match answer {
            kind::HANDLE => Ok(told.text()?.to_vec()),
            kind::STATUS => Err(told.status_or(OK).err().unwrap_or_else(|| bad("it opened nothing"))),
            _ => Err(bad("it answers an open with something else")),
        }
    }

    /// Asks for what is answered by nothing but how it went.
    async fn done(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        match self.ask(kind, body).await? {
            (kind::STATUS, told) => Body(&told).status_or(OK),
            _ => Err(bad("it answers with something else than a status")),
        }
    }

    /// Asks, and waits for the answer to this very question.
    async fn ask(&mut self, kind: u8, body: &[u8]) -> io::Result<(u8, Vec<u8>)> {
        self.asked = self.asked.wrapping_add(1);
        let question = [&self.asked.to_be_bytes()[..], body].concat();
        self.send(kind, &question).await?;
        let (answer, body) = self.receive().await?;
        match body.split_first_chunk() {
            Some((id, rest)) if u32::from_be_bytes(*id) == self.asked => Ok((answer, rest.to_vec())),
            _ => Err(bad("it answers another question")),
        }
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> io::Result<()> {
        let length = u32::try_from(body.len() + 1).map_err(|_| bad("the packet is too long"))?;
        let packet = [&length.to_be_bytes()[..], &[kind], body].concat();
        self.stream.write_all(&packet).await?;
        self.stream.flush().await
    }

    async fn receive(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let length = self.stream.read_u32().await? as usize;
        if length == 0 || length > PACKET_LIMIT {
            return Err(bad("its packet has an impossible length"));
        }
        let mut packet = vec![0; length];
        self.stream.read_exact(&mut packet).await?;
        let body = packet.split_off(1);
        Ok((packet.first().copied().unwrap_or_default(), body))
    }
}

/// A text with its length before it.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], bytes].concat()
}

fn attributes(mode: Option<u32>) -> Vec<u8> {
    match mode {
        Some(mode) => [PERMISSIONS.to_be_bytes(), mode.to_be_bytes()].concat(),
        None => 0_u32.to_be_bytes().to_vec(),
    }
}

/// What is left to read of an answer.
struct Body<'a>(&'a [u8]);

impl<'a> Body<'a> {
    fn number(&mut self) -> io::Result<u32> {
        let (number, rest) = self.0.split_first_chunk().ok_or_else(|| bad("its answer is cut short"))?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*number))
    }

    fn text(&mut self) -> io::Result<&'a [u8]> {
        let length = self.number()? as usize;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(|| bad("its answer is cut short"))?;
        self.0 = rest;
        Ok(text)
    }

    /// A status, of which only this one is good.
    fn status_or(&mut self, good: u32) -> io::Result<()> {
        let code = self.number()?;
        if code == good {
            return Ok(());
        }
        let kind = match code {
            2 => io::ErrorKind::NotFound,
            3 => io::ErrorKind::PermissionDenied,
            _ => io::ErrorKind::Other,
        };
        let why = String::from_utf8_lossy(self.text().unwrap_or_default()).into_owned();
        Err(io::Error::new(kind, if why.is_empty() { format!("SFTP status {code}") } else { why }))
    }
}

fn bad(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers with these packets, whatever it is asked.
    fn server(answers: Vec<Vec<u8>>) -> BoxStream {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            for answer in answers {
                let length = theirs.read_u32().await.unwrap();
                let mut question = vec![0; length as usize];
                theirs.read_exact(&mut question).await.unwrap();
                theirs.write_all(&text(&answer)).await.unwrap();
            }
        });
        Box::new(ours)
    }

    fn packet(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
        [&[kind][..], &parts.concat()].concat()
    }

    fn status(id: u32, code: u32, why: &str) -> Vec<u8> {
        packet(kind::STATUS, &[&id.to_be_bytes(), &code.to_be_bytes(), &text(why.as_bytes()), &text(b"")])
    }

    fn hello() -> Vec<u8> {
        packet(kind::VERSION, &[&3_u32.to_be_bytes()])
    }

    /// A server that does what it is asked, with these extensions; and the kinds of what it was asked.
    async fn written_to(extensions: &[&str]) -> Vec<u8> {
        let parts: Vec<u8> =
            extensions.iter().flat_map(|name| [text(name.as_bytes()), text(b"1")].concat()).collect();
        let hello = packet(kind::VERSION, &[&3_u32.to_be_bytes(), &parts]);
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let serving = tokio::spawn(async move {
            let (mut asked, mut answer) = (Vec::new(), hello);
            while let Ok(length) = theirs.read_u32().await {
                let mut question = vec![0; length as usize];
                theirs.read_exact(&mut question).await.unwrap();
                if question[0] != kind::INIT {
                    asked.push(question[0]);
                    let id = u32::from_be_bytes(question[1..5].try_into().unwrap());
                    answer = match question[0] {
                        kind::OPEN => handle(id),
                        kind::REMOVE => status(id, 2, "No such file"),
                        _ => status(id, OK, ""),
                    };
                }
                theirs.write_all(&text(&answer)).await.unwrap();
            }
            asked
        });
        Sftp::begin(Box::new(ours)).await.unwrap().write("/a", b"text").await.unwrap();
        serving.await.unwrap()
    }

    #[tokio::test]
    async fn a_file_gets_its_name_when_it_is_whole() {
        use kind::{CLOSE, EXTENDED, FSET_STAT, OPEN, REMOVE, RENAME, WRITE};
        let asked = written_to(&["statvfs@openssh.com", FSYNC, POSIX_RENAME]).await;
        assert_eq!(asked, [OPEN, FSET_STAT, WRITE, EXTENDED, CLOSE, EXTENDED]);
        assert_eq!(written_to(&[]).await, [OPEN, FSET_STAT, WRITE, CLOSE, REMOVE, RENAME]);
    }

    fn handle(id: u32) -> Vec<u8> {
        packet(kind::HANDLE, &[&id.to_be_bytes(), &text(b"h")])
    }

    #[tokio::test]
    async fn a_file_is_read_to_its_end_and_one_that_is_not_there_is_none() {
        let data = |id: u32, bytes: &[u8]| packet(kind::DATA, &[&id.to_be_bytes(), &text(bytes)]);
        let answers = vec![
            hello(),
            handle(1),
            data(2, b"one "),
            data(3, b"two"),
            status(4, END, ""),
            status(5, OK, ""),
        ];
        let mut sftp = Sftp::begin(server(answers)).await.unwrap();
        assert_eq!(sftp.read("/a", 100).await.unwrap().unwrap(), b"one two");
        let mut sftp = Sftp::begin(server(vec![hello(), status(1, 2, "No such file")])).await.unwrap();
        assert_eq!(sftp.read("/a", 100).await.unwrap(), None);
        let long = vec![hello(), handle(1), data(2, &[0; 101]), status(3, OK, "")];
        let mut sftp = Sftp::begin(server(long)).await.unwrap();
        assert_eq!(sftp.read("/a", 100).await.unwrap_err().to_string(), "the file is too large");
    }

    #[tokio::test]
    async fn a_write_that_fails_says_so_in_the_servers_words() {
        let answers = vec![
            hello(),
            handle(1),
            status(2, OK, ""),
            status(3, 4, "No space left on device"),
            status(4, OK, ""),
        ];
        let mut sftp = Sftp::begin(server(answers)).await.unwrap();
        let error = sftp.write("/a", b"text").await.unwrap_err();
        assert_eq!(error.to_string(), "No space left on device");
        let answers = vec![hello(), status(1, 3, "Permission denied")];
        let mut sftp = Sftp::begin(server(answers)).await.unwrap();
        assert_eq!(sftp.write("/a", b"").await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[tokio::test]
    async fn nonsense_is_refused() {
        for first in [packet(kind::VERSION, &[&2_u32.to_be_bytes()]), packet(9, &[]), vec![]] {
            assert!(Sftp::begin(server(vec![first])).await.is_err());
        }
        let mut sftp = Sftp::begin(server(vec![hello(), handle(7)])).await.unwrap();
        assert!(sftp.read("/a", 9).await.unwrap_err().to_string().contains("another question"));
        let cut = packet(kind::HANDLE, &[&1_u32.to_be_bytes(), &9_u32.to_be_bytes(), b"h"]);
        let mut sftp = Sftp::begin(server(vec![hello(), cut])).await.unwrap();
        assert!(sftp.read("/a", 9).await.unwrap_err().to_string().contains("cut short"));
    }
}
