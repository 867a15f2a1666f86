//! `[git] hooks` and `[git] sign`: commits of a run follow the repository's rules.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    environment::TestEnvironment,
    evidence::{add, task},
};

const RUN: [&str; 3] = ["run", "--agent", "shell"];
const HOOKS: &str = "[git]\nhooks = true\n";

fn script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns a repository with a trusted hook.
fn hooked(settings: &str, hook: &str) -> TestEnvironment {
    let env = TestEnvironment::of_worker();
    env.write("harness.toml", settings);
    env.git(["add", "harness.toml"]);
    env.git(["commit", "--quiet", "--message", "base"]);
    script(&env.root().join(".git/hooks/pre-commit"), hook);
    env.run(["trust", "--yes"]).success();
    env
}

fn log(env: &TestEnvironment) -> String {
    env.read("harness-progress.txt")
}

#[test]
fn s8_a_run_says_that_it_bypasses_hooks_and_signing() {
    let env = hooked("", "exit 1");
    env.git(["config", "commit.gpgSign", "true"]);
    add(&env, "touch a", "test -f a", &[]);
    let ran = env.run(RUN).success();
    let errors = ran.errors();
    assert!(errors.contains("commits of this run bypass the git hooks (pre-commit)"), "{errors}");
    assert!(errors.contains("git is set to sign commits, and this run does not"), "{errors}");
    env.git(["show", "HEAD:a"]);
}

#[test]
fn s8_hooks_run_and_the_check_judges_the_commit_they_made() {
    // The hook adds a file to the commit. The check requires that file, and that everything is
    // committed.
    let env = hooked(HOOKS, "date > formatted; git add formatted");
    script(&env.root().join(".git/hooks/commit-msg"), "echo 'Reviewed-by: a hook' >> \"$1\"");
    script(&env.root().join(".git/hooks/post-commit"), "git log -1 --format=%s > .git/seen");
    env.run(["trust", "--yes"]).success();
    add(&env, "touch a", "git show HEAD:formatted && git show HEAD:a && test -f a", &[]);
    let ran = env.run(RUN).success();
    assert!(!ran.errors().contains("bypass"), "{}", ran.errors());
    assert_eq!(env.git(["status", "--porcelain"]), "");
    assert!(env.git(["log", "-1", "--format=%B"]).contains("Reviewed-by: a hook"));
    assert!(env.read(".git/seen").starts_with("task-001: "));
    assert_eq!(env.git(["rev-list", "--count", "HEAD"]), "3", "one commit for one task");
}

#[test]
fn s8_a_hook_that_refuses_fails_the_attempt_and_the_work_is_saved() {
    let env = hooked(HOOKS, "echo 'no tabs allowed' >&2; exit 1");
    add(&env, "touch a", "true", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    let log = log(&env);
    let said = "[TASK_EXEC] the pre-commit hook refused the commit: no tabs allowed";
    assert!(log.contains(said), "{log}");
    assert_eq!(env.git(["rev-list", "--count", "HEAD"]), "2");
    env.git(["show", "refs/harness/rescue/task-001/1:a"]);
}

#[test]
fn s8_only_the_hooks_that_were_trusted_run() {
    let env = hooked(HOOKS, "exit 0");
    script(&env.root().join(".git/hooks/pre-commit"), "touch .git/stranger");
    add(&env, "touch a", "true", &[]);
    let ran = env.run(RUN).code(5);
    assert!(
        ran.errors().contains("changed since you trusted them: pre-commit"),
        "{}",
        ran.errors()
    );
    assert!(ran.errors().contains("harness trust"), "{}", ran.errors());
    assert_eq!(env.git(["rev-list", "--count", "HEAD"]), "2");
    assert!(!env.exists(".git/stranger"));
}

#[test]
fn s8_an_agent_cannot_bring_a_hook_of_its_own() {
    // In the git directory the change is reverted. In the work tree the commit is refused.
    let own = "printf '#!/bin/sh\\ntouch .git/stranger\\n' > .git/hooks/pre-commit; touch a";
    let env = hooked(HOOKS, "touch .git/trusted");
    add(&env, own, "true", &[]);
    env.run(RUN).success();
    assert!(env.exists(".git/trusted") && !env.exists(".git/stranger"));

    let env = TestEnvironment::of_worker();
    env.write("harness.toml", HOOKS);
    script(&env.root().join(".husky/_/pre-commit"), "sh \"$(dirname \"$0\")/../pre-commit\"");
    script(&env.root().join(".husky/pre-commit"), "touch .git/trusted");
    env.git(["add", "harness.toml", ".husky"]);
    env.git(["commit", "--quiet", "--message", "base"]);
    env.git(["config", "core.hooksPath", ".husky/_"]);
    add(&env, "true", "true", &[]);
    let ran = env.run(RUN).code(5);
    assert!(ran.errors().contains("are not trusted yet: pre-commit"), "{}", ran.errors());
    env.run(["trust", "--yes"]).success();
    let stranger = "echo 'touch .git/stranger' >> .husky/pre-commit; touch a";
    add(&env, stranger, "true", &["--max-attempts", "1"]);
    env.run(RUN).code(4);
    assert!(log(&env).contains("is not what was trusted"), "{}", log(&env));
    assert!(!env.exists(".git/stranger"));
}

fn signing(env: &TestEnvironment, signer: &str) {
    let program = env.root().join(".git/signer");
    script(&program, signer);
    env.git(["config", "gpg.program", program.to_str().unwrap()]);
    env.git(["config", "user.signingKey", "somebody"]);
}

#[test]
fn s8_commits_are_signed_on_request() {
    let env = hooked("[git]\nsign = true\n", "exit 1");
    signing(
        &env,
        "cat > .git/signed
        printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nmine\\n-----END PGP SIGNATURE-----\\n'
        printf '\\n[GNUPG:] SIG_CREATED \\n' >&2",
    );
    add(&env, "touch a", "test -f a", &[]);
    env.run(RUN).success();
    let commit = env.git(["cat-file", "commit", "HEAD"]);
    assert!(commit.contains("gpgsig -----BEGIN PGP SIGNATURE-----"), "{commit}");
}

#[test]
fn s8_a_signer_that_fails_stops_the_run_and_counts_no_attempt() {
    let env = hooked("[git]\nsign = true\n", "exit 1");
    signing(&env, "echo 'no pinentry' >&2; exit 1");
    add(&env, "touch a", "test -f a", &[]);
    let ran = env.run(RUN).code(1);
    assert!(ran.errors().contains("the commit could not be signed"), "{}", ran.errors());
    assert_eq!(task(&env, 0)["attempts"], 0);
    // The work still exists, and the next run commits it.
    env.write("harness.toml", "");
    env.git([
        "commit",
        "--quiet",
        "--no-gpg-sign",
        "--no-verify",
        "-m",
        "unsigned",
        "harness.toml",
    ]);
    env.run(["trust", "--yes"]).success();
    env.run(RUN).success();
    env.git(["show", "HEAD:a"]);
}
