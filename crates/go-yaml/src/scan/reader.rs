//! Characters: what stands at a place of the text, and how to pass it.

use super::Scanner;

impl<'a> Scanner<'a> {
    pub(super) fn at(&self, offset: usize) -> u8 {
        self.text.get(self.position + offset).copied().unwrap_or(0)
    }

    pub(super) fn is_break_at(&self, offset: usize) -> bool {
        match self.at(offset) {
            b'\n' | b'\r' => true,
            0xC2 => self.at(offset + 1) == 0x85,
            0xE2 => self.at(offset + 1) == 0x80 && matches!(self.at(offset + 2), 0xA8 | 0xA9),
            _ => false,
        }
    }

    pub(super) fn is_end(&self) -> bool {
        self.position >= self.text.len()
    }

    pub(super) fn is_end_at(&self, offset: usize) -> bool {
        self.position + offset >= self.text.len()
    }

    pub(super) fn is_blank_at(&self, offset: usize) -> bool {
        matches!(self.at(offset), b' ' | b'\t')
    }

    pub(super) fn is_breakz(&self, offset: usize) -> bool {
        self.is_end_at(offset) || self.is_break_at(offset)
    }

    pub(super) fn is_blankz(&self, offset: usize) -> bool {
        self.is_blank_at(offset) || self.is_breakz(offset)
    }

    pub(super) fn width(&self) -> usize {
        match self.at(0) {
            0..=0x7F => 1,
            0x80..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        }
    }

    pub(super) fn skip(&mut self) {
        self.position += self.width();
        self.mark.index += 1;
        self.mark.column += 1;
    }

    pub(super) fn read(&mut self, out: &mut Vec<u8>) {
        let width = self.width();
        let end = (self.position + width).min(self.text.len());
        out.extend_from_slice(&self.text[self.position..end]);
        self.skip();
    }

    /// Passes a line break, and returns what it means.
    pub(super) fn skip_line(&mut self) -> &'a [u8] {
        let (width, meaning): (usize, &[u8]) = match self.at(0) {
            b'\r' if self.at(1) == b'\n' => (2, b"\n"),
            b'\r' | b'\n' => (1, b"\n"),
            0xC2 => (2, b"\n"),
            0xE2 => (3, &self.text[self.position..(self.position + 3).min(self.text.len())]),
            _ => return b"",
        };
        self.position += width;
        self.mark.index += 1;
        self.mark.column = 0;
        self.mark.line += 1;
        meaning
    }

    pub(super) fn read_line(&mut self, out: &mut Vec<u8>) {
        let meaning = self.skip_line();
        out.extend_from_slice(meaning);
    }

    /// Passes over bytes within a line.
    pub(super) fn pass(&mut self, bytes: usize) {
        let passed = &self.text[self.position..self.position + bytes];
        let characters =
            if self.plain { bytes } else { passed.iter().filter(|b| **b & 0xC0 != 0x80).count() };
        self.position += bytes;
        self.mark.index += characters;
        self.mark.column += isize::try_from(characters).unwrap_or(isize::MAX);
    }

    /// How many bytes there are before the end of the line.
    pub(super) fn rest_of_line(&self) -> usize {
        let rest = &self.text[self.position..];
        if self.plain {
            return memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        }
        let mut length = 0;
        loop {
            length += rest[length..]
                .iter()
                .position(|b| matches!(b, b'\n' | b'\r' | 0xC2 | 0xE2))
                .unwrap_or(rest.len() - length);
            if self.is_breakz(length) {
                return length;
            }
            length += 1;
        }
    }

    pub(super) fn skip_comment(&mut self) {
        if self.at(0) == b'#' {
            self.pass(self.rest_of_line());
        }
    }
}
