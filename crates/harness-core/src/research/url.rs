//! Addresses of pages: which are accepted, and which are equal.

const BYTES_MAX: usize = 4 * 1024;

/// Returns a trimmed http or https address; `None` if the text is not one.
pub(super) fn web(text: &str) -> Option<String> {
    let text = text.trim();
    let (scheme, rest) = text.split_once("://")?;
    let known = ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let readable = !text.contains(|c: char| c.is_whitespace() || c.is_control());
    let plain = crate::quote::plain(text) == text;
    let good = known && readable && plain && !host.is_empty() && text.len() <= BYTES_MAX;
    good.then(|| text.to_owned())
}

/// Returns the normalized form that the addresses of one page share: scheme and host in lower case,
/// no default port, no fragment, no tracking parameters, no trailing slash.
pub fn normalised(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let scheme = scheme.to_ascii_lowercase();
    let rest = match rest.split_once('#') {
        // Some sites address whole pages by the fragment.
        Some((_, place)) if place.starts_with(['!', '/']) => rest,
        Some((page, _)) => page,
        None => rest,
    };
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    let host = host.to_ascii_lowercase();
    let port = if scheme == "http" { ":80" } else { ":443" };
    let host = host.strip_suffix(port).unwrap_or(&host);
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.trim_end_matches('/');
    let marks = |part: &&str| !part.is_empty() && !is_mark(part);
    let query: Vec<_> = query.split('&').filter(marks).collect();
    if query.is_empty() {
        return format!("{scheme}://{host}{path}");
    }
    format!("{scheme}://{host}{path}?{}", query.join("&"))
}

fn is_mark(part: &str) -> bool {
    let name = part.split('=').next().unwrap_or_default();
    name.starts_with("utm_") || ["gclid", "fbclid", "msclkid"].contains(&name)
}
