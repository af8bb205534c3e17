//! Time and peak memory of rendering a chart, beside `helm template`, process against process in one run.
//!
//! `bench [CHART]`: Cilium's chart from Go's module cache unless another is named. Needs a built `helm` under
//! `DAEDAL_PEERS` (or named by `HELM`) and the `template` example built beside this program.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for the terminal")]

#[path = "shared/peers.rs"]
mod peers;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 15;

/// One process from start to end.
struct Sample {
    time: Duration,
    memory: u64,
}

fn main() -> ExitCode {
    let Some(helm) = peers::helm(3) else {
        println!("skipped: no built helm under DAEDAL_PEERS, and HELM names none");
        return ExitCode::SUCCESS;
    };
    let chart = std::env::args().nth(1).map(PathBuf::from).or_else(cilium);
    let ours = std::env::current_exe().ok().and_then(|p| p.parent().map(|d| d.join("template")));
    let (Some(chart), Some(ours)) = (chart.filter(|c| c.is_dir()), ours.filter(|o| o.is_file())) else {
        println!("skipped: the chart or the `template` example is not there");
        return ExitCode::SUCCESS;
    };
    println!(
        "| chart {} | helm template | ours | ratio |",
        chart.file_name().unwrap_or_default().to_string_lossy()
    );
    println!("|---|---|---|---|");
    for (name, settings) in [
        ("certificates by cron job", Some("hubble.tls.auto.method=cronJob")),
        ("defaults (generates RSA keys)", None),
    ] {
        let (mut theirs, mut mine) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            // In turns, so that a busy machine is busy for both.
            for (program, samples) in [(&helm, &mut theirs), (&ours, &mut mine)] {
                match run(program, &chart, settings) {
                    Some(sample) => samples.push(sample),
                    None => {
                        eprintln!("{} fails", program.display());
                        return ExitCode::FAILURE;
                    }
                }
            }
        }
        let ((t1, m1), (t2, m2)) = (summary(&mut theirs), summary(&mut mine));
        println!("| {name}: time | {t1:.1} ms | {t2:.1} ms | {:.3} |", t2 / t1);
        println!("| {name}: peak memory | {m1:.1} MB | {m2:.1} MB | {:.3} |", m2 / m1);
    }
    println!("\nmedian of {RUNS} runs each, taken in turns; whole processes, from exec to exit");
    ExitCode::SUCCESS
}

fn summary(samples: &mut [Sample]) -> (f64, f64) {
    samples.sort_by_key(|s| s.time);
    let time = samples[samples.len() / 2].time.as_secs_f64() * 1000.0;
    let memory = samples.iter().map(|s| s.memory).max().unwrap_or(0);
    (time, memory as f64 / 1024.0)
}

fn run(program: &Path, chart: &Path, settings: Option<&str>) -> Option<Sample> {
    let mut command = Command::new(program);
    if program.ends_with("helm") {
        command.arg("template");
    }
    command.arg("rel").arg(chart).args(["--kube-version", "1.31.0"]);
    if let Some(settings) = settings {
        command.args(["--set", settings]);
    }
    let output = std::fs::File::create("/dev/null").ok()?;
    let start = Instant::now();
    let mut child = command.stdout(output).stderr(Stdio::null()).spawn().ok()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut memory = 0;
    let (_keep, pause) = std::sync::mpsc::channel::<()>();
    loop {
        if let Ok(status) = std::fs::read_to_string(&status_file) {
            let peak = status
                .lines()
                .find_map(|l| l.strip_prefix("VmHWM:"))
                .and_then(|l| l.split_whitespace().next())
                .and_then(|n| n.parse().ok());
            memory = memory.max(peak.unwrap_or(0));
        }
        match child.try_wait().ok()? {
            Some(status) => return status.success().then(|| Sample { time: start.elapsed(), memory }),
            // Neither side shall compete with this loop for a core.
            None => drop(pause.recv_timeout(Duration::from_micros(500))),
        }
    }
}

fn cilium() -> Option<PathBuf> {
    Some(peers::modules()?.join("github.com/cilium/cilium@v1.16.5/install/kubernetes/cilium"))
}
