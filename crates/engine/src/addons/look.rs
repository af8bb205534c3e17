//! What of the add-ons is in the cluster: one list per kind, and a dry run only for what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use daedal_addons::applyset::{self, Members, PARENT_NAMESPACE, Parent, Stay};
use daedal_addons::owner::{self, Owner};
use daedal_addons::{Object, ObjectId, Release, Seed, compare, digest_of, readiness};
use daedal_inventory::{Addon, Cluster};
use daedal_planner::{
    AddonObject, AddonOwner, AddonView, AddonsView, Aspect, FieldChange, FormerAddonView, ObjectState,
    Readiness, World,
};
use daedal_talos_config::SecretsBundle;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;

use super::render::{Releases, releases};
use super::{Answer, Applying, Objects, answer, seed};
use crate::addresses;
use crate::engine::Engine;
use crate::error::Error;
use crate::kubernetes::{API_SERVER_PORT, Kubernetes};
use crate::observe::UnobservedList;

/// Questions to the API server at once.
const AT_ONCE: usize = 8;

/// Looks at all add-ons. None where there is nothing to look for.
pub(crate) async fn look(
    engine: &Engine,
    cluster: &Cluster,
    world: &World,
    secrets: Option<&SecretsBundle>,
    unobserved: &UnobservedList,
) -> Option<AddonsView> {
    let objects = match secrets {
        Some(secrets) if world.endpoint_answers || world.kubernetes_told => {
            match api_server(engine, cluster, world, secrets).await {
                Ok(objects) => Some(objects),
                Err(error) => {
                    if !cluster.addons.is_empty() {
                        unobserved.add(Aspect::Addons, &error);
                    }
                    None
                }
            }
        }
        _ => None,
    };
    if cluster.addons.is_empty() && objects.is_none() {
        return None;
    }
    let seed = secrets.map(seed);
    let releases = releases(engine, cluster, seed.as_ref(), objects.as_ref()).await;
    let (Some(objects), Some(seed)) = (objects, seed) else { return Some(unasked(&releases)) };
    match told(cluster, &objects, &releases, &seed).await {
        Ok(view) => Some(view),
        Err(error) => {
            if !cluster.addons.is_empty() {
                let what = "see what is in the cluster of its add-ons".to_owned();
                unobserved.add(Aspect::Addons, &Error::Kubernetes { what, source: Box::new(error) });
            }
            Some(unasked(&releases))
        }
    }
}

/// A client of the first API server that answers.
async fn api_server(
    engine: &Engine,
    cluster: &Cluster,
    world: &World,
    secrets: &SecretsBundle,
) -> Result<Objects, Error> {
    let kubernetes = Kubernetes::new(&engine.parts, secrets)?;
    let patience = engine.parts.limits.probe_timeout;
    let mut target = addresses::endpoint(cluster);
    if !world.endpoint_answers {
        for node in cluster.control_planes().filter(|node| node.address.is_some()) {
            target = addresses::target(node, API_SERVER_PORT);
            if kubernetes.answers(&target, patience).await.is_ok() {
                break;
            }
        }
    }
    let found = Objects::discover(kubernetes.client(&target)?, engine.parts.limits.request()).await;
    let what = || format!("ask the API server at {target} what it serves");
    found.map_err(|source| Error::Kubernetes { what: what(), source: Box::new(source) })
}

/// What is rendered, where nobody could ask what is there.
fn unasked(releases: &Releases<'_>) -> AddonsView {
    let view = |release: &Result<Arc<Release>, String>| match release {
        Err(why) => AddonView { unrendered: Some(why.clone()), ..AddonView::default() },
        Ok(release) => AddonView {
            chart: chart(release),
            hooks: hooks(release),
            objects: release.objects.iter().map(|one| object(one, ObjectState::NotSeen, None)).collect(),
            ..AddonView::default()
        },
    };
    let declared = releases.iter().map(|(addon, release)| (addon.name.clone(), view(release)));
    AddonsView { told: false, declared: declared.collect(), former: BTreeMap::new() }
}

fn chart(release: &Release) -> Option<(String, String)> {
    release.chart.as_ref().map(|chart| (chart.name.clone(), chart.version.clone()))
}

fn hooks(release: &Release) -> Vec<ObjectId> {
    release.hooks.iter().map(|hook| hook.id.clone()).collect()
}

fn object(one: &Object, state: ObjectState, live: Option<&Value>) -> AddonObject {
    AddonObject {
        id: one.id.clone(),
        stage: one.stage,
        digest: one.digest.clone(),
        state,
        readiness: live.map(how_ready).unwrap_or_default(),
    }
}

/// Whether an object that is there is ready.
pub(crate) fn how_ready(live: &Value) -> Readiness {
    match readiness::of(live) {
        readiness::Readiness::Ready => Readiness::Ready,
        readiness::Readiness::Waiting { reason } => Readiness::Waiting(reason),
        readiness::Readiness::Failed { reason } => Readiness::Failed(reason),
        readiness::Readiness::Gone => Readiness::Waiting("it is being deleted".to_owned()),
    }
}

