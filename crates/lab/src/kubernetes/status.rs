//! Refusals as the API words them.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::http::Body;

/// A refusal: HTTP status, machine-readable reason, sentence.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    pub(crate) details: Option<Value>,
}

impl Refusal {
    fn new(status: StatusCode, reason: &'static str, message: String) -> Self {
        Self { status, reason, message, details: None }
    }

    pub(crate) fn not_found(resource: &str, name: &str) -> Self {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("", resource));
        let shown = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let mut refusal =
            Self::new(StatusCode::NOT_FOUND, "NotFound", format!("{shown} \"{name}\" not found"));
        refusal.details = Some(json!({"name": name, "group": group, "kind": plural}));
        refusal
    }

    pub(crate) fn no_such_page() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource".into(),
        )
    }

    pub(crate) fn exists(resource: &str, name: &str) -> Self {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("", resource));
        let shown = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let mut refusal =
            Self::new(StatusCode::CONFLICT, "AlreadyExists", format!("{shown} \"{name}\" already exists"));
        refusal.details = Some(json!({"name": name, "group": group, "kind": plural}));
        refusal
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "Conflict", message.into())
    }

    pub(crate) fn too_many_requests(message: impl Into<String>) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message.into())
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message.into())
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message.into())
    }

    pub(crate) fn internal(why: impl std::fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// What cannot be applied, as it is no object of its kind.
    pub(crate) fn untyped(message: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    pub(crate) fn unavailable() -> Self {
        let message = "service unavailable".to_owned();
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    pub(crate) fn gone(revision: u64, newest: u64) -> Self {
        Self::new(StatusCode::GONE, "Expired", format!("too old resource version: {revision} ({newest})"))
    }

    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".into())
    }

    pub(crate) fn forbidden(user: &str, verb: &str, path: &str) -> Self {
        let message = format!("User \"{user}\" cannot {verb} path \"{path}\"");
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// An object that is not admitted.
    pub(crate) fn forbidden_object(resource: &str, name: &str, why: &str) -> Self {
        let (group, plural) = resource.rsplit_once('/').unwrap_or(("", resource));
        let shown = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
        let message = format!("{shown} \"{name}\" is forbidden: {why}");
        let mut refusal = Self::new(StatusCode::FORBIDDEN, "Forbidden", message);
        refusal.details = Some(json!({"name": name, "group": group, "kind": plural}));
        refusal
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".into(),
        )
    }

    pub(crate) fn unsupported_media(kind: &str) -> Self {
        let message = format!("the body of the request was in an unknown format - {kind:?} is not accepted");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The `Status` object.
    pub(crate) fn object(&self) -> Value {
        let mut object = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.status.as_u16(),
        });
        if let Some(details) = &self.details {
            object["details"] = details.clone();
        }
        object
    }

    /// The whole answer.
    pub(crate) fn response(&self) -> Response<Body> {
        crate::http::json(self.status, &self.object())
    }
}
