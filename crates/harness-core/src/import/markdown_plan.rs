//! Markdown with `### Task N: title`: steps with boxes, and the commands that prove them. Fenced
//! blocks are no steps, but they are part of the instructions.

use super::{
    ImportProgress, Imported, ImportedTask, Mark, SourceText,
    lines::{
        Bullets, Fence, Heading, Line, backticked, checkbox, heading, labelled, lines, plain,
        validate_line,
    },
    names::{Names, stem},
    outline::{paragraphs, reading, tick},
};
use crate::task::TaskSource;

/// The longest beginning of an id that a file name gives.
const STEM_CHARS: usize = 40;

struct Section<'a> {
    number: &'a str,
    title: &'a str,
    start: usize,
    end: usize,
    boxes: usize,
    marks: Vec<Mark>,
    check: Option<String>,
    /// The command of a line `Run:` whose `Expected:` has not come yet.
    ran: Option<String>,
}

impl Section<'_> {
    /// Takes a line outside of fences.
    fn takes(&mut self, line: &Line<'_>) {
        let mut body = line.text.trim();
        if let Some(found) = checkbox(line, Bullets::All) {
            self.boxes += 1;
            if !found.done {
                self.marks.push(tick(&found));
            }
            body = found.text;
        }
        let body = body.trim_start_matches(['-', ' ', '\t']);
        if let Some(rest) = labelled(body, "run") {
            self.ran = backticked(rest).next().map(str::to_owned);
        } else if let Some(rest) = labelled(body, "expected") {
            let rest = rest.trim_start_matches(['`', '*']).to_ascii_uppercase();
            match self.ran.take() {
                Some(command) if rest.starts_with("PASS") => self.check = Some(command),
                _ => {}
            }
        } else if !body.is_empty() {
            self.ran = None;
        }
    }
}

pub(super) fn read(source: &SourceText) -> Imported {
    let mut goal = "";
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut for_all: Vec<String> = Vec::new();
    let mut place = Place::Elsewhere;
    let mut fence = Fence::default();
    for line in lines(&source.text) {
        let fenced = fence.takes(&line);
        match heading(&line).filter(|_| !fenced) {
            Some(found) => {
                if goal.is_empty() && found.level == 1 {
                    goal = found.text;
                }
                place = begin(found, &line, &place, &mut sections);
            }
            None => match place {
                Place::Commands { .. } => for_all.extend(commands(&line, fenced)),
                Place::Task { .. } if !fenced => {
                    if let Some(section) = sections.last_mut() {
                        section.takes(&line);
                    }
                }
                Place::Task { .. } | Place::Elsewhere => {}
            },
        }
        if let (Place::Task { .. }, Some(section)) = (&place, sections.last_mut()) {
            section.end = line.start + line.text.len();
        }
    }
    let goal = if goal.is_empty() { source.path.clone() } else { plain(goal) };
    let mut found = Imported { goal, ..Imported::default() };
    let (mut names, stem) = (Names::default(), stem(&source.path));
    let stem: String = stem.chars().take(STEM_CHARS).collect();
    for section in sections {
        let key = names.take(section.number);
        let before = found.tasks.last().map(|task| task.name.clone());
        let task = task(source, section, key, &stem, &for_all);
        found.tasks.push(ImportedTask { depends_on: before.into_iter().collect(), ..task });
    }
    found
}

/// The kind of section that a line belongs to, with the level of its heading.
enum Place {
    Elsewhere,
    Task { level: usize },
    Commands { level: usize },
}

fn begin<'a>(
    found: Heading<'a>,
    line: &Line<'a>,
    place: &Place,
    sections: &mut Vec<Section<'a>>,
) -> Place {
    if let Some((number, title)) = task_heading(found.text).filter(|_| found.level > 1) {
        sections.push(Section {
            number,
            title,
            start: line.start + line.text.len(),
            end: line.start + line.text.len(),
            boxes: 0,
            marks: Vec::new(),
            check: None,
            ran: None,
        });
        return Place::Task { level: found.level };
    }
    if found.text.eq_ignore_ascii_case("validation commands") {
        return Place::Commands { level: found.level };
    }
    match *place {
        // A heading below another one belongs to it.
        Place::Task { level } if found.level > level => Place::Task { level },
        Place::Commands { level } if found.level > level => Place::Commands { level },
        Place::Task { .. } | Place::Commands { .. } | Place::Elsewhere => Place::Elsewhere,
    }
}

/// Reads `Task N: title`.
fn task_heading(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("Task").or_else(|| text.strip_prefix("Iteration"))?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let (number, title) = rest.split_once(':')?;
    let plausible = number.starts_with(|c: char| c.is_ascii_digit())
        && number.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    (plausible && !title.trim().is_empty()).then(|| (number, title.trim()))
}

/// Returns the commands on a line below `Validation Commands`: those in backticks, or the lines of a
/// fenced block.
fn commands(line: &Line<'_>, fenced: bool) -> Vec<String> {
    let body = line.text.trim();
    match fenced {
        true if body.starts_with(['`', '~', '#']) || body.is_empty() => Vec::new(),
        true => vec![body.to_owned()],
        false => backticked(body).map(str::to_owned).collect(),
    }
}

fn task(
    source: &SourceText,
    section: Section<'_>,
    key: String,
    stem: &str,
    for_all: &[String],
) -> ImportedTask {
    let text = source.text.get(section.start..section.end).unwrap_or_default();
    let text = text.replace("\r\n", "\n");
    let own = section.check.or_else(|| validate_line(&text));
    let commands: Vec<String> = own.into_iter().chain(for_all.iter().cloned()).collect();
    let origin = format!("It is task {key} of {}.", source.path);
    let done = section.boxes > 0 && section.marks.is_empty();
    ImportedTask {
        source: TaskSource {
            kind: "plan".to_owned(),
            path: Some(source.path.clone()),
            key: key.clone(),
        },
        name: format!("{stem}-{key}"),
        title: plain(section.title),
        instructions: paragraphs([
            text.trim_matches(['\n', '\r']),
            &origin,
            &reading(&source.beside),
        ]),
        check: (!commands.is_empty()).then(|| commands.join(" && ")),
        priority: None,
        depends_on: Vec::new(),
        progress: ImportProgress::of(done),
        marks: section.marks,
    }
}
