//! Which objects belong to an add-on, in the cluster's own words: ApplySets of KEP-3659, as `kubectl apply --applyset` has them.
//!
//! The parent of an add-on's set is a Secret without data. Before objects are applied it names the kinds and namespaces of
//! both the old and the new ones ([`Members::union`]), after pruning exactly those that are there; so what was applied is found again whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::object::ObjectId;

/// The label of a member: the id of its set.
pub const PART_OF: &str = "applyset.kubernetes.io/part-of";
/// The label of a parent: the id of its set.
pub const ID: &str = "applyset.kubernetes.io/id";
/// The annotation of a parent that says which tool keeps it.
pub const TOOLING: &str = "applyset.kubernetes.io/tooling";
/// The annotation of a parent that names the kinds of its members.
pub const GROUP_KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// The annotation of a parent that names the namespaces of its members besides its own.
pub const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
/// The label by which the parents of all add-ons are found: the add-on's name.
pub const ADDON: &str = "daedal.dev/addon";
/// The annotation of a parent that says in which namespace the release is.
pub const RELEASE_NAMESPACE: &str = "daedal.dev/namespace";
/// The annotation of a parent that says what was applied: [`Release::inputs`](crate::Release::inputs).
pub const INPUTS: &str = "daedal.dev/inputs";
/// The namespace of all parents.
pub const PARENT_NAMESPACE: &str = "kube-system";
/// The field manager of parents.
pub const MANAGER: &str = "daedal-applyset";

const TOOL: &str = "daedal";

/// The id of the set of a parent.
pub fn id(name: &str, namespace: &str, kind: &str, group: &str) -> String {
    let hash = Sha256::digest(format!("{name}.{namespace}.{kind}.{group}"));
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(hash))
}

/// The name of the parent of an add-on.
pub fn parent_name(addon: &str) -> String {
    format!("daedal-addon-{addon}")
}

/// The id of the set of an add-on.
pub fn id_of(addon: &str) -> String {
    id(&parent_name(addon), PARENT_NAMESPACE, "Secret", "")
}

/// Where the members of a set are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Their kinds, as `Kind.group`, or `Kind` for the core group.
    pub group_kinds: BTreeSet<String>,
    /// Their namespaces.
    pub namespaces: BTreeSet<String>,
}

impl Members {
    /// Where these objects are.
    pub fn of<'a>(objects: impl IntoIterator<Item = &'a ObjectId>) -> Self {
        let mut members = Self::default();
        for object in objects {
            members.group_kinds.insert(match object.group() {
                "" => object.kind.clone(),
                group => format!("{}.{group}", object.kind),
            });
            members.namespaces.extend(object.namespace.clone());
        }
        members
    }

    /// Where these or those are.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            group_kinds: self.group_kinds.union(&other.group_kinds).cloned().collect(),
            namespaces: self.namespaces.union(&other.namespaces).cloned().collect(),
        }
    }

    /// Their kinds, each with its group.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, &str)> {
        self.group_kinds.iter().map(|kind| kind.split_once('.').unwrap_or((kind, "")))
    }
}

/// What the parent of an add-on says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The add-on.
    pub addon: String,
    /// The namespace of its release.
    pub namespace: String,
    /// What was applied; empty until all of it was.
    pub inputs: String,
    /// The version of Daedal that wrote it.
    pub version: String,
    /// Where the members are.
    pub members: Members,
}

impl Parent {
    /// The Secret.
    pub fn to_object(&self) -> Value {
        let list = |items: &mut dyn Iterator<Item = &String>| {
            items.map(String::as_str).collect::<Vec<_>>().join(",")
        };
        let others = &mut self.members.namespaces.iter().filter(|name| *name != PARENT_NAMESPACE);
        let annotations = BTreeMap::from([
            (TOOLING, format!("{TOOL}/{}", self.version)),
            (GROUP_KINDS, list(&mut self.members.group_kinds.iter())),
            (NAMESPACES, list(others)),
            (RELEASE_NAMESPACE, self.namespace.clone()),
            (INPUTS, self.inputs.clone()),
        ]);
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": parent_name(&self.addon),
                "namespace": PARENT_NAMESPACE,
                "labels": {ID: id_of(&self.addon), ADDON: self.addon},
                "annotations": annotations,
            },
        })
    }

    /// What a Secret says, if it is the parent of an add-on. That of another tool is an error.
    pub fn read(secret: &Value) -> Result<Option<Self>, Error> {
        let metadata = &secret["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let (Some(id), Some(addon)) = (metadata["labels"][ID].as_str(), name.strip_prefix("daedal-addon-"))
        else {
            return Ok(None);
        };
        if metadata["namespace"] != PARENT_NAMESPACE || id != id_of(addon) {
            return Ok(None);
        }
        let annotation = |key: &str| metadata["annotations"][key].as_str().unwrap_or_default();
        let tooling = annotation(TOOLING);
        let (tool, version) = tooling.split_once('/').unwrap_or((tooling, ""));
        if tool != TOOL {
            return Err(Error::ForeignApplySet {
                namespace: PARENT_NAMESPACE.to_owned(),
                name: name.to_owned(),
                tooling: tooling.to_owned(),
            });
        }
        let list = |key| annotation(key).split(',').filter(|item| !item.is_empty()).map(str::to_owned);
        Ok(Some(Self {
            addon: addon.to_owned(),
            namespace: annotation(RELEASE_NAMESPACE).to_owned(),
            inputs: annotation(INPUTS).to_owned(),
            version: version.to_owned(),
            members: Members {
                group_kinds: list(GROUP_KINDS).collect(),
                namespaces: list(NAMESPACES).chain([PARENT_NAMESPACE.to_owned()]).collect(),
            },
        }))
    }
}

