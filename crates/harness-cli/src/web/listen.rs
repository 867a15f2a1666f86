//! Binds the addresses of the server, and answers connections within limits.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener},
    sync::Arc,
    time::Duration,
};

use axum::{body::Body, http::Request, response::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore};

use super::patience::Patient;
use crate::failure::{Failure, Result};

/// The number of connections at the same time. More wait until one has ended.
const CONNECTIONS_MAX: usize = 320;
/// The time in which the head of a request must arrive.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// The size of the head of a request.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// The time that a client may leave bytes untaken.
const TAKE_WITHIN: Duration = Duration::from_secs(20);

/// Binds `port` of the loopback addresses: that of IPv4, and that of IPv6 where there is one. With
/// port 0, the system chooses.
pub(super) fn loopback(port: u16) -> Result<Vec<StdListener>> {
    let first = bind((Ipv4Addr::LOCALHOST, port).into())?;
    let chosen = first.local_addr()?.port();
    let second = StdListener::bind((Ipv6Addr::LOCALHOST, chosen)).ok();
    Ok([first].into_iter().chain(second).collect())
}

/// Binds exactly this address.
pub(super) fn bind(address: SocketAddr) -> Result<StdListener> {
    StdListener::bind(address).map_err(|why| {
        let failure = Failure::error(format!("cannot listen on {address}: {why}"));
        match why.kind() {
            io::ErrorKind::AddrInUse => failure.hint("choose another port with --port"),
            _ => failure,
        }
    })
}

/// Answers connections until the future is dropped.
pub(super) async fn serve<A, F>(listeners: Vec<StdListener>, answer: A) -> io::Result<()>
where
    A: Fn(Request<Incoming>) -> F + Clone + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let accepting = listeners.into_iter().map(|listener| {
        listener.set_nonblocking(true)?;
        Ok(accept(TcpListener::from_std(listener)?, Arc::clone(&places), answer.clone()))
    });
    let accepting = accepting.collect::<io::Result<Vec<_>>>()?;
    futures_util::future::join_all(accepting).await;
    Ok(())
}

async fn accept<A, F>(listener: TcpListener, places: Arc<Semaphore>, answer: A)
where
    A: Fn(Request<Incoming>) -> F + Clone + 'static,
    F: Future<Output = Response<Body>> + 'static,
{
    // The semaphore is never closed.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(why) => {
                // Usually there are no descriptors left. Open connections continue.
                tracing::warn!(%why, "a browser could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let answer = answer.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(move |request| {
                let answered = answer(request);
                async move { Ok::<_, Infallible>(answered.await) }
            });
            let io = TokioIo::new(Patient::new(stream, TAKE_WITHIN));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_WITHIN)
                .max_buf_size(HEAD_BYTES_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(io, service);
            // An error means that the client is gone or too slow.
            _ = connection.await;
            drop(place);
        });
    }
}
