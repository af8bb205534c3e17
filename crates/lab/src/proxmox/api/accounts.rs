//! Users, tokens, roles, the access control list, and what the caller may do.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{login, rows, unknown};
use crate::proxmox::access::{AclEntry, BUILT_IN_ROLES, Token, User, Who, built_in_role, known_privilege};
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};

/// Everything below `/access`.
pub(super) fn dispatch(context: &Context, parts: &[&str]) -> Answer {
    match (context.method.as_str(), &parts[1..]) {
        ("POST", ["ticket"]) => login::ticket(context),
        ("GET", ["domains"]) => rows(vec![
            json!({ "realm": "pam", "type": "pam", "comment": "Linux PAM standard authentication" }),
            json!({ "realm": "pve", "type": "pve", "comment": "Proxmox VE authentication server" }),
        ]),
        ("PUT", ["password"]) if context.who.token.is_some() => Err(Fail::new(
            403,
            "Permission check failed (URI '/access/password' not available with API token, need proper ticket.",
        )),
        ("GET", ["users"]) => users(context),
        ("POST", ["users"]) => create_user(context),
        ("GET", ["users", id]) => user(context, id),
        ("DELETE", ["users", id]) => delete_user(context, id),
        ("GET", ["users", id, "token"]) => tokens(context, id),
        ("GET", ["users", id, "token", name]) => token(context, id, name),
        ("POST", ["users", id, "token", name]) => create_token(context, id, name),
        ("DELETE", ["users", id, "token", name]) => delete_token(context, id, name),
        ("GET", ["roles"]) => roles(context),
        ("GET", ["roles", id]) => role(context, id),
        ("POST", ["roles"]) => create_role(context),
        ("PUT", ["roles", id]) => update_role(context, id),
        ("DELETE", ["roles", id]) => delete_role(context, id),
        ("GET", ["acl"]) => acl(context),
        ("PUT", ["acl"]) => update_acl(context),
        ("GET", ["permissions"]) => permissions(context),
        _ => Err(unknown(context)),
    }
}

fn user_row(id: &str, user: &User) -> Value {
    let realm = id.rsplit('@').next().unwrap_or("pve");
    let mut row =
        json!({ "userid": id, "enable": u8::from(user.enabled), "expire": user.expire, "realm-type": realm });
    if let Some(comment) = &user.comment {
        row["comment"] = comment.clone().into();
    }
    row
}

fn may_manage_users(context: &Context) -> bool {
    context.may("/access/groups", "User.Modify")
}

fn users(context: &Context) -> Answer {
    let all = may_manage_users(context) || context.may("/access/groups", "Sys.Audit");
    context.dc.with(|state| {
        let seen = state.access.users.iter().filter(|(id, _)| all || **id == context.who.user);
        rows(seen.map(|(id, user)| user_row(id, user)).collect())
    })
}

fn no_user(id: &str) -> Fail {
    Fail::internal(format!("no such user ('{id}')"))
}

fn need_users(context: &Context) -> Result<(), Fail> {
    context.need("/access/groups", &["User.Modify"])
}

fn user(context: &Context, id: &str) -> Answer {
    if id != context.who.user {
        context.need("/access/groups", &["User.Modify", "Sys.Audit"])?;
    }
    context.dc.with(|state| {
        let user = state.access.users.get(id).ok_or_else(|| no_user(id))?;
        Ok(Data::from(user_row(id, user)))
    })
}

