//! The paths that a Rust source file names: `use` items, grouped imports included, and paths in the
//! code that begin with `crate`, `self`, `super` or the name of the crate. Comments, text and code
//! that is compiled only for tests are left out.

/// A path, as its segments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourcePath {
    pub(crate) segments: Vec<String>,
    /// The name that a `use` gives it, or the last segment without `as`.
    pub(crate) name: String,
    pub(crate) line: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Word(String),
    Separator,
    Symbol(char),
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    line: usize,
}

/// Returns all paths in `text` that lead into this crate, whose external name is `crate_name`.
pub(crate) fn paths(text: &str, crate_name: &str) -> Vec<SourcePath> {
    let mut reader = Reader { tokens: tokens(text), at: 0, found: Vec::new() };
    while let Some(token) = reader.tokens.get(reader.at) {
        match &token.kind {
            Kind::Symbol('#') => {
                if reader.attribute_is_inner_test() {
                    return Vec::new();
                }
                reader.attribute();
            }
            Kind::Word(word) if word == "use" => reader.use_item(),
            Kind::Word(word)
                if ["crate", "self", "super", crate_name].contains(&word.as_str())
                    && !reader.follows_separator() =>
            {
                reader.path();
            }
            Kind::Word(_) | Kind::Separator | Kind::Symbol(_) => reader.at += 1,
        }
    }
    reader.found.extend(named_by_attributes(text));
    reader.found
}

/// Returns the paths in the text of attributes, such as `#[serde(with = "crate::module")]`.
fn named_by_attributes(text: &str) -> impl Iterator<Item = SourcePath> {
    text.lines().enumerate().filter_map(|(n, line)| {
        let attribute = line.trim_start().strip_prefix("#[")?;
        let (_, path) = attribute.split_once("= \"crate::")?;
        let (path, _) = path.split_once('"')?;
        let segments: Vec<String> =
            std::iter::once("crate").chain(path.split("::")).map(str::to_owned).collect();
        let name = segments.last()?.clone();
        Some(SourcePath { segments, name, line: n + 1 })
    })
}

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    found: Vec<SourcePath>,
}

impl Reader {
    fn kind(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.kind(ahead)? {
            Kind::Word(word) => Some(word),
            Kind::Separator | Kind::Symbol(_) => None,
        }
    }

    fn is(&self, ahead: usize, symbol: char) -> bool {
        self.kind(ahead) == Some(&Kind::Symbol(symbol))
    }

