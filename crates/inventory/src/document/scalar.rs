//! Values that people write as a number or as text, kept as written.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, Visitor};

macro_rules! written {
    ($(#[$doc:meta])* $name:ident, $example:expr, $pattern:literal, $description:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name(pub(crate) String);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Written).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({
                    "type": ["string", "integer"],
                    "description": $description,
                    "pattern": $pattern,
                    "examples": $example,
                })
            }
        }
    };
}

written!(
    /// An amount of memory or disk.
    Size,
    ["8GiB", "512MiB", "1TiB"],
    r"^\s*[0-9]+(\.[0-9]+)?\s*[KMGTPkmgtp][iI]?[bB]?\s*$",
    "An amount with its unit: MiB, GiB or TiB."
);
written!(
    /// The first VMID of a pool, or a range of them.
    Vmid,
    ["300", "2000-2999"],
    r"^[0-9]{3,9}( ?- ?[0-9]{3,9})?$",
    "A VMID (100 to 999999999), or a range of them such as 2000-2999."
);
written!(
    /// An address, or its distance from the start of the network.
    Address,
    ["10.0.0.11", "+10"],
    r"^(\+[0-9]+|[0-9a-fA-F:.]+)$",
    "An address, or its distance from the start of the network such as +10."
);

struct Written;

impl Visitor<'_> for Written {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a whole number")
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<String, E> {
        Ok(v.to_owned())
    }

    fn visit_u64<E: de::Error>(self, v: u64) -> Result<String, E> {
        Ok(v.to_string())
    }

    fn visit_i64<E: de::Error>(self, v: i64) -> Result<String, E> {
        Ok(v.to_string())
    }
}
