//! Credentials: tokens, tickets, and what Proxmox says when they are wrong.

use serde_json::json;

use crate::proxmox::Datacenter;
use crate::proxmox::access::{Token, User, Who};
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, opt, req, verify};

/// Seconds that a ticket is good for.
const TICKET_LIFE: i64 = 2 * 60 * 60;

/// What a request carries to show who it is.
pub(in crate::proxmox) struct Credentials<'a> {
    pub(in crate::proxmox) authorization: Option<&'a str>,
    pub(in crate::proxmox) cookie: Option<&'a str>,
    pub(in crate::proxmox) csrf: Option<&'a str>,
    pub(in crate::proxmox) writes: bool,
}

pub(in crate::proxmox) fn needs_no_credentials(method: &str, path: &str) -> bool {
    matches!((method, path), ("POST", "/access/ticket") | ("GET", "/access/domains"))
}

/// Finds out who calls.
pub(in crate::proxmox) fn authenticate(
    datacenter: &Datacenter,
    given: &Credentials<'_>,
) -> Result<Who, Fail> {
    if let Some(token) = given.authorization.and_then(|value| value.strip_prefix("PVEAPIToken=")) {
        return datacenter.with(|state| {
            let now = state.now;
            let told = check_token(&state.access.users, token, now);
            told.map_err(|reason| refused(&reason, state.tells_nothing_on_wrong_credentials()))
        });
    }
    let cookie = given.cookie.into_iter().chain(given.authorization).flat_map(|text| text.split(';'));
    let ticket = cookie.filter_map(|part| part.trim().strip_prefix("PVEAuthCookie=")).next();
    let Some(ticket) = ticket else { return Err(Fail::new(401, "No ticket")) };
    let ticket = percent_encoding::percent_decode_str(ticket).decode_utf8_lossy().into_owned();
    let Some(user) = ticket_user(datacenter, &ticket) else {
        let quiet = datacenter.with(|state| state.tells_nothing_on_wrong_credentials());
        return Err(refused("permission denied - invalid PVE ticket", quiet));
    };
    if given.writes && given.csrf != Some(csrf_token(datacenter, &user).as_str()) {
        return Err(Fail::new(401, "Permission denied - invalid csrf token"));
    }
    Ok(Who { user, token: None })
}

fn refused(reason: &str, quiet: bool) -> Fail {
    Fail::new(401, if quiet { "Authentication failed!" } else { reason })
}

fn check_token(
    users: &std::collections::BTreeMap<String, User>,
    token: &str,
    now: i64,
) -> Result<Who, String> {
    let (id, secret) =
        token.split_once('=').or_else(|| token.split_once(':')).ok_or("invalid token value!")?;
    let (user, name) = id.split_once('!').ok_or("invalid token value!")?;
    let known = users.get(user).ok_or_else(|| format!("no such user ('{user}')"))?;
    if !known.enabled {
        return Err(format!("user '{user}' is disabled"));
    }
    let expired = |expire: i64| expire != 0 && expire <= now;
    let held: &Token =
        known.tokens.get(name).ok_or_else(|| format!("no such token '{name}' for user '{user}'"))?;
    if expired(known.expire) || expired(held.expire) {
        return Err("account expired".into());
    }
    if held.secret != secret {
        return Err("invalid token value!".into());
    }
    Ok(Who { user: user.into(), token: Some(name.into()) })
}

fn make_ticket(datacenter: &Datacenter, user: &str) -> String {
    datacenter.with(|state| {
        let plain = format!("PVE:{user}:{:08X}", state.now);
        format!("{plain}::{}", state.access.sign(&plain))
    })
}

fn ticket_user(datacenter: &Datacenter, ticket: &str) -> Option<String> {
    let (plain, signature) = ticket.split_once("::")?;
    let (user, stamp) = plain.strip_prefix("PVE:")?.rsplit_once(':')?;
    let made = i64::from_str_radix(stamp, 16).ok()?;
    datacenter.with(|state| {
        let good = state.access.sign(plain) == signature
            && (made..=made + TICKET_LIFE).contains(&state.now)
            && state.access.users.get(user).is_some_and(|user| user.enabled);
        good.then(|| user.to_owned())
    })
}

fn csrf_token(datacenter: &Datacenter, user: &str) -> String {
    datacenter.with(|state| format!("00000000:{}", state.access.sign(&format!("csrf:{user}"))))
}

/// `POST /access/ticket`
pub(super) fn ticket(context: &Context) -> Answer {
    verify(
        &context.params,
        &[
            req("username", Kind::Text),
            req("password", Kind::Text),
            opt("realm", Kind::Text),
            opt("otp", Kind::Text),
            opt("path", Kind::Text),
            opt("privs", Kind::Text),
            opt("new-format", Kind::Bool),
            opt("tfa-challenge", Kind::Text),
        ],
    )?;
    let mut user = context.param("username").unwrap_or_default().to_owned();
    if !user.contains('@') {
        user = format!("{user}@{}", context.param("realm").unwrap_or("pam"));
    }
    let password = context.param("password").unwrap_or_default();
    let by_ticket = ticket_user(&context.dc, password).is_some_and(|owner| owner == user);
    let by_password = context.dc.with(|state| {
        let known = state.access.users.get(&user).filter(|user| user.enabled);
        known.is_some_and(|user| user.password.as_deref() == Some(password))
    });
    if !by_ticket && !by_password {
        return Err(Fail::new(401, "authentication failure"));
    }
    Ok(Data::from(json!({
        "username": user,
        "ticket": make_ticket(&context.dc, &user),
        "CSRFPreventionToken": csrf_token(&context.dc, &user),
        "cap": {},
    })))
}
