//! Words that depend on numbers.

/// `1 node`, `3 nodes`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_is_not_many() {
        let count = super::count;
        assert_eq!([count(0, "VM"), count(1, "VM"), count(2, "VM")], ["0 VMs", "1 VM", "2 VMs"]);
    }
}
