//! HTTP servers of a test on this machine: one that answers and remembers, with and without TLS, and
//! one that never answers.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU16, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// How long a test waits for a request. It is long, because the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Request>>,
    changed: Condvar,
    status: AtomicU16,
    ended: AtomicBool,
}

/// A server that answers every request with its status. It ends with the test.
pub(crate) struct Receiver {
    port: u16,
    scheme: &'static str,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    pub(crate) fn start(status: u16) -> Self {
        Self::serving(status, "http", serve)
    }

    /// Starts a server that speaks TLS.
    pub(crate) fn encrypted(status: u16, config: Arc<ServerConfig>) -> Self {
        Self::serving(status, "https", move |stream, seen| {
            let Ok(connection) = ServerConnection::new(Arc::clone(&config)) else { return };
            serve(StreamOwned::new(connection, stream), seen);
        })
    }

    fn serving(
        status: u16,
        scheme: &'static str,
        serve: impl Fn(TcpStream, &Seen) + Clone + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        seen.status.store(status, Ordering::SeqCst);
        let shared = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                let serve = serve.clone();
                // It ends when the client closes the connection.
                thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { port, scheme, seen, thread: Some(thread) }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}://127.0.0.1:{}{path}", self.scheme, self.port)
    }

    /// Answers with another status from now on.
    pub(crate) fn answer(&self, status: u16) {
        self.seen.status.store(status, Ordering::SeqCst);
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Waits until the requests are as wanted, and returns them.
    #[track_caller]
    pub(crate) fn wait(&self, is_wanted: impl Fn(&[Request]) -> bool) -> Vec<Request> {
        let until = Instant::now() + PATIENCE;
        let mut requests = self.seen.requests.lock().unwrap();
        while !is_wanted(&requests) {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only these requests arrived: {requests:#?}");
            requests = self.seen.changed.wait_timeout(requests, left).unwrap().0;
        }
        requests.clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.seen.ended.store(true, Ordering::SeqCst);
        // This wakes the thread, which then ends.
        _ = TcpStream::connect(("127.0.0.1", self.port));
        _ = self.thread.take().unwrap().join();
    }
}

fn serve(mut stream: impl Read + Write, seen: &Seen) {
    while let Some(request) = read(&mut stream) {
        seen.requests.lock().unwrap().push(request);
        seen.changed.notify_all();
        let status = seen.status.load(Ordering::SeqCst);
        let answer = format!("HTTP/1.1 {status} Any\r\ncontent-length: 2\r\n\r\n{{}}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn read(stream: &mut impl Read) -> Option<Request> {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend(&chunk[..count]),
        }
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut lines = head.split("\r\n");
    let path = lines.next()?.split(' ').nth(1)?.to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length: usize = headers.get("content-length").map_or(0, |text| text.parse().unwrap());
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => body.extend(&chunk[..count]),
        }
    }
    Some(Request { path, headers, body })
}

/// A port that accepts connections and never answers.
pub(crate) struct Silence(TcpListener);

impl Silence {
    pub(crate) fn start() -> Self {
        // The kernel accepts connections for a listener that nobody serves.
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.0.local_addr().unwrap())
    }
}