fn create_user(context: &Context) -> Answer {
    verify(
        &context.params,
        &[
            req("userid", Kind::Text),
            opt("password", Kind::Text),
            opt("enable", Kind::Bool),
            opt("expire", Kind::Int(0, i64::MAX)),
            opt("comment", Kind::Text),
            opt("email", Kind::Text),
            opt("firstname", Kind::Text),
            opt("lastname", Kind::Text),
            opt("groups", Kind::Text),
            opt("keys", Kind::Text),
        ],
    )?;
    let id = context.param("userid").unwrap_or_default().to_owned();
    let Some((_, realm)) = id.rsplit_once('@') else {
        return Err(Fail::parameter(
            "userid",
            format!("invalid format - value '{id}' does not look like a valid user name\n"),
        ));
    };
    context.need(&format!("/access/realm/{realm}"), &["Realm.AllocateUser"])?;
    need_users(context)?;
    let user = User {
        password: context.param("password").map(str::to_owned),
        enabled: context.param("enable") != Some("0"),
        expire: context.number("expire").unwrap_or(0) as i64,
        comment: context.param("comment").map(str::to_owned),
        tokens: Default::default(),
    };
    context.dc.with(|state| {
        if state.access.users.contains_key(&id) {
            return Err(Fail::internal(format!("create user failed: user '{id}' already exists")));
        }
        state.access.users.insert(id, user);
        Data::null()
    })
}

fn forget_grants(context: &Context, gone: impl Fn(&str) -> bool) {
    context.dc.with(|state| {
        for entries in state.access.acl.values_mut() {
            entries.retain(|entry| !gone(&entry.ugid));
        }
        state.access.acl.retain(|_, entries| !entries.is_empty());
    });
}

fn delete_user(context: &Context, id: &str) -> Answer {
    need_users(context)?;
    context.dc.with(|state| state.access.users.remove(id).ok_or_else(|| no_user(id)))?;
    forget_grants(context, |ugid| ugid == id || ugid.starts_with(&format!("{id}!")));
    Data::null()
}

fn token_row(name: &str, token: &Token) -> Value {
    let mut row = json!({ "tokenid": name, "privsep": u8::from(token.privsep), "expire": token.expire });
    if let Some(comment) = &token.comment {
        row["comment"] = comment.clone().into();
    }
    row
}

fn need_tokens(context: &Context, id: &str) -> Result<(), Fail> {
    if context.who.user == id && context.who.token.is_none() { Ok(()) } else { need_users(context) }
}

fn tokens(context: &Context, id: &str) -> Answer {
    need_tokens(context, id)?;
    context.dc.with(|state| {
        let user = state.access.users.get(id).ok_or_else(|| no_user(id))?;
        rows(user.tokens.iter().map(|(name, token)| token_row(name, token)).collect())
    })
}

fn no_token(id: &str, name: &str) -> Fail {
    Fail::internal(format!("no such token '{name}' for user '{id}'"))
}

fn token(context: &Context, id: &str, name: &str) -> Answer {
    need_tokens(context, id)?;
    context.dc.with(|state| {
        let user = state.access.users.get(id).ok_or_else(|| no_user(id))?;
        let token = user.tokens.get(name).ok_or_else(|| no_token(id, name))?;
        let mut row = token_row(name, token);
        if let Some(row) = row.as_object_mut() {
            row.remove("tokenid");
        }
        Ok(Data::from(row))
    })
}

fn create_token(context: &Context, id: &str, name: &str) -> Answer {
    verify(
        &context.params,
        &[opt("privsep", Kind::Bool), opt("expire", Kind::Int(0, i64::MAX)), opt("comment", Kind::Text)],
    )?;
    need_tokens(context, id)?;
    let privsep = context.param("privsep") != Some("0");
    let expire = context.number("expire").unwrap_or(0) as i64;
    let comment = context.param("comment").map(str::to_owned);
    context.dc.with(|state| {
        let secret = state.rng.uuid();
        let user = state.access.users.get_mut(id).ok_or_else(|| no_user(id))?;
        if user.tokens.contains_key(name) {
            return Err(Fail::parameter("tokenid", "Token already exists."));
        }
        let token = Token { secret: secret.clone(), privsep, expire, comment };
        let mut info = token_row(name, &token);
        if let Some(info) = info.as_object_mut() {
            info.remove("tokenid");
        }
        user.tokens.insert(name.to_owned(), token);
        Ok(Data::from(json!({ "full-tokenid": format!("{id}!{name}"), "info": info, "value": secret })))
    })
}

