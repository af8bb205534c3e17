//! The dynamic values templates work on, with the distinctions Go's reflection makes visible to a template.

use std::borrow::{Borrow, Cow};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::files::Files;
use crate::semver::Version;
use crate::time::GoTime;

/// A Go string: bytes that usually, but not always, are UTF-8.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Str(Rc<[u8]>);

impl Str {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with U+FFFD in place of invalid bytes, as ranging over a Go string would see it.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        crate::strconv::lossy(&self.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Str(text.as_bytes().into())
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Str(text.into_bytes().into())
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        Str(bytes.into())
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Str(bytes.into())
    }
}

impl std::fmt::Debug for Str {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

/// What a slice holds, as Go's type system names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Any,
    Strings,
    Ints,
    Lists,
    VersionSet,
    Dependencies,
    Maintainers,
}

impl ListKind {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            ListKind::Any => "[]interface {}",
            ListKind::Strings => "[]string",
            ListKind::Ints => "[]int",
            ListKind::Lists => "[][]interface {}",
            ListKind::VersionSet => "chartutil.VersionSet",
            ListKind::Dependencies => "[]*chart.Dependency",
            ListKind::Maintainers => "[]*chart.Maintainer",
        }
    }

    /// Whether an element is an `interface {}`, so that a nil one still is a valid value.
    pub(crate) fn holds_interfaces(self) -> bool {
        self == ListKind::Any
    }
}

/// A Go slice. Templates can never change one in place, so it is shared.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) kind: ListKind,
    /// A nil slice prints as `null` in JSON, an empty one as `[]`.
    pub(crate) nil: bool,
    pub(crate) items: Vec<Value>,
}

/// What a map holds, as Go's type system names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapKind {
    Any,
    Values,
    Strings,
}

impl MapKind {
    pub(crate) fn type_name(self) -> &'static str {
        match self {
            MapKind::Any => "map[string]interface {}",
            MapKind::Values => "chartutil.Values",
            MapKind::Strings => "map[string]string",
        }
    }
}

/// A Go map with string keys: a reference that `set` and `merge` change in place for every holder.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) kind: MapKind,
    pub(crate) nil: Cell<bool>,
    pub(crate) entries: RefCell<BTreeMap<Str, Value>>,
}

impl Map {
    pub(crate) fn get(&self, key: &[u8]) -> Option<Value> {
        self.entries.borrow().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: Str, value: Value) {
        self.entries.borrow_mut().insert(key, value);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }
}

thread_local! {
    static DROP_DEPTH: Cell<u32> = const { Cell::new(0) };
    static DROP_LATER: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

/// Drops children without a stack frame per level, however deep a template nested them.
fn drop_children(children: impl Iterator<Item = Value>) {
    let depth = DROP_DEPTH.with(Cell::get);
    if depth > 64 {
        DROP_LATER.with(|later| later.borrow_mut().extend(children));
        return;
    }
    DROP_DEPTH.with(|cell| cell.set(depth + 1));
    children.for_each(drop);
    if depth == 0 {
        while let Some(value) = DROP_LATER.with(|later| later.borrow_mut().pop()) {
            drop(value);
        }
    }
    DROP_DEPTH.with(|cell| cell.set(depth));
}

impl Drop for List {
    fn drop(&mut self) {
        if self.items.iter().any(Value::is_container) {
            drop_children(std::mem::take(&mut self.items).into_iter());
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let entries = std::mem::take(self.entries.get_mut());
        if entries.values().any(Value::is_container) {
            drop_children(entries.into_values());
        }
    }
}

/// One field of a [`Struct`].
#[derive(Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    /// The name in JSON and YAML.
    pub(crate) json: &'static str,
    pub(crate) omit_empty: bool,
    pub(crate) value: Value,
}

/// A Go struct (or a pointer to one) that templates can read.
#[derive(Debug)]
pub(crate) struct Struct {
    pub(crate) type_name: &'static str,
    pub(crate) pointer: bool,
    /// Reached through a pointer, so that methods with pointer receivers can be called.
    pub(crate) addressable: bool,
    pub(crate) fields: Vec<Field>,
}

impl Struct {
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        self.fields.iter().find(|f| f.name == name).map(|f| &f.value)
    }
}

