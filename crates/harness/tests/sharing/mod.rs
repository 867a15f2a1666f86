//! A real repository that several workers share, and the actions of a test on it.
#![allow(dead_code, reason = "each test program uses some of it")]

use harness::workspace::{
    Filters, GitRepository, Sight, TreeSettings,
    shared::{Rebase, SharedRepository, Swap},
};
use harness_core::{Epoch, TaskId};
use harness_sim::conformance::{
    repository::Repository,
    shared::{done, head, work, worker},
    workspace::Fixture,
};

pub(crate) fn with(
    repository: &Repository,
    filters: Filters,
    settings: TreeSettings,
) -> GitRepository {
    GitRepository::new(repository.open(filters), &repository.root, settings).unwrap()
}

pub(crate) fn open(repository: &Repository) -> GitRepository {
    with(repository, Filters::Off, TreeSettings::default())
}

pub(crate) fn fresh() -> Repository {
    Repository::shared_by(|repository| Box::new(open(repository)))
}

pub(crate) fn id(name: &str) -> TaskId {
    TaskId::parse(name).unwrap()
}

/// Commits files in the tree of `w` as the result of `task-1`, and sets its token.
pub(crate) fn result(
    repository: &Repository,
    shared: &GitRepository,
    files: &[(&str, &str)],
) -> Swap {
    result_of(repository, shared, "task-1", files)
}

/// Does the same for another task.
pub(crate) fn result_of(
    repository: &Repository,
    shared: &GitRepository,
    task: &str,
    files: &[(&str, &str)],
) -> Swap {
    let (from, task) = (head(repository), id(task));
    let tree = shared.reset(&worker("w"), &from).unwrap().workspace;
    shared.start_branch(&worker("w"), &task, Epoch(1)).unwrap();
    let agent = repository.in_tree(tree.top_level());
    let base = tree.base(&task, Sight::Anew).unwrap();
    files.iter().for_each(|(path, text)| agent.write(path, text));
    let commit = tree.commit(&base, &format!("{task}: title")).unwrap();
    let rebase = Rebase { task: task.clone(), ..work(&from, &commit, &from) };
    let to = done(shared.rebase(&worker("w"), &rebase).unwrap());
    shared.set_token(&task, &to).unwrap();
    Swap { task, target: "main".to_owned(), from, to }
}

pub(crate) fn rescues(repository: &Repository) -> Vec<String> {
    let found = repository.workspace().rescues(None).unwrap();
    found.into_iter().map(|rescue| rescue.reference).collect()
}