/// Why a member that is no longer rendered is not pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It is a namespace or a definition, and everything in it would go with it.
    Holds,
    /// An annotation says that it is to be kept.
    Kept,
}

/// Helm's annotation for an object that is to be kept.
pub(crate) const HELM_KEEP: (&str, &str) = ("helm.sh/resource-policy", "keep");

/// Annotations that say that an object is to be kept.
const KEEP: &[(&str, &[&str])] = &[
    (HELM_KEEP.0, &[HELM_KEEP.1]),
    ("kustomize.toolkit.fluxcd.io/prune", &["disabled"]),
    ("argocd.argoproj.io/sync-options", &["Prune=false", "Delete=false"]),
];

/// Why this object is not pruned, if it is not.
pub fn stays(object: &Value) -> Option<Stay> {
    let annotations = &object["metadata"]["annotations"];
    let kept = KEEP.iter().any(|(key, values)| {
        let mut words = annotations[*key].as_str().unwrap_or_default().split(',');
        words.any(|word| values.iter().any(|value| value.eq_ignore_ascii_case(word.trim())))
    });
    match object["kind"].as_str() {
        _ if kept => Some(Stay::Kept),
        Some("Namespace") if object["apiVersion"] == "v1" => Some(Stay::Holds),
        Some("CustomResourceDefinition") => Some(Stay::Holds),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(api_version: &str, kind: &str, namespace: Option<&str>) -> ObjectId {
        ObjectId {
            api_version: api_version.into(),
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            name: "x".into(),
        }
    }

    #[test]
    fn ids_are_those_of_kubectl() {
        for (kind, wanted) in [
            ("Secret", "applyset-rUVPylXXoSKhu8UNJqH_NeVgULCjoFZDOeV6GDrSdZs-v1"),
            ("ConfigMap", "applyset-vi_V1zsjWP_iGLpn9UTsO1cHF3S7bpnj13n1UhNDOtE-v1"),
        ] {
            assert_eq!(id("daedal-addons", "kube-system", kind, ""), wanted);
        }
    }

    #[test]
    fn a_parent_names_kinds_and_other_namespaces_in_order() {
        let members = Members::of(&[
            object("v1", "Secret", Some("web")),
            object("apps/v1", "Deployment", Some("kube-system")),
            object("apps/v1", "Deployment", Some("app")),
            object("rbac.authorization.k8s.io/v1", "ClusterRole", None),
        ]);
        let parent = Parent {
            addon: "traefik".into(),
            namespace: "web".into(),
            inputs: "ab".into(),
            version: "0.3.0".into(),
            members,
        };
        let secret = parent.to_object();
        let metadata = &secret["metadata"];
        assert_eq!(metadata["name"], "daedal-addon-traefik");
        assert_eq!(metadata["labels"][ID], id("daedal-addon-traefik", "kube-system", "Secret", ""));
        assert_eq!(metadata["annotations"][TOOLING], "daedal/0.3.0");
        assert_eq!(
            metadata["annotations"][GROUP_KINDS],
            "ClusterRole.rbac.authorization.k8s.io,Deployment.apps,Secret"
        );
        assert_eq!(metadata["annotations"][NAMESPACES], "app,web");
        assert_eq!(Parent::read(&secret).unwrap(), Some(parent.clone()));
        let kinds: Vec<_> = parent.members.kinds().collect();
        assert_eq!(
            kinds,
            [("ClusterRole", "rbac.authorization.k8s.io"), ("Deployment", "apps"), ("Secret", "")]
        );
    }

    #[test]
    fn the_parent_of_another_tool_is_refused_and_other_secrets_are_none() {
        let mut secret = Parent {
            addon: "a".into(),
            namespace: "a".into(),
            inputs: String::new(),
            version: "1.0.0".into(),
            members: Members::default(),
        }
        .to_object();
        secret["metadata"]["annotations"][TOOLING] = json!("kubectl/v1.34.0");
        let error = Parent::read(&secret).unwrap_err().to_string();
        assert_eq!(error, "Secret kube-system/daedal-addon-a belongs to kubectl/v1.34.0");
        secret["metadata"]["labels"][ID] = json!("applyset-other-v1");
        assert_eq!(Parent::read(&secret).unwrap(), None);
    }

    #[test]
    fn before_an_apply_the_parent_knows_old_and_new() {
        let old = Members::of(&[object("v1", "Secret", Some("a"))]);
        let new = Members::of(&[object("v1", "ConfigMap", Some("b"))]);
        let both = old.union(&new);
        assert!(both.group_kinds.is_superset(&old.group_kinds) && both.namespaces.contains("b"));
        assert_eq!(both.group_kinds.len(), 2);
    }

    #[test]
    fn what_holds_others_or_is_marked_is_not_pruned() {
        let with = |kind: &str, key: &str, value: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"annotations": {key: value}}});
        assert_eq!(stays(&with("Namespace", "a", "b")), Some(Stay::Holds));
        assert_eq!(stays(&with("CustomResourceDefinition", "a", "b")), Some(Stay::Holds));
        assert_eq!(stays(&with("Secret", "helm.sh/resource-policy", "keep")), Some(Stay::Kept));
        let options = "ServerSideApply=true, Prune=false";
        assert_eq!(stays(&with("Secret", "argocd.argoproj.io/sync-options", options)), Some(Stay::Kept));
        assert_eq!(stays(&with("Secret", "argocd.argoproj.io/sync-options", "Prune=true")), None);
    }
}
