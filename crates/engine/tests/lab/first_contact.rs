//! The first contact in maintenance mode: whom a config is given, and who proves to be it.

use daedal_lab::faults::{Fault, When};
use daedal_lab::proxmox::{HostSpec, TokenSpec};
use daedal_planner::{Action, Level, Step, plan_apply, plan_destroy};
use daedal_words::Told as _;

use crate::boot::{CLOUD_INIT, IMAGE_ANYWHERE, IMAGE_MAINTENANCE, ISO_MAINTENANCE, and_back};
use crate::support::{Bench, CANARY, Giving, TOKEN, Way, assert_done};

/// Mission: H9
#[tokio::test(start_paused = true)]
async fn a_first_contact_is_told_and_a_config_is_never_given_twice() {
    let bench = Bench::booting(IMAGE_MAINTENANCE, 1, 1);
    let plan = bench.look().await.1.unwrap();
    let note = plan.notes.iter().find(|note| note.text().contains("First contact unverified")).unwrap();
    assert_eq!((note.level, note.about().as_str()), (Level::Warning, "cp-1, worker-1"));
    assert_done(&bench.apply().await, "apply");
    let plan = bench.look().await.1.unwrap();
    assert!(!plan.notes.iter().any(|note| note.text().contains("unverified")), "{:#?}", plan.notes);

    // The worker loses its disk's content. Whoever waits for a config at its address cannot prove to be it.
    bench.reset("worker-1").await;
    let plan = bench.look().await.1.unwrap();
    let gives = |step: &daedal_planner::Step| matches!(step.action, Action::GiveConfig { .. });
    assert!(!plan.steps.iter().any(gives), "{:#?}", plan.steps);
    let note = plan.notes.iter().find(|note| note.about() == "worker-1").unwrap();
    assert!(
        note.level == Level::Problem && note.text().contains("is not sent there a second time"),
        "{note:?}"
    );
    assert!(plan_destroy(&bench.cluster, &bench.look().await.0).is_ok());
}

/// A bench whose token may read consoles.
fn listening(way: Way, version: &str) -> Bench {
    Bench::on(way, 1, 1, |datacenter| {
        datacenter.version = version.to_owned();
        let mut token = TokenSpec::minimal(TOKEN, CANARY);
        let vms = token.grants.iter_mut().find(|grant| grant.path == "/vms").unwrap();
        vms.privileges.push("VM.Console".into());
        datacenter.tokens = vec![token];
    })
}

fn unverified(plan: &daedal_planner::Plan) -> bool {
    plan.notes.iter().any(|note| note.text().contains("First contact unverified"))
}

/// Mission: H9
#[tokio::test(start_paused = true)]
async fn a_first_contact_is_checked_against_the_serial_console() {
    for way in [ISO_MAINTENANCE, IMAGE_ANYWHERE] {
        let bench = listening(way, "9.2.11");
        let plan = bench.look().await.1.unwrap();
        assert!(!unverified(&plan), "{:#?}", plan.notes);
        let heard = |step: &Step| matches!(step.action, Action::GiveConfig { console: true, .. });
        assert_eq!(plan.steps.iter().filter(|step| heard(step)).count(), 2);
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
        let opened = |call: &&daedal_lab::faults::CallRecord| call.path.ends_with("/termproxy");
        assert_eq!(bench.lab.faults().log().iter().filter(opened).count(), 2, "{way:?}");
        and_back(&bench, way).await;
    }
    // Before 9.1 a console takes no tickets of tokens, and without a serial port there is nothing to read.
    let bench = listening(IMAGE_MAINTENANCE, "8.4.1");
    assert!(unverified(&bench.look().await.1.unwrap()));
    assert_done(&bench.apply().await, "8.4");
    let silent = "{from: disk-image, config: maintenance}\n  hardware: {serialConsole: false}";
    let bench = listening(Way::new(silent, Giving::Reserved), "9.2.11");
    assert!(unverified(&bench.look().await.1.unwrap()));
}

