//! Faults of what is changed of the specification that containers are run with.

use std::sync::OnceLock;

use yaml_serde::Value;

use super::Findings;
use crate::config::{
    contract::Release,
    document::MachineConfig,
    schema::{self, Field, Shape},
};

impl MachineConfig {
    pub(super) fn lint_runtime_spec(&self, release: Release, found: &mut Findings) {
        let main = "machine.baseRuntimeSpecOverrides";
        let own = "CRIBaseRuntimeSpecConfig";
        for (place, overrides) in [(main, self.get(main)), (own, self.in_document(own, "overrides"))] {
            if let (Some(overrides), Some(field)) = (overrides, shape()) {
                look(overrides, field, release.minor(), "", place, found);
            }
        }
    }
}

fn shape() -> Option<&'static Field> {
    static SHAPE: OnceLock<Option<Field>> = OnceLock::new();
    SHAPE.get_or_init(|| schema::read(include_str!("runtime_spec.txt")).remove("spec")).as_ref()
}

/// Keys that are not known are left alone, as Talos does; letters may be small or large.
fn look(value: &Value, field: &Field, minor: u32, path: &str, place: &str, found: &mut Findings) {
    let wanted = match (field.shape, value) {
        (_, Value::Null) => None,
        (Shape::Object | Shape::Map, Value::Mapping(fields)) => {
            for (key, value) in fields {
                let key = key.as_str().unwrap_or_default();
                let known = field.children().find(|(known, _)| known.eq_ignore_ascii_case(key));
                let below = field.child(key).or_else(|| known.map(|(_, below)| below));
                if let Some(below) = below.filter(|below| below.since <= minor) {
                    look(value, below, minor, &format!("{path}.{key}"), place, found);
                }
            }
            None
        }
        (Shape::List, Value::Sequence(items)) => {
            for (item, below) in items.iter().filter_map(|item| Some((item, field.child("[]")?))) {
                look(item, below, minor, &format!("{path}[]"), place, found);
            }
            None
        }
        (Shape::Object | Shape::Map, _) => Some("hold keys"),
        (Shape::List, _) => Some("be a list"),
        (Shape::Text, value) => (!value.is_string()).then_some("be a text"),
        (Shape::Bool, value) => (!value.is_bool()).then_some("be true or false"),
        (_, value) => {
            (!field.takes_number(value)).then_some("be a whole number that is not too large or small")
        }
    };
    if let Some(wanted) = wanted {
        found.error(place, &format!("`{}` must {wanted}", path.trim_start_matches('.')));
    }
}