    fn follows_separator(&self) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.tokens.get(at));
        before.is_some_and(|token| token.kind == Kind::Separator)
    }

    /// Returns whether the attribute is `#![cfg(test)]`.
    fn attribute_is_inner_test(&self) -> bool {
        self.is(1, '!') && self.is(2, '[') && self.says_test(3)
    }

    fn says_test(&self, ahead: usize) -> bool {
        self.word(ahead) == Some("cfg")
            && self.is(ahead + 1, '(')
            && self.word(ahead + 2) == Some("test")
    }

    /// Skips an attribute, and the item after it if that is only for tests.
    fn attribute(&mut self) {
        let is_test = self.is(1, '[') && self.says_test(2);
        self.at += 1;
        if self.is(0, '!') {
            self.at += 1;
        }
        if self.is(0, '[') {
            self.group('[', ']');
        }
        if is_test {
            self.item();
        }
    }

    /// Skips a group, from its opening to after its closing symbol.
    fn group(&mut self, open: char, close: char) {
        let mut depth = 0usize;
        while self.at < self.tokens.len() {
            if self.is(0, open) {
                depth += 1;
            } else if self.is(0, close) {
                depth = depth.saturating_sub(1);
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }

    /// Skips an item: to its semicolon, or over its block.
    fn item(&mut self) {
        let mut is_use = false;
        while self.at < self.tokens.len() {
            is_use |= self.word(0) == Some("use");
            if self.is(0, ';') {
                self.at += 1;
                return;
            }
            if self.is(0, '{') {
                self.group('{', '}');
                if !is_use {
                    return;
                }
            } else {
                self.at += 1;
            }
        }
    }

    fn use_item(&mut self) {
        self.at += 1;
        // `impl Trait + use<'a>` captures lifetimes and imports nothing.
        if !self.is(0, '<') {
            self.tree(&[]);
        }
    }

    /// Reads one tree of a `use` item below `prefix`. It ends at a comma, a closing brace or a
    /// semicolon.
    fn tree(&mut self, prefix: &[String]) {
        let mut segments = prefix.to_vec();
        let mut renamed = None;
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.kind(0) {
                Some(Kind::Word(word)) if word == "as" => {
                    renamed = self.word(1).map(str::to_owned);
                    self.at += 2;
                }
                Some(Kind::Word(word)) => {
                    segments.push(word.clone());
                    self.at += 1;
                }
                Some(Kind::Separator | Kind::Symbol('*')) => self.at += 1,
                Some(Kind::Symbol('{')) => return self.branches(&segments),
                _ => break,
            }
        }
        self.push(segments, renamed, line);
    }

    fn branches(&mut self, prefix: &[String]) {
        self.at += 1;
        loop {
            match self.kind(0) {
                Some(Kind::Symbol('}')) => {
                    self.at += 1;
                    return;
                }
                Some(Kind::Symbol(',')) => self.at += 1,
                Some(Kind::Word(_) | Kind::Separator | Kind::Symbol('*' | '{')) => {
                    self.tree(prefix);
                }
                Some(Kind::Symbol(_)) | None => return,
            }
        }
    }

    fn path(&mut self) {
        let line = self.tokens[self.at].line;
        let mut segments = Vec::new();
        while let Some(word) = self.word(0).map(str::to_owned) {
            segments.push(word);
            self.at += 1;
            if self.kind(0) != Some(&Kind::Separator) {
                break;
            }
            self.at += 1;
        }
        if segments.len() > 1 {
            self.push(segments, None, line);
        }
    }

    fn push(&mut self, segments: Vec<String>, renamed: Option<String>, line: usize) {
        // `use a::{self, b}` names `a` itself.
        let own = segments.len() > 1 && segments.last().is_some_and(|last| last == "self");
        let mut segments = segments;
        if own {
            segments.pop();
        }
        if let Some(name) = renamed.or_else(|| segments.last().cloned()) {
            self.found.push(SourcePath { segments, name, line });
        }
    }
}

/// Returns words and symbols. Literals, lifetimes and comments are left out.
fn tokens(text: &str) -> Vec<Token> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut found) = (0, 1, Vec::new());
    while let Some(byte) = bytes.get(at) {
        let end = match byte {
            b'/' if bytes.get(at + 1) == Some(&b'/') => line_comment(bytes, at),
            b'/' if bytes.get(at + 1) == Some(&b'*') => block_comment(bytes, at),
            b'"' => quoted(bytes, at + 1, b'"'),
            b'\'' => lifetime_or_char(bytes, at),
            b if is_word(*b) => {
                let end = word(bytes, at);
                match raw_text(bytes, at, end) {
                    Some(end) => end,
                    None => {
                        found.push(Token { kind: Kind::Word(text[at..end].to_owned()), line });
                        end
                    }
                }
            }
            b':' if bytes.get(at + 1) == Some(&b':') => {
                found.push(Token { kind: Kind::Separator, line });
                at + 2
            }
            b if b.is_ascii_whitespace() => at + 1,
            b => {
                found.push(Token { kind: Kind::Symbol(char::from(*b)), line });
                at + 1
            }
        };
        let end = end.clamp(at + 1, bytes.len());
        line += bytes[at..end].iter().filter(|byte| **byte == b'\n').count();
        at = end;
    }
    found
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn word(bytes: &[u8], at: usize) -> usize {
    let length = bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
    at + length
}

/// Returns the end of a literal whose prefix ends at `end`: `b"…"`, `r"…"`, `br#"…"#`.
fn raw_text(bytes: &[u8], at: usize, end: usize) -> Option<usize> {
    let prefix = &bytes[at..end];
    if prefix == b"b" && bytes.get(end) == Some(&b'\'') {
        return Some(lifetime_or_char(bytes, end));
    }
    if ![&b"b"[..], b"c", b"r", b"br", b"cr"].contains(&prefix) {
        return None;
    }
    let hashes = bytes[end..].iter().take_while(|byte| **byte == b'#').count();
    if bytes.get(end + hashes) != Some(&b'"') {
        return None;
    }
    let start = end + hashes + 1;
    if !prefix.contains(&b'r') {
        return (hashes == 0).then(|| quoted(bytes, start, b'"'));
    }
    let mut closing = vec![b'"'];
    closing.extend(std::iter::repeat_n(b'#', hashes));
    let length = bytes[start..].windows(closing.len()).position(|part| part == closing);
    Some(length.map_or(bytes.len(), |length| start + length + closing.len()))
}

