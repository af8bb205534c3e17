//! Exact decimal arithmetic, so that `0.1` and `0.2` add up to `0.3`.

/// `mantissa × 10^exponent`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decimal {
    mantissa: i128,
    exponent: i32,
}

const DIVISION_PLACES: i32 = 16;

fn power(exponent: i32) -> Option<i128> {
    10i128.checked_pow(u32::try_from(exponent).ok()?)
}

impl Decimal {
    /// The shortest decimal that reads back as the float.
    pub(super) fn from_float(f: f64) -> Option<Decimal> {
        if !f.is_finite() {
            return None;
        }
        let text = format!("{f:e}");
        let (mantissa, exponent) = text.split_once('e')?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        Some(Decimal {
            mantissa: format!("{whole}{fraction}").parse().ok()?,
            exponent: exponent.parse::<i32>().ok()? - i32::try_from(fraction.len()).ok()?,
        })
    }

    pub(super) fn to_float(self) -> f64 {
        format!("{}e{}", self.mantissa, self.exponent).parse().unwrap_or(0.0)
    }

    fn aligned(self, other: Decimal) -> Option<(i128, i128, i32)> {
        let exponent = self.exponent.min(other.exponent);
        let left = self.mantissa.checked_mul(power(self.exponent - exponent)?)?;
        let right = other.mantissa.checked_mul(power(other.exponent - exponent)?)?;
        Some((left, right, exponent))
    }

    pub(super) fn add(self, other: Decimal) -> Option<Decimal> {
        let (left, right, exponent) = self.aligned(other)?;
        Some(Decimal { mantissa: left.checked_add(right)?, exponent })
    }

    pub(super) fn subtract(self, other: Decimal) -> Option<Decimal> {
        let (left, right, exponent) = self.aligned(other)?;
        Some(Decimal { mantissa: left.checked_sub(right)?, exponent })
    }

    pub(super) fn multiply(self, other: Decimal) -> Option<Decimal> {
        Some(Decimal {
            mantissa: self.mantissa.checked_mul(other.mantissa)?,
            exponent: self.exponent.checked_add(other.exponent)?,
        })
    }

    /// Rounded half away from zero at sixteen places.
    pub(super) fn divide(self, other: Decimal) -> Option<Decimal> {
        let scale = self.exponent - other.exponent + DIVISION_PLACES;
        let (numerator, denominator) = if scale >= 0 {
            (self.mantissa.checked_mul(power(scale)?)?, other.mantissa)
        } else {
            (self.mantissa, other.mantissa.checked_mul(power(-scale)?)?)
        };
        let quotient = numerator.checked_div(denominator)?;
        let remainder = numerator.checked_rem(denominator)?;
        let round = remainder.unsigned_abs().checked_mul(2)? >= denominator.unsigned_abs();
        let sign = if (numerator < 0) == (denominator < 0) { 1 } else { -1 };
        Some(Decimal { mantissa: quotient + if round { sign } else { 0 }, exponent: -DIVISION_PLACES })
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
    }
}
