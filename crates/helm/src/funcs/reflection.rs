//! Sprig's questions about types.

use super::{Entry, Type, fixed};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Str};
    vec![
        fixed("typeOf", &[Any], |_, args| Ok(Value::string(args[0].type_name().as_ref()))),
        fixed("typeIs", &[Str, Any], |_, args| Ok(Value::Bool(super::text(args, 0) == args[1].type_name()))),
        fixed("typeIsLike", &[Str, Any], |_, args| {
            let (wanted, found) = (super::text(args, 0), args[1].type_name());
            Ok(Value::Bool(wanted == found || format!("*{wanted}") == found))
        }),
        fixed("kindOf", &[Any], |_, args| Ok(Value::string(args[0].kind_name()))),
        fixed("kindIs", &[Str, Any], |_, args| Ok(Value::Bool(super::text(args, 0) == args[1].kind_name()))),
        fixed("deepEqual", &[Any, Any], |_, args| Ok(Value::Bool(args[0].deep_equal(&args[1])))),
    ]
}
