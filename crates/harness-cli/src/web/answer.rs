//! From a request to its response: the gate, the routes, and the headers of every response.

use std::{future::Future, sync::Arc, time::Instant};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header},
    response::IntoResponse as _,
    routing::{get, post},
};
use hyper::{body::Incoming, service::Service as _};
use hyper_util::service::TowerToHyperService;

use super::{
    access::COOKIE,
    api, assets, command, events,
    gate::{Head, Passed, Refusal, judge},
    metrics, pages,
    site::Site,
};

/// Nothing from elsewhere is loaded, nothing inline is executed, and no other page can contain ours.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'self'; \
                      frame-ancestors 'none'";

/// Returns the function that answers requests.
pub(super) fn answering(
    site: &Arc<Site>,
) -> impl Fn(Request<Incoming>) -> Answered + Clone + 'static + use<> {
    let (site, routes) = (Arc::clone(site), TowerToHyperService::new(routes(site)));
    move |request| Box::pin(answer(Arc::clone(&site), routes.clone(), request))
}

type Answered = std::pin::Pin<Box<dyn Future<Output = Response<Body>>>>;

fn routes(site: &Arc<Site>) -> Router {
    let pages = pages::routes();
    let routes = Router::new()
        .route("/api/status", get(api::status))
        .route("/api/task/{id}", get(api::task))
        .route("/api/events", get(events::all))
        .route("/api/command", post(command::command))
        .route("/metrics", get(metrics::metrics))
        .route("/live", get(events::live))
        .route("/assets/{name}", get(assets::asset));
    routes.merge(pages).with_state(Arc::clone(site))
}

async fn answer(
    site: Arc<Site>,
    routes: TowerToHyperService<Router>,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let head = Head { method: request.method(), uri: request.uri(), headers: request.headers() };
    let mut response = match judge(head, &site.names, &site.access) {
        Err(refusal) => refused(refusal),
        Ok(Passed::Enter { code }) => enter(&site, &code),
        Ok(Passed::Inside { path }) => match inner(request.uri(), &path) {
            Some(uri) => {
                *request.uri_mut() = uri;
                match routes.call(request).await {
                    Ok(response) => response,
                    Err(never) => match never {},
                }
            }
            None => plain(StatusCode::NOT_FOUND, "There is no such page.\n"),
        },
    };
    protect(response.headers_mut());
    response
}

/// Returns the same address without the prefix.
fn inner(uri: &Uri, path: &str) -> Option<Uri> {
    match uri.query() {
        Some(query) => format!("{path}?{query}").parse().ok(),
        None => path.parse().ok(),
    }
}

fn protect(headers: &mut HeaderMap) {
    let all = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_FRAME_OPTIONS, "DENY"),
    ];
    for (name, value) in all {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

pub(super) fn plain(status: StatusCode, text: &str) -> Response<Body> {
    (status, [(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text.to_owned()).into_response()
}

fn refused(refusal: Refusal) -> Response<Body> {
    let (status, text) = match refusal {
        Refusal::Host => {
            (StatusCode::MISDIRECTED_REQUEST, "This is not the server you asked for.\n")
        }
        Refusal::Stranger => (
            StatusCode::UNAUTHORIZED,
            "This page needs a link that works once.\n\nRun `harness web --url` in the project to get one.\n",
        ),
        Refusal::OtherSite => (StatusCode::FORBIDDEN, "A page of another site asked for this.\n"),
        Refusal::Origin => (StatusCode::FORBIDDEN, "A change needs the Origin of this server.\n"),
        Refusal::NoHeader => (StatusCode::FORBIDDEN, "A change needs the header X-Harness.\n"),
        Refusal::Prefetch => (StatusCode::FORBIDDEN, "This link works once, when you open it.\n"),
        Refusal::Method => (StatusCode::METHOD_NOT_ALLOWED, "Use GET, HEAD or POST.\n"),
    };
    plain(status, text)
}

/// Exchanges the code for a cookie. The browser then goes on by itself, from a page of ours,
/// because it would not send the cookie after a redirect from another site.
fn enter(site: &Site, code: &str) -> Response<Body> {
    let session = match site.access.redeem(code, Instant::now()) {
        Ok(Some(session)) => session,
        Ok(None) => {
            let text = "This link has been used or is too old.\n\nRun `harness web --url` in the project to get a new one.\n";
            return plain(StatusCode::UNAUTHORIZED, text);
        }
        Err(why) => return plain(StatusCode::INTERNAL_SERVER_ERROR, &format!("{why}\n")),
    };
    let base = site.base();
    let cookie = format!("{COOKIE}={session}; Path={base}; HttpOnly; SameSite=Strict");
    let page = maud::html! {
        (maud::DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content=(format!("0; url={base}"));
                title { "harness" }
                link rel="icon" href=(format!("{base}assets/icon.svg"));
            }
            body { a href=(base) { "Continue" } }
        }
    };
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::SET_COOKIE, cookie),
    ];
    (headers, page.into_string()).into_response()
}
