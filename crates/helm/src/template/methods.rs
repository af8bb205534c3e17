//! Methods templates can call on Helm's objects, times and versions.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use base64::Engine as _;

use super::exec::{Exec, FuncResult};
use crate::funcs::{Signature, Type, helm_yaml};
use crate::semver::Version;
use crate::time::{DAYS, GoTime, MONTHS};
use crate::value::{ListKind, MapKind, Str, Value};

/// A method bound to nothing yet.
pub(crate) struct Method {
    pub(crate) signature: Signature,
    pub(crate) run: fn(&Value, &mut Exec<'_>, &[Value]) -> FuncResult,
}

type Run = fn(&Value, &mut Exec<'_>, &[Value]) -> FuncResult;

const fn method(params: &'static [Type], run: Run) -> Option<Method> {
    Some(Method { signature: Signature { params, variadic: None }, run })
}

/// The method of a name on a value, if it has one.
pub(crate) fn find(receiver: &Value, name: &str) -> Option<Method> {
    match receiver {
        Value::Files(_) => files_method(name),
        Value::Time(_) => time_method(name),
        Value::Version(v) if v.by_value && POINTER_METHODS.contains(&name) => None,
        Value::Version(_) => version_method(name),
        Value::List(list) if list.kind == ListKind::VersionSet && name == "Has" => {
            method(&[Type::Str], |receiver, _, args| {
                let found = receiver.elements().unwrap_or_default().iter().any(|v| v.deep_equal(&args[0]));
                Ok(Value::Bool(found))
            })
        }
        Value::Struct(s) if s.type_name == "chartutil.KubeVersion" && s.addressable => {
            if !matches!(name, "String" | "GitVersion") {
                return None;
            }
            method(&[], |receiver, _, _| {
                Ok(Value::string(addressable_stringer(receiver).unwrap_or_default()))
            })
        }
        Value::Duration(_) | Value::Named(..) => scalar_method(name),
        Value::Map(map) if map.kind == MapKind::Values => values_method(name),
        _ => None,
    }
}

/// What a struct with a `String` method on its pointer prints as.
pub(crate) fn addressable_stringer(value: &Value) -> Option<String> {
    match value {
        Value::Struct(s) if s.type_name == "chartutil.KubeVersion" && s.addressable => {
            match s.field("Version") {
                Some(Value::Str(version)) => Some(version.text().into_owned()),
                _ => None,
            }
        }
        _ => None,
    }
}

fn text(args: &[Value], index: usize) -> String {
    match args.get(index) {
        Some(Value::Str(s)) => s.text().into_owned(),
        _ => String::new(),
    }
}

/// What `name` selects of the files, nothing when the receiver is not files.
fn file<'v>(receiver: &'v Value, args: &[Value]) -> Option<&'v [u8]> {
    match receiver {
        Value::Files(files) => files.get(&text(args, 0)),
        _ => None,
    }
}

fn files_method(name: &str) -> Option<Method> {
    match name {
        "Get" => method(&[Type::Str], |receiver, _, args| {
            Ok(Value::string(file(receiver, args).unwrap_or_default()))
        }),
        "GetBytes" => method(&[Type::Str], |receiver, _, args| {
            Ok(Value::Bytes(file(receiver, args).unwrap_or_default().into()))
        }),
        "Glob" => method(&[Type::Str], |receiver, _, args| {
            Ok(match receiver {
                Value::Files(files) => Value::Files(Rc::new(files.glob(&text(args, 0)))),
                _ => Value::Nil,
            })
        }),
        "AsConfig" => method(&[], |receiver, _, _| Ok(by_base_name(receiver, |data| Value::string(data)))),
        "AsSecrets" => method(&[], |receiver, _, _| {
            Ok(by_base_name(receiver, |data| {
                Value::string(base64::engine::general_purpose::STANDARD.encode(data))
            }))
        }),
        "Lines" => method(&[Type::Str], |receiver, _, args| {
            let Some(data) = file(receiver, args) else { return Ok(Value::strings(Vec::<Str>::new())) };
            if data.is_empty() {
                return Err("runtime error: index out of range [-1]".into());
            }
            let body = data.strip_suffix(b"\n").unwrap_or(data);
            Ok(Value::strings(body.split(|b| *b == b'\n').map(Str::from)))
        }),
        _ => None,
    }
}

fn by_base_name(receiver: &Value, convert: fn(&[u8]) -> Value) -> Value {
    let mut entries: BTreeMap<Str, Value> = BTreeMap::new();
    if let Value::Files(files) = receiver {
        entries.extend(
            files.iter().map(|(name, data)| (Str::from(crate::funcs::path_base(name)), convert(data))),
        );
    }
    Value::string(helm_yaml(&Value::map_of(MapKind::Strings, entries)))
}

