//! `harness task graph`

use std::collections::HashSet;

use harness_core::{
    Ledger, Standing, TaskId, stats,
    task::{Status, Task},
};
use serde_json::json;

use crate::{
    exit::ExitCode,
    failure::Result,
    invocation::Invocation,
    paint::one_line,
    render::Out,
    task_line::{Outlook, Tag, style},
};

/// Draw the dependencies of the tasks
///
/// Each task is drawn below one that it depends on. A task that depends on several is drawn in full
/// below the first of them, and only named below the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness task graph
  harness task graph --mermaid > plan.mmd
  harness task graph --json | jq '.edges | length'")]
pub(crate) struct Args {
    /// Write a diagram for Mermaid
    #[arg(long, conflicts_with = "json")]
    mermaid: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The depth of a tree. Deeper branches continue in a tree of their own, so that lines stay short.
const DEPTH_MAX: usize = 24;

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    let root = invocation.root()?;
    let ledger = invocation.look(&root)?;
    let graph = Graph { blocked: stats::blocked(&ledger), ledger: &ledger };
    if args.json {
        invocation.out.document(&graph.document())?;
    } else if args.mermaid {
        graph.mermaid(&mut invocation.out)?;
    } else {
        Tree { graph: &graph, drawn: HashSet::new(), path: HashSet::new(), later: Vec::new() }
            .print(&mut invocation.out)?;
    }
    Ok(ExitCode::Done)
}

struct Graph<'a> {
    ledger: &'a Ledger,
    blocked: HashSet<&'a TaskId>,
}

impl<'a> Graph<'a> {
    fn outlook(&self, task: &Task) -> Outlook {
        if self.blocked.contains(&task.id) { Outlook::Blocked } else { Outlook::Open }
    }

    /// Returns the ids that are named but do not exist, each once.
    fn missing(&self) -> Vec<&'a TaskId> {
        let mut seen = HashSet::new();
        let named = self.ledger.tasks().flat_map(|task| &task.depends_on);
        named.filter(|id| !self.ledger.contains(id) && seen.insert(*id)).collect()
    }

    fn edges(&self) -> impl Iterator<Item = (&'a TaskId, &'a TaskId)> {
        self.ledger.tasks().flat_map(|task| task.depends_on.iter().map(|from| (from, &task.id)))
    }

    fn document(&self) -> serde_json::Value {
        let node = |task: &Task| {
            let worker = task.claimed_by().filter(|_| task.status() == Status::InProgress);
            let standing = Standing::of(self.ledger, task);
            let waits_for: Vec<&TaskId> = match &standing {
                Standing::Waiting { on } => on.clone(),
                Standing::Blocked { by } | Standing::Reserved { by } => vec![*by],
                _ => Vec::new(),
            };
            let landing = match &standing {
                Standing::Claimed { landing, .. } => *landing,
                _ => None,
            };
            json!({
                "id": task.id,
                "title": task.title,
                "status": task.status().name(),
                "blocked": self.blocked.contains(&task.id),
                "worker": worker,
                "standing": standing.name(),
                "waits_for": waits_for,
                "landing": landing,
            })
        };
        let nodes: Vec<_> = self.ledger.tasks().map(node).collect();
        let edges: Vec<_> =
            self.edges().map(|(from, to)| json!({ "from": from, "to": to })).collect();
        let cyclic: Vec<_> = self.ledger.selection().cyclic().iter().collect();
        json!({ "nodes": nodes, "edges": edges, "missing": self.missing(), "cyclic": cyclic })
    }

    /// Prints the graph for Mermaid. Nodes have numbers, because an id may contain Mermaid syntax.
    fn mermaid(&self, out: &mut Out) -> Result<()> {
        out.line("graph TD")?;
        let missing = self.missing();
        let ids = self.ledger.tasks().map(|task| &task.id).chain(missing.iter().copied());
        let number: std::collections::HashMap<&TaskId, usize> =
            ids.enumerate().map(|(n, id)| (id, n)).collect();
        for (n, task) in self.ledger.tasks().enumerate() {
            let class = match self.outlook(task) {
                Outlook::Blocked => "blocked",
                Outlook::Open => task.status().name(),
            };
            let label = mermaid_text(&format!("{}: {}", task.id, task.title));
            let worker = match (task.status(), task.claimed_by()) {
                (Status::InProgress, Some(worker)) => {
                    format!("<br/>{}", mermaid_text(worker.as_str()))
                }
                _ => String::new(),
            };
            out.line(format_args!("  n{n}[\"{label}{worker}\"]:::{class}"))?;
        }
        for id in &missing {
            out.line(format_args!("  n{}[\"{id} is missing\"]:::failed", number[id]))?;
        }
        for (from, to) in self.edges() {
            out.line(format_args!("  n{} --> n{}", number[from], number[to]))?;
        }
        for (class, colours) in [
            ("completed", "fill:#d4edda,stroke:#28a745"),
            ("in_progress", "fill:#cce5ff,stroke:#007bff"),
            ("pending", "fill:#f8f9fa,stroke:#6c757d"),
            ("blocked", "fill:#fff3cd,stroke:#e0a800"),
            ("failed", "fill:#f8d7da,stroke:#dc3545"),
        ] {
            out.line(format_args!("  classDef {class} {colours},color:#000"))?;
        }
        Ok(())
    }
}

