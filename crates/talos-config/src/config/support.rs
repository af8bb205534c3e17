//! The support matrix as text, from the data that configs are generated from.

use std::fmt::Write as _;

use crate::config::{contract::Contract, schema};

/// The support matrix as a table of Markdown.
pub fn support_matrix() -> String {
    let mut table = String::from(
        "| Talos | Kubernetes | kinds of documents | name, network, time, registries | KubeSpan | Kubernetes, install, \
         sysctls, modules | user volumes | encryption | search domains, mirrors without fallback |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    let form = |as_documents: bool| if as_documents { "documents" } else { "fields" };
    let one = |as_document: bool| if as_document { "document" } else { "field" };
    for contract in Contract::all() {
        let minor = contract.talos_minor;
        let kinds = schema::all_kinds().filter(|(kind, since)| !kind.is_empty() && *since <= minor).count();
        let (oldest, newest) = (contract.kubernetes_minors.start(), contract.kubernetes_minors.end());
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| v1.{minor} | v1.{oldest}–v1.{newest} | {kinds} | {} | {} | {} | {} | {} | {} |",
            form(contract.has_documents),
            one(contract.has_kubespan_document),
            form(contract.is_split),
            if contract.has_user_volumes { "documents" } else { "—" },
            if contract.has_volume_encryption { "documents" } else { "field" },
            if contract.has_search_domains_and_skip_fallback { "yes" } else { "—" },
        );
    }
    table
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_manual_has_the_matrix_of_the_data() {
        let manual = include_str!("../../../../docs/talos.md");
        let kept = manual
            .split_once("<!-- generated: support -->\n")
            .and_then(|(_, rest)| rest.split_once("<!-- end -->"));
        assert_eq!(kept.map(|(table, _)| table), Some(super::support_matrix().as_str()));
    }
}
