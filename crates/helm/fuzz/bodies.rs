//! What the fuzz targets and the test `fuzz` do with any input: render it, and expect a result or an error in bounds.

use std::io::Write as _;

use daedal_helm::{Chart, Error, File, Limits, RenderOptions, Rendered, Values, ValuesBuilder, render};

fn file(name: &str, data: &str) -> File {
    File { name: name.into(), data: data.into() }
}

fn options() -> RenderOptions {
    let limits = Limits { output: 1 << 20, list: 10_000, steps: 100_000, depth: 200 };
    RenderOptions { limits, seed: [0; 32], ..RenderOptions::default() }
}

/// A panic within the renderer comes out as this error, and is a finding all the same.
fn check(result: Result<Rendered, Error>) {
    match result {
        Ok(rendered) => {
            let size: usize = rendered.manifests.iter().map(|m| m.content.len()).sum();
            assert!(size <= 5 << 20, "{size} bytes came out");
        }
        Err(error) => assert!(!error.to_string().contains("failed unexpectedly"), "{error}"),
    }
}

/// Any text as a template.
pub fn template(text: &str) {
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: f\nversion: 1.0.0\n"),
        file("values.yaml", "a: 1\nb: [x, {y: z}]\nc: {d: null, e: 'f'}\ns: '{{ .Values.a }}'\n"),
        file("data.txt", "one\ntwo\n"),
        file("templates/_h.tpl", "{{ define \"h\" }}{{ . | toYaml }}{{ end }}"),
        file("templates/f.yaml", text),
    ]);
    if let Ok(chart) = chart {
        check(render(&chart, &Values::default(), &options()));
    }
}

/// Any texts as a values file, a setting and a chart's own values, merged down to a sub-chart.
pub fn values(file_text: &str, setting: &str, chart_values: &str) {
    let chart = Chart::from_files(vec![
        file(
            "Chart.yaml",
            "apiVersion: v2\nname: f\nversion: 1.0.0\ndependencies: [{name: s, version: '*', condition: s.on, import-values: [x, {child: a, parent: b.c}]}]\n",
        ),
        file("values.yaml", chart_values),
        file(
            "values.schema.json",
            r#"{"type": "object", "properties": {"a": {"type": ["integer", "object"]}, "s": {"type": "object"}}}"#,
        ),
        file("charts/s/Chart.yaml", "apiVersion: v2\nname: s\nversion: 1.0.0\n"),
        file("charts/s/values.yaml", "exports: {x: {y: 1}}\na: {z: [1, 2]}\nglobal: {g: 1}\n"),
        file("charts/s/templates/s.yaml", "v: {{ .Values | toYaml | quote }}\n"),
        file("templates/f.yaml", "v: {{ .Values | toJson | quote }}\n"),
    ]);
    let builder = ValuesBuilder::new().file(file_text.as_bytes());
    for set in
        [ValuesBuilder::set, ValuesBuilder::set_string, ValuesBuilder::set_json, ValuesBuilder::set_literal]
    {
        let values = builder.as_ref().ok().and_then(|values| set(values.clone(), setting).ok());
        if let (Ok(chart), Some(values)) = (&chart, values) {
            check(render(chart, &values.build(), &options()));
        }
    }
}

/// Any bytes as a chart's archive: once as they are, once gzipped. What loads is rendered.
pub fn archive(data: &[u8]) {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let packed = gzip.write_all(data).and_then(|()| gzip.finish()).unwrap_or_default();
    for data in [data, &packed] {
        if let Ok(chart) = Chart::from_archive(data) {
            for file in chart.templates.iter().chain(chart.files.iter()) {
                let outside = file.name.starts_with('/') || file.name.split('/').any(|part| part == "..");
                assert!(!outside, "{:?} is outside the chart", file.name);
            }
            check(render(&chart, &Values::default(), &options()));
        }
    }
}
