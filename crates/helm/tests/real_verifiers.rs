//! Keys and certificates of charts as OpenSSL and Go see them. Part of the second tier: `cargo xtask conformance certificates`
//! finds OpenSSL and says where in `DAEDAL_OPENSSL`; Go is the one on the PATH. Without them a line says what was skipped.

use crate::verifiers;

use daedal_helm::{Chart, File, PrintOptions, RenderOptions, ValuesBuilder, render};
use verifiers::{Counts, TEMPLATE, Verifiers, authorities, blocks};

/// The manifest of [`TEMPLATE`].
fn manifest() -> String {
    let file = |name: &str, text: &str| File { name: name.into(), data: text.into() };
    let chart = Chart::from_files(vec![
        file("Chart.yaml", "apiVersion: v2\nname: keys\nversion: 1.0.0\n"),
        file("templates/keys.yaml", TEMPLATE),
    ])
    .unwrap();
    let values = ValuesBuilder::new().file(authorities().to_string().as_bytes()).unwrap().build();
    let options = RenderOptions { now: (1_700_000_000, 0), ..RenderOptions::default() };
    render(&chart, &values, &options).unwrap().to_text(&PrintOptions::default()).unwrap()
}

#[test]
#[ignore = "needs real peers: cargo xtask conformance"]
fn openssl_and_go_read_all_keys_and_verify_all_chains() {
    if std::env::var_os("DAEDAL_OPENSSL").is_none() {
        println!("skipped: DAEDAL_OPENSSL names no program");
        return;
    }
    let verifiers = match Verifiers::find() {
        Ok(verifiers) => verifiers,
        Err(missing) => {
            println!("skipped: {missing}");
            return;
        }
    };
    let blocks = blocks(&manifest());
    let verdict = verifiers.check(&blocks);
    let counts = verdict.unwrap_or_else(|problem| panic!("{problem}"));
    assert_eq!(counts, Counts { keys: 21, certificates: 33, chains: 22 });
    println!("conformance\tkeys read by OpenSSL and Go\t{}\t0", counts.keys);
    println!("conformance\tchains verified by OpenSSL (strict) and Go\t{}\t0", counts.chains);
    // They do notice what is wrong.
    let broken: Vec<String> = blocks.iter().map(|block| block.replacen("MII", "MIJ", 1)).collect();
    assert!(verifiers.check(&broken).is_err());
    let leaf = blocks.iter().filter(|block| block.contains("CERTIFICATE")).nth(1).unwrap();
    assert!(verifiers.check(std::slice::from_ref(leaf)).is_err(), "without its authority");
}
