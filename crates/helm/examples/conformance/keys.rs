//! What comparing texts has to leave out: keys and certificates, which are new every time. OpenSSL and Go look at them
//! instead, and what Go says of ours and of Helm's has to be the same.

use daedal_helm::File;

use crate::peer::Helm;
use crate::verifiers::{TEMPLATE, Verifiers, authorities, blocks};

/// Renders the template that makes keys of every kind on both sides. How many differences there are.
pub fn run(helm: &Helm, verifiers: &Verifiers) -> usize {
    let differences = compare(helm, verifiers);
    println!("\nkeys and certificates of every kind, read and verified by OpenSSL (strict) and Go:");
    match &differences {
        Ok(count) => println!("    {count} blocks are described the same"),
        Err(notes) => notes.iter().for_each(|note| println!("    DIFFERS: {note}")),
    }
    differences.map_or_else(|notes| notes.len(), |_| 0)
}

fn compare(helm: &Helm, verifiers: &Verifiers) -> Result<usize, Vec<String>> {
    let one = |note: String| vec![note];
    let folder = tempfile::tempdir().map_err(|e| one(e.to_string()))?;
    let file = |name: &str, text: &str| File { name: name.into(), data: text.as_bytes().to_vec() };
    let files = vec![
        file("Chart.yaml", "apiVersion: v2\nname: keys\nversion: 1.0.0\n"),
        file("values.yaml", &authorities().to_string()),
        file("templates/keys.yaml", TEMPLATE),
    ];
    std::fs::create_dir(folder.path().join("templates")).map_err(|e| one(e.to_string()))?;
    for file in &files {
        std::fs::write(folder.path().join(&file.name), &file.data).map_err(|e| one(e.to_string()))?;
    }
    let theirs = blocks(&helm.template(folder.path(), None, false).map_err(one)?);
    let mine = blocks(&helm.ours_of_files(files).map_err(one)?);
    verifiers.check(&mine).map_err(one)?;
    let described = |blocks: &[String]| verifiers.described(blocks).map_err(|e| vec![e]);
    let (theirs, mine) = (described(&theirs)?, described(&mine)?);
    let pairs = theirs.iter().zip(&mine).filter(|(a, b)| a != b);
    let mut notes: Vec<String> = pairs.map(|(a, b)| format!("helm: {a}\n             ours: {b}")).collect();
    if theirs.len() != mine.len() {
        notes.push(format!("helm makes {} blocks, we {}", theirs.len(), mine.len()));
    }
    if notes.is_empty() { Ok(mine.len()) } else { Err(notes) }
}
