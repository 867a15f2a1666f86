//! Keeps known secrets out of everything that is written or shown.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    ffi::OsString,
    os::unix::ffi::OsStrExt as _,
    sync::{Arc, PoisonError, RwLock},
};

use aho_corasick::{AhoCorasick, MatchKind};

const SUFFIXES: [&str; 6] = ["_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_PASS", "_PAT"];
const NAMES: [&str; 2] = ["PGPASSWORD", harness_core::variables::DATABASE_URL];
/// Shorter values do not count as secrets.
const SECRET_CHARACTERS_MIN: usize = 8;

/// Names of variables beside the usual ones. An environment belongs to the whole process, and so do
/// its secrets.
static CONFIGURED: RwLock<Configured> =
    RwLock::new(Configured { names: Vec::new(), except: Vec::new() });

#[derive(Debug)]
struct Configured {
    names: Vec<String>,
    except: Vec<String>,
}

/// Sets which variables contain secrets beside the usual ones (`names`), and which do not
/// (`except`). `*` in a name stands for any characters. It applies to every [`Redactor`] that this
/// process creates from then on.
pub fn name_secrets(names: Vec<String>, except: Vec<String>) {
    *CONFIGURED.write().unwrap_or_else(PoisonError::into_inner) = Configured { names, except };
}

/// Replaces secrets by `[redacted:NAME]`. Clones share the search structure.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    /// The search structure; `None` if there is nothing to hide.
    known: Option<Arc<Known>>,
}

#[derive(Debug)]
struct Known {
    search: AhoCorasick,
    /// The replacements, by number of the pattern.
    replacements: Vec<Vec<u8>>,
    /// The variables, by number of the pattern.
    names: Vec<String>,
    longest: usize,
    /// Whole values, with the text that stands for them.
    values: Vec<(String, String)>,
}

impl Redactor {
    /// Finds secrets by the names of the variables, and by values that are URLs with a password.
    pub fn from_environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Redactor {
        let named = variables.into_iter().map(|(name, value)| {
            let name = name.to_string_lossy().into_owned();
            let secrets = secrets_in(&name, &value);
            (name, secrets)
        });
        // The names are sorted, so that of two variables with one value always the same is named.
        let named: BTreeMap<String, Vec<OsString>> = named.collect();
        let mut patterns: BTreeMap<Vec<u8>, String> = BTreeMap::new();
        for (name, secrets) in &named {
            for form in secrets.iter().flat_map(|secret| forms(secret.as_bytes())) {
                patterns.entry(form).or_insert_with(|| name.clone());
            }
        }
        // If a variable has several secrets, the first is the whole value.
        let values = named.into_iter().filter_map(|(name, secrets)| {
            let whole = secrets.into_iter().next()?.into_string().ok()?;
            counts(whole.as_bytes()).then(|| (mark(&name), whole))
        });
        Redactor::new(patterns, values.collect())
    }

    fn new(patterns: BTreeMap<Vec<u8>, String>, values: Vec<(String, String)>) -> Redactor {
        let Some(longest) = patterns.keys().map(Vec::len).max() else {
            return Redactor { known: None };
        };
        // Of secrets that start at the same place, the longest is taken. Otherwise its rest would
        // show.
        let search =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns.keys());
        // The build fails only above 4 GiB of secrets, more than any environment holds.
        let known = search.ok().map(|search| {
            let names: Vec<String> = patterns.into_values().collect();
            let replacements = names.iter().map(|name| mark(name).into_bytes()).collect();
            Arc::new(Known { search, replacements, names, longest, values })
        });
        Redactor { known }
    }

    /// Returns the variable of the first secret in `text`.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<String> {
        let known = self.known.as_ref()?;
        let found = known.search.find(text)?;
        known.names.get(found.pattern().as_usize()).cloned()
    }

    /// Returns whether there is nothing to hide.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.known.is_none()
    }

    /// Returns whether there is a secret in `bytes`.
    #[must_use]
    pub fn is_in(&self, bytes: &[u8]) -> bool {
        self.known.as_ref().is_some_and(|known| known.search.is_match(bytes))
    }

    /// Replaces the secrets. It copies the text only if there is something to hide.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match &self.known {
            Some(known) if known.search.is_match(text) => {
                let mut bytes = Vec::with_capacity(text.len());
                known.replace(text.as_bytes(), Decided::All, &mut bytes);
                Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
            }
            Some(_) | None => Cow::Borrowed(text),
        }
    }

    /// Restores whole values where [`text`](Redactor::text) replaced them, for text that was stored
    /// without secrets and must run with them.
    #[must_use]
    pub fn reveal(&self, text: &str) -> String {
        let known = self.known.iter().flat_map(|known| &known.values);
        known.fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value))
    }

    /// Redacts complete bytes; pieces need [`Redactor::stream`].
    #[must_use]
    pub fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut all = stream.push(bytes);
        all.extend(stream.finish());
        all
    }

    /// Returns a redactor for output in pieces, between which a secret may be cut.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream { known: self.known.clone(), held: Vec::new() }
    }
}

