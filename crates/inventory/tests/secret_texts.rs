//! Secrets that machine settings and registries refer to: read where they are, shown nowhere.

use std::io;
use std::path::Path;

use daedal_inventory::{Files, Loaded, Source, load, resolved_yaml};

const HOME: &str = include_str!("../../../examples/home/cluster.yaml");

struct Beside;

impl Files for Beside {
    fn read(&self, path: &Path) -> io::Result<String> {
        match path.to_str() {
            Some("registry.password") => Ok("canary-password\n".to_owned()),
            Some("ca.pem") => Ok("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()),
            Some("empty") => Ok("\n".to_owned()),
            _ => Err(io::Error::from(io::ErrorKind::NotFound)),
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "TS_AUTHKEY").then(|| "canary-authkey".to_owned())
    }
}

fn with(more: &str) -> Result<Loaded, String> {
    let text = HOME.replace("\n  pools:", &format!("\n{more}\n  pools:"));
    load(&[Source { name: "cluster.yaml".to_owned(), text }], &Beside).map_err(|found| {
        let texts: Vec<String> = found
            .iter()
            .map(|d| {
                let place = d.place.as_ref().map(|place| place.line).unwrap_or_default();
                format!("{place}: {} {}", d.message, d.help.clone().unwrap_or_default())
            })
            .collect();
        texts.join("\n")
    })
}

const SERVICES: &str = "  machine:
    extensionServices:
      - name: tailscale
        environment: {TS_AUTHKEY: {env: TS_AUTHKEY}, TS_ROUTES: 10.0.0.0/16}";
const REGISTRIES: &str = "  registries:
    ghcr.io: {auth: {username: me, password: {file: registry.password}}}
    registry.lan:5000: {tls: {ca: {file: ca.pem}}}";

#[test]
fn secrets_are_read_where_they_are_and_shown_nowhere() {
    let cluster = with(&format!("{SERVICES}\n{REGISTRIES}")).expect("loads").cluster;
    let service = &cluster.nodes[4].machine.extension_services[0];
    assert_eq!(service.environment["TS_AUTHKEY"].expose(), "canary-authkey");
    assert_eq!(service.environment["TS_ROUTES"].expose(), "10.0.0.0/16");
    let auth = cluster.registries["ghcr.io"].auth.as_ref().expect("auth");
    assert_eq!(auth.password.as_ref().expect("password").expose(), "canary-password");
    let shown = resolved_yaml(&cluster).expect("shown");
    assert!(shown.contains("env: TS_AUTHKEY") && shown.contains("file: registry.password"), "{shown}");
    for text in [shown, format!("{cluster:?}"), serde_json::to_string(&cluster).expect("JSON")] {
        assert!(!text.contains("canary"), "{text}");
    }
}

#[test]
fn what_is_missing_or_makes_no_sense_is_named() {
    for (more, words) in [
        (SERVICES.replace("env: TS_AUTHKEY", "env: NO_SUCH"), "NO_SUCH is not set"),
        (SERVICES.replace("env: TS_AUTHKEY", "file: empty"), "What is there is empty"),
        (SERVICES.replace("{env: TS_AUTHKEY}", "{env: TS_AUTHKEY, file: empty}"), "takes only one of"),
        (SERVICES.replace("name: tailscale", "name: tail scale"), "not the name of a service"),
        ("  machine: {extensionServices: [{name: tailscale}]}".to_owned(), "has no configuration"),
        (REGISTRIES.replace("registry.password", "nowhere"), "nowhere cannot be read"),
        (REGISTRIES.replace("username: me, ", ""), "exactly one kind"),
        (REGISTRIES.replace("ghcr.io:", "https://ghcr.io:"), "not the host of a registry"),
        (REGISTRIES.replace("{file: ca.pem}", "{file: registry.password}"), "not a certificate"),
        (
            REGISTRIES.replace("{ca: {file: ca.pem}}", "{ca: {file: ca.pem}, insecure: true}"),
            "or everybody is",
        ),
        ("  machine: {installDisk: {}}".to_owned(), "Any disk would do"),
        ("  machine: {installDisk: {minSize: big}}".to_owned(), "not an amount"),
        ("  machine: {installDisk: {minSize: 20}}".to_owned(), "for example `20GiB`"),
        ("  machine: {userVolumes: [{name: data, minSize: 10}]}".to_owned(), "for example `10GiB`"),
        ("  machine: {userVolumes: [{name: data, maxSize: '10'}]}".to_owned(), "`10` has no unit"),
    ] {
        let found = with(&more).expect_err(&more);
        assert!(found.contains(words), "{words}: {found}");
        assert!(!found.contains("canary"), "{found}");
    }
}
