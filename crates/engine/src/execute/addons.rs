//! Add-ons: their objects are applied, awaited and pruned. Whatever was applied before a death is found by the record of its set.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use daedal_addons::applyset::{self, Members, PARENT_NAMESPACE, Parent};
use daedal_addons::{Object, ObjectId, Release, Stage};
use daedal_inventory::Addon;
use daedal_planner::{Action, ObjectChange, PlannedObject, Readiness, Step};
use serde_json::Value;

use crate::addons::{self, Answer, Applying, Objects, answer};
use crate::effects::EffectKind;
use crate::error::Error;
use crate::execute::remove::refusal;
use crate::execute::waiting::Waiter;
use crate::execute::{Executor, Outcome};

/// Between two looks at objects that become ready.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// What is applied in one step.
pub(super) struct Apply<'a> {
    pub(super) addon: &'a str,
    pub(super) stage: Stage,
    pub(super) objects: &'a [PlannedObject],
    pub(super) force: bool,
}

impl Executor<'_> {
    fn addon(&self, name: &str) -> Result<&Addon, Error> {
        let addon = self.cluster.addons.iter().find(|addon| addon.name == name);
        addon.ok_or_else(|| Error::Plan { why: format!("it names add-on `{name}`") })
    }

    /// What an add-on was rendered to for the plan. A cluster that had no secrets then has them now.
    async fn release(&self, addon: &Addon) -> Result<Arc<Release>, Error> {
        let engine = self.engine;
        if let Some(release) = engine.releases.of(&addon.name) {
            return Ok(release);
        }
        let seed = addons::seed(&*self.secrets().await?);
        let all = addons::releases(engine, self.cluster, Some(&seed), None).await;
        let rendered = all.into_iter().find(|(one, _)| one.name == addon.name).map(|(_, release)| release);
        let rendered = rendered.unwrap_or_else(|| Err("it is not declared".to_owned()));
        rendered.map_err(|why| Error::AddonNotRendered { addon: addon.name.clone(), why })
    }

    /// Any object of the cluster, through an API server that answers.
    async fn objects(&self) -> Result<Objects, Error> {
        let found = Objects::discover(self.api_server().await?, self.engine.parts.limits.request()).await;
        let what = "ask the API server what it serves".to_owned();
        found.map_err(|source| Error::Kubernetes { what, source: Box::new(source) })
    }

    pub(super) async fn apply_addon(&self, step: &Step, apply: Apply<'_>) -> Result<Outcome, Error> {
        let addon = self.addon(apply.addon)?;
        let release = self.release(addon).await?;
        let planned = planned(&release, &apply)?;
        let what = format!("Kubernetes to take the objects of {}", addon.name);
        let mut wait = Waiter::new(self, step, what, Duration::from_secs(addon.timeout)).every(BETWEEN_LOOKS);
        let mut objects = self.objects().await?;
        self.record(&objects, addon, &release, &mut wait, true).await?;
        for (one, change) in planned {
            if *change == ObjectChange::Ensure {
                self.not_foreign(&objects, addon, one, &mut wait).await?;
            }
            self.apply_object(&mut objects, addon, one, apply.force, &mut wait).await?;
        }
        if apply.stage == Stage::Definitions {
            let of_stage = release.objects.iter().filter(|one| one.stage == Stage::Definitions);
            let all: Vec<&Object> = of_stage.collect();
            self.ready(&objects, &all, &mut wait).await?;
        }
        Ok(Outcome::Done)
    }

    /// Leaves an object alone that somebody else looks after, where the plan could not know.
    async fn not_foreign(
        &self,
        objects: &Objects,
        addon: &Addon,
        one: &Object,
        wait: &mut Waiter<'_>,
    ) -> Result<(), Error> {
        loop {
            match objects.get(&one.id).await {
                Ok(live) => match live.and_then(|live| addons::foreign(&live)) {
                    None => return Ok(()),
                    Some(owner) => {
                        let (addon, object) = (addon.name.clone(), one.id.to_string());
                        return Err(Error::AddonOwned { addon, object, owner: daedal_words::owner(&owner) });
                    }
                },
                Err(error) => wait.pause(refusal("read an object", error)?).await?,
            }
        }
    }

    /// Applies one object. What it needs may not be up yet: a definition, a namespace, a webhook.
    async fn apply_object(
        &self,
        objects: &mut Objects,
        addon: &Addon,
        one: &Object,
        mut force: bool,
        wait: &mut Waiter<'_>,
    ) -> Result<(), Error> {
        let effects = &self.engine.parts.effects;
        let mut asked_again = false;
        loop {
            if !objects.serves(&one.id) {
                if asked_again {
                    wait.pause(format!("{}: its kind is not served yet", one.id)).await?;
                }
                asked_again = true;
                *objects = self.objects().await?;
                continue;
            }
            let applying = Applying { force, ..Applying::default() };
            let call = async { Ok::<_, Error>(objects.apply(&one.id, &one.body, applying).await) };
            let subject = format!("{}: {}", addon.name, one.id);
            let Err(error) = effects.perform(EffectKind::ApplyObject, subject, call).await? else {
                return Ok(());
            };
            let (addon, object) = (addon.name.clone(), one.id.to_string());
            match answer(&error) {
                Some(Answer::Drift) if !force => force = true,
                Some(Answer::Drift) => wait.pause(refusal("apply an object", error)?).await?,
                Some(Answer::Conflict(conflicts)) => {
                    return Err(Error::AddonConflict { addon, object, conflicts });
                }
                Some(Answer::Refused { why, immutable }) => {
                    return Err(Error::AddonRefused { addon, object, why, immutable });
                }
                Some(Answer::NotYet(why)) => wait.pause(format!("{object}: {why}")).await?,
                None => {
                    wait.pause(refusal("apply an object", error)?).await?;
                    *objects = self.objects().await?;
                }
            }
        }
    }

    /// Writes which kinds and namespaces an add-on's objects are of: before they are applied those that were there as well.
    async fn record(
        &self,
        objects: &Objects,
        addon: &Addon,
        release: &Release,
        wait: &mut Waiter<'_>,
        with_old: bool,
    ) -> Result<(), Error> {
        let id = parent_id(&addon.name);
        loop {
            let live = match objects.get(&id).await {
                Ok(live) => live,
                Err(error) => {
                    wait.pause(refusal("read the record of the add-on", error)?).await?;
                    continue;
                }
            };
            let foreign = |source| Error::AddonSet { addon: addon.name.clone(), source };
            let old = live.as_ref().map(Parent::read).transpose().map_err(foreign)?.flatten();
            let mut members = self.members(addon, release);
            if let (Some(old), true) = (&old, with_old) {
                members = members.union(&old.members);
            }
            if old.as_ref().is_some_and(|old| addons::same(&old.members, &members)) {
                return Ok(());
            }
            let parent = Parent {
                addon: addon.name.clone(),
                namespace: addon.namespace.clone(),
                inputs: release.inputs.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                members,
            };
            let body = parent.to_object();
            // Nobody else has a say in it.
            let applying = Applying { force: true, manager: Some(applyset::MANAGER), dry_run: false };
            let call = async { Ok::<_, Error>(objects.apply(&id, &body, applying).await) };
            let effects = &self.engine.parts.effects;
            match effects.perform(EffectKind::RecordAddon, &addon.name, call).await? {
                Ok(_) => return Ok(()),
                Err(error) => wait.pause(refusal("record what is in the add-on", error)?).await?,
            }
        }
    }

    /// Where the members of an add-on are once it is as declared: what stays although it is no longer rendered is still in it.
    fn members(&self, addon: &Addon, release: &Release) -> Members {
        let view = self.world.addons.as_ref().and_then(|addons| addons.declared.get(&addon.name));
        let pruned = self.plan.steps.iter().find_map(|step| match &step.action {
            Action::PruneAddon { addon: name, objects, .. } if *name == addon.name => Some(objects),
            _ => None,
        });
        let extra = view.iter().flat_map(|view| &view.extra);
        let stays = extra.filter(|id| !pruned.is_some_and(|pruned| pruned.contains(id)));
        Members::of(release.objects.iter().map(|one| &one.id).chain(stays))
    }

    pub(super) async fn await_addon(&self, step: &Step, name: &str) -> Result<Outcome, Error> {
        let addon = self.addon(name)?;
        let release = self.release(addon).await?;
        let what = format!("the objects of {name} to be ready");
        let mut wait = Waiter::new(self, step, what, Duration::from_secs(addon.timeout)).every(BETWEEN_LOOKS);
        let objects = self.objects().await?;
        let all: Vec<&Object> = release.objects.iter().collect();
        self.ready(&objects, &all, &mut wait).await
    }

    /// Waits until objects are ready, telling of those that are not.
    async fn ready(
        &self,
        objects: &Objects,
        all: &[&Object],
        wait: &mut Waiter<'_>,
    ) -> Result<Outcome, Error> {
        let mut objects = objects.clone();
        let mut first = true;
        loop {
            let unready = match unready(&objects, all).await {
                Ok(unready) => unready,
                Err(error) => {
                    wait.pause(refusal("read the objects of the add-on", error)?).await?;
                    objects = self.objects().await?;
                    continue;
                }
            };
            let Some((id, why)) = unready.first() else {
                return Ok(if first { Outcome::AlreadyDone } else { Outcome::Done });
            };
            first = false;
            let more = match unready.len() {
                1 => String::new(),
                all => format!(", and {} more", all - 1),
            };
            wait.pause(format!("{id} {why}{more}")).await?;
        }
    }

    pub(super) async fn prune_addon(
        &self,
        step: &Step,
        name: &str,
        pruned: &[ObjectId],
        gone: bool,
    ) -> Result<Outcome, Error> {
        let what = format!("Kubernetes to let the former objects of {name} go");
        let patience = self.engine.parts.limits.endpoint;
        let mut wait = Waiter::new(self, step, what, patience).every(BETWEEN_LOOKS);
        let objects = self.objects().await?;
        for id in pruned {
            self.delete_member(&objects, name, id, &mut wait).await?;
        }
        match gone {
            true => self.delete(&objects, name, &parent_id(name), &mut wait, |_| true).await?,
            false => {
                let addon = self.addon(name)?;
                let release = self.release(addon).await?;
                self.record(&objects, addon, &release, &mut wait, false).await?;
            }
        }
        Ok(Outcome::Done)
    }

    async fn delete_member(
        &self,
        objects: &Objects,
        addon: &str,
        id: &ObjectId,
        wait: &mut Waiter<'_>,
    ) -> Result<(), Error> {
        let set = applyset::id_of(addon);
        // Another add-on, or somebody else, may have taken it over meanwhile.
        let is_its = |live: &Value| {
            live["metadata"]["labels"][applyset::PART_OF] == set.as_str() && applyset::stays(live).is_none()
        };
        self.delete(objects, addon, id, wait, is_its).await
    }

    /// Deletes an object if it is such. One with finalizers is left to them.
    async fn delete(
        &self,
        objects: &Objects,
        addon: &str,
        id: &ObjectId,
        wait: &mut Waiter<'_>,
        such: impl Fn(&Value) -> bool,
    ) -> Result<(), Error> {
        loop {
            let live = match objects.get(id).await {
                Ok(live) => live,
                Err(error) => {
                    wait.pause(refusal("read an object", error)?).await?;
                    continue;
                }
            };
            let Some(live) = live.filter(|live| such(live)) else { return Ok(()) };
            if live["metadata"]["deletionTimestamp"].is_string() {
                return Ok(());
            }
            let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
            let call = async { Ok::<_, Error>(objects.delete(id, uid).await) };
            let effects = &self.engine.parts.effects;
            match effects.perform(EffectKind::DeleteObject, format!("{addon}: {id}"), call).await? {
                Ok(_) => return Ok(()),
                Err(error) => wait.pause(refusal("delete an object", error)?).await?,
            }
        }
    }
}

