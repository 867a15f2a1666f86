//! Tests of grants, their records, and the message of a refusal.

use std::os::unix::fs::PermissionsExt;

use super::{consent::refusal, *};

fn place(name: &str, home: &Path) -> (StateRoot, Trust) {
    let path = home.join(name);
    fs::create_dir_all(&path).unwrap();
    let root = StateRoot::for_init(&Environment::default(), &path).unwrap();
    let env = Environment::of(&[("HOME", home.to_str().unwrap())]);
    (root, Trust::of_user(&env).unwrap())
}

#[test]
fn trust_is_granted_kept_private_and_revoked() {
    let home = tempfile::tempdir().unwrap();
    let (root, trust) = place("repo", home.path());
    assert!(!trust.is_trusted(&root).unwrap());
    trust.grant(&root, &[]).unwrap();
    trust.grant(&root, &[]).unwrap();
    assert!(trust.is_trusted(&root).unwrap());
    assert_eq!(trust.list().unwrap().len(), 1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&trust.directory), 0o700);
    assert_eq!(mode(&trust.file(&root)), 0o600);
    trust.revoke(&root).unwrap();
    trust.revoke(&root).unwrap();
    assert!(!trust.is_trusted(&root).unwrap());
}

#[test]
fn what_was_granted_before_items_were_known_is_of_the_place() {
    let home = tempfile::tempdir().unwrap();
    let (root, trust) = place("repo", home.path());
    trust.grant(&root, &[]).unwrap();
    let file = trust.file(&root);
    let mut old: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert!(old.as_object_mut().unwrap().remove("items").is_some());
    fs::write(&file, old.to_string()).unwrap();
    fs::write(root.path().join("harness.toml"), "notify = 'true'\n").unwrap();
    assert!(trust.is_trusted(&root).unwrap(), "git tracks nothing here");
}

#[test]
fn a_directory_put_in_its_place_is_not_trusted() {
    let home = tempfile::tempdir().unwrap();
    let (root, trust) = place("repo", home.path());
    trust.grant(&root, &[]).unwrap();
    fs::rename(root.path(), home.path().join("moved")).unwrap();
    fs::create_dir(root.path()).unwrap();
    assert!(!trust.is_trusted(&root).unwrap());
    assert!(!trust.list().unwrap()[0].holds());
}

#[test]
fn a_broken_record_grants_nothing() {
    let home = tempfile::tempdir().unwrap();
    let (root, trust) = place("repo", home.path());
    trust.grant(&root, &[]).unwrap();
    fs::write(trust.file(&root), "{").unwrap();
    assert!(!trust.is_trusted(&root).unwrap());
}

#[test]
fn a_refusal_says_what_would_run() {
    let home = tempfile::tempdir().unwrap();
    let (root, _) = place("repo", home.path());
    let task = harness_core::TaskId::numbered(1);
    let would_run = WouldRun::of_edit(&harness_core::command::Edit {
        validation_command: Some("make test".into()),
        ..harness_core::command::Edit::nothing(task)
    });
    let failure = refusal(&root, &would_run);
    assert!(failure.error.ends_with("it would run\n  checks:\n    make test"), "{failure}");
}
