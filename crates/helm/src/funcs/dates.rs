//! Sprig's dates. The present is what the caller of the renderer says it is.

use std::rc::Rc;

use super::{Entry, Type, fixed, text};
use crate::template::exec::Exec;
use crate::time::{self, GoTime};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Str, Time};
    let mut table = vec![
        fixed("now", &[], |exec, _| Ok(time(exec.env.now.clone()))),
        fixed("date", &[Str, Any], |exec, args| Ok(in_zone(exec, &text(args, 0), &args[1], "Local"))),
        fixed("htmlDate", &[Any], |exec, args| Ok(in_zone(exec, "2006-01-02", &args[0], "Local"))),
        fixed("htmlDateInZone", &[Any, Str], |exec, args| {
            Ok(in_zone(exec, "2006-01-02", &args[0], &text(args, 1)))
        }),
        fixed("ago", &[Any], |exec, args| {
            let then = instant(exec, &args[0]);
            let seconds = exec.env.now.since(&then);
            let rounded = (seconds as f64 / 1e9).round() as i64;
            Ok(Value::string(time::format_duration(rounded.saturating_mul(1_000_000_000))))
        }),
        fixed("duration", &[Any], |_, args| {
            let seconds = match &args[0] {
                Value::Str(s) => s.text().parse().unwrap_or(0),
                Value::Int64(i) => *i,
                _ => 0i64,
            };
            Ok(Value::string(time::format_duration(seconds.wrapping_mul(1_000_000_000))))
        }),
        fixed("durationRound", &[Any], |exec, args| {
            let nanos = match &args[0] {
                Value::Str(s) => time::parse_duration(&s.text()).unwrap_or(0),
                Value::Int64(i) => *i,
                Value::Time(t) => exec.env.now.since(t),
                _ => 0,
            };
            Ok(Value::string(round(nanos)))
        }),
        fixed("toDate", &[Str, Str], |_, args| {
            Ok(time(time::parse(&text(args, 0), &text(args, 1)).unwrap_or_else(|_| GoTime::zero())))
        }),
        fixed("mustToDate", &[Str, Str], |_, args| Ok(time(time::parse(&text(args, 0), &text(args, 1))?))),
        fixed("unixEpoch", &[Time], |_, args| match &args[0] {
            Value::Time(t) => Ok(Value::string(t.seconds.to_string())),
            _ => Err("expected a time".into()),
        }),
    ];
    for name in ["date_in_zone", "dateInZone"] {
        table.push(fixed(name, &[Str, Any, Str], |exec, args| {
            Ok(in_zone(exec, &text(args, 0), &args[1], &text(args, 2)))
        }));
    }
    for name in ["date_modify", "dateModify"] {
        table.push(fixed(name, &[Str, Time], |_, args| {
            match (&args[1], time::parse_duration(&text(args, 0))) {
                (Value::Time(t), Ok(by)) => Ok(time(t.add(by))),
                (other, _) => Ok(other.clone()),
            }
        }));
    }
    for name in ["must_date_modify", "mustDateModify"] {
        table.push(fixed(name, &[Str, Time], |_, args| {
            let by = time::parse_duration(&text(args, 0))?;
            match &args[1] {
                Value::Time(t) => Ok(time(t.add(by))),
                other => Ok(other.clone()),
            }
        }));
    }
    table
}

fn time(time: GoTime) -> Value {
    Value::Time(Rc::new(time))
}

fn instant(exec: &Exec<'_>, value: &Value) -> GoTime {
    match value {
        Value::Time(t) => (**t).clone(),
        Value::Int(seconds) | Value::Int64(seconds) => GoTime::utc(*seconds, 0),
        _ => exec.env.now.clone(),
    }
}

fn in_zone(exec: &Exec<'_>, layout: &str, value: &Value, zone: &str) -> Value {
    Value::string(instant(exec, value).in_zone(zone).format(layout))
}

fn round(nanos: i64) -> String {
    const SECOND: u64 = 1_000_000_000;
    let total = nanos.unsigned_abs();
    for (unit, name) in [
        (SECOND * 3600 * 24 * 365, "y"),
        (SECOND * 3600 * 24 * 30, "mo"),
        (SECOND * 3600 * 24, "d"),
        (SECOND * 3600, "h"),
        (SECOND * 60, "m"),
        (SECOND, "s"),
    ] {
        if total > unit {
            return format!("{}{name}", total / unit);
        }
    }
    "0s".to_owned()
}