/// A value as a template sees it.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// No value at all: Go's zero `reflect.Value`, and what a nil interface becomes once it is an argument.
    Nil,
    /// A nil that still is an `interface {}`: what an absent map key or a null element evaluates to.
    NilInterface,
    Bool(bool),
    Int(i64),
    Int64(i64),
    Uint8(u8),
    Uint64(u64),
    Float(f64),
    /// `time.Month` and `time.Weekday`: numbers that print as words.
    Named(&'static str, i64, &'static str),
    /// `time.Duration` in nanoseconds.
    Duration(i64),
    Str(Str),
    Bytes(Rc<[u8]>),
    List(Rc<List>),
    Map(Rc<Map>),
    Struct(Rc<Struct>),
    Files(Rc<Files>),
    Time(Rc<GoTime>),
    Version(Rc<Version>),
}

impl Value {
    pub(crate) fn string(text: impl Into<Str>) -> Value {
        Value::Str(text.into())
    }

    pub(crate) fn list(items: Vec<Value>) -> Value {
        Value::list_of(ListKind::Any, items)
    }

    pub(crate) fn list_of(kind: ListKind, items: Vec<Value>) -> Value {
        Value::List(Rc::new(List { kind, nil: false, items }))
    }

    pub(crate) fn nil_list(kind: ListKind) -> Value {
        Value::List(Rc::new(List { kind, nil: true, items: Vec::new() }))
    }

    pub(crate) fn strings<S: Into<Str>>(items: impl IntoIterator<Item = S>) -> Value {
        Value::list_of(ListKind::Strings, items.into_iter().map(Value::string).collect())
    }

    pub(crate) fn map(entries: BTreeMap<Str, Value>) -> Value {
        Value::map_of(MapKind::Any, entries)
    }

    pub(crate) fn map_of(kind: MapKind, entries: BTreeMap<Str, Value>) -> Value {
        Value::Map(Rc::new(Map { kind, nil: Cell::new(false), entries: RefCell::new(entries) }))
    }

    pub(crate) fn nil_map(kind: MapKind) -> Value {
        Value::Map(Rc::new(Map { kind, nil: Cell::new(true), entries: RefCell::default() }))
    }

    fn is_container(&self) -> bool {
        matches!(self, Value::List(_) | Value::Map(_))
    }

    pub(crate) fn is_nil(&self) -> bool {
        matches!(self, Value::Nil | Value::NilInterface)
    }

    /// Forgets that a nil was an interface, as passing it as an argument does.
    pub(crate) fn into_argument(self) -> Value {
        match self {
            Value::NilInterface => Value::Nil,
            other => other,
        }
    }

    /// Truth as `if`, `and`, `or` and `not` define it.
    pub(crate) fn truth(&self) -> bool {
        match self {
            Value::Struct(_) | Value::Time(_) | Value::Version(_) => true,
            other => !other.is_empty(),
        }
    }

