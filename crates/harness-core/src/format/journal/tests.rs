#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::{
    Command, Timestamp,
    command::{Add, Edit, Remove},
    decide,
    format::{Key, Seal},
    ledger::Head,
};

struct Book {
    ledger: Ledger,
    document: Document,
    journal: String,
}

impl Book {
    fn new() -> Self {
        let ledger = Ledger::new(Head::new(Timestamp::from_seconds(0)), Vec::new()).unwrap();
        let mut document = Document::new(&ledger);
        document.settle(&ledger, 1, None);
        let journal = snapshot(&mut document, &["first".to_owned()], &Receipts::new());
        Self { ledger, document, journal }
    }

    fn apply(&mut self, commands: &[Command], line: &str) -> &mut Self {
        self.apply_with(commands, line, &Receipts::new())
    }

    fn apply_with(&mut self, commands: &[Command], line: &str, receipts: &Receipts) -> &mut Self {
        let mut touched = Touched::default();
        for command in commands {
            let change = decide(&self.ledger, Timestamp::from_seconds(1), command).unwrap();
            self.ledger.put_in(&change);
            self.document.put_in(&change);
            touched.note(&change);
        }
        self.ledger.set_log_tail(vec![line.to_owned()], 5);
        let revision = self.document.revision() + 1;
        self.document.settle(&self.ledger, revision, None);
        let before = Ending::of(self.journal.as_bytes()).unwrap();
        let size = self.journal.len() as u64;
        self.journal += &change(&mut self.document, &touched, receipts, &before, size);
        self
    }
}

fn add(id: &str) -> Command {
    let id = TaskId::parse(id).unwrap();
    Command::Add(Add { title: format!("do {id}"), fields: Edit::nothing(id.clone()), id: Some(id) })
}

fn remove(id: &str) -> Command {
    Command::Remove(Remove { task: TaskId::parse(id).unwrap() })
}

fn replayed(book: &Book) -> Replayed {
    replay(book.journal.as_bytes()).unwrap()
}

#[test]
fn replaying_gives_the_file_to_the_letter() {
    let mut book = Book::new();
    book.apply(&[add("a"), add("b")], "two").apply(&[remove("a")], "three");
    book.apply(&[add("c"), remove("c"), add("c"), add("d")], "four");
    let again = replayed(&book);
    assert_eq!(again.document.text(), book.document.text());
    assert!(again.ledger.tasks().eq(book.ledger.tasks()));
    assert_eq!(again.revision, 4);
    assert_eq!(again.kept.log, ["first", "two", "three", "four"]);
}

#[test]
fn following_line_by_line_gives_what_a_replay_gives() {
    let mut book = Book::new();
    let start = replayed(&book);
    let (mut ledger, mut document) = (start.ledger, start.document);
    book.apply(&[add("a"), add("b")], "two").apply(&[remove("a")], "three");
    book.apply(&[add("c"), remove("c"), add("c"), add("a")], "four");
    let lines: Vec<String> = book.journal.split_inclusive('\n').map(str::to_owned).collect();
    assert!(is_snapshot(&lines[0]) && !is_snapshot(&lines[1]));
    let skipped = follow(&mut ledger.clone(), &mut document.clone(), &lines[2]);
    assert!(skipped.is_none(), "a version is missing");
    for (line, log) in lines[1..].iter().zip(["two", "three", "four"]) {
        let followed = follow(&mut ledger, &mut document, line).unwrap();
        assert_eq!(followed.log, [log]);
    }
    assert_eq!(document.text(), book.document.text());
    assert!(ledger.tasks().eq(book.ledger.tasks()));
    let forged = lines[1].replace("do a", "do x");
    let start = replay(lines[0].as_bytes()).unwrap();
    assert!(follow(&mut { start.ledger }, &mut { start.document }, &forged).is_none());
}

#[test]
fn a_version_is_rebuilt_from_its_rows() {
    let mut book = Book::new();
    book.apply(&[add("a"), add("b")], "two");
    let rows: Vec<String> = book.document.rows().map(|(_, json)| compact(json)).collect();
    let mut rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let (root, state) = (book.document.root(), book.document.state());
    let (ledger, document) = rebuild(&root, &rows, state).unwrap();
    assert_eq!(document.text(), book.document.text());
    assert!(ledger.tasks().eq(book.ledger.tasks()));
    rows.reverse();
    assert!(rebuild(&root, &rows, state).is_none(), "another order is another version");
}

