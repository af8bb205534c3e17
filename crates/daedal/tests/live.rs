//! Without `--lab`, as on a real Proxmox: how it is reached and trusted and where the token is, all from the inventory.

use crate::common;

use std::process::Output;

use common::served::Served;
use common::{Changed, FINGERPRINT, good, text};

/// The example as somebody would write it for this Proxmox.
fn inventory(served: &Served, tls: &str, secret: &str) -> Changed {
    let reach = format!("  reach: {{proxy: \"{}\"}}\n\n  network:\n", served.announced("proxy"));
    let replacements =
        [(FINGERPRINT, tls), ("secret: {env: PROXMOX_TOKEN_SECRET}", secret), ("  network:\n", &reach)];
    Changed::new("home", &replacements)
}

fn run(command_line: &[&str], inventory: &Changed, token: &str) -> Output {
    let mut command = common::command(command_line);
    command.env("PROXMOX_TOKEN_SECRET", token).arg("-f").arg(inventory.file()).output().unwrap()
}

#[test]
fn proxmox_is_trusted_and_the_token_found_as_the_inventory_says() {
    let served = Served::start();
    let token = served.token();
    let from_env = "secret: {env: PROXMOX_TOKEN_SECRET}";
    let from_file = format!("secret: {{file: \"{}\"}}", served.announced("tokenSecret"));
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let plan = |inventory: &Changed, token: &str| run(&["plan", "--detailed-exitcode"], inventory, token);

    // By the CA, with the token in a file.
    let by_file = inventory(&served, &by_ca, &from_file);
    let said = good(&run(&["check", "--live"], &by_file, ""));
    // The Image Factory, whose CA is not named, could not be asked: more is not claimed.
    let last = "8 of 9 checks passed, 1 could not be made (marked ?). Nothing was found that stops an apply.";
    assert_eq!(said.trim_end().lines().last(), Some(last), "{said}");
    let ran = plan(&by_file, "");
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));

    // By nothing at all, which is said aloud, with the token in the environment.
    let said = good(&run(&["check", "--live"], &inventory(&served, "insecure: true", from_env), &token));
    assert!(said.contains("warn  TLS: the certificate of Proxmox is not verified"), "{said}");
    assert!(said.contains("8 of 10 checks passed, 1 warning, 1 could not be made (marked ?)."), "{said}");

    // A wrong fingerprint: the error has both, so that they can be compared with what Proxmox shows.
    let ran = plan(&inventory(&served, FINGERPRINT, from_env), &token);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(69), "{said}");
    assert!(said.contains("is pinned") && said.contains("help: Compare"), "{said}");
    assert!(
        said.contains("help: Print its fingerprint: openssl s_client -connect atlas.lan:8006 "),
        "{said}"
    );
    let found = said.split_once("has fingerprint ").unwrap().1.split_once(',').unwrap().0;
    // And the right one.
    let ran = plan(&inventory(&served, &format!("fingerprint: \"{found}\""), from_env), &token);
    assert_eq!(ran.status.code(), Some(2), "{}", text(&ran.stderr));

    // A CA that is not there.
    let ran = plan(&inventory(&served, "ca: no-such-ca.pem", from_env), &token);
    assert_eq!(ran.status.code(), Some(66), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("no-such-ca.pem"), "{}", text(&ran.stderr));

    // A wrong secret is refused, and shows nowhere.
    let wrong = "0badc0de-dead-4bad-8bad-c0ffee0c0ffe";
    let ran = common::command(["plan", "-vvv", "-f"])
        .arg(inventory(&served, &by_ca, from_env).file())
        .envs([("PROXMOX_TOKEN_SECRET", wrong), ("DAEDAL_LOG", "trace")])
        .output()
        .unwrap();
    let said = text(&ran.stdout) + &text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(77), "{said}");
    assert!(!said.contains(wrong) && !said.contains(&token), "the secret shows");
}

/// A server without TLS is told as that, at once, and not by the name of a type.
#[test]
fn an_endpoint_that_speaks_plain_http_is_told() {
    use std::io::{Read as _, Write as _};
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("https://{}", server.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut client in server.incoming().flatten() {
            let _ = client.read(&mut [0; 1024]);
            let _ = client.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
        }
    });
    let ran = run(&["plan"], &Changed::new("home", &[("https://atlas.lan:8006", &endpoint)]), "token");
    let said = text(&ran.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(ran.status.code(), Some(69), "{said}");
    assert!(said.contains("the server answered in plain HTTP; the endpoint must be HTTPS"), "{said}");
    assert!(!said.contains("InvalidContentType") && !said.contains("corrupt message"), "{said}");
}