/// A machine that says to be the worker and sits at its address, where the worker itself should be.
/// Mission: H9
#[tokio::test(start_paused = true)]
async fn an_impostor_gets_no_config() {
    let bench = listening(IMAGE_MAINTENANCE, "9.2.11");
    // What the worker prints never reaches us: its console is taken away, and what is shown stays unproven.
    let worker = bench.cluster.node("worker-1").unwrap().vmid;
    let console = When::call("POST", &format!("/nodes/*/qemu/{worker}/termproxy"));
    bench.lab.faults().inject(console, Fault::Status(500));
    let report = bench.apply().await;
    let said = crate::support::errors(&report).join("\n");
    assert!(
        said.contains("what waits for the config of node worker-1 could not be verified as this node"),
        "{said}"
    );
    assert!(said.contains("its serial console cannot be read"), "{said}");
    let given = bench.lab.faults().log();
    let given =
        given.iter().filter(|call| call.service == "talos" && call.path.contains("ApplyConfiguration"));
    assert_eq!(given.count(), 1, "only the control plane got one");
    // The next run lets it boot once more, and listens.
    bench.lab.faults().clear();
    let plan = bench.look().await.1.unwrap();
    let stops = |step: &&Step| step.action == Action::StopVm { vmid: worker };
    let stop = plan.steps.iter().find(stops).unwrap_or_else(|| panic!("{:#?}", plan.steps));
    assert!(stop.reason.contains("it prints its key only when it boots"), "{}", stop.reason);
    assert!(!unverified(&plan), "{:#?}", plan.notes);
    assert_done(&bench.apply().await, "once more");
    bench.assert_converged("once more").await;
}

/// Every other connection to a machine ends at another one, which says the same of itself but has another key.
struct Turncoat {
    ways: [daedal_dial::Dialer; 2],
    victim: std::net::IpAddr,
    dialled: std::sync::atomic::AtomicUsize,
}

impl daedal_dial::Dial for Turncoat {
    fn dial<'a>(&'a self, target: &'a daedal_dial::Target) -> daedal_dial::Dialing<'a> {
        let turns = target.host == self.victim.to_string() && target.port == 50_000;
        let at = match turns {
            true => self.dialled.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 2,
            false => 0,
        };
        self.ways[at].dial(target)
    }
}

/// Nobody vouches for the first contact, but from then on its key is held to: a machine that takes its place in the middle of
/// the exchange, with the same uuid at the same address, gets no config, however often it is tried.
/// Mission: H9
#[tokio::test(start_paused = true)]
async fn a_key_that_changes_in_the_middle_of_the_exchange_is_refused() {
    let (bench, other) = (Bench::booting(IMAGE_MAINTENANCE, 1, 1), Bench::booting(IMAGE_MAINTENANCE, 1, 1));
    // The same cluster in another datacenter, whose worker waits for its config.
    let subject = "worker-1".to_owned();
    let effect = daedal_engine::Effect { kind: daedal_engine::EffectKind::GiveConfig, subject };
    let killer = crate::support::Killer::at(&effect, crate::support::Point::Before);
    let ended = killer.run(other.apply_through(daedal_engine::Effects::through(killer.clone()))).await;
    assert!(ended.is_none());
    let victim = bench.cluster.node("worker-1").unwrap().ip().unwrap();
    let ways = [bench.lab.dialer(), other.lab.dialer()];
    let way = std::sync::Arc::new(Turncoat { ways, victim, dialled: Default::default() });
    let given = |bench: &Bench| {
        let log = bench.lab.faults().log();
        log.iter().filter(|c| c.service == "talos" && c.path.contains("ApplyConfiguration")).count()
    };
    let before = given(&other);
    let engine = bench.engine_over(way.clone(), daedal_engine::Effects::default());
    let world = engine.observe(&bench.cluster).await.unwrap();
    let plan = plan_apply(&bench.cluster, &engine.images(&bench.cluster), &world).unwrap();
    assert!(unverified(&plan));
    // It goes on trying; some minutes of it are enough to see.
    let run = daedal_engine::Run::silent();
    let enough = tokio::time::sleep(std::time::Duration::from_secs(240));
    tokio::select! {
        ended = engine.execute(&bench.cluster, &world, &plan, &run) => {
            panic!("{:?}", crate::support::errors(&ended.unwrap()));
        }
        () = enough => {}
    }
    assert!(way.dialled.load(std::sync::atomic::Ordering::Relaxed) > 10, "it was tried often");
    assert_eq!((given(&bench), given(&other)), (1, before), "only the control plane got its config");
    // Left alone, the right one gets it.
    assert_done(&bench.apply().await, "without the impostor");
    bench.assert_converged("without the impostor").await;
}

#[tokio::test(start_paused = true)]
async fn every_death_on_the_way_through_a_verified_first_contact_is_survived() {
    crate::crash::sweep_of(|| listening(ISO_MAINTENANCE, "9.2.11")).await;
}

