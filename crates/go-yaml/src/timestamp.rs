//! Which plain scalars are times to go-yaml. Their value is never needed: JSON has none, so that they stay texts.

/// Whether go-yaml would read a time here (and so leave it a string).
pub fn is_timestamp(text: &str) -> bool {
    let mut reader = Reader(text.as_bytes());
    // The usual text is no time: its fifth character tells.
    if text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    reader.date().is_some() && (reader.0.is_empty() || reader.time().is_some())
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// `2006-1-2`.
    fn date(&mut self) -> Option<()> {
        let year = self.number(4, 4)?;
        self.byte(b"-")?;
        let month = self.number(1, 2)?;
        self.byte(b"-")?;
        let day = self.number(1, 2)?;
        let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
        let length = match month {
            2 if leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        (1..=length).contains(&day).then_some(())
    }

    /// `T15:4:5.999999999Z07:00`, or the same after spaces and without a zone.
    fn time(&mut self) -> Option<()> {
        let zoned = self.byte(b"Tt").is_some();
        if !zoned {
            self.byte(b" ")?;
            while self.byte(b" ").is_some() {}
        }
        for (index, most) in [23, 59, 59].into_iter().enumerate() {
            if index > 0 {
                self.byte(b":")?;
            }
            self.number(1, 2).filter(|number| *number <= most)?;
        }
        if matches!(self.0, [b'.' | b',', digit, ..] if digit.is_ascii_digit()) {
            let digits = self.0[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            self.0 = &self.0[1 + digits..];
        }
        if zoned && self.byte(b"Z").is_none() {
            self.byte(b"+-")?;
            self.number(2, 2)?;
            self.byte(b":")?;
            self.number(2, 2)?;
        }
        self.0.is_empty().then_some(())
    }

    /// One of these bytes.
    fn byte(&mut self, one_of: &[u8]) -> Option<()> {
        let (first, rest) = self.0.split_first()?;
        one_of.contains(first).then(|| self.0 = rest)
    }

    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let digits = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if digits < least {
            return None;
        }
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        Some(number.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }
}
