//! Runs the random laws on seeds that nobody has tried. In `cargo test` they draw the same cases in every run, so that a failure is
//! always somebody's change.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use crate::{built, cargo};

pub const USAGE: &str = "\
usage: cargo xtask laws [--seed N]

Runs every test of a `proptest!` block on the seeds in .ci/seeds, which failed once, and then on a new
one, which is printed. It ends after three minutes at the latest. --seed tries this seed only, without
an end.";

/// Where seeds are kept that failed once: one per line, what comes after it is for people.
const SEEDS: &str = ".ci/seeds";

const LONGEST: Duration = Duration::from_secs(180);

/// Builds, tries the seeds, says which one fails.
pub fn run(args: &[String]) -> ExitCode {
    let seed = match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--seed", seed] if seed.parse::<u64>().is_ok() => seed.parse().ok(),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(64);
        }
    };
    match tried(seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("cannot try the laws: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether no seed failed.
fn tried(asked: Option<u64>) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let mut laws = Vec::new();
    find(&root.join("crates"), &mut laws)?;
    if laws.is_empty() {
        return Err("no law was found".into());
    }
    let kept = fs::read_to_string(root.join(SEEDS)).map_err(|e| format!("cannot read {SEEDS}: {e}"))?;
    let seeds: Vec<u64> = match asked {
        Some(seed) => vec![seed],
        None => seeds(&kept).chain([RandomState::new().hash_one(0u8)]).collect(),
    };
    let built = built::build(cargo().args(["test", "--locked", "--workspace", "--no-run"]))?;
    let end = asked.is_none().then(|| Instant::now() + LONGEST);
    for seed in seeds {
        println!("\n==> {} laws with seed {seed}", laws.len());
        for binary in built.iter().filter(|binary| binary.test) {
            let mut command = binary.command();
            command.env("PROPTEST_RNG_SEED", seed.to_string()).arg("--quiet").args(&laws);
            let child = command.spawn().map_err(|e| format!("cannot run {}: {e}", binary.label))?;
            match ended(child, end).map_err(|e| format!("cannot wait for {}: {e}", binary.label))? {
                Some(true) => {}
                Some(false) => {
                    println!(
                        "\nA law of {} fails with seed {seed}. Replay it: cargo xtask laws --seed {seed}",
                        binary.label
                    );
                    println!("Put the seed into {SEEDS}, with what it found, together with the fix.");
                    return Ok(false);
                }
                None => {
                    println!(
                        "\nThree minutes are over, at {} with seed {seed}; nothing had failed.",
                        binary.label
                    );
                    return Ok(true);
                }
            }
        }
    }
    println!("\nNo law fails.");
    Ok(true)
}

fn seeds(kept: &str) -> impl Iterator<Item = u64> + '_ {
    kept.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok())
}

/// Whether it succeeded; none if its time was up.
fn ended(mut child: Child, end: Option<Instant>) -> std::io::Result<Option<bool>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.success()));
        }
        if end.is_some_and(|end| Instant::now() > end) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Finds the names of all laws below a folder.
fn find(folder: &Path, laws: &mut Vec<String>) -> Result<(), String> {
    let cannot = |e: std::io::Error| format!("cannot read {}: {e}", folder.display());
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(cannot)? {
        entries.push(entry.map_err(cannot)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            find(&path, laws)?;
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text =
                fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            laws.extend(names(&text));
        }
    }
    Ok(())
}

/// The names of the tests in `proptest!` blocks.
fn names(text: &str) -> Vec<String> {
    let depth = |line: &str| line.len() - line.trim_start().len();
    let (mut block, mut names) = (None, Vec::new());
    for line in text.lines() {
        match block {
            None if line.trim_start() == "proptest! {" => block = Some(depth(line)),
            Some(at) if line.trim_start() == "}" && depth(line) == at => block = None,
            Some(at) if depth(line) == at + 4 => {
                let name = line.trim_start().strip_prefix("fn ").and_then(|rest| rest.split('(').next());
                names.extend(name.map(str::to_owned));
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn laws_are_found_by_their_blocks() {
        let text = "fn helper() {}\nproptest! {\n    #![proptest_config(x())]\n\n    #[test]\n    fn one(a: u8) {\n        fn inner() {}\n    }\n\n    #[test]\n    fn two(\n        b: u8,\n    ) {}\n}\nfn after() {}\n";
        assert_eq!(names(text), ["one", "two"]);
        let mut all = Vec::new();
        find(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates"), &mut all).unwrap();
        for law in ["after_apply_there_is_nothing_left_to_do", "fingerprints_survive_text"] {
            assert!(all.iter().any(|name| name == law), "{all:?}");
        }
    }

    #[test]
    fn seeds_are_the_first_words_of_lines() {
        assert_eq!(seeds("# seeds\n7 the usual one\n\n12\n").collect::<Vec<_>>(), [7, 12]);
    }

    #[test]
    fn the_end_comes_in_time() {
        let shell = |script: &str| Command::new("sh").args(["-c", script]).spawn().unwrap();
        assert_eq!(ended(shell("exit 0"), None).unwrap(), Some(true));
        assert_eq!(ended(shell("exit 1"), None).unwrap(), Some(false));
        assert_eq!(ended(shell("exec sleep 600"), Some(Instant::now())).unwrap(), None);
    }
}
