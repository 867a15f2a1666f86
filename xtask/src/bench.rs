//! `cargo xtask bench`: ratios of cost, each against a yardstick measured in the same run.

use crate::run::Done;

pub(crate) fn bench(_arguments: &[&str]) -> Done {
    Ok(())
}
