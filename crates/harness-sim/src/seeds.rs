//! Running seeds, and saying what happened when one fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    checkers::Violation,
    disk::Quirk,
    story::{Story, Tally},
    world::{MakeStore, World, sound},
};

pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
    pub story: Story,
}

/// One seed of the product as it is.
pub fn run(seed: u64) -> Result<Tally, Box<Failure>> {
    run_with(seed, Quirk::None, sound)
}

pub fn run_with(seed: u64, quirk: Quirk, make_store: MakeStore) -> Result<Tally, Box<Failure>> {
    let (result, tally, _) = live(seed, quirk, make_store, Story::untold());
    match result {
        Ok(()) => Ok(tally),
        Err(_) => {
            // The same again, aloud.
            let (result, tally, story) = live(seed, quirk, make_store, Story::told());
            match result {
                Err(violation) => Err(Box::new(Failure { seed, violation, story })),
                Ok(()) => Ok(tally),
            }
        }
    }
}

/// One seed with its whole story.
pub fn tell(seed: u64) -> (Result<(), Violation>, Tally, Story) {
    live(seed, Quirk::None, sound, Story::told())
}

fn live(
    seed: u64,
    quirk: Quirk,
    make_store: MakeStore,
    story: Story,
) -> (Result<(), Violation>, Tally, Story) {
    let mut world = World::new(seed, quirk, make_store, story);
    let result = catch_unwind(AssertUnwindSafe(|| world.run())).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(Violation { checker: "no_panic", what: text.unwrap_or_else(|| "a panic".into()) })
    });
    (result, world.tally, world.story)
}
