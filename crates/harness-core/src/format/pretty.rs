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
