//! Several clusters on one site: together they load a host no more than one alone, and their tasks are watched together.

use std::collections::BTreeMap;
use std::time::Duration;

use daedal_engine::{Effects, Engine, Limits, Report, Run, Site};
use daedal_inventory::Cluster;
use daedal_planner::plan_apply;
use serde_json::Value as Json;

use crate::support::{Bench, assert_done, other_cluster};

/// What a host bore.
#[derive(Debug)]
struct Load {
    /// VMs that were created at once, at most.
    creates: usize,
    /// Looks at lists of tasks.
    looks: u64,
}

/// Who works on the datacenter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clusters {
    One,
    TwoOnOneSite,
    TwoApart,
}

async fn apply(engine: &Engine, cluster: &Cluster) -> Report {
    let world = engine.observe(cluster).await.unwrap();
    let plan = plan_apply(cluster, &engine.images(cluster), &world).unwrap();
    engine.execute(cluster, &world, &plan, &Run::silent()).await.unwrap()
}

async fn load(clusters: Clusters) -> Load {
    let bench = Bench::new(1, 9);
    for host in ["atlas", "boreas"] {
        assert!(bench.lab.datacenter().slow_down(&format!("{host}/local-lvm"), Duration::from_millis(500)));
    }
    let (site, folder) = (Site::new(&Limits::default()), tempfile::tempdir().unwrap());
    let parts = || bench.parts(bench.lab.dialer(), Effects::default(), bench.counter.clone());
    let (home, away) = (parts(), other_cluster(1, 9));
    let beside = match clusters {
        Clusters::One => None,
        Clusters::TwoOnOneSite => Some(site.engine(Bench::beside(&home, &away, folder.path()))),
        Clusters::TwoApart => Some(Engine::new(Bench::beside(&parts(), &away, folder.path()))),
    };
    let engine = site.engine(home);
    let other = async {
        if let Some(beside) = &beside {
            assert_done(&apply(beside, &away).await, "apply of the other cluster");
        }
    };
    let (report, ()) = tokio::join!(apply(&engine, &bench.cluster), other);
    assert_done(&report, "apply");
    let counts = bench.counts();
    assert_eq!(counts.failed, 0, "{counts:#?}");
    let looks = ["GET /cluster/tasks", "GET /nodes/*/tasks"].map(|shape| counts.by_shape.get(shape).copied());
    Load { creates: at_once(&bench, "qmcreate"), looks: looks.into_iter().flatten().sum() }
}

/// How many tasks of a kind ran at once on one host, at most.
fn at_once(bench: &Bench, kind: &str) -> usize {
    let saved = serde_json::to_value(bench.lab.datacenter().save()).unwrap();
    // Ends come before beginnings of the same second: whoever waited for an end begins after it.
    let mut events: BTreeMap<(String, i64, bool), isize> = BTreeMap::new();
    for task in saved["tasks"].as_array().unwrap().iter().filter(|task| task["kind"] == kind) {
        let (host, second) = (task["host"].as_str().unwrap(), |at: &Json| at.as_i64().unwrap());
        *events.entry((host.to_owned(), second(&task["start"]), true)).or_default() += 1;
        *events.entry((host.to_owned(), second(&task["end"][0]), false)).or_default() -= 1;
    }
    let mut running: BTreeMap<String, isize> = BTreeMap::new();
    let counted = events.into_iter().map(|((host, ..), change)| {
        let now = running.entry(host).or_default();
        *now += change;
        *now
    });
    usize::try_from(counted.max().unwrap_or(0)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn two_clusters_on_one_site_load_a_host_no_more_than_one() {
    let most = Limits::default().creates_per_storage;
    let (one, two, apart) =
        (load(Clusters::One).await, load(Clusters::TwoOnOneSite).await, load(Clusters::TwoApart).await);
    let all = format!("{one:?} {two:?} {apart:?}");
    assert_eq!(one.creates, most, "{all}");
    assert_eq!(two.creates, most, "{all}");
    // What the site is for.
    assert!(apart.creates > most, "{all}");
    // One look shows the tasks of both.
    assert!(3 * two.looks < 2 * apart.looks, "{all}");
}
