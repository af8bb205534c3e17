//! Generated template snippets, rendered by both sides.

use std::collections::BTreeMap;
use std::path::Path;

use daedal_helm::File;

use crate::generate::{HELPERS, VALUES, snippet};
use crate::peer::{Helm, ours, ours_of_files};

/// How many snippets share one chart, and so one run of Helm.
const BATCH: usize = 500;

/// Renders that many snippets on both sides. How many differ.
pub fn run(helm: &Helm, count: usize) -> usize {
    let folder = std::env::temp_dir().join(format!("helm-snippets-{}", std::process::id()));
    let (mut agreed, mut refused, mut worded, mut different) = (0, 0, 0, 0);
    let mut notes: Vec<String> = Vec::new();
    let all: Vec<String> = (0..count).map(|seed| snippet(seed as u64 + 1)).collect();
    // We decide which snippets fail; each of those gets a chart of its own, because one failure ends a rendering.
    let mut good: Vec<usize> = Vec::new();
    let mut bad: Vec<(usize, String)> = Vec::new();
    for (index, text) in all.iter().enumerate() {
        match ours_of_files(files(&[(index, text)])) {
            Ok(_) => good.push(index),
            Err(message) => bad.push((index, message)),
        }
    }
    for batch in good.chunks(BATCH) {
        let mut batch: Vec<usize> = batch.to_vec();
        loop {
            let files: Vec<(usize, &str)> = batch.iter().map(|i| (*i, all[*i].as_str())).collect();
            write_chart(&folder, &files);
            match helm.template(&folder, None, false) {
                Ok(theirs) => {
                    let (theirs, mine) =
                        (by_source(&theirs), by_source(&ours(&folder, None, false).unwrap_or_default()));
                    for index in &batch {
                        let source = format!("s/templates/{index:06}.yaml");
                        if theirs.get(&source) == mine.get(&source) {
                            agreed += 1;
                        } else {
                            different += 1;
                            notes.push(format!(
                                "{}\n  helm: {}\n  ours: {}",
                                all[*index],
                                theirs.get(&source).map_or("nothing", String::as_str),
                                mine.get(&source).map_or("nothing", String::as_str)
                            ));
                        }
                    }
                    break;
                }
                Err(message) => {
                    // Helm refuses one that we take: note it, leave it out, go on.
                    let culprit = batch.iter().copied().find(|i| message.contains(&format!("{i:06}.yaml")));
                    different += 1;
                    match culprit {
                        Some(index) => {
                            notes.push(format!("{}\n  only helm refuses: {message}", all[index]));
                            batch.retain(|i| *i != index);
                        }
                        None => {
                            notes.push(format!("a whole batch is refused: {message}"));
                            break;
                        }
                    }
                }
            }
        }
    }
    for (index, mine) in &bad {
        write_chart(&folder, &[(*index, &all[*index])]);
        match helm.template(&folder, None, false) {
            Err(theirs) => {
                refused += 1;
                if theirs != *mine {
                    worded += 1;
                    if std::env::var_os("VERBOSE").is_some() {
                        notes.push(format!("{}\n  worded\n  helm: {theirs}\n  ours: {mine}", all[*index]));
                    }
                }
            }
            Ok(theirs) => {
                different += 1;
                notes.push(format!("{}\n  helm: {theirs}\n  only we refuse: {mine}", all[*index]));
            }
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
    println!(
        "\n{:<34} {:>8} {:>8} {:>8} {:>8} {:>6}",
        "snippets", "count", "agreed", "refused", "worded", "differ"
    );
    println!("{:<34} {count:>8} {agreed:>8} {refused:>8} {worded:>8} {different:>6}", "generated, seeds 1…");
    for note in notes.iter().take(40) {
        println!("{note}\n");
    }
    different
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
            "{{{{- define \"s{index}\" -}}}}\n{text}\n{{{{- end -}}}}\nv: {{{{ include \"s{index}\" . | quote }}}}\n"
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
