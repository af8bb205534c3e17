//! Runs the tests many times, on a busy machine if asked to, and counts how often each of them failed.
//!
//! The binaries are built once and run as `cargo test` runs them: one after the other, in the folder of their package.

mod libtest;
mod load;
mod tally;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use crate::built::{self, Binary};
use crate::cargo;
use libtest::{Report, Verdict};
use load::Load;
use tally::Tally;

pub const USAGE: &str = "\
usage: cargo xtask soak [OPTIONS] [FILTER…]

Runs the tests many times and prints how often each of them failed. FILTER selects by a part of
package/target::test, such as daedal/cli::story or sigkill; without it all tests run.

  --runs N        runs of every selected test [5]
  --threads N     tests at once in a binary [number of cores]
  --load          keep every core busy meanwhile
  --minutes N     stop after so long, with exit code 1 if runs are missing [240]
  --package NAME  build and run this package only (repeatable) [the workspace]";

/// Longest time for one run of one binary.
const LONGEST: Duration = Duration::from_secs(40 * 60);

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    runs: u32,
    threads: Option<u32>,
    load: bool,
    minutes: u32,
    packages: Vec<String>,
    filters: Vec<String>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, String> {
        let mut options =
            Self { runs: 5, threads: None, load: false, minutes: 240, packages: vec![], filters: vec![] };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
            let number = |text: &String| match text.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{arg}: '{text}' is not a number above 0")),
            };
            match arg.as_str() {
                "--runs" => options.runs = number(value()?)?,
                "--threads" => options.threads = Some(number(value()?)?),
                "--minutes" => options.minutes = number(value()?)?,
                "--package" | "-p" => options.packages.push(value()?.clone()),
                "--load" => options.load = true,
                unknown if unknown.starts_with('-') => return Err(format!("unknown option {unknown}")),
                filter => options.filters.push(filter.to_owned()),
            }
        }
        Ok(options)
    }
}

