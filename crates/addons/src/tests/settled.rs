//! Charts that look up what they make.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Case, PASSWORD, body};
use crate::{ObjectId, Rendered, applyset};

fn login() -> ObjectId {
    ObjectId {
        api_version: "v1".into(),
        kind: "Secret".into(),
        namespace: Some("shop".into()),
        name: "login".into(),
    }
}

fn with(case: &Case, live: Option<Value>) -> Rendered {
    case.render_with(&BTreeMap::from([(login(), live)])).unwrap()
}

#[test]
fn a_hash_of_a_password_is_that_of_the_password_that_is_made() {
    let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: app\n  annotations:\n    hash: {{ include (print $.Template.BasePath \"/login.yaml\") . | sha256sum }}\n";
    let case = Case::chart(&[("templates/login.yaml", PASSWORD), ("templates/app.yaml", deployment)]);
    let first = with(&case, None);
    let applied = body(&first, "Secret shop/login").clone();
    let second = with(&case, Some(applied));
    assert_eq!(first.release, second.release, "a second plan is empty");
    assert_eq!((first.found, second.found), (Vec::new(), vec![login()]));
}

#[test]
fn what_is_only_made_when_it_is_not_there_is_made() {
    let template = format!(
        "{{{{ if not (lookup \"v1\" \"Secret\" .Release.Namespace \"login\") }}}}\n{PASSWORD}{{{{ end }}}}"
    );
    let case = Case::chart(&[("templates/login.yaml", &template)]);
    let first = with(&case, None);
    let applied = body(&first, "Secret shop/login").clone();
    let second = with(&case, Some(applied.clone()));
    assert!(second.release.objects.iter().all(|object| object.id != login()));
    assert_eq!(second.found, [login()]);
    assert_eq!(applyset::stays(&applied), Some(applyset::Stay::Kept), "it is not pruned for that");
}