fn values_method(name: &str) -> Option<Method> {
    match name {
        "YAML" => method(&[], |receiver, _, _| {
            let mut text = helm_yaml(receiver);
            text.push(b'\n');
            Ok(Value::string(text))
        }),
        "AsMap" => method(&[], |receiver, _, _| {
            let Value::Map(map) = receiver else { return Ok(Value::Nil) };
            // Named and unnamed map types share their entries in Go; a copy of the top level is as close as it gets.
            Ok(Value::map(map.entries.borrow().clone()))
        }),
        "Table" | "PathValue" => method(&[Type::Str], |receiver, _, args| {
            let mut current = receiver.clone();
            let path = text(args, 0);
            for part in path.split('.') {
                let next = match &current {
                    Value::Map(map) => map.get(part.as_bytes()),
                    _ => None,
                };
                match next {
                    Some(found) => current = found,
                    None => return Err(format!("\"{part}\" is not a table").into()),
                }
            }
            Ok(current)
        }),
        _ => None,
    }
}

fn scalar_method(name: &str) -> Option<Method> {
    match name {
        "String" => method(&[], |receiver, _, _| {
            Ok(Value::string(crate::printf::stringer(receiver).unwrap_or_default()))
        }),
        "Seconds" => method(&[], |receiver, _, _| Ok(Value::Float(duration(receiver) as f64 / 1e9))),
        "Minutes" => method(&[], |receiver, _, _| Ok(Value::Float(duration(receiver) as f64 / 6e10))),
        "Hours" => method(&[], |receiver, _, _| Ok(Value::Float(duration(receiver) as f64 / 3.6e12))),
        "Milliseconds" => method(&[], |receiver, _, _| Ok(Value::Int64(duration(receiver) / 1_000_000))),
        "Nanoseconds" => method(&[], |receiver, _, _| Ok(Value::Int64(duration(receiver)))),
        _ => None,
    }
}

fn duration(value: &Value) -> i64 {
    match value {
        Value::Duration(d) => *d,
        _ => 0,
    }
}

fn time(receiver: &Value) -> GoTime {
    match receiver {
        Value::Time(t) => (**t).clone(),
        _ => GoTime::zero(),
    }
}

fn time_argument(args: &[Value]) -> GoTime {
    args.first().map_or_else(GoTime::zero, time)
}

fn time_value(time: GoTime) -> Value {
    Value::Time(Rc::new(time))
}

fn time_method(name: &str) -> Option<Method> {
    match name {
        "Format" => method(&[Type::Str], |r, _, args| Ok(Value::string(time(r).format(&text(args, 0))))),
        "String" => method(&[], |r, _, _| Ok(Value::string(time(r).to_string()))),
        "Unix" => method(&[], |r, _, _| Ok(Value::Int64(time(r).seconds))),
        "UnixMilli" => method(&[], |r, _, _| {
            let t = time(r);
            Ok(Value::Int64(t.seconds.wrapping_mul(1000).wrapping_add(i64::from(t.nanos / 1_000_000))))
        }),
        "UnixNano" => method(&[], |r, _, _| {
            let t = time(r);
            Ok(Value::Int64(t.seconds.wrapping_mul(1_000_000_000).wrapping_add(i64::from(t.nanos))))
        }),
        "Year" => method(&[], |r, _, _| Ok(Value::Int(time(r).civil().year))),
        "Month" => method(&[], |r, _, _| {
            let month = time(r).civil().month;
            Ok(Value::Named("time.Month", i64::from(month), MONTHS[(month as usize + 11) % 12]))
        }),
        "Weekday" => method(&[], |r, _, _| {
            let day = time(r).civil().weekday;
            Ok(Value::Named("time.Weekday", i64::try_from(day).unwrap_or(0), DAYS[day % 7]))
        }),
        "Day" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).civil().day)))),
        "Hour" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).civil().hour)))),
        "Minute" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).civil().minute)))),
        "Second" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).civil().second)))),
        "Nanosecond" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).nanos)))),
        "YearDay" => method(&[], |r, _, _| Ok(Value::Int(i64::from(time(r).civil().year_day)))),
        "UTC" | "Local" => method(&[], |r, _, _| Ok(time_value(time(r).in_zone("UTC")))),
        "IsZero" => method(&[], |r, _, _| {
            let (t, zero) = (time(r), GoTime::zero());
            Ok(Value::Bool(t.seconds == zero.seconds && t.nanos == 0))
        }),
        "Add" => method(&[Type::Duration], |r, _, args| {
            Ok(time_value(time(r).add(args.first().map_or(0, duration))))
        }),
        "AddDate" => method(&[Type::Int, Type::Int, Type::Int], |r, _, args| {
            let t = time(r);
            let number = |i: usize| match args.get(i) {
                Some(Value::Int(n)) => (*n).clamp(-1_000_000, 1_000_000),
                _ => 0,
            };
            let civil = t.civil();
            let months = civil.year * 12 + i64::from(civil.month) - 1 + number(0) * 12 + number(1);
            let month = u32::try_from(months.rem_euclid(12)).unwrap_or(0) + 1;
            let days = crate::time::days_from_civil(months.div_euclid(12), month, 1) + i64::from(civil.day)
                - 1
                + number(2);
            let old = crate::time::days_from_civil(civil.year, civil.month, civil.day);
            Ok(time_value(GoTime { seconds: t.seconds + (days - old) * 86_400, ..t }))
        }),
        "Sub" => method(&[Type::Time], |r, _, args| Ok(Value::Duration(time(r).since(&time_argument(args))))),
        "Before" => {
            method(&[Type::Time], |r, _, args| Ok(Value::Bool(time(r).since(&time_argument(args)) < 0)))
        }
        "After" => {
            method(&[Type::Time], |r, _, args| Ok(Value::Bool(time(r).since(&time_argument(args)) > 0)))
        }
        "Equal" => {
            method(&[Type::Time], |r, _, args| Ok(Value::Bool(time(r).since(&time_argument(args)) == 0)))
        }
        _ => None,
    }
}

