//! Counts the outcomes of many runs and prints them as tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::libtest::{Report, Verdict};

/// How many of the slowest tests are printed.
const SLOWEST: usize = 15;

/// What is known of a test after some runs.
#[derive(Debug, Default)]
struct Count {
    runs: u32,
    failures: u32,
    skips: u32,
    longest: Duration,
    total: Duration,
    /// Where the output of the first failure is kept.
    kept: Option<PathBuf>,
}

/// What is known of a binary after some runs.
#[derive(Debug, Default)]
struct Times {
    runs: u32,
    longest: Duration,
    total: Duration,
}

/// All counts of a soak.
pub struct Tally {
    folder: PathBuf,
    tests: BTreeMap<(String, String), Count>,
    binaries: BTreeMap<String, Times>,
}

impl Tally {
    /// Counts, and keeps the output of first failures in this folder.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, tests: BTreeMap::new(), binaries: BTreeMap::new() }
    }

    /// Adds one run of a binary.
    pub fn take(&mut self, label: &str, report: &Report, took: Duration) -> Result<(), String> {
        let times = self.binaries.entry(label.to_owned()).or_default();
        times.runs += 1;
        times.total += took;
        times.longest = times.longest.max(took);
        for outcome in report.outcomes.iter().filter(|outcome| outcome.verdict != Verdict::Ignored) {
            let count = self.tests.entry((label.to_owned(), outcome.test.clone())).or_default();
            count.runs += 1;
            count.skips += u32::from(outcome.verdict == Verdict::Skipped);
            let took = outcome.took.unwrap_or_default();
            count.longest = count.longest.max(took);
            count.total += took;
            if outcome.verdict == Verdict::Failed {
                count.failures += 1;
                if count.kept.is_none() {
                    let name = format!("{label}-{}.txt", outcome.test).replace(['/', ':'], "-");
                    let path = self.folder.join(name);
                    fs::write(&path, &outcome.said)
                        .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                    count.kept = Some(path);
                }
            }
        }
        Ok(())
    }

    /// Failures in all.
    pub fn failures(&self) -> u32 {
        self.tests.values().map(|count| count.failures).sum()
    }

    /// Binaries, the slowest tests, and every test that failed.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let widest = |names: &mut dyn Iterator<Item = usize>| names.max().unwrap_or(0).max(10);
        let width = widest(&mut self.binaries.keys().map(String::len));
        row(&mut text, width, "binary", ["tests", "runs", "failed", "skipped", "mean", "longest"]);
        for (label, times) in &self.binaries {
            let of = self.tests.iter().filter(|((binary, _), _)| binary == label).map(|(_, count)| count);
            let (mut tests, mut failures, mut skips) = (0, 0, 0);
            for count in of {
                tests += 1;
                failures += count.failures;
                skips += count.skips;
            }
            let mean = seconds(times.total / times.runs.max(1));
            let cells = [tests, times.runs, failures, skips].map(|number| number.to_string());
            let [tests, runs, failures, skips] = cells.each_ref().map(String::as_str);
            row(&mut text, width, label, [tests, runs, failures, skips, &mean, &seconds(times.longest)]);
        }
        let mut slow: Vec<_> = self.tests.iter().collect();
        slow.sort_by_key(|(_, count)| std::cmp::Reverse(count.total / count.runs.max(1)));
        slow.truncate(SLOWEST);
        self.section(&mut text, "slowest tests", &slow);
        let failed: Vec<_> = self.tests.iter().filter(|(_, count)| count.failures > 0).collect();
        if !failed.is_empty() {
            self.section(&mut text, "tests that failed", &failed);
            for (_, count) in &failed {
                if let Some(path) = &count.kept {
                    let _ = writeln!(text, "first failure: {}", path.display());
                }
            }
        }
        text
    }

    fn section(&self, text: &mut String, heading: &str, tests: &[(&(String, String), &Count)]) {
        let names: Vec<String> = tests.iter().map(|((label, test), _)| format!("{label}::{test}")).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0).max(heading.len());
        text.push('\n');
        row(text, width, heading, ["", "runs", "failed", "skipped", "mean", "longest"]);
        for (name, (_, count)) in names.iter().zip(tests) {
            let cells = [count.runs, count.failures, count.skips].map(|number| number.to_string());
            let [runs, failures, skips] = cells.each_ref().map(String::as_str);
            let mean = seconds(count.total / count.runs.max(1));
            row(text, width, name, ["", runs, failures, skips, &mean, &seconds(count.longest)]);
        }
    }

    /// Writes every test with its counts to a file, and says what all of it comes to.
    pub fn write_all(&self) -> Result<String, String> {
        let mut rows = String::from("test\truns\tfailed\tskipped\tmean s\tlongest s\n");
        for ((label, test), count) in &self.tests {
            let Count { runs, failures, skips, .. } = count;
            let (mean, longest) = (seconds(count.total / (*runs).max(1)), seconds(count.longest));
            let _ = writeln!(rows, "{label}::{test}\t{runs}\t{failures}\t{skips}\t{mean}\t{longest}");
        }
        let path = self.folder.join("tests.tsv");
        fs::write(&path, rows).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        let runs: u32 = self.tests.values().map(|count| count.runs).sum();
        let tests = self.tests.len();
        let failures = self.failures();
        Ok(format!("\n{tests} tests, {runs} runs, {failures} failures. Every test: {}", path.display()))
    }
}

