//! The address of a database, as libpq spells it.

use std::fmt;

const PORT: u16 = 5432;

/// A secret that never appears in a text.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Takes over a password.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the password itself, for the server only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    /// Hides the text, because it is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// How the connection is protected, and how the server proves who it is (`sslmode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS if the server has it; its certificate is not checked.
    Prefer,
    /// TLS; the certificate is checked only if `sslrootcert` is given.
    Require,
    /// TLS, with a certificate of a known authority.
    VerifyCa,
    /// TLS, with a certificate of a known authority for this very host.
    VerifyFull,
}

impl SslMode {
    const ALL: [Self; 5] =
        [Self::Disable, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];

    /// Returns the spelling of libpq.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        // `allow` tries without TLS first. Nobody wants that, and `prefer` is as permissive.
        if text == "allow" {
            return Some(Self::Prefer);
        }
        Self::ALL.into_iter().find(|mode| mode.name() == text)
    }
}

impl fmt::Display for SslMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The reason why a text is no address of a database. It never contains the text, which may hold a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// It does not start as it must.
    #[error("the address of a database starts with postgres:// or postgresql://")]
    Scheme,
    /// A part of it is invalid.
    #[error("the address of the database has an invalid {part}")]
    Part {
        /// The part.
        part: &'static str,
    },
    /// Several hosts are named.
    #[error("the address of the database names several hosts; name the primary")]
    SeveralHosts,
    /// A parameter is not known.
    #[error(
        "the address of the database has the parameter {name:?}, which is not known; \
         known are host, port, user, password, dbname, sslmode and sslrootcert"
    )]
    Parameter {
        /// The name of the parameter.
        name: String,
    },
    /// A file that others read holds a password.
    #[error(
        "the address of the database holds a password, which does not belong into a configuration file; \
         it can come from HARNESS_DATABASE_URL, PGPASSWORD, ~/.pgpass or password_command"
    )]
    PasswordInFile,
}

/// The address of a database. Its [`Display`](fmt::Display) form has no password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseUrl {
    host: Option<String>,
    port: u16,
    user: Option<String>,
    database: Option<String>,
    sslmode: Option<SslMode>,
    sslrootcert: Option<String>,
    password: Option<Password>,
}