/// Methods that Go declares on the pointer, so that a version that is a value lacks them.
const POINTER_METHODS: &[&str] =
    &["Original", "Compare", "Equal", "GreaterThan", "LessThan", "GreaterThanEqual", "LessThanEqual"];

fn version(receiver: &Value) -> Version {
    match receiver {
        Value::Version(v) => (**v).clone(),
        _ => Version::empty(false),
    }
}

fn ordering(receiver: &Value, args: &[Value]) -> Ordering {
    version(receiver).compare(&args.first().map_or_else(|| version(&Value::Nil), version))
}

fn version_method(name: &str) -> Option<Method> {
    match name {
        "Major" => method(&[], |r, _, _| Ok(Value::Uint64(version(r).major))),
        "Minor" => method(&[], |r, _, _| Ok(Value::Uint64(version(r).minor))),
        "Patch" => method(&[], |r, _, _| Ok(Value::Uint64(version(r).patch))),
        "Prerelease" => method(&[], |r, _, _| Ok(Value::string(version(r).pre))),
        "Metadata" => method(&[], |r, _, _| Ok(Value::string(version(r).metadata))),
        "Original" => method(&[], |r, _, _| Ok(Value::string(version(r).original))),
        "String" => method(&[], |r, _, _| Ok(Value::string(version(r).to_string()))),
        "Compare" => method(&[Type::Version], |r, _, args| Ok(Value::Int(ordering(r, args) as i64))),
        "Equal" => method(&[Type::Version], |r, _, args| Ok(Value::Bool(ordering(r, args).is_eq()))),
        "GreaterThan" => method(&[Type::Version], |r, _, args| Ok(Value::Bool(ordering(r, args).is_gt()))),
        "LessThan" => method(&[Type::Version], |r, _, args| Ok(Value::Bool(ordering(r, args).is_lt()))),
        "GreaterThanEqual" => {
            method(&[Type::Version], |r, _, args| Ok(Value::Bool(ordering(r, args).is_ge())))
        }
        "LessThanEqual" => method(&[Type::Version], |r, _, args| Ok(Value::Bool(ordering(r, args).is_le()))),
        "IncMajor" | "IncMinor" | "IncPatch" => {
            fn bumped(receiver: &Value, bump: fn(&mut Version)) -> Value {
                let mut v = version(receiver);
                bump(&mut v);
                v.pre.clear();
                v.metadata.clear();
                v.by_value = true;
                let prefix = if v.original.starts_with('v') { "v" } else { "" };
                v.original = format!("{prefix}{v}");
                Value::Version(Rc::new(v))
            }
            match name {
                "IncMajor" => method(&[], |r, _, _| {
                    Ok(bumped(r, |v| (v.major, v.minor, v.patch) = (v.major.wrapping_add(1), 0, 0)))
                }),
                "IncMinor" => method(&[], |r, _, _| {
                    Ok(bumped(r, |v| (v.minor, v.patch) = (v.minor.wrapping_add(1), 0)))
                }),
                _ => method(&[], |r, _, _| {
                    Ok(bumped(r, |v| {
                        if v.pre.is_empty() {
                            v.patch = v.patch.wrapping_add(1);
                        }
                    }))
                }),
            }
        }
        _ => None,
    }
}