/// How one run of a binary went, in one line.
pub fn line(label: &str, report: &Report, took: Duration) -> String {
    let count = |verdict| report.count(verdict);
    let passed = count(Verdict::Passed) + count(Verdict::Skipped);
    let mut text = format!("{label}: {passed} passed, {} failed, {}", count(Verdict::Failed), seconds(took));
    for failed in report.outcomes.iter().filter(|outcome| outcome.verdict == Verdict::Failed) {
        let _ = write!(text, "\n    FAILED {}", failed.test);
    }
    text
}

fn row(text: &mut String, width: usize, name: &str, cells: [&str; 6]) {
    let [a, b, c, d, e, f] = cells;
    let _ = writeln!(text, "{name:<width$} {a:>6} {b:>6} {c:>7} {d:>8} {e:>9} {f:>9}");
}

fn seconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn runs_and_failures_are_counted_and_the_first_failure_is_kept() {
        let folder = std::env::temp_dir().join(format!("soak-tally-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let mut tally = Tally::new(folder.clone());
        for (run, verdict) in [Verdict::Passed, Verdict::Failed, Verdict::Failed].into_iter().enumerate() {
            let mut report = Report::default();
            let took = Some(Duration::from_secs(run as u64 + 1));
            report.add("deep::one".into(), verdict, took, format!("run {run}"));
            report.add("peer".into(), Verdict::Skipped, None, String::new());
            report.add("never".into(), Verdict::Ignored, None, String::new());
            tally.take("lab/story", &report, Duration::from_secs(4)).unwrap();
        }
        assert_eq!(tally.failures(), 2);
        let kept = folder.join("lab-story-deep--one.txt");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "run 1");
        let cells = |start: &str| -> Vec<String> {
            let table = tally.table();
            let line = table.lines().find(|line| line.starts_with(start)).unwrap();
            line.split_whitespace().map(str::to_owned).collect()
        };
        assert_eq!(cells("lab/story "), ["lab/story", "2", "3", "2", "3", "4.0", "4.0"]);
        assert_eq!(cells("lab/story::deep::one"), ["lab/story::deep::one", "3", "2", "0", "2.0", "3.0"]);
        assert!(tally.table().contains(&format!("first failure: {}", kept.display())));
        assert!(tally.write_all().unwrap().contains("2 tests, 6 runs, 2 failures"));
        let rows = fs::read_to_string(folder.join("tests.tsv")).unwrap();
        assert!(rows.contains("lab/story::peer\t3\t0\t3\t"), "{rows}");
        fs::remove_dir_all(folder).unwrap();
    }
}
