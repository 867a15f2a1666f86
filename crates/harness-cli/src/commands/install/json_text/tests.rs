//! Inserted values can be removed again, whatever the document looks like.

use proptest::prelude::*;
use serde_json::json;

use super::{
    Step::{Index, Key},
    *,
};

fn text(text: &str) -> JsonText {
    JsonText::parse(text).unwrap()
}

#[test]
fn what_is_added_is_laid_out_as_its_neighbours() {
    let cases = [
        ("{}", r#"{"k": [ 1 ]}"#),
        ("{ }\n", "{\"k\": [ 1 ] }\n"),
        (r#"{"a":1}"#, r#"{"a":1,"k": [ 1 ]}"#),
        (r#"{"a": 1, "b": 2}"#, r#"{"a": 1, "b": 2, "k": [ 1 ]}"#),
        ("{\n\t\"a\": 1\n}\n", "{\n\t\"a\": 1,\n\t\"k\": [\n\t\t1\n\t]\n}\n"),
        ("{\r\n  \"a\": 1\r\n}", "{\r\n  \"a\": 1,\r\n  \"k\": [\r\n    1\r\n  ]\r\n}"),
        (
            "{ \"a\": 1,\n\n    \"b\": 2 }",
            "{ \"a\": 1,\n\n    \"b\": 2,\n    \"k\": [\n      1\n    ] }",
        ),
    ];
    for (before, after) in cases {
        let mut file = text(before);
        file.insert(&[], "k", &json!([1]));
        assert_eq!(file.text(), after);
        assert_eq!(file.remove(&[Key("k"), Index(0)]), Left::Something);
        assert_eq!(file.text(), before);
    }
}

#[test]
fn a_document_that_was_made_here_goes_with_what_is_in_it() {
    let mut file = JsonText::made(&json!({ "a": { "b": [1] } })).unwrap();
    assert_eq!(file.remove(&[Key("a"), Key("b"), Index(0)]), Left::Nothing);
    let mut file = text("{}\n");
    file.insert(&[], "a", &json!({ "b": 1 }));
    assert_eq!(file.remove(&[Key("a"), Key("b")]), Left::Something);
    assert_eq!(file.text(), "{}\n");
}

#[test]
fn strings_hide_brackets_and_the_last_of_two_names_counts() {
    let mut file = text(r#"{"a":"}\"]{","k":1,"\u006b":[{"x":"[\\"}]}"#);
    assert_eq!(file.get(&[Key("k"), Index(0), Key("x")]), Some(json!("[\\")));
    file.replace(&[Key("k"), Index(0), Key("x")], "y");
    assert_eq!(file.text(), r#"{"a":"}\"]{","k":1,"\u006b":[{"x":"y"}]}"#);
    assert_eq!(file.get(&[Index(0)]), None);
    assert_eq!(file.remove(&[Key("none")]), Left::Something);
}

#[test]
fn the_first_of_several_can_be_taken_out() {
    let mut file = text("[\n  1,\n  2\n]");
    assert_eq!(file.remove(&[Index(0)]), Left::Something);
    assert_eq!(file.text(), "[\n  2\n]");
}

/// Generates JSON with blanks of all kinds in all allowed places.
pub(in super::super) fn documents() -> impl Strategy<Value = String> {
    let blank = || "[ \t\r\n]{0,3}";
    let scalar = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?[1-9][0-9]{0,3}(\\.[0-9]{1,3})?([eE][+-]?[0-9])?",
        any::<String>().prop_map(|text| Value::from(text).to_string()),
    ];
    let value = scalar.prop_recursive(4, 32, 4, move |inner| {
        let element = (blank(), inner.clone(), blank()).prop_map(|(a, v, b)| format!("{a}{v}{b}"));
        let array = (blank(), prop::collection::vec(element, 0..4)).prop_map(bracketed("[", "]"));
        prop_oneof![array, objects(inner, "[a-z]{0,3}".boxed())]
    });
    let keys = prop_oneof![Just("hooks".to_owned()), "[a-z]{1,3}"].boxed();
    (blank(), objects(value, keys), blank()).prop_map(|(a, v, b)| format!("{a}{v}{b}"))
}

fn objects(
    value: impl Strategy<Value = String>,
    keys: BoxedStrategy<String>,
) -> impl Strategy<Value = String> {
    let blank = || "[ \t\r\n]{0,3}";
    let member = (blank(), keys, blank(), blank(), value, blank());
    let member = member
        .prop_map(|(a, k, b, c, v, d)| format!("{a}{}{b}:{c}{v}{d}", Value::from(k.as_str())));
    (blank(), prop::collection::vec(member, 0..4)).prop_map(bracketed("{", "}"))
}

fn bracketed(open: &'static str, close: &'static str) -> impl Fn((String, Vec<String>)) -> String {
    move |(blank, parts)| match parts.is_empty() {
        true => format!("{open}{blank}{close}"),
        false => format!("{open}{}{close}", parts.join(",")),
    }
}

proptest! {
    /// A failing document is printed in full, which replaces its seed.
    #[test]
    fn any_document_comes_back(document in documents()) {
        let mut file = text(&document);
        let before = file.get(&[]).unwrap();
        file.insert(&[], "new", &json!({ "a": [{ "b": 1 }] }));
        let mut after = before;
        after["new"] = json!({ "a": [{ "b": 1 }] });
        prop_assert_eq!(file.get(&[]).unwrap(), after.clone());
        prop_assert_eq!(serde_json::from_str::<Value>(file.text()).unwrap(), after);
        prop_assert_eq!(file.remove(&[Key("new"), Key("a"), Index(0)]), Left::Something);
        prop_assert_eq!(file.text(), document);
    }
}
