//! Changes at random: things left out, emptied, doubled, put elsewhere, replaced.

use rand::{Rng as _, rngs::StdRng, seq::SliceRandom as _};
use serde_json::{Value as Json, json};

use super::shapes::Shapes;

/// Changes a document in one place.
pub fn mutate(
    document: &mut Json,
    kind: &str,
    samples: &[Json],
    shapes: &Shapes,
    minor: u32,
    rng: &mut StdRng,
) {
    let mut paths = Vec::new();
    list(document, &mut Vec::new(), &mut paths);
    paths.retain(|path| !matches!(path[0].as_str(), "kind" | "apiVersion" | "version"));
    let Some(path) = paths.choose(rng).cloned() else { return insert(document, kind, shapes, minor, rng) };
    match rng.gen_range(0..15) {
        0 | 1 => remove(document, &path),
        2 => *at(document, &path) = Json::Null,
        3 | 4 => {
            let value = at(document, &path);
            *value = match value {
                Json::String(_) => json!(""),
                Json::Array(_) => json!([]),
                Json::Object(_) => json!({}),
                Json::Number(_) => json!(0),
                Json::Bool(_) => json!(false),
                Json::Null => Json::Null,
            };
        }
        5 => double(document, &paths, rng),
        6..=8 => {
            let scalars: Vec<&Vec<String>> = paths
                .iter()
                .filter(|path| !at(document, path).is_object() && !at(document, path).is_array())
                .collect();
            let Some(path) = scalars.choose(rng) else { return };
            let value = shapes.value(&path.join("."), shapes.at(kind, path), rng);
            *at(document, path) = value;
        }
        9 => damage(at(document, &path), rng),
        10 | 11 => insert(document, kind, shapes, minor, rng),
        12 => borrow(document, samples, rng),
        13 => strange(document, &paths, rng),
        _ => {
            *at(document, &path) =
                [json!("a"), json!([]), json!({}), json!(5), json!(true), json!([null]), json!([{}])]
                    .choose(rng)
                    .unwrap()
                    .clone();
        }
    }
}

fn list(value: &Json, path: &mut Vec<String>, found: &mut Vec<Vec<String>>) {
    let mut below = |key: String, value: &Json, path: &mut Vec<String>| {
        path.push(key);
        found.push(path.clone());
        list(value, path, found);
        path.pop();
    };
    match value {
        Json::Object(fields) => fields.iter().for_each(|(key, value)| below(key.clone(), value, path)),
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(index, value)| below(index.to_string(), value, path));
        }
        _ => {}
    }
}

fn at<'a>(value: &'a mut Json, path: &[String]) -> &'a mut Json {
    path.iter().fold(value, |value, key| match value {
        Json::Array(items) => &mut items[key.parse::<usize>().unwrap()],
        fields => &mut fields[key.as_str()],
    })
}

fn remove(document: &mut Json, path: &[String]) {
    let (last, above) = path.split_last().unwrap();
    match at(document, above) {
        Json::Array(items) => drop(items.remove(last.parse().unwrap())),
        Json::Object(fields) => drop(fields.remove(last)),
        _ => {}
    }
}

/// An element of a list a second time, or one changed a little.
fn double(document: &mut Json, paths: &[Vec<String>], rng: &mut StdRng) {
    let lists: Vec<&Vec<String>> = paths
        .iter()
        .filter(|path| at(document, path).as_array().is_some_and(|items| !items.is_empty()))
        .collect();
    let Some(path) = lists.choose(rng) else { return };
    let Json::Array(items) = at(document, path) else { return };
    let mut again = items[rng.gen_range(0..items.len())].clone();
    if rng.gen_bool(0.4) {
        damage(&mut again, rng);
    }
    let place = rng.gen_range(0..=items.len());
    items.insert(place, again);
}

/// One character of a text changed, left out or doubled; a number moved a little.
fn damage(value: &mut Json, rng: &mut StdRng) {
    match value {
        Json::String(text) if !text.is_empty() => {
            let mut letters: Vec<char> = text.chars().collect();
            // What is wrong with the bits of a certificate is another matter.
            let most = if text.starts_with("-----BEGIN") { 40 } else { usize::MAX };
            let place = rng.gen_range(0..letters.len().min(most));
            match rng.gen_range(0..3) {
                0 => drop(letters.remove(place)),
                1 => letters.insert(place, letters[place]),
                _ => letters[place] = ['a', '0', '.', ':', '/', '-', 'A', ' '][rng.gen_range(0..8)],
            }
            *text = letters.into_iter().collect();
        }
        Json::Number(number) => {
            let number = number.as_i64().unwrap_or_default();
            *value = json!([number + 1, number - 1, -number, number * 1000, 0][rng.gen_range(0..5)]);
        }
        Json::Bool(flag) => *flag = !*flag,
        _ => {}
    }
}

/// A field that is not there yet, by the table of fields.
fn insert(document: &mut Json, kind: &str, shapes: &Shapes, minor: u32, rng: &mut StdRng) {
    let fields: Vec<&String> = shapes
        .fields(kind)
        .iter()
        .filter(|(_, field)| field.since <= minor || rng.gen_bool(0.05))
        .map(|(path, _)| path)
        .collect();
    let Some(path) = fields.choose(rng) else { return };
    let field = &shapes.fields(kind)[*path];
    let value = shapes.value(path, Some(field), rng);
    let mut here = document;
    let keys: Vec<&str> = path.split('.').collect();
    for (index, key) in keys.iter().enumerate() {
        if *key == "[]" {
            if !here.is_array() {
                *here = json!([]);
            }
            let Json::Array(items) = here else { return };
            if items.is_empty() || (index + 1 == keys.len() && rng.gen_bool(0.5)) {
                items.push(Json::Null);
            }
            let place = rng.gen_range(0..items.len());
            here = &mut items[place];
        } else {
            if !here.is_object() {
                *here = json!({});
            }
            here = &mut here[if *key == "*" { "a" } else { key }];
        }
    }
    *here = value;
}

/// What belongs into patches, or to no version that there is.
fn strange(document: &mut Json, paths: &[Vec<String>], rng: &mut StdRng) {
    if rng.gen_bool(0.3) {
        let key = if document.get("kind").is_some() { "apiVersion" } else { "version" };
        document[key] = ["v1alpha2", "v1", "V1alpha1", "v1alpha1"].choose(rng).copied().into();
        return;
    }
    let objects: Vec<&Vec<String>> = paths.iter().filter(|path| at(document, path).is_object()).collect();
    let place = match objects.choose(rng) {
        Some(path) if rng.gen_bool(0.7) => at(document, path),
        _ => document,
    };
    place["$patch"] = ["delete", "replace", "merge"].choose(rng).copied().into();
}

/// A part of another sample of the kind.
fn borrow(document: &mut Json, samples: &[Json], rng: &mut StdRng) {
    let Some(Json::Object(other)) = samples.choose(rng) else { return };
    let keys: Vec<&String> =
        other.keys().filter(|key| !matches!(key.as_str(), "kind" | "apiVersion")).collect();
    let Some(key) = keys.choose(rng) else { return };
    document[key.as_str()] = other[key.as_str()].clone();
}
