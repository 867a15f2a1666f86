//! The one HTTP client: requests with a body, over HTTP and HTTPS, with limits on everything. It
//! follows no redirect, because the body and the headers are meant for one address only.
//!
//! TLS is rustls with ring. The trusted roots are those of the machine, read when the first client
//! is made.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ureq::{
    Agent,
    tls::{Certificate, RootCerts, TlsConfig, TlsProvider},
};

/// The limit of an answer, which is only read to reuse the connection.
const ANSWER_BYTES: u64 = 64 * 1024;

/// One request. The method is POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// The address. It may contain a secret, and is never a part of an error.
    pub url: String,
    /// Names and values.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The pause that the server asks for (`Retry-After` in seconds).
    pub retry_after_seconds: Option<u64>,
}

impl HttpAnswer {
    /// Returns whether the server accepted the request.
    pub fn is_success(self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// The reason why there was no answer. Its text contains no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The server did not answer in time.
    #[error("no answer within {seconds} s")]
    Timeout {
        /// The time that was waited.
        seconds: u64,
    },
    /// There is no connection.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The certificate of the server is not accepted, or TLS failed.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The address is none, or the answer is not HTTP.
    #[error("{0}")]
    Invalid(String),
}

/// A client. Clones share its connections.
#[derive(Debug, Clone)]
pub struct HttpClient {
    agent: Agent,
    within: Duration,
}

impl HttpClient {
    /// Creates a client whose requests take at most `within`, from the look-up of the name to the
    /// end of the answer. It connects when it is used.
    pub fn new(within: Duration) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(within))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .max_idle_connections(2)
            .user_agent(concat!("harness/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls());
        Self { agent: config.build().new_agent(), within }
    }

    /// Sends the request. A refusal by the server is an answer.
    pub fn post(&self, request: &HttpRequest) -> Result<HttpAnswer, HttpError> {
        let mut made = self.agent.post(&request.url);
        for (name, value) in &request.headers {
            made = made.header(name, value);
        }
        let mut answer = made.send(&request.body[..]).map_err(|why| self.error(why))?;
        let asked = answer.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after_seconds = asked.and_then(|text| text.trim().parse().ok());
        let status = answer.status().as_u16();
        // A connection whose answer was read can be used again. An error here changes nothing.
        _ = answer.body_mut().with_config().limit(ANSWER_BYTES).read_to_vec();
        Ok(HttpAnswer { status, retry_after_seconds })
    }

    fn error(&self, why: ureq::Error) -> HttpError {
        let seconds = self.within.as_secs();
        match why {
            ureq::Error::Timeout(_) => HttpError::Timeout { seconds },
            ureq::Error::HostNotFound => HttpError::Connect("the host is unknown".to_owned()),
            ureq::Error::Io(why) if why.kind() == io::ErrorKind::TimedOut => {
                HttpError::Timeout { seconds }
            }
            ureq::Error::Io(why) => {
                let inner = why.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
                match inner {
                    Some(why) => HttpError::Tls(why.to_string()),
                    None => HttpError::Connect(why.kind().to_string()),
                }
            }
            ureq::Error::ConnectionFailed => HttpError::Connect("no connection".to_owned()),
            ureq::Error::Rustls(why) => HttpError::Tls(why.to_string()),
            ureq::Error::Tls(why) => HttpError::Tls(why.to_owned()),
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                HttpError::Invalid("the address or a header is invalid".to_owned())
            }
            ureq::Error::Protocol(_) => HttpError::Invalid("the answer is not HTTP".to_owned()),
            _ => HttpError::Invalid("the request failed".to_owned()),
        }
    }
}

fn tls() -> TlsConfig {
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        // What cannot be read is left out. Without any root, every HTTPS server is refused.
        let found = rustls_native_certs::load_native_certs().certs.into_iter();
        RootCerts::from(found.map(|root| Certificate::from_der(&root).to_owned()))
    });
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(roots.clone())
        .build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{
        io::{Read as _, Write as _},
        net::TcpListener,
        thread,
    };

    use super::*;

    fn request(port: u16) -> HttpRequest {
        HttpRequest {
            url: format!("http://127.0.0.1:{port}/secret?key=1"),
            headers: vec![("x-one".to_owned(), "1".to_owned())],
            body: b"{}".to_vec(),
        }
    }

    /// Answers one connection with `answer`, and returns what it received.
    fn answering(answer: &'static str) -> (u16, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut seen, mut chunk) = (Vec::new(), [0; 1024]);
            while !seen.ends_with(b"{}") {
                let count = stream.read(&mut chunk).unwrap();
                seen.extend(&chunk[..count]);
            }
            stream.write_all(answer.as_bytes()).unwrap();
            String::from_utf8(seen).unwrap()
        });
        (port, served)
    }

    #[test]
    fn a_request_arrives_and_its_answer_is_read() {
        let client = HttpClient::new(Duration::from_secs(20));
        let text = "HTTP/1.1 429 Slow\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\nno";
        let (port, served) = answering(text);
        let answer = client.post(&request(port)).unwrap();
        assert_eq!(answer, HttpAnswer { status: 429, retry_after_seconds: Some(7) });
        let seen = served.join().unwrap();
        assert!(seen.starts_with("POST /secret?key=1 HTTP/1.1\r\n"), "{seen}");
        assert!(seen.contains("x-one: 1") && seen.contains("user-agent: harness/"), "{seen}");
    }

    #[test]
    fn a_redirect_is_not_followed() {
        let text =
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        let (port, served) = answering(text);
        let answer = HttpClient::new(Duration::from_secs(20)).post(&request(port)).unwrap();
        assert!(answer.status == 302 && !answer.is_success());
        served.join().unwrap();
    }

    #[test]
    fn an_error_does_not_name_the_address() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let client = HttpClient::new(Duration::from_millis(200));
        let refused = client.post(&request(free)).unwrap_err();
        assert!(matches!(refused, HttpError::Connect(_)), "{refused:?}");
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let late = client.post(&request(silent.local_addr().unwrap().port())).unwrap_err();
        assert!(matches!(late, HttpError::Timeout { .. }), "{late:?}");
        let bad = HttpRequest { url: "http://exa mple/secret".to_owned(), ..request(1) };
        let bad = client.post(&bad).unwrap_err();
        for error in [refused, late, bad] {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
