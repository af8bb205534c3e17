//! What an API server means when it refuses an object, read from its `Status`.

use serde_json::Value;

/// Why an object was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Others own fields that the object says otherwise.
    Conflict(Vec<Conflict>),
    /// Fields that cannot be changed; the object would have to be re-created.
    Immutable(Vec<Field>),
    /// Fields that are wrong.
    Invalid(Vec<Field>),
    /// A webhook that guards the object does not answer, as after its own installation.
    WebhookDown {
        /// The webhook, or the kind that it converts.
        webhook: String,
    },
    /// A webhook that guards the object says no.
    Denied {
        /// The webhook.
        webhook: String,
    },
    /// The kind is not served, as right after its definition.
    UnknownKind,
    /// The namespace is not there.
    NoNamespace,
    /// The namespace is being deleted.
    NamespaceGoes,
    /// The server is busy, or somebody else was faster: the same again may do.
    Later,
    /// Something else.
    Other,
}

impl Refusal {
    /// Whether the same request may do in a moment.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::WebhookDown { .. } | Self::UnknownKind | Self::NoNamespace | Self::Later)
    }
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The other field manager.
    pub manager: String,
    /// Whether it applies, or writes in another way.
    pub applies: bool,
    /// The field.
    pub path: String,
}

/// A field that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its path; empty if the server names none.
    pub path: String,
    /// What the server says of it.
    pub message: String,
}

/// How the API server says that a field cannot be changed.
const IMMUTABLE: &[&str] = &[
    "immutable",
    "updates to ",
    "may not change once set",
    "may not be changed",
    "cannot be changed",
    "cannot change roleRef",
];

/// What this `Status` means.
pub fn of(status: &Value) -> Refusal {
    let message = status["message"].as_str().unwrap_or_default();
    let reason = status["reason"].as_str().unwrap_or_default();
    let code = status["code"].as_u64().unwrap_or_default();
    let conflicts = conflicts(status);
    if !conflicts.is_empty() {
        return Refusal::Conflict(conflicts);
    }
    if let Some(webhook) = quoted_after(message, "failed calling webhook ") {
        return Refusal::WebhookDown { webhook };
    }
    if let Some(kind) = message.split("conversion webhook for ").nth(1) {
        let kind = kind.split(" failed").next().unwrap_or_default();
        return Refusal::WebhookDown { webhook: kind.to_owned() };
    }
    if let Some(webhook) = quoted_after(message, "admission webhook ") {
        return Refusal::Denied { webhook };
    }
    let causes = || status["details"]["causes"].as_array().into_iter().flatten();
    if causes().any(|cause| cause["reason"] == "NamespaceTerminating") {
        return Refusal::NamespaceGoes;
    }
    match (code, reason) {
        (422, _) | (_, "Invalid") => refused_fields(status, message),
        (404, _) if status["details"]["kind"] == "namespaces" => Refusal::NoNamespace,
        (404, _) => Refusal::UnknownKind,
        (409, "AlreadyExists") => Refusal::Other,
        (409 | 429 | 502..=504, _) => Refusal::Later,
        (_, "Timeout" | "ServerTimeout" | "TooManyRequests" | "ServiceUnavailable") => Refusal::Later,
        (500, _) if message.contains("etcdserver:") => Refusal::Later,
        _ => Refusal::Other,
    }
}

fn conflicts(status: &Value) -> Vec<Conflict> {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let conflict = |cause: &Value| {
        let message = cause["message"].as_str().unwrap_or_default();
        let manager = quoted_after(message, "conflict with ")?;
        // Only of those that write in another way the server says with which version of the API, and when.
        let applies = !message.contains(" using ");
        Some(Conflict { manager, applies, path: path_of(cause) })
    };
    causes.filter(|cause| cause["reason"] == "FieldManagerConflict").filter_map(conflict).collect()
}

fn refused_fields(status: &Value, message: &str) -> Refusal {
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let mut fields: Vec<Field> = causes
        .map(|cause| Field {
            path: path_of(cause),
            message: cause["message"].as_str().unwrap_or_default().to_owned(),
        })
        .collect();
    if fields.is_empty() {
        fields.push(Field { path: String::new(), message: message.to_owned() });
    }
    let immutable = |field: &Field| IMMUTABLE.iter().any(|words| field.message.contains(words));
    if fields.iter().any(immutable) {
        fields.retain(immutable);
        return Refusal::Immutable(fields);
    }
    Refusal::Invalid(fields)
}

fn path_of(cause: &Value) -> String {
    cause["field"].as_str().unwrap_or_default().trim_start_matches('.').to_owned()
}

