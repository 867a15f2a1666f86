//! `harness log --agent`: the text and the actions of an agent, from its transcripts.

use std::collections::VecDeque;

use harness::{home::Home, store::this_process};
use harness_core::Run;

use super::Args;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
    invocation::Invocation,
    root::StateRoot,
    transcript_file::{TranscriptFolder, TranscriptLines, Whose},
    transcript_text::TranscriptText,
    watch::Watch,
};

pub(super) fn run(invocation: &mut Invocation, args: &Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let Some(folder) = TranscriptFolder::find(root.path())? else {
        let none = Failure::error("there are no transcripts yet")
            .hint("an agent of `harness run` writes one as soon as it starts");
        return Err(elsewhere(&root, args.id.as_ref().map(|id| id.as_str())).unwrap_or(none));
    };
    let whose = match &args.id {
        None => Whose::Newest,
        Some(id) => whose(&root, &folder, id.as_str())
            .map_err(|none| elsewhere(&root, Some(id.as_str())).unwrap_or(none))?,
    };
    let names = folder.names(&whose)?;
    let Some((last, before)) = names.split_last() else {
        return Err(Failure::error("there are no transcripts of that any more"));
    };
    let mut printer = Printer { invocation, kept: args.lines.map(Kept::new) };
    for name in before {
        printer.whole(&folder, name)?;
    }
    match args.follow {
        false => printer.whole(&folder, last)?,
        true => printer.follow(&root, &folder, &whose, last.clone())?,
    }
    printer.end()?;
    Ok(ExitCode::Done)
}

/// Returns the selection for a task, or for the beginning of a run's id.
fn whose(root: &StateRoot, folder: &TranscriptFolder, id: &str) -> Result<Whose> {
    let task = Whose::Task(id.to_owned());
    if !folder.names(&task)?.is_empty() {
        return Ok(task);
    }
    let store = root.look_at_runs()?;
    let runs = store.map(|store| store.runs()).transpose()?.unwrap_or_default();
    let wanted = id.to_ascii_lowercase();
    let found: Vec<&Run> = runs.iter().filter(|run| run.id.as_str().starts_with(&wanted)).collect();
    match found[..] {
        [] => Err(Failure::error(format!("there is no transcript of {id}"))
            .hint("name a task or a run: `harness status`, `harness runs list`")),
        [run] => Ok(Whose::Loop(loop_of(run, &runs, folder)?)),
        _ => Err(Failure::error(format!("{} runs begin with {id:?}", found.len()))
            .hint("type more of the id: `harness runs list --all`")),
    }
}

/// Returns the failure that names the machine of the transcripts of a task or run, or of the newest run;
/// `None` if they were made on this machine, or if the ledger is in files.
fn elsewhere(root: &StateRoot, id: Option<&str>) -> Option<Failure> {
    let store = root.look_at_runs().ok()??;
    let (hosts, runs) = (store.hosts().ok()?, store.runs().ok()?);
    let here = this_process().host;
    let is_meant = |run: &&Run| match id {
        None => true,
        Some(id) => {
            let is_task = run.task.as_ref().is_some_and(|task| task.as_str() == id);
            is_task || run.id.as_str().starts_with(&id.to_ascii_lowercase())
        }
    };
    // The runs are sorted, newest first.
    let run = runs.iter().find(is_meant)?;
    let host = hosts.get(&run.id).filter(|host| **host != here)?;
    let of = id.map_or_else(|| format!("run {}", run.id), str::to_owned);
    let failure = Failure::error(format!("the transcripts of {of} are on {host}"));
    Some(failure.hint("run the command there: transcripts stay on the machine that made them"))
}

/// Returns the name of a run's files. For a run over the ledger it is that of its last attempt.
fn loop_of(run: &Run, runs: &[Run], folder: &TranscriptFolder) -> Result<String> {
    let name = |run: &Run| match (&run.task, run.epoch) {
        (Some(task), Some(epoch)) => format!("{task}.{epoch}"),
        _ => run.id.to_string(),
    };
    // The attempts are sorted, newest first.
    let attempts = runs.iter().filter(|other| other.parent.as_ref() == Some(&run.id));
    for candidate in [run].into_iter().chain(attempts).map(name) {
        if !folder.names(&Whose::Loop(candidate.clone()))?.is_empty() {
            return Ok(candidate);
        }
    }
    Err(Failure::error(format!("there is no transcript of run {}", run.id)))
}

