//! What people read of many nodes, and on a small screen.

use super::told::*;
use crate::fixture;
use crate::*;

fn text(workers: u32, options: RenderOptions) -> String {
    let hosts = [("atlas", 256, 1024, 9000), ("boreas", 256, 1024, 9000)];
    let cluster = fixture::cluster("big", &["atlas", "boreas"], 3, workers);
    let world = fixture::empty_world(&hosts);
    let plan = plan_apply(&cluster, &fixture::images(&cluster), &world).unwrap();
    render(&plan, options)
}

#[test]
fn of_many_alike_nodes_one_is_told_and_full_tells_each() {
    let folded = text(61, RenderOptions::default());
    assert!(folded.contains("+ worker-2 … worker-61: the same (60 nodes, VMs "), "{folded}");
    assert!(folded.contains("on atlas, boreas"), "{folded}");
    assert!(!folded.contains("\n+ worker-3  "), "{folded}");
    assert!(folded.lines().count() < 80, "{} lines", folded.lines().count());
    assert!(folded.contains("64 to create"), "all are counted: {folded}");
    let full = text(61, RenderOptions { full: true, ..RenderOptions::default() });
    assert!(full.contains("\n+ worker-61  ") && !full.contains("the same ("), "{full}");
    // A few are told one by one.
    assert!(!text(4, RenderOptions::default()).contains("the same ("));
}

#[test]
fn a_plan_fits_the_screen_it_is_shown_on() {
    for width in [80, 100, 110] {
        let text = text(61, RenderOptions { width, ..RenderOptions::default() });
        for line in text.lines() {
            assert!(line.chars().count() <= width, "{} columns on {width}: {line}", line.chars().count());
        }
    }
}
