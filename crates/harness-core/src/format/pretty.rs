//! Indents JSON text by two spaces, without parsing it into values.

/// Appends `json`, which must be valid, indented for `depth` levels below the root. Strings and
/// numbers are copied unchanged.
pub(super) fn pretty(json: &str, depth: usize, out: &mut String) {
    let bytes = json.as_bytes();
    let mut depth = depth;
    let mut at = 0;
    // Set after an opening bracket: the line break is due only if something follows.
    let mut opened = false;
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth -= 1;
                if !opened {
                    break_line(depth, out);
                }
                out.push(char::from(byte));
                opened = false;
                at += 1;
                continue;
            }
            _ => {}
        }
        if opened {
            break_line(depth, out);
            opened = false;
        }
        match byte {
            b'{' | b'[' => {
                out.push(char::from(byte));
                depth += 1;
                opened = true;
                at += 1;
            }
            b',' => {
                out.push(',');
                break_line(depth, out);
                at += 1;
            }
            b':' => {
                out.push_str(": ");
                at += 1;
            }
            b'"' => {
                let end = at + string_length(&bytes[at..]);
                out.push_str(&json[at..end]);
                at = end;
            }
            _ => {
                let plain =
                    |b: &u8| !matches!(b, b',' | b'}' | b']' | b':') && !b.is_ascii_whitespace();
                let end = at + bytes[at..].iter().take_while(|b| plain(b)).count();
                out.push_str(&json[at..end]);
                at = end;
            }
        }
    }
}

/// Returns the same JSON on one line without whitespace.
pub(super) fn compact(json: &str) -> String {
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            b'"' => at + string_length(&bytes[at..]),
            _ => {
                let plain = |b: &u8| *b != b'"' && !b.is_ascii_whitespace();
                at + bytes[at..].iter().take_while(|b| plain(b)).count()
            }
        };
        out.push_str(&json[at..end]);
        at = end;
    }
    out
}

/// The number of bytes that are collected before they are written.
const PIECE_BYTES: usize = 64 * 1024;

/// Returns the start of the value of a field of the root object. `None` if there is no such field,
/// or if its name is spelled with escapes. `json` must be a valid object.
pub(super) fn field_at(json: &str, field: &str) -> Option<usize> {
    let bytes = json.as_bytes();
    let (mut at, mut depth) = (0, 0_usize);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let name = &json[at + 1..];
                at += string_length(&bytes[at..]);
                let value = json[at..].trim_start().strip_prefix(':');
                if depth == 1
                    && name.strip_prefix(field).is_some_and(|rest| rest.starts_with('"'))
                    && let Some(value) = value
                {
                    return Some(json.len() - value.len());
                }
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

/// The list or object that `json` begins with, on one line and without any space; what follows it is
/// ignored. `write` receives the text in pieces.
///
/// A large ledger passes through here on its way to a program, so whole runs between two spaces are
/// copied at once, as bytes.
pub(super) fn compact_first<E>(
    json: &str,
    write: &mut impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let bytes = json.as_bytes();
    let mut out: Vec<u8> = Vec::with_capacity(PIECE_BYTES);
    let (mut at, mut from, mut depth) = (0, 0, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' => {
                if out.len() + (at - from) > PIECE_BYTES {
                    write(&out)?;
                    out.clear();
                }
                out.extend_from_slice(&bytes[from..at]);
                while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
                    at += 1;
                }
                from = at;
                continue;
            }
            b'"' => {
                at += string_length(&bytes[at..]);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    write(&out)?;
    write(&bytes[from..at.min(bytes.len())])
}

fn break_line(depth: usize, out: &mut String) {
    out.push('\n');
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// Returns the length from the opening quote to the closing one, both included.
fn string_length(from: &[u8]) -> usize {
    let mut at = 1;
    while at < from.len() {
        match from[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    from.len()
}
