//! Sprig's semantic versions.

use std::rc::Rc;

use super::{Entry, Type, fixed, text};
use crate::semver::{Constraint, Version};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::Str;
    vec![
        fixed("semver", &[Str], |_, args| Ok(Value::Version(Rc::new(Version::parse(&text(args, 0))?)))),
        fixed("semverCompare", &[Str, Str], |_, args| {
            let constraint = Constraint::parse(&text(args, 0))?;
            let version = Version::parse(&text(args, 1))?;
            Ok(Value::Bool(constraint.matches(&version)))
        }),
    ]
}