/// Holds back only what could be the start of a secret.
#[derive(Debug)]
pub struct Stream {
    known: Option<Arc<Known>>,
    held: Vec<u8>,
}

impl Stream {
    /// Returns the bytes that may be shown now.
    #[must_use]
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        let Some(known) = &self.known else {
            return chunk.to_vec();
        };
        self.held.extend_from_slice(chunk);
        let mut shown = Vec::with_capacity(self.held.len());
        let done = known.replace(&self.held, Decided::WhatIsSure, &mut shown);
        self.held.drain(..done);
        shown
    }

    /// Returns the rest.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let mut shown = Vec::with_capacity(self.held.len());
        if let Some(known) = &self.known {
            known.replace(&self.held, Decided::All, &mut shown);
        }
        shown
    }
}

/// Whether the available bytes are all bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decided {
    All,
    WhatIsSure,
}

impl Known {
    /// Appends the decided bytes to `shown`, and returns how many of `bytes` they are. A match is
    /// certain if even the longest secret that starts there would not need bytes that have not
    /// arrived.
    fn replace(&self, bytes: &[u8], decided: Decided, shown: &mut Vec<u8>) -> usize {
        let sure = match decided {
            Decided::All => bytes.len(),
            Decided::WhatIsSure => (bytes.len() + 1).saturating_sub(self.longest),
        };
        let mut done = 0;
        for found in self.search.find_iter(bytes) {
            if found.start() >= sure {
                break;
            }
            shown.extend_from_slice(&bytes[done..found.start()]);
            shown.extend_from_slice(&self.replacements[found.pattern().as_usize()]);
            done = found.end();
        }
        if done < sure {
            shown.extend_from_slice(&bytes[done..sure]);
            done = sure;
        }
        done
    }
}

fn mark(name: &str) -> String {
    format!("[redacted:{name}]")
}

pub(crate) fn is_secret(name: &str) -> bool {
    let configured = CONFIGURED.read().unwrap_or_else(PoisonError::into_inner);
    let upper = name.to_ascii_uppercase();
    let listed = |names: &[String]| names.iter().any(|pattern| fits(pattern, name));
    let usual = SUFFIXES.iter().any(|suffix| upper.ends_with(suffix)) || NAMES.contains(&&*upper);
    (usual || listed(&configured.names)) && !listed(&configured.except)
}

fn is_excepted(name: &str) -> bool {
    let configured = CONFIGURED.read().unwrap_or_else(PoisonError::into_inner);
    configured.except.iter().any(|pattern| fits(pattern, name))
}

/// Returns whether a name matches a pattern with any number of `*`.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(first) else { return false };
    let starts = name.char_indices().map(|(at, _)| at).chain([name.len()]);
    starts.into_iter().any(|at| fits(rest, &name[at..]))
}

/// Returns the secrets of a variable, the whole value first.
fn secrets_in(name: &str, value: &OsString) -> Vec<OsString> {
    let whole = is_secret(name).then(|| value.clone());
    let url = value.to_str().filter(|_| !is_excepted(name)).and_then(password);
    whole.into_iter().chain(url.map(OsString::from)).collect()
}

/// Returns the password of a URL: `scheme://user:PASSWORD@host`.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    Some(password)
}

/// Returns the value, its lines (a private key is shown line by line), and the form of each in a
/// JSON string.
fn forms(value: &[u8]) -> Vec<Vec<u8>> {
    let trim = |line: &[u8]| line.trim_ascii().to_vec();
    let mut forms = vec![value.to_vec()];
    forms.extend(value.split(|byte| *byte == b'\n').map(trim));
    forms.retain(|form| counts(form));
    let escaped: Vec<Vec<u8>> = forms.iter().filter_map(|form| in_json(form)).collect();
    forms.extend(escaped);
    forms
}

/// Returns whether a value counts. Short values, and values that are one word in lower case, may
/// occur anywhere and are not secrets.
fn counts(form: &[u8]) -> bool {
    let is_word = std::str::from_utf8(form).is_ok_and(|text| text.chars().all(char::is_lowercase));
    characters(form) >= SECRET_CHARACTERS_MIN && !is_word
}

fn characters(bytes: &[u8]) -> usize {
    String::from_utf8_lossy(bytes).chars().count()
}

