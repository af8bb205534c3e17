//! From Proxmox's words to [`Kind`]: one set of patterns for HTTP answers and for the ends of tasks.

use std::collections::BTreeMap;

use crate::error::{Kind, Missing, text_cause};

/// What an HTTP failure says: status, reason phrase, and the two useful fields of the body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) errors: BTreeMap<String, String>,
}

/// Types an HTTP failure. `mutating`: whether the call would have changed something.
pub(crate) fn from_answer(refusal: Refusal, mutating: bool, endpoint: &str) -> Kind {
    let Refusal { status, reason, message, errors } = refusal;
    let text = if message.trim().is_empty() { reason.trim() } else { message.trim() }.to_owned();
    match status {
        401 => return Kind::Auth { text },
        // 595 and 596 come from the node in between, and at 596 the work may still go on.
        595 | 596 | 599 | 502 | 504 => {
            let cause = text_cause(format!("status {status}: {text}"));
            return if mutating {
                Kind::MayHaveHappened { cause }
            } else {
                Kind::Unreachable { endpoint: endpoint.to_owned(), cause }
            };
        }
        501 => return Kind::NotImplemented { text },
        _ => {}
    }
    if errors.get("upid").is_some_and(|why| why.contains("no such task")) {
        return Kind::NotFound { what: Missing::Task, text: "no such task".into() };
    }
    if errors.len() == 1
        && let Some(taken) = errors.get("vmid").filter(|why| why.contains("already exists"))
    {
        return Kind::AlreadyExists { text: taken.trim().to_owned() };
    }
    if !errors.is_empty() {
        return Kind::Parameter { errors, text };
    }
    known(&reason, &text).or_else(|| known(&text, &text)).unwrap_or_else(|| match status {
        403 => Kind::Permission { path: None, privilege: None, text: text.clone() },
        _ => Kind::Other { status: Some(status), text: text.clone() },
    })
}

/// Types the error text with which a task ended.
pub fn from_task_text(text: &str) -> Kind {
    let text = text.trim();
    if text == "unexpected status" || text.starts_with("unable to get last line from task log") {
        return Kind::WorkerDied { text: text.to_owned() };
    }
    known(text, text).unwrap_or_else(|| Kind::Other { status: None, text: text.to_owned() })
}

fn known(said: &str, text: &str) -> Option<Kind> {
    let text = text.to_owned();
    let has = |part: &str| said.contains(part);
    if let Some((_, detail)) = said.split_once("Permission check failed") {
        return Some(permission(detail, text));
    }
    if has("only root can") || has("Only root may") {
        return Some(Kind::Permission { path: None, privilege: None, text });
    }
    if has("no quorum") {
        return Some(Kind::NoQuorum { text });
    }
    if let Some((_, rest)) = said.split_once("is locked (") {
        let lock = rest.split(')').next().unwrap_or_default().to_owned();
        return Some(Kind::Locked { lock, text });
    }
    if (has("can't lock file") || has("cfs-lock") || has("lock request"))
        && (has("got timeout") || has("lock request timeout") || has("timed out") || has("timeout"))
        || has("unable to acquire lock")
    {
        return Some(Kind::LockTimeout { text });
    }
    // A command such as `lvs`, on a host or a pool that is busy.
    if has("command '") && has("' failed: got timeout") {
        return Some(Kind::StorageTimeout { text });
    }
    if has("got no worker upid") {
        return Some(Kind::NoWorkerUpid { text });
    }
    if has("checksum mismatch (file change by other user") || has("detected modified configuration") {
        return Some(Kind::Stale { text });
    }
    if has("checksum mismatch: got") {
        return Some(Kind::ChecksumMismatch { text });
    }
    if has("refusing to override existing file") || has("config file already exists") {
        return Some(Kind::AlreadyExists { text });
    }
    if has("protection mode enabled") {
        return Some(Kind::Protected { text });
    }
    if has("guest agent is not running") || has("No QEMU guest agent configured") {
        return Some(Kind::AgentUnavailable { text });
    }
    let vm = |ending: &str| said.split("VM ").skip(1).any(|rest| after_number(rest) == Some(ending));
    let vm_starts = |ending: &str| {
        said.split("VM ").skip(1).filter_map(after_number).any(|rest| rest.starts_with(ending))
    };
    if vm_starts(" already exists") {
        return Some(Kind::AlreadyExists { text });
    }
    if vm(" already running") || vm_starts(" is running") {
        return Some(Kind::Running { text });
    }
    if vm(" not running") || vm(" is not running") {
        return Some(Kind::NotRunning { text });
    }
    missing(said).map(|what| Kind::NotFound { what, text })
}

/// What follows the number that `text` begins with.
fn after_number(text: &str) -> Option<&str> {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    (rest.len() < text.len()).then_some(rest.trim_end())
}

