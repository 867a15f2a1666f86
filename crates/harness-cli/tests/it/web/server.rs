//! A server for one test.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Stdio},
};

use serde_json::Value;

use super::client::{Request, Response, Stream, get};
use crate::environment::TestEnvironment;

/// `harness web`, which ends with the test.
pub(super) struct Server {
    child: Child,
    pub(super) url: String,
    pub(super) port: u16,
    pub(super) token: String,
    /// The path below which the pages are: `/…/`.
    pub(super) base: String,
}

impl Server {
    pub(super) fn start(env: &TestEnvironment) -> Self {
        Self::with(env, &[])
    }

    #[track_caller]
    pub(super) fn with(env: &TestEnvironment, args: &[&str]) -> Self {
        let mut command = env.harness(["web", "--json"]);
        let mut child =
            command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let Ok(link) = serde_json::from_str::<Value>(&line) else {
            let mut said = String::new();
            _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("no link in {line:?}: {said}");
        };
        let url = link["url"].as_str().unwrap().to_owned();
        let port = u16::try_from(link["port"].as_u64().unwrap()).unwrap();
        let token = link["token"].as_str().unwrap().to_owned();
        let base = base_of(&url);
        Self { child, url, port, token, base }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Opens the link as a browser does. Returns the value of the cookie.
    #[track_caller]
    pub(super) fn enter(&self) -> String {
        let response = get(path_of(&self.url)).send(self.port);
        assert_eq!(response.status, 200, "{response:?}");
        let cookie = response.header("set-cookie").unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Returns a page for somebody with this cookie.
    #[track_caller]
    pub(super) fn page(&self, cookie: &str, path: &str) -> Response {
        get(format!("{}{path}", self.base)).header("Cookie", cookie).send(self.port)
    }

    /// Sends a request with the token.
    #[track_caller]
    pub(super) fn send(&self, request: Request) -> Response {
        request.header("Authorization", self.bearer()).send(self.port)
    }

    #[track_caller]
    pub(super) fn stream(&self, request: Request) -> Stream {
        request.header("Authorization", self.bearer()).stream(self.port)
    }

    pub(super) fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    /// Ends it, and returns what it wrote to standard error.
    pub(super) fn end(mut self) -> String {
        let mut said = String::new();
        self.interrupt();
        _ = self.child.wait();
        _ = self.child.stderr.take().unwrap().read_to_string(&mut said);
        said
    }

    fn interrupt(&self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

/// Returns the path of a link.
pub(super) fn path_of(url: &str) -> &str {
    let rest = url.strip_prefix("http://").unwrap();
    &rest[rest.find('/').unwrap()..]
}

/// Returns the part of a link's path up to the page: `/…/`.
fn base_of(url: &str) -> String {
    let path = path_of(url);
    path[..=path[1..].find('/').unwrap() + 1].to_owned()
}