/// Builds, runs, counts, prints.
pub fn run(args: &[String]) -> ExitCode {
    let options = match Options::parse(args) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}\n\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    match soak(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("cannot run the tests: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether every run was made and none failed.
fn soak(options: &Options) -> Result<bool, String> {
    let (binaries, target) = build(options)?;
    let mut chosen = Vec::new();
    for binary in binaries {
        let all = tests_in(&binary)?;
        let wanted: Vec<String> =
            all.iter().filter(|test| is_wanted(&options.filters, &binary.label, test)).cloned().collect();
        if !wanted.is_empty() {
            // Without names, the binary runs as `cargo test` runs it.
            let exact = wanted.len() < all.len();
            chosen.push((binary, wanted, exact));
        }
    }
    if chosen.is_empty() {
        return Err("no test has a name that contains one of the filters".into());
    }
    let folder = target.join("soak");
    fs::create_dir_all(&folder).map_err(|e| format!("cannot create {}: {e}", folder.display()))?;
    let mut tally = Tally::new(folder.clone());
    let end = Instant::now() + Duration::from_secs(u64::from(options.minutes) * 60);
    let load = options.load.then(Load::start);
    let mut missing = 0;
    let mut cut_off = 0;
    for round in 1..=options.runs {
        println!("\n==> run {round} of {}", options.runs);
        for (binary, tests, exact) in &chosen {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                missing += 1;
                continue;
            }
            let begin = Instant::now();
            let (report, untold) =
                run_once(binary, tests, *exact, options.threads, left.min(LONGEST), &folder)?;
            cut_off += untold;
            tally.take(&binary.label, &report, begin.elapsed())?;
            println!("{}", tally::line(&binary.label, &report, begin.elapsed()));
        }
    }
    print!("\n{}", tally.table());
    println!("{}", tally.write_all()?);
    if let Some(load) = load {
        println!("{load}");
    }
    if missing + cut_off > 0 {
        println!(
            "The {} minutes are over: {missing} runs of a binary were not made, and {cut_off} tests of the last one did not \
             end.",
            options.minutes
        );
    }
    Ok(missing + cut_off == 0 && tally.failures() == 0)
}

fn is_wanted(filters: &[String], label: &str, test: &str) -> bool {
    let name = format!("{label}::{test}");
    filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
}

/// Builds the tests. Gives the binaries and the target folder.
fn build(options: &Options) -> Result<(Vec<Binary>, PathBuf), String> {
    let mut command = cargo();
    command.args(["test", "--no-run"]);
    if options.packages.is_empty() {
        command.arg("--workspace");
    }
    for package in &options.packages {
        command.args(["--package", package]);
    }
    let binaries: Vec<Binary> =
        built::build(&mut command)?.into_iter().filter(|binary| binary.test).collect();
    let Some(first) = binaries.first() else { return Err("cargo built no test".into()) };
    // target/debug/deps/name-hash
    let target = first.executable.ancestors().nth(3).unwrap_or(Path::new("target")).to_owned();
    Ok((binaries, target))
}

/// A test in the surroundings that cargo gives it, without the peers of the conformance suites.
fn alone(binary: &Binary) -> Command {
    let mut command = binary.command();
    command.env_remove("DAEDAL_PEERS").env_remove("DAEDAL_REAL_PEERS");
    command
}

/// The names of all tests in a binary.
fn tests_in(binary: &Binary) -> Result<Vec<String>, String> {
    let cannot = |why: String| format!("{} does not list its tests: {why}", binary.label);
    let listed = alone(binary).args(["--list", "--format", "terse"]).output();
    let listed = listed.map_err(|e| cannot(e.to_string()))?;
    if !listed.status.success() {
        return Err(cannot(String::from_utf8_lossy(&listed.stderr).into_owned()));
    }
    Ok(libtest::listed(&String::from_utf8_lossy(&listed.stdout)))
}

/// One run of a binary to its end, or until its time is up. Also how many tests had not ended when the time of the whole soak
/// was over: those did not fail, they are missing.
fn run_once(
    binary: &Binary,
    tests: &[String],
    exact: bool,
    threads: Option<u32>,
    longest: Duration,
    folder: &Path,
) -> Result<(Report, usize), String> {
    let output = folder.join("running.txt");
    let cannot = |what: &str, e: std::io::Error| format!("cannot {what} {}: {e}", output.display());
    let file = File::create(&output).map_err(|e| cannot("create", e))?;
    let errors = file.try_clone().map_err(|e| cannot("write", e))?;
    let mut command = alone(binary);
    // How long each test took is told only if the unstable options are let in, which changes nothing else.
    command.env("RUSTC_BOOTSTRAP", "1").args(["-Zunstable-options", "--report-time", "--show-output"]);
    if exact {
        command.arg("--exact").args(tests);
    }
    command.args(threads.map(|threads| format!("--test-threads={threads}")));
    let child = command.stdout(file).stderr(errors).spawn();
    let mut child = child.map_err(|e| format!("cannot run {}: {e}", binary.label))?;
    let ended = wait(&mut child, longest).map_err(|e| format!("cannot wait for {}: {e}", binary.label))?;
    let said = fs::read(&output).map_err(|e| cannot("read", e))?;
    let mut report = libtest::report(&String::from_utf8_lossy(&said));
    if ended != Ended::Well {
        // Tests that had no chance to end are failures of their own kind.
        let why = match ended {
            Ended::Late => format!("stopped after {} minutes", longest.as_secs() / 60),
            _ => "the binary ended without telling how the test went".to_owned(),
        };
        let untold = tests.iter().filter(|test| !report.told(test)).cloned().collect::<Vec<_>>();
        if ended == Ended::Late && longest < LONGEST {
            return Ok((report, untold.len()));
        }
        let whole = String::from_utf8_lossy(&said).into_owned();
        for test in untold {
            report.add(test, Verdict::Failed, None, format!("{why}\n\n{whole}"));
        }
    }
    Ok((report, 0))
}

#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Well,
    Badly,
    Late,
}

/// Waits for a child, and kills it when its time is up.
fn wait(child: &mut Child, longest: Duration) -> std::io::Result<Ended> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Well } else { Ended::Badly });
        }
        if begin.elapsed() > longest {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Late);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let options = parsed("--runs 50 --load daedal/story --threads 8 -p daedal kill").unwrap();
        assert_eq!((options.runs, options.threads, options.load), (50, Some(8), true));
        assert_eq!((options.packages, options.filters.len()), (vec!["daedal".to_owned()], 2));
        for wrong in ["--runs", "--runs 0", "--runs many", "--lode"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_filter_is_a_part_of_package_target_and_test() {
        let wanted = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
            is_wanted(&filters, "daedal/story", "a_cluster_from_nothing_and_back")
        };
        assert!(
            wanted(&[]) && wanted(&["daedal/"]) && wanted(&["story::a_cluster"]) && wanted(&["x", "back"])
        );
        assert!(!wanted(&["kill"]));
    }

    #[test]
    fn a_child_that_takes_too_long_is_ended() {
        let shell = |script: &str| Command::new("sh").args(["-c", script]).spawn().unwrap();
        let far = Duration::from_secs(600);
        assert_eq!(wait(&mut shell("exit 0"), far).unwrap(), Ended::Well);
        assert_eq!(wait(&mut shell("exit 1"), far).unwrap(), Ended::Badly);
        assert_eq!(wait(&mut shell("exec sleep 600"), Duration::ZERO).unwrap(), Ended::Late);
    }
}
