//! Generations in words.

use daedal_planner::{Generation, Unseen};

/// What is said of a generation that the store does not know, without a full stop.
pub fn unseen(unseen: &Unseen) -> String {
    let Generation { number, by, at } = &unseen.newest;
    let behind = match unseen.known {
        None => "and this store knows of no apply at all".to_owned(),
        // Two stores took the same step at once.
        Some(known) if known >= *number => "which this store does not know".to_owned(),
        Some(known) => match number - known {
            1 => "one generation after what this store knows".to_owned(),
            n => format!("{} generations after what this store knows", spelled(n)),
        },
    };
    format!("generation {number} was applied by {by} on {}, {behind}", when(at))
}

fn spelled(number: u32) -> String {
    let words = ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
    let at = usize::try_from(number).unwrap_or(usize::MAX).wrapping_sub(2);
    words.get(at).map_or_else(|| number.to_string(), |word| (*word).to_owned())
}

/// `2026-11-18T01:00:00Z` as people write it.
fn when(at: &str) -> String {
    match at.split_once('T').map(|(day, time)| (day, time.get(..5))) {
        Some((day, Some(time))) if at.ends_with('Z') => format!("{day} {time} UTC"),
        _ => at.to_owned(),
    }
}
