//! What is wrong with an inventory, said so that a person can fix it: sentence, place, suggestion.

use std::fmt;
use std::sync::Arc;

use miette::{LabeledSpan, NamedSource, SourceCode};
use serde::Serialize;

use crate::Source;
use crate::visible::{visible, visible_in_place};
use crate::yaml::Span;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The inventory cannot be used.
    Error,
    /// It can be used, but something about it deserves a second look.
    Warning,
    /// It can be used, and could be safer.
    Note,
}

/// A place in one of the documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Name of the source, as handed in.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// First byte in the source.
    pub offset: usize,
    /// Number of bytes, within one line.
    pub length: usize,
}

/// The code of what is said of a secret that is not where the inventory says.
pub(crate) const MISSING_SECRET: &str = "missing-secret";

/// Another place that a diagnostic speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Related {
    /// Where.
    pub place: Place,
    /// What is there.
    pub note: String,
}

/// One finding. Renders through [`miette`], with the source line; or through `Display`, on one line; or as JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Stable short name of the kind of finding, such as `unknown-key`.
    pub code: &'static str,
    /// A full sentence.
    pub message: String,
    /// Where; absent when there is nothing to point at.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
    /// Other places that matter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related: Vec<Related>,
    #[serde(skip)]
    source: Option<Arc<NamedSource<String>>>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Diagnostic {}

impl miette::Diagnostic for Diagnostic {
    fn code<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(self.code))
    }

    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
            Severity::Note => miette::Severity::Advice,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.source.as_deref().map(|s| s as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let place = self.place.as_ref()?;
        let main = LabeledSpan::new_primary_with_span(None, (place.offset, place.length));
        let others = self
            .related
            .iter()
            .filter(|r| r.place.file == place.file)
            .map(|r| LabeledSpan::new(Some(r.note.clone()), r.place.offset, r.place.length));
        Some(Box::new(std::iter::once(main).chain(others)))
    }
}

/// Everything found in an inventory that cannot be used, in the order of the documents. There is at least one error.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(list: Vec<Diagnostic>) -> Self {
        Self { list }
    }

    /// The findings.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Whether the inventory is in order but for secrets that are not where it says.
    pub fn only_lacks_secrets(&self) -> bool {
        let mut errors = self.list.iter().filter(|d| d.severity == Severity::Error).peekable();
        errors.peek().is_some() && errors.all(|d| d.code == MISSING_SECRET)
    }

    /// How many of them are errors.
    pub fn errors(&self) -> usize {
        self.list.iter().filter(|d| d.severity == Severity::Error).count()
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors() {
            1 => f.write_str("The inventory has one error."),
            n => write!(f, "The inventory has {n} errors."),
        }
    }
}

impl std::error::Error for Diagnostics {}

/// More than this nobody reads at once, and each takes a pass over its source to draw.
const SHOWN: usize = 50;

impl miette::Diagnostic for Diagnostics {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let more = self.list.len().checked_sub(SHOWN).filter(|n| *n > 0)?;
        Some(Box::new(format!("The first {SHOWN} findings are shown; {more} more follow them.")))
    }

    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn miette::Diagnostic> + 'a>> {
        Some(Box::new(self.list.iter().take(SHOWN).map(|d| d as &dyn miette::Diagnostic)))
    }
}

/// A finding before its place is worked out.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) code: &'static str,
    pub(crate) message: String,
    pub(crate) span: Option<Span>,
    pub(crate) help: Option<String>,
    pub(crate) related: Vec<(Span, String)>,
    /// Nothing of the text it points into is shown.
    pub(crate) is_unquoted: bool,
}

impl Finding {
    pub(crate) fn error(code: &'static str, span: Span, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            code,
            message: message.into(),
            span: Some(span),
            help: None,
            related: Vec::new(),
            is_unquoted: false,
        }
    }

    /// Without the lines around it, which may be secrets.
    pub(crate) fn unquoted(mut self) -> Self {
        self.is_unquoted = true;
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn related(mut self, span: Span, note: impl Into<String>) -> Self {
        self.related.push((span, note.into()));
        self
    }
}

/// Turns findings into diagnostics, in document order. Bytes of `masked` are shown as stars: they may be secrets.
pub(crate) fn finish(mut findings: Vec<Finding>, sources: &[Source], masked: &[Span]) -> Vec<Diagnostic> {
    if findings.is_empty() {
        return Vec::new();
    }
    findings.sort_by_key(|f| f.span.map_or((0, 0), |s| (s.source, s.start)));
    let texts: Vec<Text<'_>> = sources.iter().enumerate().map(|(i, s)| Text::new(s, i, masked)).collect();
    let mut list: Vec<Diagnostic> = findings
        .into_iter()
        .map(|f| Diagnostic {
            severity: f.severity,
            code: f.code,
            message: visible(&f.message).into_owned(),
            place: f.span.and_then(|s| texts.get(s.source)?.place(s)),
            help: f.help.map(|help| visible(&help).into_owned()),
            related: f
                .related
                .into_iter()
                .filter_map(|(s, note)| Some(Related { place: texts.get(s.source)?.place(s)?, note }))
                .collect(),
            source: f
                .span
                .filter(|_| !f.is_unquoted)
                .and_then(|s| texts.get(s.source))
                .map(|t| t.source.clone()),
        })
        .collect();
    list.dedup_by(|a, b| a.message == b.message && a.place == b.place);
    list
}

struct Text<'a> {
    /// As it was before anything was masked.
    original: &'a str,
    source: Arc<NamedSource<String>>,
    line_starts: Vec<usize>,
}

impl<'a> Text<'a> {
    fn new(source: &'a Source, index: usize, masked: &[Span]) -> Self {
        let text = visible_in_place(mask(&source.text, masked.iter().filter(|s| s.source == index)));
        let line_starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1))
            .collect();
        let shown = Arc::new(NamedSource::new(&source.name, text).with_language("yaml"));
        Self { original: &source.text, source: shown, line_starts }
    }

    /// Where a span begins, cut to its first line.
    fn place(&self, span: Span) -> Option<Place> {
        let text = self.source.inner();
        let line = self.line_starts.partition_point(|s| *s <= span.start);
        let line_start = *self.line_starts.get(line.checked_sub(1)?)?;
        // A letter of several bytes is several stars.
        let before = self.original.get(line_start..span.start.min(text.len()))?;
        let shown = text.get(span.start.min(text.len())..span.end.min(text.len()))?;
        let first_line = shown.lines().next().unwrap_or("").trim_end();
        Some(Place {
            file: self.source.name().to_owned(),
            line,
            column: before.chars().count() + 1,
            offset: span.start.min(text.len()),
            length: first_line.len(),
        })
    }
}

fn mask<'a>(text: &str, spans: impl Iterator<Item = &'a Span>) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut spans: Vec<&Span> = spans.collect();
    spans.sort();
    let mut rest = 0;
    for span in spans {
        let (start, end) = (span.start.max(rest), span.end.min(text.len()));
        let (Some(before), Some(hidden)) = (text.get(rest..start), text.get(start..end)) else { continue };
        masked.push_str(before);
        // Same number of bytes and lines, so that every span still fits.
        masked.extend(hidden.bytes().map(|b| if b.is_ascii_whitespace() { char::from(b) } else { '*' }));
        rest = end;
    }
    masked.push_str(text.get(rest..).unwrap_or(""));
    masked
}