/// Two workers whose addresses the network has mixed up, each where the other should be, and no agent to say so.
fn swapped() -> Bench {
    let mut bench = Bench::booting(IMAGE_MAINTENANCE, 1, 2);
    let address = |name: &str| bench.cluster.node(name).unwrap().address;
    let (first, second) = (address("worker-1"), address("worker-2"));
    let reserved = bench.cluster.nodes.iter().map(|node| {
        let address = match node.name.as_str() {
            "worker-1" => second,
            "worker-2" => first,
            _ => node.address,
        };
        (node.mac.clone(), address.unwrap())
    });
    let dhcp = daedal_lab::Dhcp::reserved(reserved.collect::<Vec<_>>());
    let datacenter = daedal_lab::proxmox::DatacenterSpec {
        hosts: vec![HostSpec::new("atlas", 64, 256 << 30), HostSpec::new("boreas", 64, 256 << 30)],
        tokens: vec![TokenSpec::minimal(TOKEN, CANARY)],
        ..Default::default()
    };
    let spec = daedal_lab::LabSpec {
        datacenter,
        epoch: 1_790_000_000,
        dhcp: Some(dhcp),
        ..daedal_lab::LabSpec::default()
    };
    bench.lab = daedal_lab::Lab::new(spec).unwrap();
    let asked = When::call("GET", "/nodes/*/qemu/*/agent/*");
    bench.lab.faults().inject(asked, Fault::Status(500));
    bench
}

/// Who waits at a node's address is known by the uuid it tells, and by its MAC only where it tells none: the wrong one gets
/// nothing either way.
#[tokio::test(start_paused = true)]
async fn a_machine_in_anothers_place_gets_no_config() {
    for firmware in [true, false] {
        let bench = swapped();
        if !firmware {
            bench.lab.machines().without_firmware();
        }
        // They would be waited for for a quarter of an hour.
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), bench.apply()).await;
        assert!(ended.is_err(), "{:?}", ended.map(|report| crate::support::errors(&report)));
        let waiting = bench.look().await.0;
        assert!(waiting.guests.values().all(|guest| guest.running), "{:?}", waiting.guests);
        let log = bench.lab.faults().log();
        let given =
            log.iter().filter(|call| call.service == "talos" && call.path.contains("ApplyConfiguration"));
        assert_eq!(given.count(), 1, "firmware: {firmware}: only the control plane got one");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_that_tell_no_uuid_are_known_by_their_macs() {
    for way in [IMAGE_MAINTENANCE, IMAGE_ANYWHERE, CLOUD_INIT] {
        let bench = Bench::booting(way, 1, 1);
        bench.lab.machines().without_firmware();
        assert_done(&bench.apply().await, way.boot);
        bench.assert_converged(way.boot).await;
    }
}

/// A first contact is not taken for one that cannot be verified because nobody could find out.
#[tokio::test(start_paused = true)]
async fn permissions_that_cannot_be_read_do_not_drop_the_verification() {
    let bench = listening(IMAGE_MAINTENANCE, "9.2.11");
    bench.lab.faults().inject(When::call("GET", "/access/permissions"), Fault::Status(500));
    let refused = bench.look().await.1.unwrap_err().to_string();
    assert!(refused.contains("cp-1") && refused.contains("permissions could not be read"), "{refused}");
    bench.lab.faults().clear();
    assert_done(&bench.apply().await, "readable again");
    // Once every node has its config, nothing is to be verified.
    bench.lab.faults().inject(When::call("GET", "/access/permissions"), Fault::Status(500));
    assert!(bench.look().await.1.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_demanded_of_a_first_contact_is_kept() {
    const VERIFIED: &str = "{from: disk-image, config: maintenance, firstContact: verified}";
    const TOFU: &str = "{from: disk-image, config: maintenance, firstContact: tofu}";
    let bench = Bench::booting(Way::new(VERIFIED, Giving::Reserved), 1, 1);
    let refused = bench.look().await.1.unwrap_err().to_string();
    assert!(
        refused.contains("cannot read serial consoles") && refused.contains("firstContact: tofu"),
        "{refused}"
    );

    let bench = listening(Way::new(VERIFIED, Giving::Reserved), "9.2.11");
    assert!(!unverified(&bench.look().await.1.unwrap()));
    assert_done(&bench.apply().await, VERIFIED);

    let bench = listening(Way::new(TOFU, Giving::Reserved), "9.2.11");
    assert!(unverified(&bench.look().await.1.unwrap()));
    assert_done(&bench.apply().await, TOFU);
    let opened = |call: &&daedal_lab::faults::CallRecord| call.path.ends_with("/termproxy");
    assert_eq!(bench.lab.faults().log().iter().filter(opened).count(), 0);
}
