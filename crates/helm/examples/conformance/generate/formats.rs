//! Calls of `printf` with every flag, width, precision, argument index and verb.

use super::{Generator, Kind};

impl Generator {
    /// A call with up to three verbs and, mostly, as many arguments.
    pub(super) fn printf(&mut self, depth: usize) -> String {
        let verbs = 1 + self.dice.roll(3);
        let mut format = String::new();
        let mut arguments = Vec::new();
        for _ in 0..verbs {
            format.push_str(self.pick(&["", "-", " ", "é", "|", "a=", "%%"]));
            let (verb, kind) = self.verb();
            format.push('%');
            for _ in 0..self.dice.roll(3) {
                format.push_str(self.pick(&["", "", "+", "-", "#", "0", " "]));
            }
            if self.dice.chance(5) {
                let position = 1 + self.dice.roll(4);
                format.push_str(&format!("[{position}]"));
            }
            if self.dice.chance(30) {
                if self.dice.chance(12) {
                    format.push('*');
                    arguments.push(self.pick(&["5", "-6", "0", "\"x\"", "(int64 4)"]).to_owned());
                } else {
                    format.push_str(self.pick(&["1", "3", "8", "12", "05"]));
                }
            }
            if self.dice.chance(25) {
                format.push_str(self.pick(&[".", ".0", ".1", ".2", ".3", ".5", ".10"]));
            }
            format.push(verb);
            let kind = if self.dice.chance(12) { Kind::Any } else { kind };
            arguments.push(self.expression(kind, depth));
        }
        format.push_str(self.pick(&["", "", "", "!", "%", "%z", "%!"]));
        if self.dice.chance(6) {
            arguments.pop();
        }
        if self.dice.chance(6) {
            arguments.push(self.expression(Kind::Any, depth));
        }
        let mut out = format!("printf \"{format}\"");
        for argument in arguments {
            out.push(' ');
            out.push_str(&argument);
        }
        out
    }

    fn verb(&mut self) -> (char, Kind) {
        let kinds: &[(char, Kind)] = &[
            ('v', Kind::Any),
            ('v', Kind::List),
            ('v', Kind::Map),
            ('v', Kind::Float),
            ('s', Kind::Text),
            ('s', Kind::List),
            ('s', Kind::Any),
            ('q', Kind::Text),
            ('q', Kind::Int),
            ('q', Kind::List),
            ('d', Kind::Int),
            ('d', Kind::Float),
            ('d', Kind::List),
            ('x', Kind::Text),
            ('x', Kind::Int),
            ('X', Kind::Text),
            ('X', Kind::Int),
            ('x', Kind::Float),
            ('t', Kind::Bool),
            ('T', Kind::Any),
            ('T', Kind::Map),
            ('c', Kind::Int),
            ('U', Kind::Int),
            ('o', Kind::Int),
            ('O', Kind::Int),
            ('b', Kind::Int),
            ('b', Kind::Float),
            ('e', Kind::Float),
            ('E', Kind::Float),
            ('f', Kind::Float),
            ('F', Kind::Float),
            ('g', Kind::Float),
            ('G', Kind::Float),
            ('s', Kind::Version),
            ('v', Kind::Bool),
            ('w', Kind::Text),
            ('k', Kind::Text),
        ];
        kinds[self.dice.roll(kinds.len())]
    }
}
