//! Any text as values and settings, merged over a chart with a sub-chart.
#![no_main]

use daedal_helm::{Chart, File, RenderOptions, ValuesBuilder, render};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, &str, &str)| {
    let (file_text, set, chart_values) = input;
    let file = |name: &str, data: &str| File { name: name.into(), data: data.into() };
    let chart = Chart::from_files(vec![
        file(
            "Chart.yaml",
            "apiVersion: v2\nname: f\nversion: 1.0.0\ndependencies: [{name: s, version: '*', condition: s.on, import-values: [x]}]\n",
        ),
        file("values.yaml", chart_values),
        file("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n"),
        file("charts/s/values.yaml", "exports: {x: {y: 1}}\n"),
        file("templates/f.yaml", "v: {{ .Values | toJson | quote }}\n"),
    ]);
    let values = ValuesBuilder::new().file(file_text.as_bytes()).and_then(|v| v.set(set));
    if let (Ok(chart), Ok(values)) = (chart, values) {
        let _ = render(&chart, &values.build(), &RenderOptions::default());
    }
});