/// The last lines of those that were printed.
struct Kept {
    lines: VecDeque<String>,
    most: usize,
}

impl Kept {
    fn new(most: usize) -> Self {
        Self { lines: VecDeque::new(), most }
    }
}

struct Printer<'a> {
    invocation: &'a mut Invocation,
    kept: Option<Kept>,
}

impl Printer<'_> {
    fn print(&mut self, line: String) -> Result<()> {
        let Some(kept) = &mut self.kept else { return self.invocation.out.line(line) };
        kept.lines.push_back(line);
        if kept.lines.len() > kept.most {
            kept.lines.pop_front();
        }
        Ok(())
    }

    /// Prints the kept lines, and keeps no more from now on.
    fn end(&mut self) -> Result<()> {
        let kept = self.kept.take().map(|kept| kept.lines).unwrap_or_default();
        kept.into_iter().try_for_each(|line| self.invocation.out.line(line))
    }

    fn heading(&mut self, name: &str) -> Result<()> {
        let paint = self.invocation.out.paint();
        let text = format!("--- {}/{name}", Home::TRANSCRIPTS);
        self.print(paint.faint(text).to_string())
    }

    fn whole(&mut self, folder: &TranscriptFolder, name: &str) -> Result<()> {
        self.heading(name)?;
        let Some(mut lines) = folder.open(name)? else { return Ok(()) };
        let mut text = TranscriptText::default();
        self.more(&mut lines, &mut text)?;
        self.rest(folder, name, &mut lines, &mut text)
    }

    /// Prints the lines that exist by now.
    fn more(&mut self, lines: &mut TranscriptLines, text: &mut TranscriptText) -> Result<()> {
        while let Some(line) = lines.next()? {
            for shown in text.line(&line) {
                self.print(shown)?;
            }
        }
        Ok(())
    }

    /// Prints the line that has no end yet, and standard error.
    fn rest(
        &mut self,
        folder: &TranscriptFolder,
        name: &str,
        lines: &mut TranscriptLines,
        text: &mut TranscriptText,
    ) -> Result<()> {
        let last = lines.rest().map(|line| text.line(&line)).unwrap_or_default();
        for line in last.into_iter().chain(text.rest()) {
            self.print(line)?;
        }
        let Some(mut errors) = folder.open_errors(name)? else { return Ok(()) };
        let paint = self.invocation.out.paint();
        self.print(paint.faint("--- standard error").to_string())?;
        while let Some(line) = errors.next()? {
            self.print(crate::paint::one_line(&line).into_owned())?;
        }
        match errors.rest() {
            Some(line) => self.print(crate::paint::one_line(&line).into_owned()),
            None => Ok(()),
        }
    }

    /// Follows the transcript, and the next one when it appears. Only the end of standard output or
    /// an interrupt ends it.
    fn follow(
        &mut self,
        root: &StateRoot,
        folder: &TranscriptFolder,
        whose: &Whose,
        mut name: String,
    ) -> Result<()> {
        let place = Home::of(root.path()).transcripts();
        loop {
            self.heading(&name)?;
            // The folder itself changes when a file is added.
            let mut watch = Watch::on(&place, &[&name, "."]);
            let mut text = TranscriptText::default();
            let Some(mut lines) = folder.open(&name)? else { return Ok(()) };
            loop {
                let newest = folder.names(whose)?.pop().filter(|newest| *newest != name);
                self.more(&mut lines, &mut text)?;
                self.end()?;
                if let Some(newest) = newest {
                    self.rest(folder, &name, &mut lines, &mut text)?;
                    name = newest;
                    break;
                }
                self.invocation.out.finish()?;
                watch.wait(None)?;
            }
        }
    }
}
