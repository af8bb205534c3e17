//! Sprig's arithmetic.

use super::cast::{to_float, to_int};
use super::decimal::Decimal;
use super::{Entry, Type, fixed, int, variadic};
use crate::template::exec::FuncResult;
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Any, Float, Int, Str};
    vec![
        fixed("int64", &[Any], |_, args| Ok(Value::Int64(to_int(&args[0])))),
        fixed("int", &[Any], |_, args| Ok(Value::Int(to_int(&args[0])))),
        fixed("float64", &[Any], |_, args| Ok(Value::Float(to_float(&args[0])))),
        fixed("atoi", &[Str], |_, args| Ok(Value::Int(atoi(&super::text(args, 0))))),
        fixed("toDecimal", &[Any], |_, args| {
            let text = crate::strconv::lossy(&crate::printf::display(&args[0])).into_owned();
            Ok(Value::Int64(i64::from_str_radix(&text, 8).unwrap_or(0)))
        }),
        fixed("add1", &[Any], |_, args| Ok(Value::Int64(to_int(&args[0]).wrapping_add(1)))),
        variadic("add", &[], Any, |_, args| {
            Ok(Value::Int64(args.iter().fold(0i64, |sum, a| sum.wrapping_add(to_int(a)))))
        }),
        fixed("sub", &[Any, Any], |_, args| {
            Ok(Value::Int64(to_int(&args[0]).wrapping_sub(to_int(&args[1]))))
        }),
        fixed("div", &[Any, Any], |_, args| divide(&args[0], &args[1], i64::wrapping_div)),
        fixed("mod", &[Any, Any], |_, args| divide(&args[0], &args[1], i64::wrapping_rem)),
        variadic("mul", &[Any], Any, |_, args| {
            Ok(Value::Int64(args.iter().fold(1i64, |product, a| product.wrapping_mul(to_int(a)))))
        }),
        variadic("max", &[Any], Any, |_, args| Ok(Value::Int64(args.iter().map(to_int).max().unwrap_or(0)))),
        variadic("biggest", &[Any], Any, |_, args| {
            Ok(Value::Int64(args.iter().map(to_int).max().unwrap_or(0)))
        }),
        variadic("min", &[Any], Any, |_, args| Ok(Value::Int64(args.iter().map(to_int).min().unwrap_or(0)))),
        variadic("maxf", &[Any], Any, |_, args| {
            fold_floats(args, |a, b| if b > a || b.is_nan() { b } else { a })
        }),
        variadic("minf", &[Any], Any, |_, args| {
            fold_floats(args, |a, b| if b < a || b.is_nan() { b } else { a })
        }),
        fixed("add1f", &[Any], |_, args| decimals(&args[0], &[Value::Int(1)], Decimal::add, |a, b| a + b)),
        variadic("addf", &[], Any, |_, args| decimals(&Value::Float(0.0), args, Decimal::add, |a, b| a + b)),
        variadic("subf", &[Any], Any, |_, args| {
            decimals(&args[0], &args[1..], Decimal::subtract, |a, b| a - b)
        }),
        variadic("mulf", &[Any], Any, |_, args| {
            decimals(&args[0], &args[1..], Decimal::multiply, |a, b| a * b)
        }),
        variadic("divf", &[Any], Any, |_, args| {
            if args[1..].iter().any(|a| to_float(a) == 0.0) {
                return Err("decimal division by 0".into());
            }
            decimals(&args[0], &args[1..], Decimal::divide, |a, b| a / b)
        }),
        fixed("ceil", &[Any], |_, args| Ok(Value::Float(to_float(&args[0]).ceil()))),
        fixed("floor", &[Any], |_, args| Ok(Value::Float(to_float(&args[0]).floor()))),
        variadic("round", &[Any, Int], Float, |_, args| {
            let threshold = match args.get(2) {
                Some(Value::Float(f)) => *f,
                _ => 0.5,
            };
            Ok(Value::Float(round(to_float(&args[0]), int(args, 1), threshold)))
        }),
        fixed("randInt", &[Int, Int], |exec, args| {
            let (low, high) = (int(args, 0), int(args, 1));
            if high <= low {
                return Err("invalid argument to Intn".into());
            }
            Ok(Value::Int(low.wrapping_add(exec.env.random.borrow_mut().below(high.wrapping_sub(low)))))
        }),
    ]
}

fn atoi(text: &str) -> i64 {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return 0;
    }
    text.parse().unwrap_or(if text.starts_with('-') { i64::MIN } else { i64::MAX })
}

fn divide(a: &Value, b: &Value, operation: fn(i64, i64) -> i64) -> FuncResult {
    match to_int(b) {
        0 => Err("runtime error: integer divide by zero".into()),
        divisor => Ok(Value::Int64(operation(to_int(a), divisor))),
    }
}

fn fold_floats(args: &[Value], choose: fn(f64, f64) -> f64) -> FuncResult {
    Ok(Value::Float(args.iter().map(to_float).reduce(choose).unwrap_or(0.0)))
}

fn decimals(
    first: &Value,
    rest: &[Value],
    exact: fn(Decimal, Decimal) -> Option<Decimal>,
    rough: fn(f64, f64) -> f64,
) -> FuncResult {
    let numbers: Vec<f64> = rest.iter().map(to_float).collect();
    let first = to_float(first);
    if !first.is_finite() || numbers.iter().any(|n| !n.is_finite()) {
        return Err(format!("Cannot create a Decimal from {}", crate::strconv::format_g(first, None)).into());
    }
    let computed = numbers
        .iter()
        .try_fold(Decimal::from_float(first), |sum, n| Some(Some(exact(sum?, Decimal::from_float(*n)?)?)));
    Ok(Value::Float(match computed {
        Some(Some(decimal)) => decimal.to_float(),
        _ => numbers.iter().fold(first, |a, b| rough(a, *b)),
    }))
}

/// `math.Pow(10, exponent)` with Go's own rounding on the way.
fn power_of_ten(exponent: i64) -> f64 {
    let (mut answer, mut answer_exponent) = (1.0f64, 0i32);
    let (mut base, mut base_exponent) = (0.625f64, 4i32);
    let mut left = exponent.unsigned_abs();
    if left > 1000 {
        return if exponent < 0 { 0.0 } else { f64::INFINITY };
    }
    while left != 0 {
        if left & 1 == 1 {
            answer *= base;
            answer_exponent += base_exponent;
        }
        base *= base;
        base_exponent *= 2;
        if base < 0.5 {
            base += base;
            base_exponent -= 1;
        }
        left >>= 1;
    }
    if exponent < 0 {
        answer = 1.0 / answer;
        answer_exponent = -answer_exponent;
    }
    // In two steps, because one power of two alone may be out of range.
    let half = answer_exponent / 2;
    answer * 2f64.powi(half) * 2f64.powi(answer_exponent - half)
}

fn round(value: f64, places: i64, threshold: f64) -> f64 {
    let scale = power_of_ten(places);
    let digit = scale * value;
    let rounded = if digit.fract() >= threshold { digit.ceil() } else { digit.floor() };
    rounded / scale
}