/// Everything as the API server tells it.
async fn told(
    cluster: &Cluster,
    objects: &Objects,
    releases: &Releases<'_>,
    seed: &Seed,
) -> Result<AddonsView, kube::Error> {
    let parents = parents(objects).await?;
    let members = members(objects, releases, &parents).await?;
    let mut view = AddonsView { told: true, ..AddonsView::default() };
    for (addon, release) in releases {
        let one = match release {
            Err(why) => AddonView { unrendered: Some(why.clone()), ..AddonView::default() },
            Ok(release) => {
                let known = (parents.get(&addon.name), seed);
                declared(objects, addon, release, &members, known).await?
            }
        };
        view.declared.insert(addon.name.clone(), one);
    }
    for name in parents.keys().filter(|name| cluster.addons.iter().all(|addon| addon.name != **name)) {
        let left = members.get(&applyset::id_of(name)).into_iter().flatten();
        let left = left.filter(|(_, live)| applyset::stays(live) != Some(Stay::Kept) && !is_dying(live));
        let objects = going(left.map(|(id, _)| id.clone()).collect());
        view.former.insert(name.clone(), FormerAddonView { objects });
    }
    Ok(view)
}

/// The records of our sets, by the names of their add-ons. Those of other tools are not ours.
async fn parents(objects: &Objects) -> Result<BTreeMap<String, Parent>, kube::Error> {
    let secrets = ObjectId {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(PARENT_NAMESPACE.to_owned()),
        name: String::new(),
    };
    let found = objects.list(&secrets, applyset::ID).await?;
    let read = found.iter().filter_map(|secret| Parent::read(secret).ok().flatten());
    Ok(read.map(|parent| (parent.addon.clone(), parent)).collect())
}

/// What is in each set, by its id.
type Sets = BTreeMap<String, Vec<(ObjectId, Value)>>;

async fn members(
    objects: &Objects,
    releases: &Releases<'_>,
    parents: &BTreeMap<String, Parent>,
) -> Result<Sets, kube::Error> {
    let mut kinds: BTreeMap<(String, String), String> = BTreeMap::new();
    let rendered = releases.iter().filter_map(|(_, release)| release.as_ref().ok());
    for object in rendered.flat_map(|release| &release.objects) {
        let key = (object.id.group().to_owned(), object.id.kind.clone());
        kinds.entry(key).or_insert_with(|| object.id.api_version.clone());
    }
    for (kind, group) in parents.values().flat_map(|parent| parent.members.kinds()) {
        if let Some(version) = objects.version_of(group, kind) {
            kinds.entry((group.to_owned(), kind.to_owned())).or_insert_with(|| version.to_owned());
        }
    }
    let asked = kinds.into_iter().map(|((_, kind), api_version)| async move {
        let id = ObjectId { api_version, kind, namespace: None, name: String::new() };
        let found = objects.list(&id, applyset::PART_OF).await?;
        Ok::<_, kube::Error>((id, found))
    });
    let asked: Vec<_> = asked.collect();
    let lists: Vec<_> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
    let mut sets = Sets::new();
    for (of, found) in lists {
        for live in found {
            let Some(set) = live["metadata"]["labels"][applyset::PART_OF].as_str() else { continue };
            let id = named(&of, &live);
            sets.entry(set.to_owned()).or_default().push((id, live));
        }
    }
    Ok(sets)
}