fn missing(said: &str) -> Option<Missing> {
    let quoted = |before: &str, after: &str| {
        let (_, rest) = said.split_once(before)?;
        let (name, rest) = rest.split_once('\'')?;
        rest.starts_with(after).then(|| name.to_owned())
    };
    if let Some(file) = quoted("onfiguration file '", " does not exist") {
        return (file.contains("/qemu-server/") || file.contains("/lxc/")).then_some(Missing::Vm);
    }
    if said.contains("unable to find configuration file for VM") {
        return Some(Missing::Vm);
    }
    quoted("storage '", " does not exist")
        .map(Missing::Storage)
        .or_else(|| quoted("volume '", " does not exist").map(Missing::Volume))
        .or_else(|| quoted("disk '", " does not exist").map(Missing::Disk))
        .or_else(|| quoted("failed to stat '", "").map(Missing::Volume))
        .or_else(|| quoted("no such cluster node '", "").map(Missing::Node))
        .or_else(|| quoted("hostname lookup '", " failed").map(Missing::Node))
        .or_else(|| quoted("pool '", " does not exist").map(Missing::Pool))
}

/// `detail` is what follows "Permission check failed", such as ` (/vms/900, VM.Clone)`.
fn permission(detail: &str, text: String) -> Kind {
    if let Some(Missing::Pool(pool)) = missing(detail) {
        return Kind::NotFound { what: Missing::Pool(pool), text };
    }
    let inside = detail.trim_start().strip_prefix('(').and_then(|rest| rest.rsplit_once(')')).map(|(i, _)| i);
    let (path, privilege) = match inside.and_then(|inside| inside.split_once(", ")) {
        Some((path, privilege)) if path.starts_with('/') => {
            (Some(path.to_owned()), Some(privilege.trim().to_owned()))
        }
        _ => (None, None),
    };
    Kind::Permission { path, privilege, text }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(status: u16, reason: &str) -> Kind {
        from_answer(Refusal { status, reason: reason.into(), ..Refusal::default() }, true, "atlas:8006")
    }

    /// A short name for the kind with what it carries, for tables.
    fn brief(kind: &Kind) -> String {
        match kind {
            Kind::NotFound { what, .. } => format!("missing {what:?}"),
            Kind::AlreadyExists { .. } => "exists".into(),
            Kind::Locked { lock, .. } => format!("locked {lock}"),
            Kind::LockTimeout { .. } => "lock timeout".into(),
            Kind::StorageTimeout { .. } => "storage timeout".into(),
            Kind::Stale { .. } => "stale".into(),
            Kind::Permission { path, privilege, .. } => {
                format!("needs {} on {}", privilege.as_deref().unwrap_or("?"), path.as_deref().unwrap_or("?"))
            }
            Kind::Parameter { errors, .. } => format!("parameter {:?}", errors.keys().collect::<Vec<_>>()),
            Kind::Auth { .. } => "auth".into(),
            Kind::NoQuorum { .. } => "no quorum".into(),
            Kind::Running { .. } => "running".into(),
            Kind::NotRunning { .. } => "not running".into(),
            Kind::AgentUnavailable { .. } => "no agent".into(),
            Kind::Protected { .. } => "protected".into(),
            Kind::ChecksumMismatch { .. } => "checksum".into(),
            Kind::NoWorkerUpid { .. } => "no worker".into(),
            Kind::WorkerDied { .. } => "died".into(),
            Kind::MayHaveHappened { .. } => "maybe".into(),
            Kind::Unreachable { .. } => "unreachable".into(),
            Kind::Untrusted { .. } => "untrusted".into(),
            Kind::NotImplemented { .. } => "not implemented".into(),
            Kind::Protocol { .. } => "protocol".into(),
            Kind::Other { status, .. } => format!("other {status:?}"),
        }
    }

    #[test]
    fn answers_become_kinds() {
        for (status, reason, want) in [
            (401, "No ticket", "auth"),
            (401, "Permission denied - invalid csrf token", "auth"),
            (403, "Permission check failed (/vms/900, VM.Clone)", "needs VM.Clone on /vms/900"),
            (403, "Permission check failed", "needs ? on ?"),
            (403, "Permission check failed (pool 'x' does not exist)", "missing Pool(\"x\")"),
            (
                403,
                "Permission check failed (/vms/9, VM.GuestAgent.Audit|VM.GuestAgent.Unrestricted)",
                "needs VM.GuestAgent.Audit|VM.GuestAgent.Unrestricted on /vms/9",
            ),
            (
                403,
                "Permission check failed (/, Sys.Modify for modifying tag 'x')",
                "needs Sys.Modify for modifying tag 'x' on /",
            ),
            (
                403,
                "Permission check failed (URI '/access/password' not available with API token, need proper ticket.",
                "needs ? on ?",
            ),
            (403, "something a proxy says", "needs ? on ?"),
            (500, "Configuration file 'nodes/pve1/qemu-server/900.conf' does not exist", "missing Vm"),
            (500, "unable to create VM 900 - VM 900 already exists on node 'pve1'", "exists"),
            (500, "unable to create VM 900: config file already exists", "exists"),
            (500, "storage 'nostore' does not exist", "missing Storage(\"nostore\")"),
            (500, "no such cluster node 'ghost'", "missing Node(\"ghost\")"),
            (
                500,
                "hostname lookup 'ghost' failed - failed to get address info for: ghost: Name or service not known",
                "missing Node(\"ghost\")",
            ),
            (500, "VM is locked (backup)", "locked backup"),
            (500, "can't lock file '/var/lock/qemu-server/lock-100.conf' - got timeout", "lock timeout"),
            (500, "cfs-lock 'storage-nfs' error: got lock request timeout", "lock timeout"),
            (500, "cfs-lock 'file-user_cfg' error: no quorum!", "no quorum"),
            (500, "no quorum!", "no quorum"),
            (500, "checksum mismatch (file change by other user?)", "stale"),
            (500, "detected modified configuration - file changed by other user? Try again.", "stale"),
            (500, "only root can set 'args' config", "needs ? on ?"),
            (500, "VM 900 is running - destroy failed", "running"),
            (500, "VM 203 not running", "not running"),
            (500, "VM 900 is not running", "not running"),
            (500, "QEMU guest agent is not running", "no agent"),
            (500, "can't remove VM 902 - protection mode enabled", "protected"),
            (500, "got no worker upid - start worker failed", "no worker"),
            (500, "invalid bootorder: device 'scsi9' does not exist'", "other Some(500)"),
            (500, "storage 'data' is not configured for content-type 'iso'", "other Some(500)"),
            (501, "Method 'GET /nope' not implemented", "not implemented"),
            (595, "Connection refused", "maybe"),
            (596, "Connection timed out", "maybe"),
            (404, "Not Found", "other Some(404)"),
        ] {
            assert_eq!(brief(&answer(status, reason)), want, "{status} {reason}");
        }
    }

    #[test]
    fn task_ends_become_the_same_kinds() {
        for (text, want) in [
            ("unexpected status", "died"),
            ("VM 900 already running", "running"),
            ("VM is locked (create)", "locked create"),
            (
                "unable to create VM 9 - 403 Permission check failed (/vms/9, VM.Config.Options)",
                "needs VM.Config.Options on /vms/9",
            ),
            (
                "unable to create VM 900 - failed to stat '/var/lib/vz/import/none.qcow2'",
                "missing Volume(\"/var/lib/vz/import/none.qcow2\")",
            ),
            ("volume 'local:iso/x.iso' does not exist", "missing Volume(\"local:iso/x.iso\")"),
            ("disk 'scsi7' does not exist", "missing Disk(\"scsi7\")"),
            ("refusing to override existing file '/var/lib/vz/import/g.qcow2'", "exists"),
            ("checksum mismatch: got 'ab' != expect '00', aborting", "checksum"),
            ("can't lock file '/var/lock/pve-manager/pve-storage-local' - got timeout", "lock timeout"),
            ("Configuration file 'nodes/pve1/qemu-server/900.conf' does not exist", "missing Vm"),
            (
                "unable to create VM 302 - command '/sbin/lvs --options lv_size /dev/pve/vm-302-disk-0' failed: got timeout",
                "storage timeout",
            ),
            ("VM quit/powerdown failed - got timeout", "other None"),
            ("download failed: exit code 8", "other None"),
            ("shrinking disks is not supported", "other None"),
        ] {
            assert_eq!(brief(&from_task_text(text)), want, "{text}");
        }
    }

    #[test]
    fn parameters_are_told_by_name() {
        let mut errors = BTreeMap::from([("net0".to_owned(), "invalid format\n".to_owned())]);
        let refusal = Refusal {
            status: 400,
            reason: "Parameter verification failed.".into(),
            errors: errors.clone(),
            ..Refusal::default()
        };
        let kind = from_answer(refusal.clone(), true, "x");
        assert_eq!(kind.to_string(), "Parameter verification failed. net0: invalid format");
        errors = BTreeMap::from([("upid".to_owned(), "no such task".to_owned())]);
        assert_eq!(brief(&from_answer(Refusal { errors, ..refusal.clone() }, false, "x")), "missing Task");
        errors = BTreeMap::from([("vmid".to_owned(), "VM 900 already exists".to_owned())]);
        assert_eq!(brief(&from_answer(Refusal { errors, ..refusal }, false, "x")), "exists");
    }

    #[test]
    fn the_body_is_read_where_the_reason_is_poor() {
        let refusal = Refusal {
            status: 500,
            reason: "Internal Server Error".into(),
            message: "VM is locked (migrate)\n".into(),
            ..Refusal::default()
        };
        let kind = from_answer(refusal, true, "x");
        assert_eq!(
            (brief(&kind).as_str(), kind.to_string().as_str()),
            ("locked migrate", "VM is locked (migrate)")
        );
    }

    #[test]
    fn a_read_through_a_dead_node_is_only_unreachable() {
        let refusal = Refusal { status: 595, reason: "No route to host".into(), ..Refusal::default() };
        assert_eq!(brief(&from_answer(refusal, false, "x")), "unreachable");
    }

    proptest! {
        #[test]
        fn any_text_is_typed_without_panic(text in "\\PC{0,200}") {
            let _ = from_task_text(&text);
            let _ = answer(500, &text);
        }
    }
}