/// Returns the text for quotes. Characters that could end them or be markup become character codes.
fn mermaid_text(text: &str) -> String {
    one_line(text).chars().fold(String::new(), |mut safe, c| {
        match c {
            '"' | '#' | '<' | '>' | '&' | ';' | '`' | '\\' | '*' | '_' => {
                safe += &format!("#{};", u32::from(c));
            }
            _ => safe.push(c),
        }
        safe
    })
}

/// The drawing in progress. It does not recurse, because a chain may be a hundred thousand tasks
/// long.
struct Tree<'a> {
    graph: &'a Graph<'a>,
    drawn: HashSet<&'a TaskId>,
    /// The tasks above the current one.
    path: HashSet<&'a TaskId>,
    /// The tasks at which trees that got too deep continue.
    later: Vec<&'a TaskId>,
}

/// A task whose dependents are being drawn.
struct Branch<'a> {
    id: &'a TaskId,
    dependents: Vec<&'a TaskId>,
    next: usize,
}

impl<'a> Tree<'a> {
    fn print(mut self, out: &mut Out) -> Result<()> {
        let ledger = self.graph.ledger;
        for id in self.graph.missing() {
            self.draw(out, id)?;
        }
        for task in ledger.tasks().filter(|task| task.depends_on.is_empty()) {
            self.draw(out, &task.id)?;
        }
        // The remaining tasks are on a cycle, or behind one.
        for task in ledger.tasks() {
            self.draw(out, &task.id)?;
        }
        Ok(())
    }

    fn draw(&mut self, out: &mut Out, root: &'a TaskId) -> Result<()> {
        if self.drawn.contains(root) {
            return Ok(());
        }
        self.later.push(root);
        while let Some(start) = self.later.pop() {
            self.draw_one(out, start)?;
        }
        Ok(())
    }

    fn draw_one(&mut self, out: &mut Out, start: &'a TaskId) -> Result<()> {
        self.drawn.insert(start);
        self.line(out, "", start, "")?;
        self.path.insert(start);
        let mut branches = vec![self.branch(start)];
        while let Some(branch) = branches.last_mut() {
            let Some(id) = branch.dependents.get(branch.next).copied() else {
                self.path.remove(branch.id);
                branches.pop();
                continue;
            };
            branch.next += 1;
            let mut lead = String::new();
            for (n, branch) in branches.iter().enumerate() {
                let more = branch.next < branch.dependents.len();
                lead += match (n + 1 == branches.len(), more) {
                    (false, true) => "│  ",
                    (false, false) => "   ",
                    (true, true) => "├─ ",
                    (true, false) => "└─ ",
                };
            }
            if self.path.contains(id) {
                self.line(out, &lead, id, " ↺ depends on itself")?;
            } else if self.drawn.contains(id) {
                self.line(out, &lead, id, " ↑ see above")?;
            } else if branches.len() >= DEPTH_MAX && self.has_dependents(id) {
                self.line(out, &lead, id, " ↓ goes on below")?;
                self.drawn.insert(id);
                self.later.push(id);
            } else {
                self.drawn.insert(id);
                self.line(out, &lead, id, "")?;
                self.path.insert(id);
                branches.push(self.branch(id));
            }
        }
        self.path.clear();
        Ok(())
    }

    fn has_dependents(&self, id: &TaskId) -> bool {
        self.graph.ledger.selection().dependents(id).next().is_some()
    }

    fn branch(&self, id: &'a TaskId) -> Branch<'a> {
        let dependents = self.graph.ledger.selection().dependents(id).collect();
        Branch { id, dependents, next: 0 }
    }

    fn line(&self, out: &mut Out, lead: &str, id: &TaskId, note: &str) -> Result<()> {
        let paint = out.paint();
        let lead = paint.faint(lead);
        let Some(task) = self.graph.ledger.task(id) else {
            return out.line(format_args!("{lead}{} {id}", paint.error("[missing]")));
        };
        let outlook = self.graph.outlook(task);
        let style = style(task.status(), outlook);
        let tag = paint.style(style, Tag(task.status()));
        if !note.is_empty() {
            return out.line(format_args!("{lead}{tag} {id}{}", paint.faint(note)));
        }
        let title = one_line(&task.title);
        let worker = match Standing::of(self.graph.ledger, task) {
            Standing::Claimed { by, landing } => {
                let by = by.map(|by| format!(" — {}", one_line(by.as_str()))).unwrap_or_default();
                let place = landing.map(|place| format!(", place {place} in the line to land"));
                by + &place.unwrap_or_default()
            }
            held @ (Standing::Reserved { .. } | Standing::Requires { .. }) => format!(" — {held}"),
            _ => String::new(),
        };
        match outlook {
            Outlook::Open => out.line(format_args!("{lead}{tag} {id}: {title}{worker}")),
            Outlook::Blocked => {
                let blocked = paint.style(style, "blocked");
                out.line(format_args!("{lead}{tag} {id}: {title} — {blocked}"))
            }
        }
    }
}