fn delete_token(context: &Context, id: &str, name: &str) -> Answer {
    need_tokens(context, id)?;
    context.dc.with(|state| {
        let user = state.access.users.get_mut(id).ok_or_else(|| no_user(id))?;
        user.tokens.remove(name).ok_or_else(|| no_token(id, name))
    })?;
    forget_grants(context, |ugid| ugid == format!("{id}!{name}"));
    Data::null()
}

fn roles(context: &Context) -> Answer {
    context.dc.with(|state| {
        let major = state.major();
        let built_in = BUILT_IN_ROLES.iter().filter_map(|name| {
            let privileges = built_in_role(name)?;
            let names: Vec<_> = privileges.names().filter(|name| known_privilege(name, major)).collect();
            Some(json!({ "roleid": name, "privs": names.join(","), "special": 1 }))
        });
        let made = state.access.roles.iter().map(|(name, privileges)| {
            let names: Vec<_> = privileges.iter().map(String::as_str).collect();
            json!({ "roleid": name, "privs": names.join(",") })
        });
        rows(built_in.chain(made).collect())
    })
}

fn role(context: &Context, id: &str) -> Answer {
    context.dc.with(|state| {
        let privileges =
            state.access.role(id).ok_or_else(|| Fail::internal(format!("role '{id}' does not exist")))?;
        let map: Map<String, Value> = privileges.names().map(|name| (name.to_owned(), 1.into())).collect();
        Ok(Data::from(Value::Object(map)))
    })
}

fn privileges(context: &Context) -> Result<BTreeSet<String>, Fail> {
    let major = context.dc.with(|state| state.major());
    let names = context.param("privs").unwrap_or_default().split([',', ';', ' ', '\0']);
    let names: BTreeSet<String> = names.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match names.iter().find(|name| !known_privilege(name, major)) {
        Some(name) => Err(Fail::parameter("privs", format!("invalid format - invalid privilege '{name}'\n"))),
        None => Ok(names),
    }
}

fn create_role(context: &Context) -> Answer {
    context.need("/access", &["Sys.Modify"])?;
    verify(&context.params, &[req("roleid", Kind::Text), opt("privs", Kind::Text)])?;
    let id = context.param("roleid").unwrap_or_default().to_owned();
    let privileges = privileges(context)?;
    context.dc.with(|state| {
        if state.access.role(&id).is_some() {
            return Err(Fail::internal(format!("create role failed: role '{id}' already exists")));
        }
        state.access.roles.insert(id, privileges);
        Data::null()
    })
}

fn update_role(context: &Context, id: &str) -> Answer {
    context.need("/access", &["Sys.Modify"])?;
    verify(&context.params, &[opt("privs", Kind::Text), opt("append", Kind::Bool)])?;
    let privileges = privileges(context)?;
    context.dc.with(|state| {
        let known = state
            .access
            .roles
            .get_mut(id)
            .ok_or_else(|| Fail::internal(format!("update role failed: role '{id}' does not exist")))?;
        if !context.flag("append") {
            known.clear();
        }
        known.extend(privileges);
        Data::null()
    })
}

fn delete_role(context: &Context, id: &str) -> Answer {
    context.need("/access", &["Sys.Modify"])?;
    context.dc.with(|state| {
        let gone = state.access.roles.remove(id);
        gone.ok_or_else(|| Fail::internal(format!("delete role failed: role '{id}' does not exist")))?;
        Data::null()
    })
}

fn acl(context: &Context) -> Answer {
    let all = context.may("/access", "Sys.Audit") || context.may("/access", "Permissions.Modify");
    context.dc.with(|state| {
        let mut found = Vec::new();
        for (path, entries) in &state.access.acl {
            if !all && !state.privileges(&context.who, path).has("Permissions.Modify") {
                continue;
            }
            for entry in entries {
                found.push(json!({
                    "path": path, "ugid": entry.ugid, "type": entry.kind, "roleid": entry.role,
                    "propagate": u8::from(entry.propagate),
                }));
            }
        }
        rows(found)
    })
}

