//! A small `helm template`: `template RELEASE CHART [-f FILE]… [--set LINE]… [--kube-version VERSION]`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

use daedal_helm::{Chart, KubeVersion, PrintOptions, RenderOptions, ValuesBuilder, render};

/// Rendering is mostly small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    match run() {
        Ok(text) => {
            print!("{text}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("Error: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run() -> Result<String, Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let release_name = args.next().ok_or("which release?")?;
    let chart = Chart::load(args.next().ok_or("which chart?")?)?;
    let mut options = RenderOptions { release_name, ..RenderOptions::default() };
    let mut print = PrintOptions::default();
    let mut values = ValuesBuilder::new();
    while let Some(flag) = args.next() {
        let mut value = || args.next().ok_or(format!("{flag} needs a value"));
        match flag.as_str() {
            "-f" => values = values.file(&std::fs::read(value()?)?)?,
            "--set" => values = values.set(&value()?)?,
            "--set-string" => values = values.set_string(&value()?)?,
            "--namespace" => options.namespace = value()?,
            "--kube-version" => options.capabilities.kube_version = KubeVersion::parse(&value()?)?,
            "--api-versions" => options.capabilities.api_versions.push(value()?),
            "--show-only" => print.show_only.push(value()?),
            "--include-crds" => print.include_crds = true,
            other => return Err(format!("unknown flag {other}").into()),
        }
    }
    Ok(render(&chart, &values.build(), &options)?.to_text(&print)?)
}
