//! What changes in a machine config, document by document.

use daedal_planner::{DocumentChange, FieldChange};

use crate::Page;
use crate::layout::{Style, wrap};

impl<'p> Page<'p> {
    /// The changes of a node's config; where they are those of a node before, that is said instead.
    pub(super) fn config_lines(&mut self, changes: &'p [DocumentChange], node: &'p str) {
        if let Some((_, first)) = self.configs.iter().find(|(told, _)| *told == changes) {
            let line = format!("        the same changes as {first}");
            self.line(line);
            return;
        }
        self.configs.push((changes, node));
        for document in changes {
            self.line(format!("        {}", document.document));
            for field in &document.fields {
                self.field_line(field);
            }
        }
    }

    fn field_line(&mut self, field: &FieldChange) {
        let FieldChange { path, from, to } = field;
        let named = |value: &str| if path.is_empty() { value.to_owned() } else { format!("{path}: {value}") };
        let (sign, style, text) = match (from, to) {
            (Some(from), Some(to)) => ("~", Style::Yellow, named(&format!("{from} → {to}"))),
            (None, Some(to)) => ("+", Style::Green, named(to)),
            (Some(from), None) => ("-", Style::Red, named(from)),
            (None, None) => ("~", Style::Yellow, path.clone()),
        };
        let sign = self.paint.styled(sign, style);
        for (at, line) in wrap(&text, self.width - 14).into_iter().enumerate() {
            self.line(if at == 0 {
                format!("          {sign} {line}")
            } else {
                format!("              {line}")
            });
        }
    }
}