fn line_comment(bytes: &[u8], at: usize) -> usize {
    at + bytes[at..].iter().take_while(|byte| **byte != b'\n').count()
}

fn block_comment(bytes: &[u8], start: usize) -> usize {
    let (mut at, mut depth) = (start, 0usize);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (at, depth) = (at + 2, depth + 1),
            b"*/" => (at, depth) = (at + 2, depth.saturating_sub(1)),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    bytes.len()
}

/// Returns the place after the closing quote of the text that begins at `start`.
fn quoted(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            b if *b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Skips a character such as `'a'` or `'é'`, or a lifetime such as `'a` or `'static`.
fn lifetime_or_char(bytes: &[u8], at: usize) -> usize {
    let first = bytes.get(at + 1).copied().unwrap_or_default();
    if first == b'\\' || !is_word(first) {
        return quoted(bytes, at + 1, b'\'');
    }
    let end = word(bytes, at + 1);
    if bytes.get(end) == Some(&b'\'') { end + 1 } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        paths(text, "harness").iter().map(|path| path.segments.join("::")).collect()
    }

    #[test]
    fn grouped_imports_are_taken_apart() {
        let text = "use crate::{\n    a::{self, B, c::{D as E, f::*}},\n    g,\n};\nuse super::h;";
        let all = ["crate::a", "crate::a::B", "crate::a::c::D", "crate::a::c::f", "crate::g"];
        assert_eq!(found(text), [&all[..], &["super::h"]].concat());
        let line = paths(text, "harness").iter().map(|path| path.line).collect::<Vec<_>>();
        assert_eq!(line, [2, 2, 2, 2, 3, 5]);
        assert_eq!(paths(text, "harness")[2].name, "E");
    }

    #[test]
    fn paths_in_the_code_are_seen_and_relative_ones_are_not() {
        let text = "fn f(a: &crate::b::C) -> harness::D { super::e::f(g::crate_name) }";
        assert_eq!(found(text), ["crate::b::C", "harness::D", "super::e::f"]);
        assert_eq!(found("impl T + use<'a>; std::harness::x; self.crate_"), Vec::<String>::new());
    }

    #[test]
    fn paths_in_the_text_of_attributes_are_seen() {
        let text = "struct A {\n    #[serde(with = \"crate::b::c\")]\n    d: D,\n}";
        assert_eq!(found(text), ["crate::b::c"]);
        assert_eq!(paths(text, "harness")[0].line, 2);
    }

    #[test]
    fn comments_text_and_tests_are_left_out() {
        let comments = "// crate::a::b\n/// crate::a\n/* crate::a /* crate::c::d */ crate::e::f */";
        assert_eq!(found(comments), Vec::<String>::new());
        let texts =
            r####"f("crate::a::b", b"\"crate::c::d", r#"x" crate::e::f"#, '"', 'a', b'"')"####;
        assert_eq!(found(texts), Vec::<String>::new());
        let lifetimes = "fn f<'a>(a: &'a crate::b::C, d: &'static str) { '\\'' }";
        assert_eq!(found(lifetimes), ["crate::b::C"]);
        let tests = "#[cfg(test)]\nmod tests { use crate::a::B; fn f() {} }\nuse crate::c::D;\n\
                     #[cfg(test)]\nuse crate::{e::F};\n#[cfg(test)] mod stage;\n\
                     #[cfg(test)]\npub(crate) fn of() { crate::g::h() }\nuse crate::i::J;";
        assert_eq!(found(tests), ["crate::c::D", "crate::i::J"]);
        assert_eq!(found("#![cfg(test)]\nuse crate::a::B;"), Vec::<String>::new());
    }
}
