//! Who may do what: users, tokens, roles, the access control list, and how Proxmox works out privileges from them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// All privileges that a release knows, in their alphabetical order. A set of them is a bit mask.
pub(crate) const PRIVILEGES: &[&str] = &[
    "Datastore.Allocate",
    "Datastore.AllocateSpace",
    "Datastore.AllocateTemplate",
    "Datastore.Audit",
    "Group.Allocate",
    "Mapping.Audit",
    "Mapping.Modify",
    "Mapping.Use",
    "Permissions.Modify",
    "Pool.Allocate",
    "Pool.Audit",
    "Realm.Allocate",
    "Realm.AllocateUser",
    "SDN.Allocate",
    "SDN.Audit",
    "SDN.Use",
    "Sys.AccessNetwork",
    "Sys.Audit",
    "Sys.Console",
    "Sys.Incoming",
    "Sys.Modify",
    "Sys.PowerMgmt",
    "Sys.Syslog",
    "User.Modify",
    "VM.Allocate",
    "VM.Audit",
    "VM.Backup",
    "VM.Clone",
    "VM.Config.CDROM",
    "VM.Config.CPU",
    "VM.Config.Cloudinit",
    "VM.Config.Disk",
    "VM.Config.HWType",
    "VM.Config.Memory",
    "VM.Config.Network",
    "VM.Config.Options",
    "VM.Console",
    "VM.GuestAgent.Audit",
    "VM.GuestAgent.FileRead",
    "VM.GuestAgent.FileSystemMgmt",
    "VM.GuestAgent.FileWrite",
    "VM.GuestAgent.Unrestricted",
    "VM.Migrate",
    "VM.Monitor",
    "VM.PowerMgmt",
    "VM.Replicate",
    "VM.Snapshot",
    "VM.Snapshot.Rollback",
];

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Privileges(u64);

impl Privileges {
    pub(crate) fn of(names: &[&str]) -> Self {
        Self(names.iter().filter_map(|name| bit(name)).fold(0, |set, bit| set | bit))
    }

    fn family(prefixes: &[&str]) -> Self {
        let fits = |name: &&&str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        Self::of(&PRIVILEGES.iter().filter(fits).copied().collect::<Vec<_>>())
    }

    pub(crate) fn has(self, name: &str) -> bool {
        bit(name).is_some_and(|bit| self.0 & bit != 0)
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        PRIVILEGES
            .iter()
            .enumerate()
            .filter(move |(index, _)| self.0 & (1 << index) != 0)
            .map(|(_, name)| *name)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

fn bit(name: &str) -> Option<u64> {
    PRIVILEGES.iter().position(|known| *known == name).map(|index| 1 << index)
}

/// Whether this release knows a privilege.
pub(crate) fn known_privilege(name: &str, major: u32) -> bool {
    let gone = if major >= 9 { name == "VM.Monitor" } else { name.starts_with("VM.GuestAgent.") };
    bit(name).is_some() && !gone
}

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Who {
    /// `name@realm`.
    pub(crate) user: String,
    /// Token name, if a token was used.
    pub(crate) token: Option<String>,
}

impl Who {
    pub(crate) fn parse(id: &str) -> Self {
        match id.split_once('!') {
            Some((user, token)) => Self { user: user.into(), token: Some(token.into()) },
            None => Self { user: id.into(), token: None },
        }
    }

    /// The form in UPIDs and ACLs.
    pub(crate) fn id(&self) -> String {
        match &self.token {
            Some(token) => format!("{}!{token}", self.user),
            None => self.user.clone(),
        }
    }

    /// Only root's own ticket is root; a token of root is not.
    pub(crate) fn is_root(&self) -> bool {
        self.user == "root@pam" && self.token.is_none()
    }
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) password: Option<String>,
    pub(crate) enabled: bool,
    pub(crate) expire: i64,
    pub(crate) comment: Option<String>,
    pub(crate) tokens: BTreeMap<String, Token>,
}

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) secret: String,
    pub(crate) privsep: bool,
    pub(crate) expire: i64,
    pub(crate) comment: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct AclEntry {
    /// User id, token id or group.
    pub(crate) ugid: String,
    /// `user`, `token` or `group`.
    pub(crate) kind: String,
    pub(crate) role: String,
    pub(crate) propagate: bool,
}

