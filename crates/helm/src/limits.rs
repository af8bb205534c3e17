//! Bounds on what a chart may make the renderer do.

/// How much work and memory one rendering may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one template's output, and of any string a template builds.
    pub output: usize,
    /// Elements of any list a template builds.
    pub list: usize,
    /// Actions, iterations and function calls in one rendering.
    pub steps: u64,
    /// Templates within templates.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { output: 64 << 20, list: 4 << 20, steps: 50_000_000, depth: 2500 }
    }
}
