//! Finds the comments of YAML and the mapping or list that each belongs to, as go-yaml v3 decides it: a comment is bound to
//! that place, and rules about comments apply there.

use std::ops::Range;

use crate::path::Path;
use crate::tree::{Branch, Comment, Content, Document, Node, Tree};
use crate::yaml::column;

/// An item of a document, by its position in every branch from the root down.
struct Spot {
    address: Vec<usize>,
    /// The item that it is in, by its place among the spots.
    parent: Option<usize>,
    /// Of the mapping or list that it is in.
    path: Path,
    start: usize,
    /// Whether it is an element of a list.
    listed: bool,
    /// Where its value begins.
    value: usize,
    /// Whether the mapping or list that it is in stands in brackets or braces.
    flow: bool,
    /// Where its value stands, if that is in brackets or braces.
    within: Option<Range<usize>>,
    below: Path,
}

/// Where a comment goes: before an item of a branch, or after its last.
struct Home {
    branch: Vec<usize>,
    index: usize,
    path: Path,
}

/// Puts the comments of a text into its tree. `tokens` are the places of all keys, values and aliases.
pub(crate) fn find(text: &str, tokens: &[Range<usize>], tree: &mut Tree) {
    let found = scan(text, tokens);
    let mut from = 0;
    for number in 0..tree.documents.len() {
        let document = &tree.documents[number];
        let last = number + 1 == tree.documents.len();
        let count = found[from..].iter().take_while(|span| last || span.start <= document.end).count();
        let spots = spots(document);
        let mut homes = Vec::new();
        for span in &found[from..from + count] {
            let (home, places) = home(text, span.start, &spots, document);
            homes.push(home);
            let text = text.get(span.clone()).unwrap_or_default().to_owned();
            tree.comments.push(Comment { span: span.clone(), text, places });
        }
        for (offset, home) in homes.into_iter().enumerate() {
            if let Some(branch) = branch(&mut tree.documents[number].root, &home.branch) {
                match branch.items.get_mut(home.index) {
                    Some(item) => item.comments.push(from + offset),
                    None => branch.after.push(from + offset),
                }
            }
        }
        from += count;
    }
}

/// The texts of all comments, without the `#`.
fn scan(text: &str, tokens: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let bytes = text.as_bytes();
    let mut at = 0;
    let ends = tokens.iter().map(|token| (token.start, token.end)).chain([(text.len(), text.len())]);
    for (start, end) in ends {
        while at < start {
            if bytes[at] == b'#' && (at == 0 || bytes[at - 1].is_ascii_whitespace()) {
                let rest = &bytes[at..];
                let length = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                let line = text.get(at..at + length).unwrap_or_default();
                found.push(at + 1..at + line.trim_end_matches('\r').len());
                at += length;
            } else {
                at += 1;
            }
        }
        at = at.max(end);
    }
    found
}

fn spots(document: &Document) -> Vec<Spot> {
    let mut spots = Vec::new();
    collect(&document.root, None, &mut Vec::new(), &Path::default(), &mut spots);
    spots
}

fn collect(node: &Node, parent: Option<usize>, address: &mut Vec<usize>, path: &Path, spots: &mut Vec<Spot>) {
    let Some(branch) = node.content.branch() else { return };
    for (index, item) in branch.items.iter().enumerate() {
        address.push(index);
        let below = match &item.key {
            Some(key) => path.key(key),
            None => path.index(index),
        };
        let inner = item.node.content.branch();
        spots.push(Spot {
            address: address.clone(),
            parent,
            path: path.clone(),
            start: item.start,
            listed: item.key.is_none(),
            value: item.node.span.start,
            flow: branch.flow,
            within: inner.filter(|inner| inner.flow).map(|_| item.node.span.clone()),
            below: below.clone(),
        });
        if item.alias.is_none() {
            collect(&item.node, Some(spots.len() - 1), address, &below, spots);
        }
        address.pop();
    }
}

fn branch<'a>(root: &'a mut Node, address: &[usize]) -> Option<&'a mut Branch> {
    let mut node = root;
    for index in address {
        let (Content::Map(branch) | Content::Seq(branch)) = &mut node.content else { return None };
        node = &mut branch.items.get_mut(*index)?.node;
    }
    match &mut node.content {
        Content::Map(branch) | Content::Seq(branch) => Some(branch),
        Content::Leaf(_) => None,
    }
}

/// Where the comment with its text at `at` belongs, and all places where others may think that it does.
fn home(text: &str, at: usize, spots: &[Spot], document: &Document) -> (Home, Vec<Path>) {
    let hash = at - 1;
    let next = spots.partition_point(|spot| spot.start < hash);
    let before = next.checked_sub(1).map(|last| &spots[last]);
    let after = spots.get(next);
    let home = decided(text, hash, before, after, spots, document);
    let mut places = vec![home.path.clone()];
    for spot in [before, after].into_iter().flatten() {
        for length in 0..=spot.below.0.len() {
            let place = Path(spot.below.0[..length].to_vec());
            if !places.iter().any(|known| known.bound() == place.bound()) {
                places.push(place);
            }
        }
    }
    (home, places)
}

