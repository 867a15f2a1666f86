//! `POST /api/command`: one request of the socket protocol, and its answer.

use std::{sync::Arc, time::Duration};

use axum::{
    body::{Body, to_bytes},
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use harness::{
    ClientError,
    protocol::{Call, Refused, Request},
    shell::Cancel,
};
use harness_core::command::Code;
use hyper::body::Body as _;

use super::{
    reader::Reader,
    site::{Mode, Site},
};

/// The size of a request.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// The time in which it must arrive.
const BODY_WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn command(State(site): State<Arc<Site>>, body: Body) -> Response {
    if site.mode == Mode::ReadOnly {
        let refused = Refused::new(Code::OnlyOperator, "This server only shows the project")
            .hint("start it without --read-only");
        return answer(StatusCode::FORBIDDEN, refused.line().to_string());
    }
    let too_large = || {
        let text = format!("A request has at most {BODY_BYTES_MAX} bytes");
        refused(StatusCode::PAYLOAD_TOO_LARGE, &text.into())
    };
    if body.size_hint().lower() > BODY_BYTES_MAX as u64 {
        return too_large();
    }
    let line = match tokio::time::timeout(BODY_WITHIN, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(line)) => line,
        Ok(Err(_)) => return too_large(),
        Err(_) => return refused(StatusCode::REQUEST_TIMEOUT, &"The request did not end".into()),
    };
    let Ok(place) = Arc::clone(&site.commands).try_acquire_owned() else {
        let busy = Refused::new(Code::Limit, "Too many commands at a time");
        return refused(StatusCode::SERVICE_UNAVAILABLE, &busy);
    };
    let (reader, stop) = (site.reader.clone(), Cancel::new());
    let Ok(stop) = stop else { return refused(StatusCode::SERVICE_UNAVAILABLE, &"No pipe".into()) };
    // A client that leaves ends its wait.
    let _leaving = Leaving(stop.clone());
    let done = tokio::task::spawn_blocking(move || {
        let _place = place;
        perform(&reader, &line, stop)
    });
    match done.await {
        Ok(Ok(line)) => answer(StatusCode::OK, line),
        Ok(Err(why)) => refused(status(&why), &why),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, &"The command failed".into()),
    }
}

struct Leaving(Cancel);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn answer(status: StatusCode, line: String) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], line + "\n").into_response()
}

fn refused(status: StatusCode, why: &Refused) -> Response {
    answer(status, why.line().to_string())
}

/// Returns the status that belongs to a refusal. The code in the body says more.
fn status(why: &Refused) -> StatusCode {
    match why.code {
        Code::OnlyOperator => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::BadRequest | Code::BadPlan | Code::UnknownCommand => StatusCode::BAD_REQUEST,
        _ => StatusCode::CONFLICT,
    }
}

/// Performs a request as a command of this process would.
fn perform(reader: &Reader, line: &[u8], stop: Cancel) -> Result<String, Refused> {
    let (invocation, root) = (reader.invocation(stop), reader.root());
    let call = Call::parse(line, &invocation.secrets(root))?;
    if call.root()?.is_some_and(|named| named != root.path().display().to_string()) {
        let text = format!("This server shows another root: {}", root.path().display());
        return Err(Refused::new(Code::AnotherRoot, text));
    }
    let request = call.request()?;
    if let Request::Subscribe(_) = request {
        return Err("Use GET /api/events for events".into());
    }
    let permitted = match request.holder() {
        Some(holder) => invocation.permit_holder(root, request.operation()?, holder),
        None => invocation.permit(root, request.operation()?),
    };
    permitted.map_err(|why| Refused { code: Code::OnlyOperator, ..Refused::from(why) })?;
    let mut options = invocation.client_options(root)?;
    options.speaks_as = call.speaks_as()?;
    let mut said = None;
    let done = invocation.with_options(root, options, |client| {
        client.ask(request).inspect_err(|why| {
            if let ClientError::Refused(refused) = why {
                said = Some(refused.clone());
            }
        })
    });
    match (done, said) {
        (Ok(answer), _) => answer.line().map_err(|why| Refused::new(Code::Failed, why.to_string())),
        (Err(_), Some(refused)) => Err(refused),
        (Err(failure), None) => Err(failure.into()),
    }
}
