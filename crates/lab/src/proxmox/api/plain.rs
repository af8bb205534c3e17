//! Endpoints whose own code looks at no parameters: what they take all the same, and that they take nothing else.

use crate::proxmox::context::Context;
use crate::proxmox::fail::Fail;
use crate::proxmox::schema::{Kind, Rule, opt, verify};

/// Refuses parameters that such an endpoint does not have.
pub(super) fn check(context: &Context, parts: &[&str]) -> Result<(), Fail> {
    const FLAGS: &[Rule] = &[opt("enabled", Kind::Bool), opt("full", Kind::Bool)];
    const ZONES: &[Rule] = &[
        opt("pending", Kind::Bool),
        opt("running", Kind::Bool),
        opt("type", Kind::OneOf(&["evpn", "faucet", "qinq", "simple", "vlan", "vxlan"])),
    ];
    const POOL: &[Rule] = &[opt("type", Kind::OneOf(&["qemu", "lxc", "storage"]))];
    let rules: &[Rule] = match (context.method.as_str(), parts) {
        ("GET", ["access", "users"]) => FLAGS,
        ("GET", ["cluster", "sdn", "zones"]) => ZONES,
        ("GET", ["pools", _]) => POOL,
        ("GET", ["version"] | ["cluster", "status"] | ["storage", _]) => &[],
        ("GET", ["access", "domains" | "roles" | "acl"] | ["access", "roles", _]) => &[],
        ("GET" | "DELETE", ["access", "users", _]) => &[],
        ("GET", ["access", "users", _, "token"]) | ("GET" | "DELETE", ["access", "users", _, "token", _]) => {
            &[]
        }
        ("DELETE", ["access", "roles", _] | ["pools", _]) => &[],
        ("GET", ["nodes", _, "version" | "status"]) => &[],
        ("GET", ["nodes", _, "storage", _, "status"]) => &[],
        ("GET", ["nodes", _, "storage", _, "content", ..]) if parts.len() > 5 => &[],
        ("GET", ["nodes", _, "tasks", _, "status"]) | ("DELETE", ["nodes", _, "tasks", _]) => &[],
        ("GET", ["nodes", _, "qemu", _, "pending"] | ["nodes", _, "qemu", _, "status", "current"]) => &[],
        (
            _,
            ["nodes", _, "qemu", _, "agent", "get-host-name" | "info" | "network-get-interfaces" | "ping"],
        ) => &[],
        _ => return Ok(()),
    };
    verify(&context.params, rules)
}
