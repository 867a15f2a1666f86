//! The view as JSON, for programs.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};

use super::{
    reader::{Reader, Sought},
    site::Site,
};
use crate::failure::Result;

/// `GET /api/status`
pub(super) async fn status(State(site): State<Arc<Site>>) -> Response {
    json(&site, Reader::status_json).await
}

/// `GET /api/task/ID`
pub(super) async fn task(State(site): State<Arc<Site>>, Path(id): Path<String>) -> Response {
    json(&site, move |reader| reader.task_json(&id)).await
}

async fn json(
    site: &Arc<Site>,
    make: impl FnOnce(&Reader) -> Result<Sought<Vec<u8>>> + Send + 'static,
) -> Response {
    let (status, body) = match site.maker.make(make).await {
        Ok(Sought::Found(body)) => (StatusCode::OK, body),
        Ok(Sought::Nothing) => (StatusCode::NOT_FOUND, error("there is no such task")),
        Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, error(&why.error)),
    };
    (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn error(message: &str) -> Vec<u8> {
    let line = serde_json::json!({ "status": "error", "message": message });
    format!("{line}\n").into_bytes()
}