/// Users, roles and the access control list.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Access {
    pub(crate) users: BTreeMap<String, User>,
    pub(crate) roles: BTreeMap<String, BTreeSet<String>>,
    pub(crate) acl: BTreeMap<String, Vec<AclEntry>>,
    /// Signs tickets.
    pub(crate) ticket_key: String,
}

impl Access {
    /// Privileges of a role, built in or made.
    pub(crate) fn role(&self, name: &str) -> Option<Privileges> {
        if let Some(privileges) = built_in_role(name) {
            return Some(privileges);
        }
        let made = self.roles.get(name)?;
        Some(Privileges::of(&made.iter().map(String::as_str).collect::<Vec<_>>()))
    }

    /// What `who` may do on `path`. `pool` is the pool that the path's guest or storage is in.
    pub(crate) fn privileges(&self, who: &Who, path: &str, pool: Option<&str>) -> Privileges {
        if who.is_root() {
            return Privileges::family(&[""]);
        }
        let user = if who.user == "root@pam" {
            Privileges::family(&[""])
        } else {
            self.granted(&who.user, path, pool)
        };
        let Some(token) = &who.token else { return user };
        match self.users.get(&who.user).and_then(|user| user.tokens.get(token)) {
            Some(token) if token.privsep => user.and(self.granted(&who.id(), path, pool)),
            Some(_) => user,
            None => Privileges::default(),
        }
    }

    fn granted(&self, id: &str, path: &str, pool: Option<&str>) -> Privileges {
        let own = self.by_path(id, path);
        match pool {
            Some(pool) => own.or(self.by_path(id, &format!("/pool/{pool}"))),
            None => own,
        }
    }

    /// The entry nearest to the path wins; entries above count only if they propagate.
    fn by_path(&self, id: &str, path: &str) -> Privileges {
        let mut found = Privileges::default();
        let mut ends: Vec<usize> = path.match_indices('/').map(|(index, _)| index.max(1)).collect();
        ends.push(path.len());
        ends.dedup();
        for end in ends {
            let Some(entries) = self.acl.get(&path[..end]) else { continue };
            let here: Vec<_> = entries
                .iter()
                .filter(|entry| entry.ugid == id && (entry.propagate || end == path.len()))
                .collect();
            if here.is_empty() {
                continue;
            }
            found = if here.iter().any(|entry| entry.role == "NoAccess") {
                Privileges::default()
            } else {
                here.iter()
                    .filter_map(|entry| self.role(&entry.role))
                    .fold(Privileges::default(), Privileges::or)
            };
        }
        found
    }

    /// Adds an entry unless it is there.
    pub(crate) fn grant(&mut self, path: &str, entry: AclEntry) {
        let entries = self.acl.entry(path.to_owned()).or_default();
        if !entries.contains(&entry) {
            entries.push(entry);
        }
    }

    /// Signature part of a ticket or CSRF token.
    pub(crate) fn sign(&self, text: &str) -> String {
        hex::encode(Sha256::digest(format!("{}:{text}", self.ticket_key)))
    }
}

/// Names of the roles that every installation has.
pub(crate) const BUILT_IN_ROLES: &[&str] = &[
    "Administrator",
    "NoAccess",
    "PVEAdmin",
    "PVEAuditor",
    "PVEDatastoreAdmin",
    "PVEDatastoreUser",
    "PVEMappingAdmin",
    "PVEMappingUser",
    "PVEPoolAdmin",
    "PVEPoolUser",
    "PVESDNAdmin",
    "PVESDNUser",
    "PVESysAdmin",
    "PVETemplateUser",
    "PVEUserAdmin",
    "PVEVMAdmin",
    "PVEVMUser",
];

