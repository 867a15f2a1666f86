//! A proxy on loopback that cuts connections around a commit, and counts what passes.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use harness_core::database::DatabaseUrl;

/// The message of a commit.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
/// A commit that is followed by a wait for the disk.
const COMMIT_AND_WAIT: &[u8] = b"; COMMIT; ";
/// The answer to a commit.
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
/// The end of the answer to a message.
const SYNC: u8 = b'S';

/// Where the next connection is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// The commit does not reach the server.
    Before,
    /// The commit takes effect, and its answer does not reach the client.
    After,
}

/// A proxy before a server.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

struct State {
    server: Mutex<String>,
    cut: Mutex<Option<Cut>>,
    cuts: AtomicU64,
    statements: AtomicU64,
    stopped: AtomicBool,
    /// Whether new connections are refused.
    refusing: AtomicBool,
    /// How many connections were asked for.
    asked: AtomicU64,
    /// All connections that clients have, or had.
    clients: Mutex<Vec<TcpStream>>,
}

impl Proxy {
    /// Starts a proxy before the server at `url`.
    pub fn before(url: &DatabaseUrl) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            server: Mutex::new(address(url)),
            cut: Mutex::default(),
            cuts: AtomicU64::new(0),
            statements: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            refusing: AtomicBool::new(false),
            asked: AtomicU64::new(0),
            clients: Mutex::default(),
        });
        let theirs = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if theirs.stopped.load(Ordering::SeqCst) {
                    return;
                }
                theirs.asked.fetch_add(1, Ordering::SeqCst);
                if !theirs.keep(&client) {
                    continue;
                }
                let state = Arc::clone(&theirs);
                thread::spawn(move || _ = pass(&state, &client));
            }
        });
        Self { port, state }
    }

    /// Returns the address of the proxy for the same database.
    pub fn url(&self, url: &DatabaseUrl) -> DatabaseUrl {
        let (user, database) =
            (url.user().unwrap_or("postgres"), url.database().unwrap_or_default());
        let text = format!("postgres://{user}@127.0.0.1:{}/{database}?sslmode=disable", self.port);
        DatabaseUrl::parse(&text).unwrap()
    }

    /// Leads new connections to another server, and cuts those that exist.
    pub fn lead_to(&self, url: &DatabaseUrl) {
        *self.state.server.lock().unwrap() = address(url);
        self.unplug();
        self.plug_in();
    }

    /// Cuts the connection of the next commit.
    pub fn cut(&self, cut: Cut) {
        *self.state.cut.lock().unwrap() = Some(cut);
    }

    /// Refuses new connections. Those that exist stay.
    pub fn refuse(&self) {
        self.state.refusing.store(true, Ordering::SeqCst);
    }

    /// Cuts all connections and refuses new ones, as if the server were away.
    pub fn unplug(&self) {
        let mut clients = self.state.clients.lock().unwrap();
        self.refuse();
        clients.drain(..).for_each(|client| _ = client.shutdown(Shutdown::Both));
    }

    /// Accepts connections again.
    pub fn plug_in(&self) {
        self.state.refusing.store(false, Ordering::SeqCst);
    }

    /// Returns how many connections were asked for, refused ones included.
    pub fn asked(&self) -> u64 {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// Returns how many connections were cut.
    pub fn cuts(&self) -> u64 {
        self.state.cuts.load(Ordering::SeqCst)
    }

    /// Returns how many statements were sent.
    pub fn statements(&self) -> u64 {
        self.state.statements.load(Ordering::SeqCst)
    }
}

impl State {
    /// Keeps a connection, unless it is refused.
    fn keep(&self, client: &TcpStream) -> bool {
        let mut clients = self.clients.lock().unwrap();
        if self.refusing.load(Ordering::SeqCst) {
            return false;
        }
        clients.push(client.try_clone().unwrap());
        true
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.stopped.store(true, Ordering::SeqCst);
        _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn address(url: &DatabaseUrl) -> String {
    format!("{}:{}", url.host(), url.port())
}

fn pass(state: &Arc<State>, client: &TcpStream) -> std::io::Result<()> {
    let address = state.server.lock().unwrap().clone();
    let server = TcpStream::connect(address)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    // Set when the answer to the commit must not arrive.
    let silent = Arc::new(AtomicBool::new(false));
    let (theirs, counted) = (Arc::clone(&silent), Arc::clone(state));
    let back = thread::spawn(move || -> std::io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        let mut kept = Vec::new();
        loop {
            let count = from_server.read(&mut buffer)?;
            if count == 0 {
                return to_client.shutdown(Shutdown::Both);
            }
            if theirs.load(Ordering::SeqCst) {
                kept.extend_from_slice(&buffer[..count]);
                if has(&kept, COMMITTED) {
                    counted.cuts.fetch_add(1, Ordering::SeqCst);
                    return to_client.shutdown(Shutdown::Both);
                }
                continue;
            }
            to_client.write_all(&buffer[..count])?;
        }
    });
    let mut buffer = [0; 64 * 1024];
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    loop {
        let count = from_client.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        let sent = &buffer[..count];
        let statements = sent.windows(5).filter(|w| *w == [SYNC, 0, 0, 0, 4]).count();
        state.statements.fetch_add(statements as u64, Ordering::SeqCst);
        if has(sent, COMMIT) || has(sent, COMMIT_AND_WAIT) {
            match state.cut.lock().unwrap().take() {
                Some(Cut::Before) => {
                    state.cuts.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                Some(Cut::After) => silent.store(true, Ordering::SeqCst),
                None => {}
            }
        }
        to_server.write_all(sent)?;
    }
    server.shutdown(Shutdown::Both)?;
    client.shutdown(Shutdown::Both)?;
    _ = back.join();
    Ok(())
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}