/// An own Image Factory is trusted as the inventory says, and not at all where it says nothing.
#[test]
fn the_factory_is_trusted_as_the_inventory_says() {
    let served = Served::start();
    let token = served.token();
    let by_ca = format!("ca: \"{}\"", served.announced("ca"));
    let from_env = "secret: {env: PROXMOX_TOKEN_SECRET}";
    let asked = |factory_tls: &str| {
        let inventory = inventory(&served, &by_ca, from_env);
        let declared = std::fs::read_to_string(inventory.file()).unwrap();
        let talos = format!("version: v1.12.0\n{factory_tls}");
        std::fs::write(inventory.file(), declared.replacen("version: v1.12.0\n", &talos, 1)).unwrap();
        run(&["check", "--live"], &inventory, &token)
    };
    let has = "it has Talos v1.12.0 and the 2 declared extensions";

    let said = good(&asked(""));
    assert!(said.contains("it could not be asked what it has") && !said.contains(has), "{said}");
    let said = good(&asked(&format!("    factoryTls: {{{by_ca}}}\n")));
    assert!(said.contains(has), "{said}");
    let said = good(&asked("    factoryTls: {insecure: true}\n"));
    assert!(said.contains(has) && said.contains("its certificate is not verified"), "{said}");
    // A wrong fingerprint: what it has instead is in the answer, and is the right one.
    let said = good(&asked(&format!("    factoryTls: {{{FINGERPRINT}}}\n")));
    assert!(said.contains("is pinned") && !said.contains(has), "{said}");
    let found = said.split_once("has fingerprint ").unwrap().1.split_once(',').unwrap().0;
    let said = good(&asked(&format!("    factoryTls: {{fingerprint: \"{found}\"}}\n")));
    assert!(said.contains(has), "{said}");
    let ran = asked("    factoryTls: {ca: no-such-factory-ca.pem}\n");
    assert_eq!(ran.status.code(), Some(66), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("no-such-factory-ca.pem"), "{}", text(&ran.stderr));
}

/// `latest` is never implied: what the Image Factory does not have is refused, with what was probably meant.
#[test]
fn what_the_factory_does_not_have_is_refused_with_a_suggestion() {
    let lab = common::Lab::new();
    let check = |replaced: &[(&str, &str)]| Changed::new("home", replaced).run(&lab, &["check", "--live"]);
    let said = good(&check(&[]));
    assert!(said.contains("it has Talos v1.12.0 and the 2 declared extensions"), "{said}");
    let refused = check(&[("- qemu-guest-agent", "- qemu-guest-agnt")]);
    let said = text(&refused.stdout) + &text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("siderolabs/qemu-guest-agnt is no official extension of Talos v1.12.0"), "{said}");
    assert!(said.contains("did you mean siderolabs/qemu-guest-agent?"), "{said}");
    let overlay = |name: &str| {
        format!("version: v1.12.0\n    overlay: {{image: siderolabs/sbc-raspberrypi, name: {name}}}")
    };
    let said = good(&check(&[("version: v1.12.0", &overlay("rpi_generic"))]));
    assert!(said.contains("and the overlay rpi_generic"), "{said}");
    let refused = check(&[("version: v1.12.0", &overlay("rpi_generik"))]);
    let said = text(&refused.stdout) + &text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("rpi_generik is no official overlay of Talos v1.12.0"), "{said}");
    assert!(said.contains("did you mean rpi_generic?"), "{said}");
    let refused = check(&[("version: v1.12.0", "version: v1.12.99")]);
    let said = text(&refused.stdout) + &text(&refused.stderr);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("it has no Talos v1.12.99") && said.contains("set talos.version to v1.12.11"),
        "{said}"
    );
}

/// What is built into a node's system comes with an upgrade: until then every plan says so, and the factory is asked for it and told of
/// it before any node's config names it.
#[test]
fn changed_extensions_wait_for_an_upgrade_and_every_plan_says_so() {
    let lab = common::Lab::new();
    let small = [("count: 3 ", "count: 1 "), ("count: 2\n", "count: 0\n")];
    let with = |extension: &str| Changed::new("home", &[&small[..], &[("- tailscale", extension)]].concat());
    good(&with("- tailscale").run(&lab, &["apply", "--yes"]));

    let misspelled = with("- iscsi-tool");
    for command in [&["plan"][..], &["apply", "--yes"]] {
        let refused = misspelled.run(&lab, command);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(65), "{said}");
        assert!(said.contains("did you mean siderolabs/iscsi-tools?"), "{said}");
    }

    let changed = with("- iscsi-tools");
    let told = |said: &str| {
        let words: Vec<&str> = said.split_whitespace().collect();
        words.join(" ").contains("It takes an upgrade, which apply does not do")
    };
    let said = good(&changed.run(&lab, &["plan"]));
    assert!(
        said.contains("register schematic") && said.contains("machine.install.image") && told(&said),
        "{said}"
    );
    good(&changed.run(&lab, &["apply", "--yes"]));
    let said = good(&changed.run(&lab, &["plan"]));
    assert!(said.contains("No changes") && told(&said), "{said}");
    let said = good(&with("- tailscale").run(&lab, &["plan"]));
    assert!(!told(&said), "{said}");
}