fn decided(
    text: &str,
    hash: usize,
    before: Option<&Spot>,
    after: Option<&Spot>,
    spots: &[Spot],
    document: &Document,
) -> Home {
    let parent = |spot: &Spot| spot.parent.and_then(|parent| spots.get(parent));
    let at = |spot: &Spot| {
        let (index, branch) = spot.address.split_last().map_or((0, &[][..]), |(index, rest)| (*index, rest));
        Home { branch: branch.to_vec(), index, path: spot.path.clone() }
    };
    let full_line = is_full_line(text, hash);
    // In brackets or braces: the innermost that are open here.
    let mut around = before;
    while let Some(spot) =
        around.filter(|spot| !spot.within.as_ref().is_some_and(|span| span.contains(&hash)))
    {
        around = parent(spot);
    }
    let root_around = document.root.content.branch().is_some_and(|branch| branch.flow);
    if around.is_some() || root_around && document.root.span.contains(&hash) {
        let branch = around.map_or(Vec::new(), |spot| spot.address.clone());
        let path = around.map_or(Path::default(), |spot| spot.below.clone());
        let own = |spot: &&Spot| spot.address.len() == branch.len() + 1 && spot.address.starts_with(&branch);
        let index = spots.iter().filter(own).filter(|spot| spot.start < hash).count();
        let index = if full_line { index } else { index.saturating_sub(1) };
        return Home { branch, index, path };
    }
    if !full_line && let Some(mut spot) = before {
        while spot.flow
            && let Some(up) = parent(spot)
        {
            spot = up;
        }
        return at(spot);
    }
    if let Some((foot, dedented)) = before.and_then(|spot| foot(text, hash, spot, &parent)) {
        let home = at(foot);
        // go-yaml finds the comment with the dash of the next element, and puts it behind that.
        let late = usize::from(dedented && foot.listed);
        return Home { index: home.index + 1 + late, ..home };
    }
    match after {
        Some(mut spot) => {
            while spot.address.last() == Some(&0)
                && let Some(up) = parent(spot)
                && line_of(text, up.start) == line_of(text, spot.start)
            {
                spot = up;
            }
            at(spot)
        }
        None => Home { branch: Vec::new(), index: usize::MAX, path: Path::default() },
    }
}

/// The item that a comment ends, if it does not begin the next one, and whether it is indented less than what is before it.
fn foot<'a>(
    text: &str,
    hash: usize,
    before: &'a Spot,
    parent: &dyn Fn(&Spot) -> Option<&'a Spot>,
) -> Option<(&'a Spot, bool)> {
    if before.value > hash {
        return None;
    }
    let mut spot = before;
    while spot.flow
        && let Some(up) = parent(spot)
    {
        spot = up;
    }
    let (own, indent) = (column(text, hash), column(text, spot.start));
    let dedented = match following(text, hash) {
        Following::Blank if own < indent => true,
        Following::Blank if touches(text, hash) => false,
        Following::At(next) if next < indent && next != own => false,
        _ => return None,
    };
    // The innermost mapping or list that is not indented further than the comment.
    while column(text, spot.start) > own
        && let Some(up) = parent(spot)
    {
        spot = up;
    }
    Some((spot, dedented))
}

/// What follows the comment lines of one column.
enum Following {
    Blank,
    At(usize),
}

fn following(text: &str, hash: usize) -> Following {
    let own = column(text, hash);
    for line in text.get(hash..).unwrap_or_default().split('\n').skip(1) {
        let content = line.trim_start_matches([' ', '\t']);
        let at = line.len() - content.len();
        match content.trim_end() {
            "" => return Following::Blank,
            comment if comment.starts_with('#') && at == own => {}
            _ => return Following::At(at),
        }
    }
    // The metadata follow, as a key of the root.
    Following::At(0)
}

/// Whether there is no empty line between the comment and what is before it.
fn touches(text: &str, hash: usize) -> bool {
    let before = text.get(..hash).unwrap_or_default();
    for line in before.split('\n').rev().skip(1) {
        match line.trim() {
            "" => return false,
            comment if comment.starts_with('#') => {}
            _ => return true,
        }
    }
    false
}

fn is_full_line(text: &str, hash: usize) -> bool {
    let before = text.get(..hash).unwrap_or_default();
    before.rsplit('\n').next().unwrap_or_default().trim().is_empty()
}

fn line_of(text: &str, at: usize) -> usize {
    at - column(text, at)
}
