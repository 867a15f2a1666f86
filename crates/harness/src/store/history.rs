//! The last changes of a ledger, for processes that follow it: they receive the rows that changed since
//! the version that they know, and not the whole ledger each time.

use std::collections::VecDeque;

use harness_core::format::{Document, LedgerNews, journal::Touched};
use uuid::Uuid;

use crate::home::FileStamp;

/// The number of changes that are kept.
const CHANGES: usize = 1024;
/// The number of rows of one change, or of all changes that a follower missed, from which on the
/// whole ledger is cheaper.
const ROWS: usize = 2048;

/// What a process that follows a ledger does not know yet.
#[derive(Debug, Clone)]
pub struct NewsSince {
    /// The version that the news lead to. It has a meaning for the same store only.
    pub version: String,
    /// The news; `None` if the follower knows this version.
    pub news: Option<LedgerNews>,
}

/// The changes that lead to the version of a file.
#[derive(Debug, Default)]
pub(super) struct History {
    /// The chain of versions. Another one begins whenever a change is not known row by row.
    chain: Option<Uuid>,
    /// The number of changes since the start of the chain.
    number: usize,
    /// The file with the last version of the chain.
    at: Option<FileStamp>,
    changes: VecDeque<Touched>,
}

impl History {
    /// Adds the change that made the file `after` from the file `before`.
    pub(super) fn follow(
        &mut self,
        before: Option<FileStamp>,
        after: FileStamp,
        touched: &Touched,
    ) {
        let follows = self.chain.is_some() && self.at.is_some() && self.at == before;
        self.at = Some(after);
        if !follows || touched.len() > ROWS {
            self.restart();
            return;
        }
        self.number += 1;
        self.changes.push_back(touched.clone());
        if self.changes.len() > CHANGES {
            self.changes.pop_front();
        }
    }

    /// Forgets what led to the current version.
    pub(super) fn restart(&mut self) {
        (self.chain, self.number) = (None, 0);
        self.changes.clear();
    }

    /// Returns the news that lead to `document`, the version in the file `at`.
    pub(super) fn since(
        &mut self,
        at: Option<FileStamp>,
        document: &Document,
        since: Option<&str>,
    ) -> NewsSince {
        if self.at != at || at.is_none() {
            self.at = at;
            self.restart();
        }
        let chain = *self.chain.get_or_insert_with(Uuid::now_v7);
        let version = format!("{chain}-{}", self.number);
        if since == Some(&version) {
            return NewsSince { version, news: None };
        }
        let known = since.and_then(|since| since.strip_prefix(&format!("{chain}-")));
        let known = known.and_then(|number| number.parse::<usize>().ok());
        let missed = known.and_then(|known| self.number.checked_sub(known));
        let news = match missed.filter(|missed| *missed <= self.changes.len()) {
            Some(missed) => self.last(missed).map(|touched| LedgerNews::since(document, &touched)),
            None => None,
        };
        NewsSince { version, news: Some(news.unwrap_or_else(|| LedgerNews::whole(document))) }
    }

    /// Joins the last changes; `None` if they are too many.
    fn last(&self, count: usize) -> Option<Touched> {
        let mut all = Touched::default();
        for touched in self.changes.iter().skip(self.changes.len() - count) {
            all.extend(touched);
        }
        (all.len() <= ROWS).then_some(all)
    }
}
