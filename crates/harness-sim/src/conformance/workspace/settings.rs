//! Git's settings at the claim.

use harness::workspace::{RolledBack, Sight};
use harness_core::Epoch;

use super::{Fixture, LONG_AGO, claim, rescued, roll_back, task};

const EPOCH: Epoch = Epoch(1);

pub fn settings_are_set_back_and_reported(f: &dyn Fixture) {
    f.configure("diff.noprefix", "true");
    f.exclude("mine.tmp\n");
    let base = claim(f);
    let git = f.workspace();
    git.record_settings(&task(), EPOCH).unwrap();
    assert_eq!(git.restore_settings(&task(), EPOCH).unwrap(), []);
    f.configure("core.ignorestat", "true");
    f.configure("diff.noprefix", "false");
    f.configure("user.nickname", "left alone");
    f.exclude("mine.tmp\nhelper.sh\n");
    f.assume_unchanged("a.txt");
    f.write_all(&[("a.txt", "changed"), ("helper.sh", "hidden"), ("mine.tmp", "mine")]);
    assert_eq!(git.touched(&base, Sight::Anew).unwrap(), [""; 0], "nothing is seen");
    let named = git.changed_settings(&task(), EPOCH).unwrap();
    assert_eq!(f.setting("core.ignorestat").as_deref(), Some("true"), "it is only named");
    let changes = git.restore_settings(&task(), EPOCH).unwrap();
    assert_eq!(named, changes);
    let told: Vec<_> = changes.iter().map(|c| (&*c.what, &*c.old, &*c.new)).collect();
    let expected = [
        ("core.ignorestat", "", "true"),
        ("diff.noprefix", "true", "false"),
        (".git/info/exclude", "mine.tmp", "mine.tmp; helper.sh"),
        ("assume-unchanged of a.txt", "", "set"),
    ];
    assert_eq!(told.len(), expected.len(), "{told:?}");
    for (told, expected) in told.iter().zip(expected) {
        assert_eq!(told.0, expected.0);
        // The model keeps the lines of a file unchanged.
        if !told.0.starts_with('.') {
            assert_eq!(*told, expected);
        }
    }
    assert!(changes.iter().all(|change| change.set_back));
    assert_eq!(f.setting("core.ignorestat"), None);
    assert_eq!(f.setting("diff.noprefix").as_deref(), Some("true"));
    assert_eq!(f.setting("user.nickname").as_deref(), Some("left alone"));
    assert_eq!(git.touched(&base, Sight::Anew).unwrap(), ["a.txt", "helper.sh"]);
    assert_eq!(git.changed_settings(&task(), EPOCH).unwrap(), []);
    assert_eq!(git.restore_settings(&task(), EPOCH).unwrap(), [], "again: nothing");
    assert!(f.workspace().evidence(&task(), &base, LONG_AGO).unwrap().uncommitted);
}

pub fn without_a_record_no_setting_is_touched(f: &dyn Fixture) {
    claim(f);
    let git = f.workspace();
    git.record_settings(&task(), EPOCH).unwrap();
    git.forget_settings(&task(), EPOCH).unwrap();
    git.forget_settings(&task(), EPOCH).unwrap();
    f.configure("core.ignorestat", "true");
    assert_eq!(git.restore_settings(&task(), EPOCH).unwrap(), []);
    assert_eq!(git.restore_settings(&task(), Epoch(2)).unwrap(), []);
    assert_eq!(f.setting("core.ignorestat").as_deref(), Some("true"));
}

pub fn flags_of_the_user_and_what_they_hide_survive_a_rollback(f: &dyn Fixture) {
    f.write("a.txt", "my local settings");
    f.assume_unchanged("a.txt");
    let base = claim(f);
    f.workspace().record_settings(&task(), EPOCH).unwrap();
    assert!(f.workspace().evidence(&task(), &base, LONG_AGO).unwrap().untouched);
    f.write_all(&[("b.txt", "changed"), ("new.txt", "new")]);
    let done = roll_back(f, &base);
    assert_eq!(done.put_back, [""; 0], "the attempt left it alone");
    assert_eq!(f.read("a.txt").as_deref(), Some("my local settings"));
    assert_eq!(f.read("b.txt").as_deref(), Some("b"));
    assert_eq!(roll_back(f, &base), RolledBack::default());
    f.write("a.txt", "the agent was here");
    let done = roll_back(f, &base);
    assert_eq!(done.put_back, ["a.txt"]);
    assert_eq!(f.read("a.txt").as_deref(), Some("my local settings"));
    assert!(rescued(f).iter().any(|files| files["a.txt"] == "the agent was here"));
    assert_eq!(f.workspace().restore_settings(&task(), EPOCH).unwrap(), [], "the flag is there");
    let commit = f.workspace().commit(&base, "task-1: title").unwrap();
    assert_eq!(commit, base.commit, "and it is in no commit");
}

pub fn protected_files_are_read(f: &dyn Fixture) {
    f.write("b.txt", "mine");
    f.assume_unchanged("b.txt");
    let base = claim(f);
    let differing = |name: &str| f.workspace().differing(&base, &|path| path == name).unwrap();
    assert_eq!(differing("a.txt"), [""; 0]);
    assert_eq!(differing("b.txt"), [""; 0], "the user changed it before the claim");
    f.assume_unchanged("a.txt");
    f.write_all(&[("a.txt", "changed"), ("b.txt", "changed")]);
    assert_eq!(differing("a.txt"), ["a.txt"]);
    assert_eq!(differing("b.txt"), ["b.txt"]);
    f.remove("a.txt");
    assert_eq!(differing("a.txt"), ["a.txt"]);
    assert_eq!(differing(".gitignore"), [""; 0]);
}
