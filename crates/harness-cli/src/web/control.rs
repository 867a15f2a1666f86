//! A socket by which `harness web --url` gets a new link from a running server.
//!
//! Agents of the same user can reach it as well. So the server looks at the process that asks, as
//! the host does, and answers only the person whose server it is.

use std::{path::Path, sync::Arc, time::Duration};

use harness::{
    client::Connection,
    host::socket::{self, Bound, Places, SocketError},
    process::ancestry::Peer,
    protocol::Refused,
};
use harness_core::{command::Code, role::Role};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{UnixListener, UnixStream},
};

use super::site::Site;
use crate::failure::{Failure, Result};

/// The word in the name of the socket.
const WORD: &str = "web";
const REQUEST_BYTES_MAX: u64 = 4096;
const REQUEST_WITHIN: Duration = Duration::from_secs(5);
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
const URL_COMMAND: &str = "web_url";

/// Binds the socket. Returns `None` if another server of this root has it.
pub(super) fn bind(root: &Path, places: &Places) -> Result<Option<Bound>> {
    match socket::bind_beside_as(root, places, WORD) {
        Ok(bound) => Ok(Some(bound)),
        Err(SocketError::Running { .. } | SocketError::Taken { .. }) => Ok(None),
        Err(why) => Err(why.into()),
    }
}

/// Asks the server of `root` for a new link.
pub(crate) fn ask_url(root: &Path, places: &Places) -> Result<Value> {
    let path = socket::path_beside(root, places, WORD)?;
    let nobody = || {
        Failure::error("no web server is running here").hint(
            "start one with `harness web`, `harness run --web` or `harness daemon start --web`",
        )
    };
    let mut connection = Connection::connect(&path).map_err(|_| nobody())?;
    Ok(connection.ask(&json!({ "command": URL_COMMAND }), Some(ANSWER_WITHIN))?)
}

/// Answers until the future is dropped.
pub(super) async fn serve(listener: UnixListener, site: Arc<Site>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                _ = tokio::time::timeout(REQUEST_WITHIN, answer(stream, &site)).await;
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn answer(mut stream: UnixStream, site: &Site) -> std::io::Result<()> {
    let peer = stream.peer_cred()?;
    if peer.uid() != rustix::process::getuid().as_raw() {
        return Ok(());
    }
    let pid = peer.pid().and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0);
    let (read, mut write) = stream.split();
    let mut line = String::new();
    BufReader::new(read.take(REQUEST_BYTES_MAX)).read_line(&mut line).await?;
    let request: Value = serde_json::from_str(&line).unwrap_or_default();
    let answer = match request["command"].as_str() {
        Some(URL_COMMAND) => link(pid, site),
        _ => Err(Refused::new(Code::UnknownCommand, "Unknown command")),
    };
    let line = match answer {
        Ok(data) => json!({ "status": "ok", "data": data }),
        Err(refused) => refused.line(),
    };
    write.write_all(format!("{line}\n").as_bytes()).await
}

fn link(pid: u32, site: &Site) -> Result<Value, Refused> {
    match Peer::of(pid, site.root()).role {
        Role::Operator => {
            let url = site.new_url()?;
            Ok(json!({ "url": url, "port": site.port() }))
        }
        role @ (Role::Worker | Role::Agent) => {
            let message = format!("only a person may open the web page, not the {role}");
            Err(Refused::new(Code::OnlyOperator, message))
        }
    }
}