impl DatabaseUrl {
    /// Parses an address from a place that may hold a secret, such as a variable.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let text = text.trim();
        let rest = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"));
        let rest = rest.ok_or(UrlError::Scheme)?;
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let (authority, path) = rest.split_once('/').map_or((rest, ""), |(a, path)| (a, path));
        let (login, place) = match authority.rsplit_once('@') {
            Some((login, place)) => (Some(login), place),
            None => (None, authority),
        };
        let mut url = Self {
            host: None,
            port: PORT,
            user: None,
            database: text_of(path, "database")?,
            sslmode: None,
            sslrootcert: None,
            password: None,
        };
        if let Some(login) = login {
            let (user, password) =
                login.split_once(':').map_or((login, None), |(user, word)| (user, Some(word)));
            url.user = text_of(user, "user")?;
            url.password = match password {
                Some(word) => text_of(word, "password")?.map(Password),
                None => None,
            };
        }
        url.set_place(place)?;
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(UrlError::Part { part: "parameter" })?;
            url.set(name, value)?;
        }
        Ok(url)
    }

    /// Parses an address from a configuration file. A password in it is refused.
    pub fn configured(text: &str) -> Result<Self, UrlError> {
        let url = Self::parse(text)?;
        if url.password.is_some() { Err(UrlError::PasswordInFile) } else { Ok(url) }
    }

    fn set_place(&mut self, place: &str) -> Result<(), UrlError> {
        if place.contains(',') {
            return Err(UrlError::SeveralHosts);
        }
        let (host, port) = match place.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']').ok_or(UrlError::Part { part: "host" })?;
                (host, after.strip_prefix(':'))
            }
            None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
        };
        self.host = text_of(host, "host")?;
        if let Some(port) = port.filter(|port| !port.is_empty()) {
            self.port = number(port)?;
        }
        Ok(())
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), UrlError> {
        match name {
            "host" if value.contains(',') => return Err(UrlError::SeveralHosts),
            "host" => self.host = text_of(value, "host")?,
            "port" => self.port = number(value)?,
            "user" => self.user = text_of(value, "user")?,
            "dbname" => self.database = text_of(value, "database")?,
            "password" => self.password = text_of(value, "password")?.map(Password),
            "sslmode" => {
                let mode = SslMode::parse(value).ok_or(UrlError::Part { part: "sslmode" })?;
                self.sslmode = Some(mode);
            }
            "sslrootcert" => self.sslrootcert = text_of(value, "sslrootcert")?,
            other => {
                let name: String = other.chars().take(40).collect();
                return Err(UrlError::Parameter { name });
            }
        }
        Ok(())
    }

    /// Returns the host: a name, an address, or the folder of a Unix socket. Without one it is this
    /// machine.
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or("localhost")
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the user, if one is named.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Returns the database, if one is named. Otherwise it has the name of the user.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Returns the file with the trusted authorities, if one is named.
    pub fn sslrootcert(&self) -> Option<&str> {
        self.sslrootcert.as_deref()
    }

    /// Returns the password in the address, if there is one.
    pub fn password(&self) -> Option<&Password> {
        self.password.as_ref()
    }

    /// Returns whether the connection stays on this machine.
    pub fn is_local(&self) -> bool {
        let host = self.host();
        let address = host.parse::<core::net::IpAddr>();
        self.is_socket()
            || host == "localhost"
            || address.is_ok_and(|address| address.is_loopback())
    }

    /// Returns whether the host is the folder of a Unix socket.
    pub fn is_socket(&self) -> bool {
        self.host().starts_with('/')
    }

    /// Returns the mode of TLS: the one that is named, else the strictest for another machine.
    pub fn sslmode(&self) -> SslMode {
        match self.sslmode {
            _ if self.is_socket() => SslMode::Disable,
            Some(mode) => mode,
            None if self.is_local() => SslMode::Prefer,
            None => SslMode::VerifyFull,
        }
    }

    /// Returns the mode that was chosen although it does not prove who the server is.
    pub fn weak_sslmode(&self) -> Option<SslMode> {
        let mode = self.sslmode();
        (!self.is_local() && mode < SslMode::VerifyFull).then_some(mode)
    }

    /// Returns the same address with another user, if it names none.
    #[must_use]
    pub fn or_user(mut self, user: &str) -> Self {
        self.user.get_or_insert_with(|| user.to_owned());
        self
    }

    /// Returns the same address with another database.
    #[must_use]
    pub fn with_database(mut self, database: &str) -> Self {
        self.database = Some(database.to_owned());
        self
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgres://")?;
        if let Some(user) = &self.user {
            write!(f, "{}@", encoded(user))?;
        }
        match self.host() {
            socket if self.is_socket() => f.write_str(&encoded(socket))?,
            host if host.contains(':') => write!(f, "[{host}]")?,
            host => f.write_str(&encoded(host))?,
        }
        if self.port != PORT {
            write!(f, ":{}", self.port)?;
        }
        if let Some(database) = &self.database {
            write!(f, "/{}", encoded(database))?;
        }
        let mut lead = '?';
        if let Some(mode) = self.sslmode {
            write!(f, "{lead}sslmode={mode}")?;
            lead = '&';
        }
        if let Some(file) = &self.sslrootcert {
            write!(f, "{lead}sslrootcert={}", encoded(file))?;
        }
        Ok(())
    }
}

fn number(text: &str) -> Result<u16, UrlError> {
    text.parse().ok().filter(|port| *port > 0).ok_or(UrlError::Part { part: "port" })
}

/// Decodes `%` escapes. An empty text is none.
fn text_of(encoded: &str, part: &'static str) -> Result<Option<String>, UrlError> {
    let bad = UrlError::Part { part };
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = after.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        bytes.push(byte.filter(|byte| *byte != 0).ok_or_else(|| bad.clone())?);
        rest = &after[2..];
    }
    let text = String::from_utf8(bytes).map_err(|_| bad.clone())?;
    if text.chars().any(char::is_control) {
        return Err(bad);
    }
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'-' | b'_' | b'.' | b'~' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests;
