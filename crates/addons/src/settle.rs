//! Renders a chart that looks up what it makes itself until nothing changes any more.
//!
//! A chart may make a password when it finds none, and hash it into an annotation of the pods that read it. Often it does so by rendering the
//! Secret again, with another password; then the hash is only right once the Secret is there, and the second plan would restart the pods.
//! So what is absent and is about to be made is looked up as if it had been made.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::applyset;
use crate::error::Error;
use crate::inputs::{Inputs, Lookup, LookupAnswer, Rendered};
use crate::object::{Object, ObjectId};
use crate::order;
use crate::render::once;

/// How often a chart is rendered again at most; charts that were seen need one time.
const ROUNDS: usize = 3;

/// Renders an add-on.
///
/// A chart is always rendered as if for its first installation, so that what it renders depends on nothing that happened before.
pub fn render(inputs: &Inputs<'_>) -> Result<Rendered, Error> {
    let watched = Watched { inner: inputs.lookup, absent: RefCell::default(), found: RefCell::default() };
    let mut rendered = once(&Inputs { lookup: &watched, ..*inputs })?;
    rendered.found = watched.found.into_inner().into_iter().collect();
    let absent = watched.absent.into_inner();
    for _ in 0..ROUNDS {
        let objects = rendered.release.objects.iter();
        let made = objects.filter(|object| absent.iter().any(|id| id.is(&object.id)));
        let made: BTreeMap<ObjectId, Value> =
            made.map(|object| (object.id.clone(), object.body.clone())).collect();
        if made.is_empty() || !rendered.asked.is_empty() {
            break;
        }
        let overlay = Overlay { inner: inputs.lookup, made: &made };
        let mut next = once(&Inputs { lookup: &overlay, ..*inputs })?;
        next.found.clone_from(&rendered.found);
        // What is only made when it is not there still has to be made.
        let is_there = |id: &ObjectId| next.release.objects.iter().any(|object| object.id.is(id));
        let gone = rendered.release.objects.iter().filter(|o| made.contains_key(&o.id) && !is_there(&o.id));
        let gone: Vec<_> = gone.cloned().map(kept).collect();
        next.release.objects.extend(gone);
        order::sort(&mut next.release.objects);
        let is_settled = next.release == rendered.release;
        rendered = next;
        if is_settled {
            break;
        }
    }
    Ok(rendered)
}

/// An object that the chart no longer renders once it is there, marked so that nobody prunes it for that.
fn kept(mut object: Object) -> Object {
    if let Some(annotations) = object.body["metadata"]["annotations"].as_object_mut() {
        annotations.entry(applyset::HELM_KEEP.0).or_insert_with(|| json!(applyset::HELM_KEEP.1));
    }
    object
}

/// Notes what was looked up.
struct Watched<'a> {
    inner: &'a dyn Lookup,
    absent: RefCell<BTreeSet<ObjectId>>,
    found: RefCell<BTreeSet<ObjectId>>,
}

impl Lookup for Watched<'_> {
    fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> LookupAnswer {
        let answer = self.inner.get(api_version, kind, namespace, name);
        let id = ObjectId::of_lookup(api_version, kind, namespace, name);
        match answer {
            _ if name.is_empty() => {}
            LookupAnswer::Absent => {
                self.absent.borrow_mut().insert(id);
            }
            LookupAnswer::Known(_) => {
                self.found.borrow_mut().insert(id);
            }
            LookupAnswer::NotAsked => {}
        }
        answer
    }
}

/// Answers what is absent with what is about to be made.
struct Overlay<'a> {
    inner: &'a dyn Lookup,
    made: &'a BTreeMap<ObjectId, Value>,
}

impl Lookup for Overlay<'_> {
    fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> LookupAnswer {
        let answer = self.inner.get(api_version, kind, namespace, name);
        if answer != LookupAnswer::Absent || name.is_empty() {
            return answer;
        }
        let id = ObjectId::of_lookup(api_version, kind, namespace, name);
        let made = self.made.iter().find(|(made, _)| made.is(&id));
        made.map_or(answer, |(_, body)| LookupAnswer::Known(body.clone()))
    }
}