fn update_acl(context: &Context) -> Answer {
    verify(
        &context.params,
        &[
            req("path", Kind::Text),
            req("roles", Kind::Text),
            opt("users", Kind::Text),
            opt("groups", Kind::Text),
            opt("tokens", Kind::Text),
            opt("propagate", Kind::Bool),
            opt("delete", Kind::Bool),
        ],
    )?;
    let path = context.param("path").unwrap_or_default().to_owned();
    context.need(&path, &["Permissions.Modify"])?;
    let propagate = context.param("propagate") != Some("0");
    let delete = context.flag("delete");
    let list = |name| {
        let text = context.param(name).unwrap_or_default();
        text.split([',', ';', ' ', '\0']).filter(|one| !one.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let kinds = [("user", "users"), ("group", "groups"), ("token", "tokens")];
    let holders: Vec<(String, &str)> =
        kinds.iter().flat_map(|(kind, name)| list(name).into_iter().map(|ugid| (ugid, *kind))).collect();
    if holders.is_empty() {
        return Err(Fail::parameter("users", "either 'users', 'groups', or 'tokens' is required."));
    }
    context.dc.with(|state| {
        for role in list("roles") {
            if state.access.role(&role).is_none() {
                return Err(Fail::internal(format!("role '{role}' does not exist")));
            }
            for (ugid, kind) in &holders {
                let who = Who::parse(ugid);
                let known = *kind == "group"
                    || state.access.users.get(&who.user).is_some_and(|user| {
                        who.token.as_ref().is_none_or(|token| user.tokens.contains_key(token))
                    });
                if !known && !delete {
                    return Err(match who.token {
                        Some(token) => no_token(&who.user, &token),
                        None => Fail::internal(format!("user '{ugid}' does not exist")),
                    });
                }
                let entry =
                    AclEntry { ugid: ugid.clone(), kind: (*kind).into(), role: role.clone(), propagate };
                if let Some(entries) = state.access.acl.get_mut(&path) {
                    entries.retain(|known| known.ugid != *ugid || known.role != role);
                }
                if !delete {
                    state.access.grant(&path, entry);
                }
            }
        }
        state.access.acl.retain(|_, entries| !entries.is_empty());
        Data::null()
    })
}

/// Paths that are told even without an entry of their own.
const COMMON_PATHS: &[&str] = &[
    "/",
    "/access",
    "/access/groups",
    "/access/realm",
    "/mapping",
    "/nodes",
    "/pool",
    "/sdn",
    "/storage",
    "/vms",
];

fn permissions(context: &Context) -> Answer {
    verify(&context.params, &[opt("path", Kind::Text), opt("userid", Kind::Text)])?;
    let who = match context.param("userid") {
        Some(id) if id != context.who.id() => {
            context.need("/access", &["Sys.Audit"])?;
            Who::parse(id)
        }
        _ => context.who.clone(),
    };
    context.dc.with(|state| {
        let paths: BTreeSet<String> = match context.param("path") {
            Some(path) => BTreeSet::from([path.to_owned()]),
            None => COMMON_PATHS
                .iter()
                .map(|&path| path.to_owned())
                .chain(state.access.acl.keys().cloned())
                .collect(),
        };
        let major = state.major();
        let mut all = Map::new();
        for path in paths {
            let may = state.privileges(&who, &path);
            if may.is_empty() && context.param("path").is_none() {
                continue;
            }
            let names = may.names().filter(|name| known_privilege(name, major));
            // What a path below would get says whether it propagates.
            let below = state.privileges(&who, &format!("{}/~", path.trim_end_matches('/')));
            let here: Map<String, Value> =
                names.map(|name| (name.to_owned(), u8::from(below.has(name)).into())).collect();
            all.insert(path, Value::Object(here));
        }
        Ok(Data::from(Value::Object(all)))
    })
}
