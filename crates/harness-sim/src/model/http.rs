//! The part of HTTP/1.1 that agents need: one request for each connection, with answers in one
//! piece or in several.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::Value;

/// The limit of a request. No agent sends a longer one.
const BODY_BYTES_MAX: u64 = 64 * 1024 * 1024;
const HEADERS_MAX: usize = 200;
/// A client that sends nothing for this long is gone.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server that listens until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// The connection that an answer is written to.
#[derive(Debug)]
pub struct Responder {
    stream: TcpStream,
}

impl Server {
    /// Starts a server. `answer` is called in its own thread for each request. If it returns an
    /// error, the connection ends, which some answers need.
    pub fn start(
        answer: impl Fn(Request, &mut Responder) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Server> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let stopped = Arc::new(AtomicBool::new(false));
        let (over, answer) = (Arc::clone(&stopped), Arc::new(answer));
        let listening = thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let answer = Arc::clone(&answer);
                // A connection that the client breaks off is not an error here.
                thread::spawn(move || drop(serve(stream, &*answer)));
            }
        });
        Ok(Server { address, stopped, listening: Some(listening) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Release);
        // A connection wakes the listener, so that it sees the flag.
        drop(TcpStream::connect(self.address));
        if let Some(listening) = self.listening.take() {
            drop(listening.join());
        }
    }
}

fn serve(
    stream: TcpStream,
    answer: &impl Fn(Request, &mut Responder) -> io::Result<()>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let request = Request::read(&mut reader, &stream)?;
    answer(request, &mut Responder { stream })
}

impl Request {
    /// Returns the target without the part after `?`.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn read(reader: &mut BufReader<TcpStream>, stream: &TcpStream) -> io::Result<Request> {
        let first = line(reader)?;
        let mut words = first.split(' ');
        let mut request = Request {
            method: words.next().unwrap_or_default().to_owned(),
            target: words.next().unwrap_or_default().to_owned(),
            ..Request::default()
        };
        loop {
            let header = line(reader)?;
            let Some((name, value)) = header.split_once(':') else { break };
            if request.headers.len() == HEADERS_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if request.header("expect").is_some() {
            (&*stream).write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        request.body = match request.header("transfer-encoding") {
            Some(coding) if coding.contains("chunked") => chunks(reader)?,
            _ => {
                let length = request.header("content-length").and_then(|n| n.parse().ok());
                exactly(reader, length.unwrap_or(0))?
            }
        };
        Ok(request)
    }
}

fn line(reader: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(64 * 1024).read_line(&mut line)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

fn exactly(reader: &mut BufReader<TcpStream>, length: u64) -> io::Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    let count = reader.take(length).read_to_end(&mut bytes)?;
    if count as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn chunks(reader: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let size = line(reader)?;
        let size = size.split(';').next().unwrap_or_default();
        let bad = |_| io::Error::from(io::ErrorKind::InvalidData);
        let size = u64::from_str_radix(size.trim(), 16).map_err(bad)?;
        let chunk = exactly(reader, size)?;
        line(reader)?;
        if size == 0 {
            return Ok(all);
        }
        all.extend(chunk);
        if all.len() as u64 > BODY_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

impl Responder {
    /// Sends a whole answer.
    pub fn json(&mut self, status: u16, headers: &[(&str, &str)], body: &Value) -> io::Result<()> {
        let body = body.to_string();
        let mut head = head(status, "application/json", headers);
        head += &format!("content-length: {}\r\n\r\n", body.len());
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body.as_bytes())
    }

    /// Sends the start of an answer that consists of events.
    pub fn begin_events(&mut self) -> io::Result<()> {
        let head = head(200, "text/event-stream", &[("cache-control", "no-cache")]);
        self.stream.write_all(format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes())
    }

    /// Sends one event.
    pub fn event(&mut self, name: Option<&str>, data: &str) -> io::Result<()> {
        let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
        let event = format!("{name}data: {data}\n\n");
        self.stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes())
    }

    /// Sends the end of the events. Without it, the stream was cut.
    pub fn end_events(&mut self) -> io::Result<()> {
        self.stream.write_all(b"0\r\n\r\n")
    }

    /// Sends nothing more until the client is gone.
    pub fn hang(&mut self) -> io::Result<()> {
        self.stream.set_read_timeout(None)?;
        io::copy(&mut self.stream, &mut io::sink())?;
        Ok(())
    }

    /// Breaks the connection.
    pub fn cut(&mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Both)
    }
}

fn head(status: u16, kind: &str, headers: &[(&str, &str)]) -> String {
    let mut head = format!("HTTP/1.1 {status} Scripted\r\nconnection: close\r\n");
    head += &format!("content-type: {kind}\r\n");
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    head
}
