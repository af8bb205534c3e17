//! Exact decimal arithmetic, so that `0.1` and `0.2` add up to `0.3`.

use rsa::BigUint;

/// `±magnitude × 10^exponent`.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    magnitude: BigUint,
    exponent: i32,
}

/// Where a quotient is rounded.
const DIVISION_PLACES: i32 = 16;

/// More digits than any float or product of a few has; beyond it sums are left to floats.
const MOST_DIGITS: i32 = 5_000;

fn power(exponent: i32) -> Option<BigUint> {
    let zeros = usize::try_from(exponent).ok().filter(|_| exponent <= MOST_DIGITS)?;
    BigUint::parse_bytes(format!("1{}", "0".repeat(zeros)).as_bytes(), 10)
}

fn is_zero(number: &BigUint) -> bool {
    number.bits() == 0
}

impl Decimal {
    /// The shortest decimal that reads back as the float.
    pub(super) fn from_float(f: f64) -> Option<Decimal> {
        if !f.is_finite() {
            return None;
        }
        let text = format!("{:e}", f.abs());
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Some(Decimal {
            negative: f < 0.0,
            magnitude: BigUint::parse_bytes(format!("{whole}{fraction}").as_bytes(), 10)?,
            exponent: exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?,
        })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        let sign = if self.negative && !is_zero(&self.magnitude) { "-" } else { "" };
        format!("{sign}{}e{}", self.magnitude, self.exponent).parse().unwrap_or(0.0)
    }

    pub(super) fn add(self, other: Decimal) -> Option<Decimal> {
        let exponent = self.exponent.min(other.exponent);
        let left = self.magnitude * power(self.exponent - exponent)?;
        let right = other.magnitude * power(other.exponent - exponent)?;
        let (negative, magnitude) = if self.negative == other.negative {
            (self.negative, left + right)
        } else if left >= right {
            (self.negative, left - right)
        } else {
            (other.negative, right - left)
        };
        Some(Decimal { negative, magnitude, exponent })
    }

    pub(super) fn subtract(self, other: Decimal) -> Option<Decimal> {
        self.add(Decimal { negative: !other.negative, ..other })
    }

    pub(super) fn multiply(self, other: Decimal) -> Option<Decimal> {
        let exponent = self.exponent.checked_add(other.exponent)?;
        if exponent.abs() > MOST_DIGITS {
            return None;
        }
        Some(Decimal {
            negative: self.negative != other.negative,
            magnitude: self.magnitude * other.magnitude,
            exponent,
        })
    }

    /// Rounded half away from zero at sixteen places.
    pub(super) fn divide(self, other: Decimal) -> Option<Decimal> {
        if is_zero(&other.magnitude) {
            return None;
        }
        let scale = self.exponent - other.exponent + DIVISION_PLACES;
        let (numerator, denominator) = if scale >= 0 {
            (self.magnitude * power(scale)?, other.magnitude)
        } else {
            (self.magnitude, other.magnitude * power(-scale)?)
        };
        let mut magnitude = &numerator / &denominator;
        let remainder = numerator - &magnitude * &denominator;
        if remainder * 2u32 >= denominator {
            magnitude += 1u32;
        }
        Some(Decimal { negative: self.negative != other.negative, magnitude, exponent: -DIVISION_PLACES })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_are_exact() {
        let d = |f| Decimal::from_float(f).unwrap();
        assert_eq!(d(0.1).add(d(0.2)).unwrap().to_float(), 0.3);
        assert_eq!(d(1.1).multiply(d(1.1)).unwrap().to_float(), 1.21);
        assert_eq!(d(10.0).divide(d(4.0)).unwrap().to_float(), 2.5);
        assert_eq!(d(1.0).divide(d(3.0)).unwrap().to_float(), 0.3333333333333333);
        assert_eq!(d(-1.5).subtract(d(-2.0)).unwrap().to_float(), 0.5);
    }

    #[test]
    fn far_apart_numbers_stay_exact() {
        let d = |f| Decimal::from_float(f).unwrap();
        assert_eq!(d(0.1).add(d(0.2)).unwrap().add(d(1e-79)).unwrap().to_float(), 0.3);
        assert_eq!(d(12345678901234567890.0).divide(d(1e-6)).unwrap().to_float(), 1.2345678901234566e25);
        assert!(d(1.0).divide(d(0.0)).is_none());
    }
}
