//! Bounds on what a chart may make the renderer do.

/// How much work and memory one rendering may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one template's output, and of any string a template builds.
    pub output: usize,
    /// Elements of any list a template builds.
    pub list: usize,
    /// Actions, iterations and function calls in one rendering. Calls that take long count as many: a password hash
    /// 100,000, an RSA key of 2048 bits 150,000, and whatever goes over large texts or lists by their size.
    pub steps: u64,
    /// Templates within templates.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { output: 64 << 20, list: 4 << 20, steps: 50_000_000, depth: 2500 }
    }
}
