//! Whoever has not seen what somebody else applied last must say that they go on from there.

use daedal_planner::World;

use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};

/// Lets a change begin only where the store knows the newest generation, or somebody says that they go on from it: by its
/// number in advance, or by an answer. A general yes is not enough.
pub fn go_on(world: &World, onto: Option<u32>, again: &str) -> Outcome<()> {
    let newest = world.applied.iter().map(|one| one.number).max();
    if let Some(onto) = onto
        && newest != Some(onto)
    {
        let is = newest.map_or_else(|| "at none".to_owned(), |number| format!("at generation {number}"));
        let message = format!("nothing was done: the cluster is not at generation {onto}, but {is}");
        return Err(
            Failure::new(Exit::Failed, message).hint("Look at the plan again: somebody applied meanwhile.")
        );
    }
    let Some(unseen) = world.unseen().filter(|_| onto.is_none()) else { return Ok(()) };
    let number = unseen.newest.number;
    let words = unseen.words();
    let failed = |exit, why: &str| {
        Failure::new(exit, format!("nothing was done: {words}{why}"))
            .hint(format!("If this inventory has that change, or should undo it: {again} --onto {number}"))
    };
    let question = format!("Note that {words}. Go on from generation {number}?");
    match console::agrees(&question) {
        Some(true) => Ok(()),
        Some(false) => Err(failed(Exit::Failed, ", and the answer was not yes")),
        None => Err(failed(Exit::Usage, ", and there is no terminal to ask on")),
    }
}
