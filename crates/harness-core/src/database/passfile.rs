//! The password file of PostgreSQL, `~/.pgpass`.

use super::{DatabaseUrl, Password};

/// Returns the password of the first line of a password file that fits. A line is
/// `host:port:database:user:password`; `*` fits everything, and `\` comes before a `:` or a `\` that is
/// part of a field. A socket has the host `localhost`.
pub fn password_in(text: &str, url: &DatabaseUrl) -> Option<Password> {
    let user = url.user().unwrap_or("postgres");
    let host = if url.is_socket() { "localhost" } else { url.host() };
    let port = url.port().to_string();
    let wanted = [host, &port, url.database().unwrap_or(user), user];
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(fields).find_map(|fields| {
        let [first @ .., password] = &fields[..] else { return None };
        let fits = first.len() == wanted.len()
            && first.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then(|| Password::new(password.as_str()))
    })
}

/// Splits a line. All after the fourth `:` is the password.
fn fields(line: &str) -> Vec<String> {
    const FIELDS: usize = 5;
    let mut fields = vec![String::new()];
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        let count = fields.len();
        let Some(last) = fields.last_mut() else { break };
        match character {
            '\\' => last.extend(characters.next()),
            ':' if count < FIELDS => fields.push(String::new()),
            other => last.push(other),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_first_line_that_fits_counts() {
        let file = "# a comment\n\
                    other:5432:work:me:wrong\n\
                    db.example.org:5432:work:me:a\\:b\\\\c\n\
                    *:*:*:me:for all\n\
                    localhost:5433:*:*:by socket\n\
                    too:few\n";
        let found = |url: &str| {
            let url = DatabaseUrl::parse(url).unwrap();
            password_in(file, &url).map(|password| password.reveal().to_owned())
        };
        assert_eq!(found("postgres://me@db.example.org/work").as_deref(), Some("a:b\\c"));
        assert_eq!(found("postgres://me@elsewhere/x").as_deref(), Some("for all"));
        assert_eq!(found("postgres://you@db.example.org/work"), None);
        let socket = "postgres://you@/work?host=/run/postgresql&port=5433";
        assert_eq!(found(socket).as_deref(), Some("by socket"));
    }
}
