//! Time and peak memory of rendering a chart, beside `helm template`, process against process in one run.
//!
//! `beside_helm [CHART] [RUNS]`: Cilium's chart from Go's module cache unless another is named. Needs a built `helm` under
//! `DAEDAL_PEERS` (or named by `HELM`) and the `template` example built beside this program; `OURS` names another program
//! with a command `helm template`. Both get the same chart and flags, and what they print must be the same.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

#[path = "shared/peers.rs"]
mod peers;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// A program that renders charts, and the words before the release's name.
struct Renderer {
    program: PathBuf,
    words: &'static [&'static str],
}

/// What a renderer took.
#[derive(Default)]
struct Samples {
    times: Vec<Duration>,
    /// Of all runs together, as the kernel counts it.
    processor: Duration,
    memory: u64,
}

fn main() -> ExitCode {
    let Some(helm) = peers::helm(3) else {
        println!("skipped: no built helm under DAEDAL_PEERS, and HELM names none");
        return ExitCode::SUCCESS;
    };
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runs = args.iter().find_map(|a| a.parse().ok()).unwrap_or(31);
    let chart = args.iter().find(|a| a.parse::<usize>().is_err()).map(PathBuf::from).or_else(cilium);
    let ours = match std::env::var_os("OURS") {
        Some(program) => Some(Renderer { program: program.into(), words: &["helm", "template"] }),
        None => std::env::current_exe()
            .ok()
            .and_then(|p| p.parent().map(|d| Renderer { program: d.join("template"), words: &[] })),
    };
    let (Some(chart), Some(ours)) = (chart.filter(|c| c.is_dir()), ours.filter(|o| o.program.is_file()))
    else {
        println!("skipped: the chart or our program is not there");
        return ExitCode::SUCCESS;
    };
    match compare(&Renderer { program: helm, words: &["template"] }, &ours, &chart, runs) {
        Some(()) => ExitCode::SUCCESS,
        None => ExitCode::FAILURE,
    }
}

/// Prints the table. Nothing when one side fails, or the two print different things.
fn compare(helm: &Renderer, ours: &Renderer, chart: &Path, runs: usize) -> Option<()> {
    let name = chart.file_name().unwrap_or_default().to_string_lossy();
    println!("| chart {name} | helm template | ours | ratio |\n|---|---|---|---|");
    // Keys and certificates are random, and making them is no rendering.
    let sets = [("certificates by cron job", Some("hubble.tls.auto.method=cronJob")), ("defaults", None)];
    for (set, setting) in sets {
        let (theirs, mine) = (printed(helm, chart, setting)?, printed(ours, chart, setting)?);
        let same = match setting {
            Some(_) => theirs == mine,
            None => theirs.lines().count() == mine.lines().count(),
        };
        if !same {
            eprintln!("the two print different things with {set}");
            return None;
        }
        let (mut theirs, mut mine) = (Samples::default(), Samples::default());
        let runs = if setting.is_some() { runs } else { runs.div_ceil(4) };
        for _ in 0..runs {
            // In turns, so that a busy machine is busy for both.
            for (renderer, samples) in [(helm, &mut theirs), (ours, &mut mine)] {
                time(renderer, chart, setting, samples)?;
            }
        }
        for (renderer, samples) in [(helm, &mut theirs), (ours, &mut mine)] {
            for _ in 0..3 {
                samples.memory = samples.memory.max(memory(renderer, chart, setting)?);
            }
        }
        let row = |what: &str, unit: &str, a: f64, b: f64| {
            println!("| {set}: {what} | {a:.1} {unit} | {b:.1} {unit} | {:.3} |", b / a);
        };
        row(&format!("median time of {runs} runs"), "ms", theirs.quantile(2), mine.quantile(2));
        row("lower quartile", "ms", theirs.quantile(4), mine.quantile(4));
        row("best", "ms", theirs.quantile(usize::MAX), mine.quantile(usize::MAX));
        row("processor time, mean", "ms", theirs.processor(), mine.processor());
        row("peak memory", "MB", theirs.memory as f64 / 1024.0, mine.memory as f64 / 1024.0);
    }
    println!("\nwhole processes, from exec to exit, in turns; what they print is the same");
    Some(())
}

impl Samples {
    /// The time below which one in that many runs was, in milliseconds.
    fn quantile(&mut self, parts: usize) -> f64 {
        self.times.sort();
        self.times[self.times.len() / parts].as_secs_f64() * 1000.0
    }

    fn processor(&self) -> f64 {
        self.processor.as_secs_f64() * 1000.0 / self.times.len() as f64
    }
}

fn command(renderer: &Renderer, chart: &Path, setting: Option<&str>) -> Command {
    let mut command = Command::new(&renderer.program);
    command.args(renderer.words).arg("rel").arg(chart).args(["--kube-version", "1.31.0"]);
    if let Some(setting) = setting {
        command.args(["--set", setting]);
    }
    command
}

fn printed(renderer: &Renderer, chart: &Path, setting: Option<&str>) -> Option<String> {
    let output = command(renderer, chart, setting).output().ok()?;
    if !output.status.success() {
        eprintln!("{} fails: {}", renderer.program.display(), String::from_utf8_lossy(&output.stderr));
        return None;
    }
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

fn time(renderer: &Renderer, chart: &Path, setting: Option<&str>, samples: &mut Samples) -> Option<()> {
    let mut command = command(renderer, chart, setting);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let before = processor_of_children()?;
    let start = Instant::now();
    let status = command.status().ok()?;
    samples.times.push(start.elapsed());
    samples.processor += processor_of_children()?.saturating_sub(before);
    status.success().then_some(())
}

/// Processor time of all processes waited for so far.
fn processor_of_children() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: u64 = fields.get(13)?.parse::<u64>().ok()? + fields.get(14)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}

/// Peak memory in kilobytes, of a run of its own, because looking slows a process down.
fn memory(renderer: &Renderer, chart: &Path, setting: Option<&str>) -> Option<u64> {
    let mut child =
        command(renderer, chart, setting).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let (_keep, pause) = std::sync::mpsc::channel::<()>();
    loop {
        let status = std::fs::read_to_string(&status_file).unwrap_or_default();
        let now = status
            .lines()
            .find_map(|l| l.strip_prefix("VmHWM:"))
            .and_then(|l| l.split_whitespace().next())
            .and_then(|n| n.parse().ok());
        peak = peak.max(now.unwrap_or(0));
        if child.try_wait().ok()?.is_some() {
            return Some(peak);
        }
        let _ = pause.recv_timeout(Duration::from_micros(100));
    }
}

fn cilium() -> Option<PathBuf> {
    Some(peers::modules()?.join("github.com/cilium/cilium@v1.16.5/install/kubernetes/cilium"))
}
