//! Reads what a test binary prints about its tests.

use std::time::Duration;

/// How a test went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    /// It passed because it skipped what it needs a peer for.
    Skipped,
    Failed,
    Ignored,
}

/// One test of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub test: String,
    pub verdict: Verdict,
    pub took: Option<Duration>,
    /// What it printed.
    pub said: String,
}

/// All tests of one run of a binary.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Whether the outcome of a test is known.
    pub fn told(&self, test: &str) -> bool {
        self.outcomes.iter().any(|outcome| outcome.test == test)
    }

    pub fn add(&mut self, test: String, verdict: Verdict, took: Option<Duration>, said: String) {
        self.outcomes.push(Outcome { test, verdict, took, said });
    }

    /// How many have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.outcomes.iter().filter(|outcome| outcome.verdict == verdict).count()
    }
}

/// The tests of a list in the terse format.
pub fn listed(output: &str) -> Vec<String> {
    output.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// What a run printed with `--show-output`.
pub fn report(output: &str) -> Report {
    let mut report = Report::default();
    let mut lines = output.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some((test, verdict, took)) = outcome(line) {
            report.add(test, verdict, took, String::new());
        } else if let Some(test) = section(line) {
            let mut said = String::new();
            while let Some(line) = lines.next_if(|line| section(line).is_none() && !is_heading(line)) {
                said.push_str(line);
                said.push('\n');
            }
            let of_test = report.outcomes.iter_mut().find(|outcome| outcome.test == test);
            if let Some(outcome) = of_test {
                if outcome.verdict == Verdict::Passed && said.lines().any(skips) {
                    outcome.verdict = Verdict::Skipped;
                }
                outcome.said = said.trim_end().to_owned();
            }
        }
    }
    report
}

/// `test NAME ... ok <0.012s>`. What a test prints past its capture may stand before the verdict.
fn outcome(line: &str) -> Option<(String, Verdict, Option<Duration>)> {
    let (name, rest) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.strip_suffix(" - should panic").unwrap_or(name);
    let (rest, took) = match rest.strip_suffix("s>").and_then(|rest| rest.rsplit_once(" <")) {
        Some((rest, seconds)) => (rest, seconds.parse().ok().map(Duration::from_secs_f64)),
        None => (rest, None),
    };
    let verdict = match rest {
        _ if rest.ends_with("ok") => Verdict::Passed,
        _ if rest.ends_with("FAILED") => Verdict::Failed,
        _ if rest == "ignored" || rest.starts_with("ignored, ") => Verdict::Ignored,
        _ => return None,
    };
    Some((name.to_owned(), verdict, took))
}

/// `---- NAME stdout ----`.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

fn is_heading(line: &str) -> bool {
    matches!(line, "successes:" | "failures:") || line.starts_with("test result: ")
}

fn skips(line: &str) -> bool {
    line.starts_with("skipped: ")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const OUTPUT: &str = "
running 5 tests
test seldom ... ignored, needs a quiet machine
test quick ... ok <0.000s>
test nested::late ... FAILED <12.500s>
test peer ... ok
test wrong - should panic ... ok <0.001s>

successes:

---- peer stdout ----
skipped: DAEDAL_AGE names no program


successes:
    peer
    quick

failures:

---- nested::late stdout ----

thread 'nested::late' (7) panicked at crates/a.rs:1:2:
exit Some(1)
--- stdout
failures are here
--- stderr


failures:
    nested::late

test result: FAILED. 3 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 12.52s

";

    #[test]
    fn each_test_is_read_with_its_verdict_time_and_words() {
        let report = report(OUTPUT);
        let told: Vec<_> = report.outcomes.iter().map(|o| (o.test.as_str(), o.verdict)).collect();
        assert_eq!(
            told,
            [
                ("seldom", Verdict::Ignored),
                ("quick", Verdict::Passed),
                ("nested::late", Verdict::Failed),
                ("peer", Verdict::Skipped),
                ("wrong", Verdict::Passed),
            ]
        );
        let late = &report.outcomes[2];
        assert_eq!(late.took, Some(Duration::from_millis(12_500)));
        assert!(late.said.starts_with("\nthread 'nested::late'"), "{:?}", late.said);
        assert!(late.said.ends_with("failures are here\n--- stderr"), "{:?}", late.said);
        assert!(report.told("quick") && !report.told("slow"));
        assert_eq!(report.count(Verdict::Failed), 1);
    }

    #[test]
    fn a_binary_that_died_leaves_tests_untold() {
        let report =
            report("\nrunning 2 tests\ntest one ... ok\nthread caused non-unwinding panic. aborting.\n");
        assert!(report.told("one") && !report.told("two"));
    }

    #[test]
    fn what_passes_the_capture_does_not_hide_a_verdict() {
        let report =
            report("test loud ... words of a child process\ntest loud ... words ok\ntest x ... thinks\n");
        assert_eq!(report.outcomes.len(), 1);
        assert_eq!(report.outcomes[0].verdict, Verdict::Passed);
    }

    #[test]
    fn a_list_has_tests_and_no_benchmarks() {
        assert_eq!(listed("a::b: test\nc: benchmark\nd: test\n"), ["a::b", "d"]);
    }
}