/// What an object of a list is called.
fn named(of: &ObjectId, live: &Value) -> ObjectId {
    ObjectId {
        namespace: live["metadata"]["namespace"].as_str().map(str::to_owned),
        name: live["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        ..of.clone()
    }
}

fn is_dying(live: &Value) -> bool {
    live["metadata"]["deletionTimestamp"].is_string()
}

/// In the order in which they go: what is in a namespace before what is not.
fn going(mut objects: Vec<ObjectId>) -> Vec<ObjectId> {
    objects.sort_by_key(|id| (id.namespace.is_none(), id.clone()));
    objects
}

/// One add-on beside what is there of it.
async fn declared(
    objects: &Objects,
    addon: &Addon,
    release: &Release,
    sets: &Sets,
    (parent, seed): (Option<&Parent>, &Seed),
) -> Result<AddonView, kube::Error> {
    let set = applyset::id_of(&addon.name);
    let none = Vec::new();
    let own = sets.get(&set).unwrap_or(&none);
    let compared = release.objects.iter().map(|one| async move {
        let member = own.iter().find(|(id, _)| id.is(&one.id)).map(|(_, live)| live.clone());
        let live = match member {
            Some(live) => Some(live),
            None => objects.get(&one.id).await?,
        };
        let state = state(objects, one, live.as_ref(), seed).await?;
        Ok::<_, kube::Error>((object(one, state, live.as_ref()), live))
    });
    let compared: Vec<_> = compared.collect();
    let compared: Vec<(AddonObject, Option<Value>)> =
        stream::iter(compared).buffered(AT_ONCE).try_collect().await?;
    let others = compared.iter().filter_map(|(one, live)| {
        let live = live.as_ref()?;
        Some((foreign(live)?, one.id.clone()))
    });
    let owner = others.into_iter().next();
    let rendered = |id: &ObjectId| release.objects.iter().any(|one| one.id.is(id));
    let extra = own.iter().filter(|(id, live)| !rendered(id) && !is_dying(live));
    let (kept, extra): (Vec<_>, Vec<_>) =
        extra.partition(|(_, live)| applyset::stays(live) == Some(Stay::Kept));
    let all = release.objects.iter().map(|one| &one.id);
    let exact = exact(all.chain(kept.iter().chain(&extra).map(|(id, _)| id)));
    let written = parent.map(|parent| parent.members.clone());
    Ok(AddonView {
        chart: chart(release),
        hooks: hooks(release),
        unrendered: None,
        objects: compared.into_iter().map(|(one, _)| one).collect(),
        extra: going(extra.into_iter().map(|(id, _)| id.clone()).collect()),
        recorded: written.as_ref().is_some_and(|written| same(written, &exact)),
        surplus: written.as_ref().is_some_and(|written| !same(&written.union(&exact), &exact)),
        owner,
    })
}

/// Where a set's members are.
pub(crate) fn exact<'a>(objects: impl Iterator<Item = &'a ObjectId>) -> Members {
    Members::of(objects)
}

/// Whether two records say the same. That of the record's own namespace is never written.
pub(crate) fn same(one: &Members, other: &Members) -> bool {
    let others = |members: &Members| -> BTreeSet<String> {
        members.namespaces.iter().filter(|name| *name != PARENT_NAMESPACE).cloned().collect()
    };
    one.group_kinds == other.group_kinds && others(one) == others(other)
}

/// Who looks after an object, if that is neither we nor nobody in particular.
pub(crate) fn foreign(live: &Value) -> Option<AddonOwner> {
    match owner::of(live) {
        Owner::Helm { release, namespace } => Some(AddonOwner::Helm { release, namespace }),
        Owner::Flux { kind, namespace, name } => {
            Some(AddonOwner::Flux { kind: kind.to_owned(), namespace, name })
        }
        Owner::ArgoCd { application } => Some(AddonOwner::ArgoCd { application }),
        _ => None,
    }
}

/// What an object is, beside what it is to be.
async fn state(
    objects: &Objects,
    one: &Object,
    live: Option<&Value>,
    seed: &Seed,
) -> Result<ObjectState, kube::Error> {
    let Some(live) = live.filter(|live| !is_dying(live)) else { return Ok(ObjectState::Absent) };
    let marked = digest_of(live) == Some(one.digest.as_str());
    let found = compare::differences(&one.body, live, seed);
    if marked && found.is_empty() {
        return Ok(ObjectState::AsDeclared);
    }
    if foreign(live).is_some() {
        return Ok(ObjectState::NotSeen);
    }
    let trying = Applying { dry_run: true, ..Applying::default() };
    let differs = |conflicts| ObjectState::Differs { changes: shown(&found), conflicts };
    Ok(match objects.apply(&one.id, &one.body, trying).await {
        Ok(result) if is_same(&result, live) => ObjectState::AsDeclared,
        Ok(_) => differs(Vec::new()),
        Err(error) => match answer(&error) {
            Some(Answer::Conflict(conflicts)) => differs(conflicts),
            Some(Answer::Drift) => differs(Vec::new()),
            Some(Answer::Refused { why, immutable }) => ObjectState::Refused { why, immutable },
            // Whatever stands behind a webhook may be down: what would come of it is not known.
            Some(Answer::NotYet(_)) => differs(Vec::new()),
            None => return Err(error),
        },
    })
}

/// Whether an apply that was tried changes nothing.
fn is_same(result: &Value, live: &Value) -> bool {
    let counted = ["managedFields", "resourceVersion", "generation", "creationTimestamp"];
    let plain = |object: &Value| {
        let mut object = object.clone();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            counted.iter().for_each(|field| drop(metadata.remove(*field)));
        }
        object
    };
    plain(result) == plain(live)
}

/// Changes of fields, but for our own marks.
fn shown(changes: &[compare::FieldChange]) -> Vec<FieldChange> {
    let foreign = changes.iter().filter(|change| !change.path.contains(applyset::PART_OF));
    let change = |one: &compare::FieldChange| FieldChange {
        path: one.path.clone(),
        from: one.from.clone(),
        to: one.to.clone(),
    };
    foreign.map(change).collect()
}