    /// Sprig's notion of empty: the zero value of its type.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Value::Nil | Value::NilInterface => true,
            Value::Bool(b) => !b,
            Value::Int(i) | Value::Int64(i) | Value::Named(_, i, _) | Value::Duration(i) => *i == 0,
            Value::Uint8(u) => *u == 0,
            Value::Uint64(u) => *u == 0,
            Value::Float(f) => *f == 0.0,
            Value::Str(s) => s.is_empty(),
            Value::Bytes(b) => b.is_empty(),
            Value::List(l) => l.items.is_empty(),
            Value::Map(m) => m.len() == 0,
            Value::Files(f) => f.is_empty(),
            Value::Struct(_) | Value::Time(_) | Value::Version(_) => false,
        }
    }

    /// The type as Go's `%T` prints it.
    pub(crate) fn type_name(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Value::Nil => "<nil>",
            Value::NilInterface => "interface {}",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Int64(_) => "int64",
            Value::Uint8(_) => "uint8",
            Value::Uint64(_) => "uint64",
            Value::Float(_) => "float64",
            Value::Named(name, ..) => name,
            Value::Duration(_) => "time.Duration",
            Value::Str(_) => "string",
            Value::Bytes(_) => "[]uint8",
            Value::List(l) => l.kind.type_name(),
            Value::Map(m) => m.kind.type_name(),
            Value::Struct(s) if s.pointer => return Cow::Owned(format!("*{}", s.type_name)),
            Value::Struct(s) => s.type_name,
            Value::Files(_) => "engine.files",
            Value::Time(_) => "time.Time",
            Value::Version(v) if v.by_value => "semver.Version",
            Value::Version(_) => "*semver.Version",
        })
    }

    /// The kind as Go's `reflect.Kind` prints it.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Value::Nil | Value::NilInterface => "invalid",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Named(..) => "int",
            Value::Int64(_) | Value::Duration(_) => "int64",
            Value::Uint8(_) => "uint8",
            Value::Uint64(_) => "uint64",
            Value::Float(_) => "float64",
            Value::Str(_) => "string",
            Value::Bytes(_) | Value::List(_) => "slice",
            Value::Map(_) | Value::Files(_) => "map",
            Value::Struct(s) if s.pointer => "ptr",
            Value::Version(v) if v.by_value => "struct",
            Value::Version(_) => "ptr",
            Value::Struct(_) | Value::Time(_) => "struct",
        }
    }

    /// The elements, when this is a slice.
    pub(crate) fn elements(&self) -> Option<Cow<'_, [Value]>> {
        match self {
            Value::List(l) => Some(Cow::Borrowed(&l.items)),
            Value::Bytes(b) => Some(Cow::Owned(b.iter().map(|b| Value::Uint8(*b)).collect())),
            _ => None,
        }
    }

    /// Go's `reflect.DeepEqual`: types count, not only contents.
    pub(crate) fn deep_equal(&self, other: &Value) -> bool {
        deep_equal(self, other, 0)
    }
}

/// How deep comparing, copying and printing follow nested containers: far beyond real charts, far below the stack.
pub(crate) const MAX_NESTING: usize = 1000;

fn deep_equal(a: &Value, b: &Value, depth: usize) -> bool {
    if depth > MAX_NESTING {
        return true;
    }
    match (a, b) {
        (Value::Nil | Value::NilInterface, Value::Nil | Value::NilInterface) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Uint8(a), Value::Uint8(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Named(a, n, _), Value::Named(b, m, _)) => a == b && n == m,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Str(a), Value::Str(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            Rc::ptr_eq(a, b)
                || a.kind == b.kind
                    && a.nil == b.nil
                    && a.items.len() == b.items.len()
                    && a.items.iter().zip(&b.items).all(|(a, b)| deep_equal(a, b, depth + 1))
        }
        (Value::Map(a), Value::Map(b)) => {
            if Rc::ptr_eq(a, b) {
                return true;
            }
            let (left, right) = (a.entries.borrow(), b.entries.borrow());
            a.kind == b.kind
                && a.nil.get() == b.nil.get()
                && left.len() == right.len()
                && left
                    .iter()
                    .zip(right.iter())
                    .all(|((ka, va), (kb, vb))| ka == kb && deep_equal(va, vb, depth + 1))
        }
        (Value::Struct(a), Value::Struct(b)) => {
            a.type_name == b.type_name
                && a.pointer == b.pointer
                && a.fields
                    .iter()
                    .zip(&b.fields)
                    .all(|(a, b)| a.name == b.name && deep_equal(&a.value, &b.value, depth + 1))
        }
        (Value::Files(a), Value::Files(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_a_very_deep_value_needs_no_stack() {
        let mut value = Value::Nil;
        for _ in 0..500_000 {
            value = Value::list(vec![value]);
        }
        drop(value);
    }

    #[test]
    fn equality_distinguishes_types_and_nil_slices() {
        assert!(!Value::Int(1).deep_equal(&Value::Int64(1)));
        assert!(!Value::nil_list(ListKind::Any).deep_equal(&Value::list(vec![])));
        assert!(Value::strings(["a"]).deep_equal(&Value::strings(["a"])));
        assert!(!Value::strings(["a"]).deep_equal(&Value::list(vec![Value::string("a")])));
    }
}