/// The quoted text after some words.
fn quoted_after(message: &str, words: &str) -> Option<String> {
    let rest = message.split(words).nth(1)?.strip_prefix('"')?;
    rest.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status(code: u64, reason: &str, message: &str, causes: &[(&str, &str, &str)]) -> Refusal {
        let causes = causes
            .iter()
            .map(|(reason, message, field)| json!({"reason": reason, "message": message, "field": field}));
        let causes: Vec<Value> = causes.collect();
        of(&json!({"kind": "Status", "code": code, "reason": reason, "message": message,
            "details": {"causes": causes}}))
    }

    #[test]
    fn a_conflict_names_who_owns_which_field() {
        let found = status(
            409,
            "Conflict",
            "Apply failed with 2 conflicts",
            &[
                (
                    "FieldManagerConflict",
                    "conflict with \"helm\" using apps/v1 at 2026-01-01T00:00:00Z",
                    ".spec.replicas",
                ),
                ("FieldManagerConflict", "conflict with \"flux\"", ".data.key"),
            ],
        );
        let conflict = |manager: &str, applies, path: &str| Conflict {
            manager: manager.into(),
            applies,
            path: path.into(),
        };
        assert_eq!(
            found,
            Refusal::Conflict(vec![
                conflict("helm", false, "spec.replicas"),
                conflict("flux", true, "data.key")
            ])
        );
        assert!(!found.may_pass());
    }

    #[test]
    fn a_field_that_cannot_be_changed_is_told_from_a_wrong_one() {
        let field = |path: &str, message: &str| Field { path: path.into(), message: message.into() };
        for message in [
            "Invalid value: …: field is immutable",
            "Forbidden: updates to statefulset spec for fields other than 'replicas' are forbidden",
            "Invalid value: []string(nil): may not change once set",
            "Invalid value: …: cannot change roleRef",
        ] {
            let found = status(
                422,
                "Invalid",
                "x",
                &[("FieldValueInvalid", message, "spec.a"), ("FieldValueRequired", "Required value", "b")],
            );
            assert_eq!(found, Refusal::Immutable(vec![field("spec.a", message)]));
        }
        let found = status(422, "Invalid", "x", &[("FieldValueRequired", "Required value", "spec.b")]);
        assert_eq!(found, Refusal::Invalid(vec![field("spec.b", "Required value")]));
        let found = status(422, "Invalid", "spec is immutable after creation", &[]);
        assert_eq!(found, Refusal::Immutable(vec![field("", "spec is immutable after creation")]));
    }

    #[test]
    fn what_passes_by_itself_is_tried_again() {
        let down = "Internal error occurred: failed calling webhook \"webhook.cert-manager.io\": failed to call webhook: Post …: connection refused";
        let found = status(500, "InternalError", down, &[]);
        assert_eq!(found, Refusal::WebhookDown { webhook: "webhook.cert-manager.io".into() });
        let conversion =
            "conversion webhook for longhorn.io/v1beta1, Kind=Volume failed: Post …: no endpoints";
        let found_conversion = status(500, "InternalError", conversion, &[]);
        assert_eq!(
            found_conversion,
            Refusal::WebhookDown { webhook: "longhorn.io/v1beta1, Kind=Volume".into() }
        );
        let unknown = status(404, "NotFound", "the server could not find the requested resource", &[]);
        assert_eq!(unknown, Refusal::UnknownKind);
        let quota = status(409, "Conflict", "Operation cannot be fulfilled on resourcequotas", &[]);
        assert_eq!(quota, Refusal::Later);
        for refusal in [found, found_conversion, unknown, quota, status(503, "ServiceUnavailable", "", &[])] {
            assert!(refusal.may_pass(), "{refusal:?}");
        }
    }

    #[test]
    fn what_is_refused_for_good_is_not() {
        let denied =
            status(403, "Forbidden", "admission webhook \"policy.example.org\" denied the request: no", &[]);
        assert_eq!(denied, Refusal::Denied { webhook: "policy.example.org".into() });
        let goes = status(
            403,
            "Forbidden",
            "x",
            &[("NamespaceTerminating", "namespace a is being terminated", "metadata.namespace")],
        );
        assert_eq!(goes, Refusal::NamespaceGoes);
        let forbidden = status(403, "Forbidden", "pods \"a\" is forbidden: violates PodSecurity", &[]);
        assert_eq!(forbidden, Refusal::Other);
        for refusal in [denied, goes, forbidden] {
            assert!(!refusal.may_pass(), "{refusal:?}");
        }
        let absent =
            of(&json!({"code": 404, "reason": "NotFound", "details": {"kind": "namespaces", "name": "a"}}));
        assert_eq!(absent, Refusal::NoNamespace);
    }
}