fn parent_id(addon: &str) -> ObjectId {
    ObjectId {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: Some(PARENT_NAMESPACE.to_owned()),
        name: applyset::parent_name(addon),
    }
}

/// The objects that a step names, as they are rendered now: what the plan was made for, or nothing.
fn planned<'a>(
    release: &'a Release,
    apply: &Apply<'a>,
) -> Result<Vec<(&'a Object, &'a ObjectChange)>, Error> {
    let named = apply.objects.iter().map(|planned| {
        let one = release.objects.iter().find(|one| one.id == planned.id);
        // Without a digest it depends on secrets that were not there yet.
        let same = |one: &&Object| planned.digest.is_empty() || one.digest == planned.digest;
        one.filter(same).map(|one| (one, &planned.change)).ok_or_else(|| Error::Changed {
            what: format!("what add-on {} is rendered to ({})", apply.addon, planned.id),
        })
    });
    named.collect()
}

/// The objects that are not ready, and why; one list per kind and namespace.
async fn unready(objects: &Objects, all: &[&Object]) -> Result<Vec<(ObjectId, String)>, kube::Error> {
    let mut lists: BTreeMap<(String, String, Option<String>), Vec<Value>> = BTreeMap::new();
    let mut unready = Vec::new();
    for one in all {
        let key = (one.id.api_version.clone(), one.id.kind.clone(), one.id.namespace.clone());
        if !lists.contains_key(&key) {
            // A namespace may be shared, and is in no set.
            let selector = if one.id.kind == "Namespace" { "" } else { applyset::PART_OF };
            let found = objects.list(&one.id, selector).await?;
            lists.insert(key.clone(), found);
        }
        let live = lists[&key].iter().find(|live| live["metadata"]["name"] == one.id.name.as_str());
        match live.map(addons::how_ready) {
            None => unready.push((one.id.clone(), "is not there".to_owned())),
            Some(Readiness::Ready) => {}
            Some(Readiness::Waiting(why) | Readiness::Failed(why)) => {
                let why = match live {
                    Some(live) => why_waiting(objects, live, why).await?,
                    None => why,
                };
                unready.push((one.id.clone(), format!("is not ready: {why}")));
            }
        }
    }
    Ok(unready)
}

