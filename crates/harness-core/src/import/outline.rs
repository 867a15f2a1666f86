//! The items of a Markdown text with boxes, with what stands below each of them.

use super::{
    ImportProgress, ImportedTask, Mark, SourceText,
    lines::{Bullets, Checkbox, Line, checkbox},
};

/// A box becomes this one.
const TICK: &str = "x";

/// An item with its details.
#[derive(Debug)]
pub(super) struct Item<'a> {
    pub(super) found: Checkbox<'a>,
    /// The lines below it that are indented and have no box.
    pub(super) details: Vec<&'a str>,
}

impl Item<'_> {
    pub(super) fn progress(&self) -> ImportProgress {
        ImportProgress::of(self.found.done)
    }

    pub(super) fn marks(&self) -> Vec<Mark> {
        if self.found.done { Vec::new() } else { vec![tick(&self.found)] }
    }

    pub(super) fn details(&self) -> String {
        let shared = self.details.iter().filter(|line| !line.trim().is_empty());
        let shared = shared.map(|line| line.len() - line.trim_start().len()).min().unwrap_or(0);
        let lines = self.details.iter().map(|line| line.get(shared..).unwrap_or_default());
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }
}

/// Returns the change that ticks a box.
pub(super) fn tick(found: &Checkbox<'_>) -> Mark {
    Mark { place: found.place.clone(), with: TICK }
}

/// Collects items line by line.
#[derive(Debug, Default)]
pub(super) struct Items<'a> {
    pub(super) list: Vec<Item<'a>>,
    /// Whether the next indented line belongs to the last item.
    open: bool,
}

impl<'a> Items<'a> {
    /// Takes a line. Returns whether it is a new item.
    pub(super) fn takes(&mut self, line: &Line<'a>, bullets: Bullets) -> bool {
        if let Some(found) = checkbox(line, bullets) {
            self.list.push(Item { found, details: Vec::new() });
            self.open = true;
            return true;
        }
        if let Some(last) = self.list.last_mut().filter(|_| self.open) {
            if line.is_blank() || line.indent() > last.found.indent {
                last.details.push(line.text);
            } else {
                self.open = false;
            }
        }
        false
    }

    /// Ends the details of the last item.
    pub(super) fn close(&mut self) {
        self.open = false;
    }
}

/// Returns for each item the one that it is indented below.
pub(super) fn parents(indents: &[usize]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(indents.len());
    for (n, indent) in indents.iter().enumerate() {
        while open.last().is_some_and(|above| indents[*above] >= *indent) {
            open.pop();
        }
        parents.push(open.last().copied());
        open.push(n);
    }
    parents
}

/// Lets each task wait for those that are indented below it. Returns those that are below none.
pub(super) fn nest(tasks: &mut [ImportedTask], parents: &[Option<usize>]) -> Vec<usize> {
    let mut top = Vec::new();
    for (n, parent) in parents.iter().enumerate().take(tasks.len()) {
        let Some(parent) = *parent else {
            top.push(n);
            continue;
        };
        let (name, of) = (tasks[n].name.clone(), tasks[parent].title.clone());
        tasks[parent].depends_on.push(name);
        let said = format!("It is a part of: {of}");
        tasks[n].instructions = paragraphs([tasks[n].instructions.as_str(), &said]);
    }
    top
}

/// Joins the texts that are not empty.
pub(super) fn paragraphs<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts = texts.into_iter().map(str::trim_end).filter(|text| !text.trim().is_empty());
    texts.collect::<Vec<_>>().join("\n\n")
}

/// Notes that items without a text were left out.
pub(super) fn no_text(source: &SourceText, count: usize) -> String {
    let items = if count == 1 { "an item".to_owned() } else { format!("{count} items") };
    format!("{}: left out {items} without a text", source.path)
}

/// Names documents that an agent should read.
pub(super) fn reading(beside: &[String]) -> String {
    if beside.is_empty() { String::new() } else { format!("Read first: {}", beside.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_below_the_nearest_one_with_a_smaller_indent() {
        let found = parents(&[0, 2, 4, 2, 0, 0, 6]);
        assert_eq!(found, [None, Some(0), Some(1), Some(0), None, None, Some(5)]);
    }
}
