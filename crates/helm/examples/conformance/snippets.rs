//! Generated template snippets, rendered by both sides.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use daedal_helm::File;

use crate::generate::{HELPERS, VALUES, snippet};
use crate::peer::Helm;

/// How many snippets share one chart, and so one run of Helm.
const BATCH: usize = 500;

/// How many differences are told in full.
const SHOWN: usize = 60;

/// What became of some snippets.
#[derive(Default)]
struct Tally {
    agreed: usize,
    unstable: usize,
    refused: usize,
    worded: usize,
    different: usize,
    notes: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.agreed += other.agreed;
        self.unstable += other.unstable;
        self.refused += other.refused;
        self.worded += other.worded;
        self.different += other.different;
        self.notes.extend(other.notes);
    }
}

/// Renders that many snippets on both sides. How many differ.
pub fn run(helm: &Helm, count: usize) -> usize {
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get().min(8));
    let batches: Vec<Vec<usize>> =
        (1..=count).collect::<Vec<_>>().chunks(BATCH).map(<[usize]>::to_vec).collect();
    let next = AtomicUsize::new(0);
    let mut total = Tally::default();
    std::thread::scope(|scope| {
        let work = || {
            let mut tally = Tally::default();
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                let folder =
                    std::env::temp_dir().join(format!("helm-snippets-{}-{}", std::process::id(), batch[0]));
                tally.add(compare(helm, &folder, batch));
                let _ = std::fs::remove_dir_all(&folder);
            }
            tally
        };
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(tally) => total.add(tally),
                Err(_) => total.different += 1,
            }
        }
    });
    let Tally { agreed, unstable, refused, worded, different, notes } = total;
    println!(
        "\n{:<34} {:>8} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "snippets", "count", "agreed", "unstable", "refused", "worded", "differ"
    );
    println!(
        "{:<34} {count:>8} {agreed:>8} {unstable:>8} {refused:>8} {worded:>8} {different:>6}",
        "generated, seeds 1…"
    );
    println!("unstable: helm prints an address, never the same; worded: both refuse, in other words");
    for note in notes.iter().take(SHOWN) {
        println!("{note}\n");
    }
    different
}

/// Compares a batch. We decide which snippets fail; each of those gets a chart of its own, because one failure ends a
/// rendering.
fn compare(helm: &Helm, folder: &Path, seeds: &[usize]) -> Tally {
    let mut tally = Tally::default();
    let all: BTreeMap<usize, String> = seeds.iter().map(|s| (*s, snippet(*s as u64))).collect();
    let mut good: Vec<usize> = Vec::new();
    let mut bad: Vec<(usize, String)> = Vec::new();
    for (index, text) in &all {
        match helm.ours_of_files(files(&[(*index, text)])) {
            Ok(_) => good.push(*index),
            Err(message) => bad.push((*index, message)),
        }
    }
    while !good.is_empty() {
        let together: Vec<(usize, &str)> = good.iter().map(|i| (*i, all[i].as_str())).collect();
        write_chart(folder, &together);
        match helm.template(folder, None, false) {
            Ok(theirs) => {
                let mine = helm.ours(folder, None, false).unwrap_or_default();
                let (theirs, mine) = (by_source(&theirs), by_source(&mine));
                // What Helm itself prints differently the next time (addresses) is no difference.
                let again = match theirs == mine {
                    true => BTreeMap::new(),
                    false => helm.template(folder, None, false).map(|t| by_source(&t)).unwrap_or_default(),
                };
                for index in &good {
                    let source = format!("s/templates/{index:06}.yaml");
                    if theirs.contains_key(&source) && theirs.get(&source) == mine.get(&source) {
                        tally.agreed += 1;
                    } else if theirs.get(&source) != again.get(&source) {
                        tally.unstable += 1;
                    } else {
                        tally.different += 1;
                        tally.notes.push(format!(
                            "seed {index}: {}\n  helm: {}\n  ours: {}",
                            all[index],
                            theirs.get(&source).map_or("nothing", String::as_str),
                            mine.get(&source).map_or("nothing", String::as_str)
                        ));
                    }
                }
                break;
            }
            Err(message) => {
                // Helm refuses one that we take: note it, leave it out, go on.
                let culprit = good.iter().copied().find(|i| message.contains(&format!("{i:06}.yaml")));
                tally.different += 1;
                let Some(index) = culprit else {
                    tally.notes.push(format!("a whole batch is refused: {message}"));
                    break;
                };
                tally.notes.push(format!("seed {index}: {}\n  only helm refuses: {message}", all[&index]));
                good.retain(|i| *i != index);
            }
        }
    }
    for (index, mine) in &bad {
        write_chart(folder, &[(*index, &all[index])]);
        match helm.template(folder, None, false) {
            Err(theirs) => {
                tally.refused += 1;
                if theirs != *mine {
                    tally.worded += 1;
                    if std::env::var_os("VERBOSE").is_some() {
                        tally.notes.push(format!(
                            "seed {index}: {}\n  worded\n  helm: {theirs}\n  ours: {mine}",
                            all[index]
                        ));
                    }
                }
            }
            Ok(theirs) => {
                tally.different += 1;
                tally.notes.push(format!(
                    "seed {index}: {}\n  helm: {theirs}\n  only we refuse: {mine}",
                    all[index]
                ));
            }
        }
    }
    tally
}

/// The chart that holds some snippets.
fn files(snippets: &[(usize, &str)]) -> Vec<File> {
    let file = |name: String, text: &str| File { name, data: text.as_bytes().to_vec() };
    let mut files = vec![
        file("Chart.yaml".into(), "apiVersion: v2\nname: s\nversion: 1.2.3\nappVersion: '4.5'\n"),
        file("values.yaml".into(), VALUES),
        file("a.txt".into(), "first\nsecond\n"),
        file("templates/_helpers.tpl".into(), HELPERS),
    ];
    for (index, text) in snippets {
        // The snippet's own output, quoted, is the only value of a document that is always valid.
        let body = format!(
            "{{{{ define \"s{index}\" }}}}{text}{{{{ end }}}}\nv: {{{{ include \"s{index}\" . | quote }}}}\n"
        );
        files.push(file(format!("templates/{index:06}.yaml"), &body));
    }
    files
}

fn write_chart(folder: &Path, snippets: &[(usize, &str)]) {
    let _ = std::fs::remove_dir_all(folder);
    let written = std::fs::create_dir_all(folder.join("templates")).and_then(|()| {
        files(snippets).iter().try_for_each(|f| std::fs::write(folder.join(&f.name), &f.data))
    });
    if let Err(error) = written {
        eprintln!("cannot write {}: {error}", folder.display());
    }
}

fn by_source(text: &str) -> BTreeMap<String, String> {
    text.split("---\n# Source: ")
        .filter_map(|part| part.split_once('\n'))
        .map(|(source, body)| (source.to_owned(), body.trim_end().to_owned()))
        .collect()
}