fn in_json(form: &[u8]) -> Option<Vec<u8>> {
    let quoted = serde_json::to_string(std::str::from_utf8(form).ok()?).ok()?;
    let escaped = quoted.get(1..quoted.len() - 1)?.as_bytes();
    (escaped != form).then(|| escaped.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn redactor(variables: &[(&str, &str)]) -> Redactor {
        Redactor::from_environment(variables.iter().map(|(n, v)| ((*n).into(), (*v).into())))
    }

    #[test]
    fn secrets_are_named_and_nothing_else_changes() {
        let redactor = redactor(&[
            ("MY_KEY", "sk-12345678"),
            ("MY_TOKEN", "short"),
            ("NAME", "not-a-secret"),
            ("db_password", "hunter2hunter2"),
        ]);
        for (text, expected) in [
            ("", ""),
            ("a sk-12345678 b", "a [redacted:MY_KEY] b"),
            ("sk-12345678sk-12345678", "[redacted:MY_KEY][redacted:MY_KEY]"),
            ("sk-1234567", "sk-1234567"),
            ("short not-a-secret", "short not-a-secret"),
            ("hunter2hunter2", "[redacted:db_password]"),
        ] {
            assert_eq!(redactor.text(text), expected);
            assert_eq!(redactor.bytes(text.as_bytes()), expected.as_bytes());
        }
        assert!(matches!(redactor.text("plain"), Cow::Borrowed(_)));
        assert_eq!(redactor.find("x hunter2hunter2").as_deref(), Some("db_password"));
        assert_eq!(redactor.find("short"), None);
        let script = "login sk-12345678 hunter2hunter2 short";
        assert_eq!(redactor.reveal(&redactor.text(script)), script);
        assert_eq!(Redactor::default().bytes(b"x"), b"x");
    }

    #[test]
    fn names_words_and_urls_tell_what_is_secret() {
        for (name, value, text, expected) in [
            ("DB_PASS", "hunter2hunter2", "hunter2hunter2", "[redacted:DB_PASS]"),
            ("GITHUB_PAT", "ghp_12345678", "ghp_12345678", "[redacted:GITHUB_PAT]"),
            ("PGPASSWORD", "hunter2hunter2", "hunter2hunter2", "[redacted:PGPASSWORD]"),
            ("DATABASE_URL", "pg://me:pa55word@db:5432/x?y", "pa55word", "[redacted:DATABASE_URL]"),
            ("DATABASE_URL", "pg://me:pa55word@db", "pg://me:x@db", "pg://me:x@db"),
            ("DATABASE_URL", "pg://me@db/a:longpassw0rd@b", "longpassw0rd", "longpassw0rd"),
            ("DATABASE_URL", "pg://me:postgres@db", "postgres", "postgres"),
            ("APP_KEY", "developer", "a developer", "a developer"),
            ("APP_PATH", "/usr/local/bin", "/usr/local/bin", "/usr/local/bin"),
        ] {
            assert_eq!(redactor(&[(name, value)]).text(text), expected, "{name}={value}");
        }
    }

    #[test]
    fn a_pattern_describes_names() {
        for (pattern, name, expected) in [
            ("A", "A", true),
            ("A", "AB", false),
            ("A_*", "A_B", true),
            ("*_URL", "X_URL", true),
            ("A*B*C", "AxBxBxC", true),
            ("A*B", "AxBx", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn the_longest_of_overlapping_secrets_is_hidden() {
        let redactor = redactor(&[("A_KEY", "12345678"), ("B_KEY", "123456789abc")]);
        assert_eq!(redactor.text("123456789abc 12345678x"), "[redacted:B_KEY] [redacted:A_KEY]x");
    }

    #[test]
    fn a_secret_of_many_lines_is_hidden_line_by_line_and_in_json() {
        let key = "-----BEGIN KEY-----\nMIIEpAIB\"AAKCAQEA\nend\n";
        let redactor = redactor(&[("SSH_KEY", key)]);
        let shown = redactor.text("x MIIEpAIB\"AAKCAQEA y").into_owned();
        assert_eq!(shown, "x [redacted:SSH_KEY] y");
        let json = serde_json::to_string(key).unwrap();
        assert_eq!(redactor.text(&json), "\"[redacted:SSH_KEY]\"");
    }

    proptest! {
        /// The alphabet is small, so that secrets overlap, repeat and almost match.
        #[test]
        fn chunks_do_not_matter(
            secrets in proptest::collection::vec("[A1]{8,12}", 1..4),
            pieces in proptest::collection::vec("[A1]{0,30}", 0..12),
        ) {
            let variables: Vec<(OsString, OsString)> = secrets
                .iter()
                .enumerate()
                .map(|(n, secret)| (format!("S{n}_KEY").into(), secret.into()))
                .collect();
            let redactor = Redactor::from_environment(variables);
            let whole = redactor.text(&pieces.concat()).into_owned();
            let mut stream = redactor.stream();
            let mut shown = Vec::new();
            for piece in &pieces {
                shown.extend(stream.push(piece.as_bytes()));
                prop_assert!(stream.held.len() < 12);
            }
            shown.extend(stream.finish());
            prop_assert_eq!(String::from_utf8(shown).unwrap(), whole.clone());
            for secret in &secrets {
                prop_assert!(!whole.contains(secret.as_str()), "{} in {}", secret, whole);
            }
        }
    }
}
