//! The number of calls of git, and of its scans of the whole work tree.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::environment::TestEnvironment;

/// A world in which every call of git, and every word of [`AGENT`] and [`CHECK`], is a line of a
/// log.
struct Watched {
    env: TestEnvironment,
    log: PathBuf,
}

const AGENT: &str = "AGENT";
const CHECK: &str = "CHECK";

/// Commands that read every file.
const SCANS: [&str; 4] = ["status", "ls-files", "reset", "add"];

impl Watched {
    fn new() -> Self {
        let env = TestEnvironment::of_worker();
        for n in 0..30 {
            env.write(format!("src/{}/{n}.txt", n % 5), format!("{n}\n"));
        }
        env.git(["add", "src"]);
        env.git(["commit", "--quiet", "--message", "files"]);
        let path = std::env::var_os("PATH").unwrap();
        let mut real = std::env::split_paths(&path).map(|folder| folder.join("git"));
        let real = real.find(|git| git.is_file()).unwrap();
        let (folder, log) = (env.home().join("bin"), env.home().join("git.log"));
        fs::create_dir(&folder).unwrap();
        let script = format!(
            "#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{}'\nexec '{}' \"$@\"\n",
            log.display(),
            real.display()
        );
        fs::write(folder.join("git"), script).unwrap();
        fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
        let paths = [folder].into_iter().chain(std::env::split_paths(&path).collect::<Vec<_>>());
        let env = env.variable("PATH", std::env::join_paths(paths).unwrap());
        Self { env, log }
    }

    /// Returns a line of shell that writes a word to the log.
    fn say(&self, word: &str) -> String {
        format!("echo {word} >> '{}'", self.log.display())
    }

    fn add_tasks(&self, count: usize) {
        for n in 0..count {
            let work = format!("{}; echo {n} > out-{n}", self.say(AGENT));
            let check = format!("{}; test -f out-{n}", self.say(CHECK));
            self.env.run(["add", "x", "--instructions", &work, "--validate", &check]).success();
        }
    }

    /// Returns the calls so far: the name of a git command, or a logged word. They are split at
    /// each start of an agent, without those before the first and after the last.
    fn between_agents(&self) -> Vec<Vec<String>> {
        let log = fs::read_to_string(&self.log).unwrap();
        let names = log.lines().map(|line| {
            let mut words = line.split(' ').filter(|word| !word.starts_with("--no-"));
            loop {
                match words.next().unwrap_or_default() {
                    "-c" => drop(words.next()),
                    name => break name.to_owned(),
                }
            }
        });
        let names: Vec<_> = names.collect();
        let mut parts: Vec<_> = names.split(|name| name == AGENT).map(<[_]>::to_vec).collect();
        parts.pop();
        parts.drain(..1);
        parts
    }
}

fn scans(calls: &[String]) -> usize {
    calls.iter().filter(|call| SCANS.contains(&call.as_str())).count()
}

#[test]
fn an_attempt_takes_seven_calls_of_git_and_looks_at_the_tree_three_times() {
    let watched = Watched::new();
    watched.add_tasks(4);
    watched.env.run(["run", "--agent", "shell"]).success();
    let attempts = watched.between_agents();
    assert_eq!(attempts.len(), 3);
    for (number, mut calls) in attempts.into_iter().enumerate() {
        if number == 0 {
            // The tree of the commit that the session began with is not known yet.
            calls.retain(|call| call != "rev-parse");
        }
        let before = ["status", "status", "update-index", "write-tree"];
        let after = ["status", "commit-tree", "update-ref"];
        let expected = [&before[..], &[CHECK], &after].concat();
        // The last two are started together.
        let last = calls.len().saturating_sub(2);
        calls[last..].sort();
        assert_eq!(calls, expected);
    }
    assert_eq!(watched.env.git(["status", "--porcelain"]), "");
    assert_eq!(watched.env.git(["diff", "--cached", "--name-only", "HEAD"]), "");
}

#[test]
fn an_attempt_beside_untracked_files_looks_at_the_tree_four_times_at_most() {
    let watched = Watched::new();
    watched.env.write("mine/notes.txt", "mine").write("todo.txt", "mine");
    fs::create_dir(watched.env.root().join("empty")).unwrap();
    watched.add_tasks(4);
    watched.env.run(["run", "--agent", "shell"]).success();
    for calls in watched.between_agents() {
        // The stamp of a file that was just written is not reliable, so it may be hashed once more.
        let counted = calls.iter().filter(|call| *call != "hash-object").count();
        assert!(scans(&calls) <= 4 && counted <= 14, "{calls:?}");
    }
    assert_eq!(watched.env.git(["status", "--porcelain"]), "?? mine/\n?? todo.txt");
}

#[test]
fn an_iteration_of_an_objective_takes_one_call_of_git() {
    let watched = Watched::new();
    let agent = watched.env.home().join("agent");
    let script =
        format!("#!/bin/sh\ncat > /dev/null\n{}\necho x >> out\necho more", watched.say(AGENT));
    fs::write(&agent, script).unwrap();
    fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
    let agent = agent.display().to_string();
    let args = ["run", "--agent-command", &agent, "--max-iterations", "4", "write more"];
    watched.env.run(args).code(3);
    let iterations = watched.between_agents();
    assert_eq!(iterations.len(), 4);
    for calls in iterations {
        assert_eq!(calls, ["status"]);
    }
}