#[test]
fn the_result_of_a_change_is_what_is_left_of_it() {
    let mut book = Book::new();
    let mut touched = Touched::default();
    for command in [add("a"), add("b"), remove("a"), add("c"), remove("c"), add("a")] {
        let change = decide(&book.ledger, Timestamp::from_seconds(1), &command).unwrap();
        book.ledger.put_in(&change);
        book.document.put_in(&change);
        touched.note(&change);
    }
    let (dropped, put) = touched.result(&book.document);
    assert_eq!(dropped.iter().map(TaskId::as_str).collect::<Vec<_>>(), ["a", "c"]);
    assert_eq!(put.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["b", "a"]);
}

#[test]
fn a_torn_tail_is_left_out_and_a_snapshot_begins_anew() {
    let mut book = Book::new();
    book.apply(&[add("a")], "a");
    let whole = book.journal.clone();
    book.apply(&[add("b")], "b");
    for cut in whole.len() + 1..book.journal.len() {
        let found = replay(&book.journal.as_bytes()[..cut]).unwrap();
        assert_eq!(found.revision, 2, "cut at {cut}");
        assert_eq!(Ending::of(&book.journal.as_bytes()[..cut]), None, "cut at {cut}");
    }
    let hole = book.journal.replace("do b", "do \0");
    assert_eq!(replay(hole.as_bytes()).unwrap().revision, 2);
    let after = hole + &snapshot(&mut book.document, &[], &Receipts::new());
    assert_eq!(replay(after.as_bytes()).unwrap().revision, 3);
    assert!(replay(b"").is_none() && replay(b"{}\n").is_none());
}

#[test]
fn receipts_and_log_outlive_a_line_that_is_lost() {
    let mut book = Book::new();
    let receipt = "{\n  \"task\": \"a\",\n  \"protected\": []\n}\n";
    let line = receipt_line(receipt.as_bytes()).unwrap();
    assert_eq!(receipt_file(&line), receipt);
    let receipts = Receipts::from([("a.1.json".to_owned(), line.clone())]);
    book.apply(&[add("a")], "a").apply_with(&[add("b")], "b", &receipts);
    assert_eq!(replayed(&book).kept.receipts, receipts);
    let known = known(book.journal.replace("do a", "do x").as_bytes());
    assert_eq!((known.receipts, known.log), (receipts, vec!["first".to_owned(), "b".to_owned()]));
}

#[test]
fn the_end_says_when_a_snapshot_is_due() {
    let mut book = Book::new();
    book.apply(&[add("a")], "a");
    let tail = &book.journal.as_bytes()[book.journal.len() - 256..];
    let ending = Ending::of(tail).unwrap();
    assert_eq!(ending.state, book.document.state());
    assert!(!ending.outgrown(book.journal.len() as u64));
    assert!(ending.outgrown(GROWTH_BYTES + 2 * ending.base + 1));
}

#[test]
fn a_seal_fits_what_was_written_and_nothing_else() {
    let key = Key::new([7; 32]);
    let mut book = Book::new();
    book.apply(&[add("a")], "a");
    book.document.settle(&book.ledger, 9, Some(&key));
    let text = book.document.text();
    let seal = |text: &str, key: &Key| {
        let (_, mut document) = crate::format::read(text.as_bytes()).unwrap();
        document.seal(key)
    };
    assert_eq!(seal(&text, &key), Seal::Fits);
    assert_eq!(seal(&text, &Key::new([8; 32])), Seal::Broken);
    assert_eq!(seal(&text.replace("do a", "do b"), &key), Seal::Broken);
    assert_eq!(seal(&text.replace("\"revision\": 9", "\"revision\": 8"), &key), Seal::Broken);
    assert_eq!(seal(&text.replace("\"seal\"", "\"sail\""), &key), Seal::Missing);
    // A different indentation of the root object does not count as an edit.
    let (ledger, mut document) = crate::format::read(text.as_bytes()).unwrap();
    assert_eq!(document.settle(&ledger, 9, Some(&key)), book.document.state());
    assert_eq!(document.text(), text);
}
