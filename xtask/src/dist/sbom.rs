//! What is in the binary, as CycloneDX 1.5 says it. Without a time or a serial number: the same content has the same bytes.

use serde_json::{Value, json};

use super::Package;
use super::packages::purl;

/// The document. The first package is the binary's own.
pub fn document(packages: &[Package], version: &str) -> Value {
    let (own, others) = match packages.split_first() {
        Some((own, others)) => (component(own, "application"), others),
        None => (json!({"type": "application", "name": "daedal", "version": version}), packages),
    };
    json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": others.iter().map(|one| component(one, "library")).collect::<Vec<_>>(),
        "dependencies": packages.iter().map(dependencies).collect::<Vec<_>>(),
    })
}

fn component(package: &Package, kind: &str) -> Value {
    let purl = package.purl();
    let mut json = json!({
        "type": kind,
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
    });
    if kind == "library" {
        json["scope"] = "required".into();
    }
    if let Some(licence) = &package.licence {
        json["licenses"] = json!([{"expression": licence}]);
    }
    if let Some(checksum) = &package.checksum {
        json["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    if let Some(repository) = &package.repository {
        json["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    json
}

fn dependencies(package: &Package) -> Value {
    let uses: Vec<String> = package.uses.iter().map(|(name, version)| purl(name, version)).collect();
    json!({"ref": package.purl(), "dependsOn": uses})
}