/// Why a workload waits: what its pods lack, if they say so.
async fn why_waiting(objects: &Objects, live: &Value, why: String) -> Result<String, kube::Error> {
    let Some(labels) = live["spec"]["selector"]["matchLabels"].as_object() else { return Ok(why) };
    let terms = labels.iter().filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    let selector = terms.collect::<Vec<_>>().join(",");
    let pods = ObjectId {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: live["metadata"]["namespace"].as_str().map(str::to_owned),
        name: String::new(),
    };
    let pods = objects.list(&pods, &selector).await?;
    Ok(match pods.iter().find_map(trouble) {
        Some(trouble) => format!("{why} ({trouble})"),
        None => why,
    })
}

/// What keeps a pod from running, beyond the usual moments of its start.
fn trouble(pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str().unwrap_or_default();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = ["initContainerStatuses", "containerStatuses"];
    let statuses = containers.iter().flat_map(|key| list(&pod["status"][*key]));
    for status in statuses {
        let waiting = &status["state"]["waiting"];
        let reason = waiting["reason"].as_str().unwrap_or_default();
        if !matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
            let message = waiting["message"].as_str().map(|text| format!(": {text}")).unwrap_or_default();
            return Some(format!("pod {name}: {reason}{message}"));
        }
    }
    let conditions = list(&pod["status"]["conditions"]);
    let unscheduled =
        conditions.iter().find(|one| one["type"] == "PodScheduled" && one["status"] == "False")?;
    Some(format!("pod {name}: {}", unscheduled["message"].as_str().unwrap_or("it is not scheduled")))
}
