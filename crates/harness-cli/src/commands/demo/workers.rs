//! Scripted workers: each claims a task, follows its instructions, and asks for the check.

use std::{
    path::Path,
    process::Command,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Sender},
    },
    thread,
};

use serde_json::Value;

use super::stage::Stage;
use crate::failure::{Failure, Result};

/// Lets the workers work in parallel until together they have completed `count` tasks.
pub(super) fn work(stage: &mut Stage<'_>, names: &[&str], count: usize) -> Result<()> {
    let (told, heard) = mpsc::channel::<Result<String, String>>();
    let shop = Shop { left: Mutex::new(count), changed: Condvar::new(), tree: Mutex::new(()) };
    thread::scope(|scope| {
        for name in names {
            let programs = Programs {
                harness: stage.command(stage.program()),
                git: stage.command(Path::new("git")),
                sh: stage.command(Path::new("sh")),
            };
            let worker = Worker { name, programs, told: told.clone() };
            let shop = &shop;
            scope.spawn(move || {
                if let Err(why) = worker.work(shop) {
                    // The others must not wait for a worker that has left.
                    *shop.left() = 0;
                    shop.changed.notify_all();
                    _ = worker.told.send(Err(format!("{}: {why}", worker.name)));
                }
            });
        }
        drop(told);
        heard.iter().try_for_each(|said| stage.say(&said.map_err(Failure::error)?))
    })
}

/// The state that the workers share besides the ledger.
struct Shop {
    /// The number of tasks that are still to be completed.
    left: Mutex<usize>,
    changed: Condvar,
    /// The workers share one work tree, so only one writes and commits at a time.
    tree: Mutex<()>,
}

impl Shop {
    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Programs {
    harness: Command,
    git: Command,
    sh: Command,
}

struct Worker<'a> {
    name: &'a str,
    programs: Programs,
    told: Sender<Result<String, String>>,
}

impl Worker<'_> {
    fn work(&self, shop: &Shop) -> Result<(), String> {
        loop {
            let left = *shop.left();
            if left == 0 {
                return Ok(());
            }
            let claim = run(&self.programs.harness, &["task", "claim", "--worker", self.name])?;
            let claim: Value = serde_json::from_str(&claim).map_err(|e| e.to_string())?;
            if claim["task"].is_null() {
                // Another worker holds the task that the rest waits for. Its end wakes this one.
                self.say("waits: nothing is ready");
                let unchanged = |now: &mut usize| *now == left;
                drop(shop.changed.wait_while(shop.left(), unchanged));
                continue;
            }
            self.one_task(shop, &claim["task"])?;
            let mut left = shop.left();
            *left = left.saturating_sub(1);
            shop.changed.notify_all();
        }
    }

    fn one_task(&self, shop: &Shop, task: &Value) -> Result<(), String> {
        let text = |key: &str| task[key].as_str().unwrap_or_default();
        let (id, title) = (text("id"), text("description"));
        self.say(&format!("claims {id}: {title}"));
        {
            let _one_at_a_time = shop.tree.lock();
            run(&self.programs.sh, &["-euc", text("instructions")])?;
            run(&self.programs.git, &["add", "--all"])?;
            let message = format!("{id}: {title}");
            run(&self.programs.git, &["commit", "--quiet", "--message", &message])?;
        }
        let me = ["--worker", self.name, "--id", id];
        let checkpoint = ["task", "checkpoint", "--step", "1", "--total", "1", "written"];
        run(&self.programs.harness, &[&checkpoint[..], &me].concat())?;
        run(&self.programs.harness, &[&["task", "complete"][..], &me].concat())?;
        self.say(&format!("completes {id}: its check passed"));
        Ok(())
    }

    fn say(&self, what: &str) {
        // Nothing receives it any more if another worker failed.
        _ = self.told.send(Ok(format!("  {:<4}{what}", self.name)));
    }
}

/// Runs a copy of `base` with these arguments.
fn run(base: &Command, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(base.get_program());
    for (name, value) in base.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(directory) = base.get_current_dir() {
        command.current_dir(directory);
    }
    let output = command.args(args).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr).trim()))
}
