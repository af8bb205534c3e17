//! What an ELF file needs from the system that runs it, read from its headers.

/// What is told of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elf {
    /// `amd64` or `arm64`, in the words of OCI.
    pub arch: &'static str,
    /// The dynamic loader that it asks for.
    pub interpreter: Option<String>,
    /// Libraries that it asks for.
    pub needed: Vec<String>,
}

impl Elf {
    /// Whether it runs with nothing but a kernel.
    pub fn is_static(&self) -> bool {
        self.interpreter.is_none() && self.needed.is_empty()
    }
}

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const NEEDED: u64 = 1;
const STRINGS: u64 = 5;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// Reads the headers of a 64-bit little-endian program.
pub fn read(bytes: &[u8]) -> Result<Elf, String> {
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("it is not a 64-bit little-endian ELF program".to_owned());
    }
    let cut = || "its headers are cut off".to_owned();
    let arch = match number(bytes, 18, 2).ok_or_else(cut)? {
        62 => "amd64",
        183 => "arm64",
        other => return Err(format!("it is for machine {other}, which is neither x86-64 nor AArch64")),
    };
    let segments = segments(bytes).ok_or_else(cut)?;
    let of_kind = |kind: u32| segments.iter().find(|segment| segment.kind == kind);
    let interpreter = match of_kind(INTERPRETER) {
        Some(segment) => Some(text(bytes, segment.offset).ok_or_else(cut)?),
        None => None,
    };
    let needed = match of_kind(DYNAMIC) {
        Some(segment) => needed(bytes, segment, &segments).ok_or_else(cut)?,
        None => Vec::new(),
    };
    Ok(Elf { arch, interpreter, needed })
}

fn segments(bytes: &[u8]) -> Option<Vec<Segment>> {
    let (at, size, count) = (number(bytes, 32, 8)?, number(bytes, 54, 2)?, number(bytes, 56, 2)?);
    let segment = |index: u64| {
        let at = at.checked_add(index.checked_mul(size)?)?;
        Some(Segment {
            kind: u32::try_from(number(bytes, at, 4)?).ok()?,
            offset: number(bytes, at.checked_add(8)?, 8)?,
            address: number(bytes, at.checked_add(16)?, 8)?,
            size: number(bytes, at.checked_add(32)?, 8)?,
        })
    };
    (0..count).map(segment).collect()
}

/// The libraries of a dynamic section. A static program that may lie anywhere in memory has one, and names none.
fn needed(bytes: &[u8], dynamic: &Segment, segments: &[Segment]) -> Option<Vec<String>> {
    let entries: Vec<(u64, u64)> = (0..dynamic.size / 16)
        .map(|index| {
            let at = dynamic.offset.checked_add(index * 16)?;
            Some((number(bytes, at, 8)?, number(bytes, at.checked_add(8)?, 8)?))
        })
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .take_while(|(tag, _)| *tag != 0)
        .collect();
    let strings = entries.iter().find(|(tag, _)| *tag == STRINGS).map(|(_, address)| *address);
    let names = entries.iter().filter(|(tag, _)| *tag == NEEDED).map(|(_, offset)| {
        let address = strings?.checked_add(*offset)?;
        let loaded = segments.iter().find(|segment| {
            segment.kind == LOAD && address >= segment.address && address - segment.address < segment.size
        })?;
        text(bytes, loaded.offset.checked_add(address - loaded.address)?)
    });
    names.collect()
}

fn number(bytes: &[u8], at: u64, size: usize) -> Option<u64> {
    let at = usize::try_from(at).ok()?;
    let bytes = bytes.get(at..at.checked_add(size)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn text(bytes: &[u8], at: u64) -> Option<String> {
    let bytes = bytes.get(usize::try_from(at).ok()?..)?;
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some(String::from_utf8_lossy(bytes.get(..end)?).into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_usual_program_needs_a_loader_and_a_library() {
        let ours = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let elf = read(&ours).unwrap();
        if !cfg!(target_feature = "crt-static") {
            assert!(elf.interpreter.as_ref().unwrap().contains("ld-"), "{elf:?}");
            assert!(elf.needed.iter().any(|name| name.starts_with("libc.so")), "{elf:?}");
            assert!(!elf.is_static());
        }
        // Cut anywhere, it is refused or read, and nothing breaks.
        for length in (0..4096).step_by(7) {
            let _ = read(&ours[..length]);
        }
        assert!(read(b"#!/bin/sh\n").is_err());
    }
}
