//! A client that sends exactly the bytes that a test wants to send.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

/// A response, read to its end.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: String,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value.as_str())
    }

    #[track_caller]
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

/// A request to a port of this machine.
#[derive(Debug, Clone)]
pub(super) struct Request {
    method: &'static str,
    path: String,
    host: Option<String>,
    headers: Vec<(String, String)>,
    body: String,
}

pub(super) fn get(path: impl Into<String>) -> Request {
    Request {
        method: "GET",
        path: path.into(),
        host: None,
        headers: Vec::new(),
        body: String::new(),
    }
}

pub(super) fn post(path: impl Into<String>, body: impl Into<String>) -> Request {
    Request { method: "POST", body: body.into(), ..get(path) }
}

impl Request {
    pub(super) fn method(mut self, method: &'static str) -> Self {
        self.method = method;
        self
    }

    /// Names another server than the one that is asked.
    pub(super) fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    pub(super) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    fn text(&self, port: u16) -> String {
        let Self { method, path, body, .. } = self;
        let host = self.host.clone().unwrap_or_else(|| format!("127.0.0.1:{port}"));
        let mut text = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        format!("{text}\r\n{body}")
    }

    /// Sends it and reads the response.
    #[track_caller]
    pub(super) fn send(&self, port: u16) -> Response {
        raw(port, self.text(port).as_bytes())
    }

    /// Sends it and returns the lines of the body while they come.
    #[track_caller]
    pub(super) fn stream(&self, port: u16) -> Stream {
        let mut stream = connect(port);
        stream.write_all(self.text(port).as_bytes()).unwrap();
        let mut reader = BufReader::new(stream);
        let (status, headers) = head(&mut reader);
        Stream { status, headers, reader }
    }
}

/// Sends bytes and reads until the server closes the connection.
#[track_caller]
pub(super) fn raw(port: u16, bytes: &[u8]) -> Response {
    let mut stream = connect(port);
    // The server may answer and close before it has read everything.
    _ = stream.write_all(bytes);
    let mut reader = BufReader::new(stream);
    let (status, headers) = head(&mut reader);
    let chunked =
        headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let mut body = String::new();
    if chunked {
        while let Some(chunk) = chunk(&mut reader) {
            body += &chunk;
        }
    } else {
        _ = reader.read_to_string(&mut body);
    }
    Response { status, headers, body }
}

pub(super) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

#[track_caller]
fn head(reader: &mut BufReader<TcpStream>) -> (u16, Vec<(String, String)>) {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
    let status = status.unwrap_or_else(|| panic!("no response: {line:?}"));
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
            }
            None => return (status, headers),
        }
    }
}

/// Returns the next chunk; `None` at the end.
fn chunk(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut size = String::new();
    reader.read_line(&mut size).ok()?;
    let size = usize::from_str_radix(size.trim(), 16).ok().filter(|size| *size > 0)?;
    let mut bytes = vec![0; size + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(size);
    String::from_utf8(bytes).ok()
}

/// A response without an end: server-sent events.
pub(super) struct Stream {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    reader: BufReader<TcpStream>,
}

/// One message of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) data: String,
}

impl Stream {
    /// Waits for the next message. Comments are left out.
    #[track_caller]
    pub(super) fn next(&mut self) -> Message {
        loop {
            let text = chunk(&mut self.reader).expect("the stream goes on");
            let mut message = Message::default();
            for line in text.lines() {
                match line.split_once(": ").or_else(|| line.split_once(':')) {
                    Some(("id", id)) => message.id = Some(id.to_owned()),
                    Some(("event", event)) => message.event = Some(event.to_owned()),
                    Some(("data", data)) => message.data += data,
                    _ => {}
                }
            }
            if message != Message::default() {
                return message;
            }
        }
    }
}