/// Privileges of a built-in role.
pub(crate) fn built_in_role(name: &str) -> Option<Privileges> {
    let of = Privileges::of;
    let all = Privileges::family(&[""]);
    Some(match name {
        "Administrator" => all,
        "NoAccess" => Privileges::default(),
        "PVEAdmin" => all.without(of(&[
            "Mapping.Modify",
            "Permissions.Modify",
            "Realm.Allocate",
            "Sys.AccessNetwork",
            "Sys.Incoming",
            "Sys.Modify",
            "Sys.PowerMgmt",
        ])),
        "PVEAuditor" => of(&[
            "Datastore.Audit",
            "Mapping.Audit",
            "Pool.Audit",
            "SDN.Audit",
            "Sys.Audit",
            "VM.Audit",
            "VM.GuestAgent.Audit",
        ]),
        "PVEDatastoreAdmin" => Privileges::family(&["Datastore."]),
        "PVEDatastoreUser" => of(&["Datastore.AllocateSpace", "Datastore.Audit"]),
        "PVEMappingAdmin" => Privileges::family(&["Mapping."]),
        "PVEMappingUser" => of(&["Mapping.Audit", "Mapping.Use"]),
        "PVEPoolAdmin" => Privileges::family(&["Pool."]),
        "PVEPoolUser" => of(&["Pool.Audit"]),
        "PVESDNAdmin" => Privileges::family(&["SDN."]),
        "PVESDNUser" => of(&["SDN.Audit", "SDN.Use"]),
        "PVESysAdmin" => of(&["Sys.Audit", "Sys.Console", "Sys.Syslog"]),
        "PVETemplateUser" => of(&["VM.Audit", "VM.Clone"]),
        "PVEUserAdmin" => of(&["Group.Allocate", "Realm.AllocateUser", "User.Modify"]),
        "PVEVMAdmin" => Privileges::family(&["VM."]),
        "PVEVMUser" => of(&[
            "VM.Audit",
            "VM.Backup",
            "VM.Config.CDROM",
            "VM.Config.Cloudinit",
            "VM.Console",
            "VM.GuestAgent.Audit",
            "VM.GuestAgent.FileRead",
            "VM.GuestAgent.FileSystemMgmt",
            "VM.GuestAgent.FileWrite",
            "VM.PowerMgmt",
        ]),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(ugid: &str, role: &str, propagate: bool) -> AclEntry {
        AclEntry { ugid: ugid.into(), kind: "user".into(), role: role.into(), propagate }
    }

    fn world() -> Access {
        let mut access = Access::default();
        let mut user = User { enabled: true, ..User::default() };
        let token = Token { secret: "s".into(), privsep: true, expire: 0, comment: None };
        user.tokens.insert("t".into(), token);
        access.users.insert("u@pve".into(), user);
        access
    }

    #[test]
    fn a_separated_token_needs_both_grants() {
        let mut access = world();
        let who = Who::parse("u@pve!t");
        access.grant("/vms", entry("u@pve", "PVEVMAdmin", true));
        assert!(access.privileges(&who, "/vms/100", None).is_empty());
        access.grant("/vms", entry("u@pve!t", "PVEVMUser", true));
        let may = access.privileges(&who, "/vms/100", None);
        assert!(may.has("VM.PowerMgmt") && !may.has("VM.Allocate"));
    }

    #[test]
    fn the_nearest_entry_wins_and_pools_add() {
        let mut access = world();
        let who = Who::parse("u@pve");
        access.grant("/", entry("u@pve", "PVEVMAdmin", true));
        access.grant("/vms/100", entry("u@pve", "NoAccess", true));
        access.grant("/pool/p", entry("u@pve", "PVETemplateUser", true));
        assert!(access.privileges(&who, "/vms/101", None).has("VM.Allocate"));
        assert!(access.privileges(&who, "/vms/100", None).is_empty());
        assert!(access.privileges(&who, "/vms/100", Some("p")).has("VM.Clone"));
        access.grant("/storage", entry("u@pve", "PVEDatastoreUser", false));
        assert!(access.privileges(&who, "/storage", None).has("Datastore.Audit"));
        assert!(!access.privileges(&who, "/storage/local", None).has("Datastore.Audit"));
    }
}
