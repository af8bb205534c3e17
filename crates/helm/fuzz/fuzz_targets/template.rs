//! Any text as a template: a rendering or an error, never a panic.
#![no_main]

use daedal_helm::{Chart, File, Limits, RenderOptions, Values, render};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let file = |name: &str, data: &str| File { name: name.into(), data: data.into() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: f\nversion: 1.0.0\n"),
        file("values.yaml", "a: 1\nb: [x, {y: z}]\nc: {d: null, e: 'f'}\n"),
        file("templates/f.yaml", text),
    ]);
    let limits = Limits { output: 1 << 20, list: 10_000, steps: 100_000, depth: 200 };
    let options = RenderOptions { limits, ..RenderOptions::default() };
    if let Ok(chart) = chart {
        let _ = render(&chart, &Values::default(), &options);
    }
});
