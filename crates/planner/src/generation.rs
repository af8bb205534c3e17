//! Which apply a cluster was changed by last, and whether the store of whoever plans now knows of it.

pub use daedal_machine::Generation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::world::World;

/// A generation that the store of whoever plans has not seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Unseen {
    /// The newest one.
    #[serde(flatten)]
    pub newest: Generation,
    /// The number of the newest that the store knows; none if it knows none.
    pub known: Option<u32>,
}

impl World {
    /// The newest generation on the VMs, if the store has not seen it.
    pub fn unseen(&self) -> Option<Unseen> {
        let unknown = |one: &&Generation| {
            self.known.as_ref().is_none_or(|known| {
                one.number > known.number || (one.number == known.number && *one != known)
            })
        };
        let newest = self.applied.iter().filter(unknown).max_by_key(|one| (one.number, one.at.clone()))?;
        Some(Unseen { newest: newest.clone(), known: self.known.as_ref().map(|known| known.number) })
    }

    /// The number of the generation that comes next.
    pub fn next_generation(&self) -> u32 {
        let numbers = self.applied.iter().chain(&self.known).map(|one| one.number);
        numbers.max().unwrap_or(0).saturating_add(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::told::unseen;

    fn one(number: u32, by: &str) -> Generation {
        Generation { number, by: by.into(), at: format!("2026-11-18T01:0{number}:00Z") }
    }

    #[test]
    fn a_store_that_is_behind_says_by_how_much() {
        let mut world = World { applied: vec![one(3, "ann@desk"), one(5, "bob@mill")], ..World::default() };
        world.known = Some(one(3, "ann@desk"));
        let said = unseen(&world.unseen().unwrap());
        assert_eq!(
            said,
            "generation 5 was applied by bob@mill on 2026-11-18 01:05 UTC, two generations after what this store knows"
        );
        assert_eq!(world.next_generation(), 6);
        world.known = Some(one(4, "ann@desk"));
        assert!(unseen(&world.unseen().unwrap()).ends_with("one generation after what this store knows"));
        world.known = None;
        assert!(unseen(&world.unseen().unwrap()).ends_with("this store knows of no apply at all"));
    }

    #[test]
    fn a_store_that_knows_its_own_or_a_later_one_is_asked_nothing() {
        let mut world = World { applied: vec![one(5, "ann@desk")], ..World::default() };
        for known in [one(5, "ann@desk"), one(6, "ann@desk")] {
            world.known = Some(known);
            assert_eq!(world.unseen(), None);
        }
        // Two stores that took the same step at once.
        world.known = Some(one(5, "bob@mill"));
        assert!(unseen(&world.unseen().unwrap()).ends_with("which this store does not know"));
        // Marks of older versions say nothing.
        assert_eq!(World::default().unseen(), None);
    }
}
