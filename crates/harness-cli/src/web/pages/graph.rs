//! The dependencies of tasks as a drawing: each task right of those that it waits for.

use std::collections::HashMap;

use maud::{Markup, html};

use super::parts::Tone;

/// The number of tasks that one drawing shows.
pub(super) const NODES_MAX: usize = 120;
const WIDTH: usize = 190;
const HEIGHT: usize = 44;
const GAP_X: usize = 46;
const GAP_Y: usize = 14;
const TITLE_CHARS: usize = 26;

/// One task.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) tone: Tone,
    pub(super) needs: Vec<String>,
}

/// A place in the drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    column: usize,
    row: usize,
}

impl Place {
    fn x(self) -> usize {
        self.column * (WIDTH + GAP_X) + 4
    }

    fn y(self) -> usize {
        self.row * (HEIGHT + GAP_Y) + 4
    }
}

/// Draws `nodes`. Edges to other tasks are left out.
pub(super) fn draw(nodes: &[Node]) -> Markup {
    let places = places(nodes);
    let at: HashMap<&str, Place> =
        nodes.iter().zip(&places).map(|(node, place)| (node.id.as_str(), *place)).collect();
    let columns = places.iter().map(|place| place.column + 1).max().unwrap_or(0);
    let rows = places.iter().map(|place| place.row + 1).max().unwrap_or(0);
    let (width, height) =
        (columns * (WIDTH + GAP_X) - GAP_X.min(columns * GAP_X) + 8, rows * (HEIGHT + GAP_Y) + 8);
    html! {
        svg width=(width) height=(height) viewBox=(format!("0 0 {width} {height}")) role="img"
            aria-label="Tasks and what they depend on" {
            @for node in nodes {
                @for from in node.needs.iter().filter_map(|need| at.get(need.as_str())) {
                    path .edge d=(edge(*from, at[node.id.as_str()])) {}
                }
            }
            @for (node, place) in nodes.iter().zip(&places) {
                a href=(format!("task/{}", node.id)) {
                    g class=(format!("node {}", node.tone.class())) {
                        title { (node.id) ": " (node.title) }
                        rect x=(place.x()) y=(place.y()) width=(WIDTH) height=(HEIGHT) rx="8" {}
                        text .id x=(place.x() + 10) y=(place.y() + 18) { (node.id) }
                        text x=(place.x() + 10) y=(place.y() + 34) {
                            (crate::tool_line::cut(&node.title, TITLE_CHARS))
                        }
                    }
                }
            }
        }
    }
}

/// Returns a curve from the right side of one task to the left side of another.
fn edge(from: Place, to: Place) -> String {
    let (x1, y1) = (from.x() + WIDTH, from.y() + HEIGHT / 2);
    let (x2, y2) = (to.x(), to.y() + HEIGHT / 2);
    let bend = GAP_X / 2 + 4;
    format!("M{x1} {y1} C{} {y1} {} {y2} {x2} {y2}", x1 + bend, x2.saturating_sub(bend))
}

/// Places each task one column right of the last one that it waits for, and near their rows. Tasks
/// that wait for each other are not moved any further than there are tasks.
fn places(nodes: &[Node]) -> Vec<Place> {
    let index: HashMap<&str, usize> =
        nodes.iter().enumerate().map(|(n, node)| (node.id.as_str(), n)).collect();
    let needs: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            node.needs.iter().filter_map(|need| index.get(need.as_str()).copied()).collect()
        })
        .collect();
    let mut columns = vec![0; nodes.len()];
    for _ in 0..nodes.len() {
        let mut moved = false;
        for (n, needs) in needs.iter().enumerate() {
            let column = needs.iter().map(|need| columns[*need] + 1).max().unwrap_or(0);
            if column > columns[n] && column < nodes.len() {
                columns[n] = column;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    rows(&columns, &needs)
}

fn rows(columns: &[usize], needs: &[Vec<usize>]) -> Vec<Place> {
    let mut places: Vec<Place> =
        columns.iter().map(|column| Place { column: *column, row: 0 }).collect();
    for column in 0..=columns.iter().copied().max().unwrap_or(0) {
        let mut members: Vec<usize> =
            (0..columns.len()).filter(|n| columns[*n] == column).collect();
        let middle = |n: &usize| {
            let above: usize = needs[*n].iter().map(|need| places[*need].row * 16).sum();
            above.checked_div(needs[*n].len()).unwrap_or(usize::MAX)
        };
        // Tasks without dependencies keep the order of the ledger, and come last.
        members.sort_by_key(|n| (middle(n), *n));
        for (row, n) in members.into_iter().enumerate() {
            places[n].row = row;
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, needs: &[&str]) -> Node {
        let needs = needs.iter().map(|need| (*need).to_owned()).collect();
        Node { id: id.into(), title: id.into(), tone: Tone::Plain, needs }
    }

    #[test]
    fn a_task_is_right_of_everything_that_it_waits_for() {
        let nodes =
            [node("a", &[]), node("b", &["a"]), node("c", &["a", "b", "gone"]), node("d", &[])];
        let columns: Vec<_> = places(&nodes).iter().map(|place| place.column).collect();
        assert_eq!(columns, [0, 1, 2, 0]);
        let places = places(&nodes);
        let mut distinct: Vec<_> = places.iter().map(|place| (place.column, place.row)).collect();
        distinct.dedup();
        assert_eq!(distinct.len(), nodes.len());
    }

    #[test]
    fn tasks_that_wait_for_each_other_end() {
        let nodes = [node("a", &["b"]), node("b", &["a"])];
        assert!(places(&nodes).iter().all(|place| place.column < 2));
        let text = draw(&nodes).into_string();
        assert!(text.starts_with("<svg") && text.contains("task/a"), "{text}");
        assert!(draw(&[]).into_string().contains("<svg"));
    }
}
