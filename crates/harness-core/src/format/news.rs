//! The difference between two versions of a ledger, for a process that follows another one.
//!
//! It has the form of the journal: the root object, and the tasks that were put or dropped, in order.
//! News without a version to start from contain all tasks.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{
    Document, FormatError,
    journal::{Touched, WrittenRow},
    object::Object,
    pretty::compact,
    read::head,
    task_json,
};
use crate::{
    TaskId,
    ledger::{Ledger, Row},
};

/// What changed between two versions of a ledger.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LedgerNews {
    /// The root object, with a null in the place of the tasks.
    head: Box<RawValue>,
    rows: Vec<RowNews>,
    /// Whether the rows are all tasks.
    whole: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RowNews {
    Put(Box<RawValue>),
    Drop(TaskId),
}

impl PartialEq for LedgerNews {
    fn eq(&self, other: &Self) -> bool {
        self.whole == other.whole
            && self.head.get() == other.head.get()
            && self.rows.len() == other.rows.len()
            && self.rows.iter().zip(&other.rows).all(|rows| match rows {
                (RowNews::Put(one), RowNews::Put(other)) => one.get() == other.get(),
                (RowNews::Drop(one), RowNews::Drop(other)) => one == other,
                (RowNews::Put(_), RowNews::Drop(_)) | (RowNews::Drop(_), RowNews::Put(_)) => false,
            })
    }
}

impl LedgerNews {
    /// Returns the news that lead to `document` from the version before `touched` was changed.
    pub fn since(document: &Document, touched: &Touched) -> Self {
        let rows = touched.rows(document).into_iter().map(|row| match row {
            WrittenRow::Put(json) => RowNews::Put(json),
            WrittenRow::Drop(id) => RowNews::Drop(id.clone()),
        });
        Self { head: raw(&document.root()), rows: rows.collect(), whole: false }
    }

    /// Returns the news for a process that knows no version.
    pub fn whole(document: &Document) -> Self {
        let rows = document.rows().map(|(_, json)| RowNews::Put(raw(&compact(json))));
        Self { head: raw(&document.root()), rows: rows.collect(), whole: true }
    }

    /// Brings the known version up to date. `None` is no known version, which only news of the whole
    /// ledger can follow.
    pub fn follow(&self, known: Option<Ledger>) -> Result<Ledger, FormatError> {
        let fields: Object = serde_json::from_str(self.head.get()).map_err(shape)?;
        let head = head(&fields)?;
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            rows.push(match row {
                RowNews::Put(json) => Row::put(task_json::read(json.get()).map_err(shape)?),
                RowNews::Drop(id) => Row::Drop(id.clone()),
            });
        }
        if self.whole {
            let tasks = rows.into_iter().filter_map(|row| match row {
                Row::Put(task) => Some(*task),
                Row::Drop(_) => None,
            });
            return Ledger::new(head, tasks.collect()).map_err(shape);
        }
        let mut ledger = known.ok_or_else(|| shape("no version is known that it follows"))?;
        ledger.put_rows(Some(&head), &[]);
        for row in &rows {
            // A task that was added and dropped since then was never known.
            if !matches!(row, Row::Drop(id) if !ledger.contains(id)) {
                ledger.put_rows(None, std::slice::from_ref(row));
            }
        }
        Ok(ledger)
    }

    /// Returns the number of tasks that it contains.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether no task changed.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

fn shape(problem: impl ToString) -> FormatError {
    FormatError::Shape { place: String::new(), problem: problem.to_string() }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::{
        Command, Timestamp,
        command::{Add, Edit, Remove},
        decide,
        ledger::Head,
    };

    fn add(id: &str) -> Command {
        let id = TaskId::parse(id).unwrap();
        let fields = Edit::nothing(id.clone());
        Command::Add(Add { title: format!("do {id}"), fields, id: Some(id) })
    }

    fn remove(id: &str) -> Command {
        Command::Remove(Remove { task: TaskId::parse(id).unwrap() })
    }

    /// The ledger of a process that writes, and the one of a process that follows it.
    struct Pair {
        ledger: Ledger,
        document: Document,
        follower: Ledger,
    }

    impl Pair {
        fn new() -> Self {
            let ledger = Ledger::new(Head::new(Timestamp::from_seconds(0)), Vec::new()).unwrap();
            let mut document = Document::new(&ledger);
            document.settle(&ledger, 1, None);
            let follower = sent(LedgerNews::whole(&document)).follow(None).unwrap();
            Self { ledger, document, follower }
        }

        fn apply(&mut self, commands: &[Command]) {
            let mut touched = Touched::default();
            for command in commands {
                let change = decide(&self.ledger, Timestamp::from_seconds(1), command).unwrap();
                self.ledger.put_in(&change);
                self.document.put_in(&change);
                touched.note(&change);
            }
            self.document.settle(&self.ledger, 2, None);
            let news = sent(LedgerNews::since(&self.document, &touched));
            self.follower = news.follow(Some(self.follower.clone())).unwrap();
            assert!(self.follower.tasks().eq(self.ledger.tasks()));
            assert_eq!(self.follower.head(), self.ledger.head());
        }
    }

    fn sent(news: LedgerNews) -> LedgerNews {
        let value: serde_json::Value =
            serde_json::from_str(&serde_json::to_string(&news).unwrap()).unwrap();
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_follower_has_the_same_tasks_in_the_same_order() {
        let mut pair = Pair::new();
        pair.apply(&[add("a"), add("b"), add("c")]);
        pair.apply(&[remove("a"), add("a"), add("d"), remove("d")]);
        pair.apply(&[add("e"), remove("e"), remove("b"), remove("c")]);
        pair.apply(&[remove("a")]);
        assert!(pair.follower.is_empty());
    }

    #[test]
    fn news_of_changes_need_a_version_to_start_from() {
        let pair = Pair::new();
        let news = LedgerNews::since(&pair.document, &Touched::default());
        assert!(news.is_empty() && news.follow(None).is_err());
    }
}
