//! Every case of the suite of shared repositories over real git.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use harness::workspace::{Filters, GitRepository, TreeSettings, shared::SharedRepository};
use harness_sim::{
    conformance::{repository::Repository, shared as suite},
    for_each_shared_case,
};

fn open(repository: &Repository) -> Box<dyn SharedRepository> {
    let (main, root) = (repository.open(Filters::Off), &repository.root);
    Box::new(GitRepository::new(main, root, TreeSettings::default()).unwrap())
}

macro_rules! instantiate {
    ($($case:ident,)*) => {
        $(#[test] fn $case() {
            suite::$case(&Repository::shared_by(open));
        })*
    };
}
for_each_shared_case!(instantiate);
