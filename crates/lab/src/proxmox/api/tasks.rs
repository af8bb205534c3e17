//! Tasks: lists, status, log, abort.

use serde_json::{Value, json};

use super::rows;
use crate::proxmox::context::Context;
use crate::proxmox::fail::{Answer, Data, Fail};
use crate::proxmox::schema::{Kind, VMID, opt, verify};
use crate::proxmox::tasks::Task;

/// A UPID has eight fields and a colon at its end.
fn parses(upid: &str) -> bool {
    let fields: Vec<&str> = upid.split(':').collect();
    fields.len() == 9
        && fields[0] == "UPID"
        && fields[2..5].iter().all(|field| field.len() >= 8 && field.chars().all(|c| c.is_ascii_hexdigit()))
        && fields[8].is_empty()
}

fn check_upid(upid: &str) -> Result<(), Fail> {
    if parses(upid) { Ok(()) } else { Err(Fail::parameter("upid", "unable to parse worker upid")) }
}

/// Finished tasks split the token from the user; running ones in a list do not.
fn row(task: &Task, split: bool) -> Value {
    let mut row = json!({
        "upid": task.upid,
        "node": task.host,
        "pid": task.pid,
        "pstart": task.pstart,
        "starttime": task.start,
        "type": task.kind,
        "id": task.id,
    });
    if split {
        row["user"] = task.who.user.clone().into();
        if let Some(token) = &task.who.token {
            row["tokenid"] = token.clone().into();
        }
    } else {
        row["user"] = task.who.id().into();
    }
    row
}

fn list_row(task: &Task) -> Value {
    match &task.end {
        Some((end, status)) => {
            let mut row = row(task, true);
            row["endtime"] = (*end).into();
            row["status"] = status.clone().into();
            row
        }
        None => row(task, false),
    }
}

/// `GET /nodes/{node}/tasks`
pub(super) fn list(context: &Context, host: &str) -> Answer {
    verify(
        &context.params,
        &[
            opt("vmid", VMID),
            opt("errors", Kind::Bool),
            opt("limit", Kind::Int(0, i64::MAX)),
            opt("start", Kind::Int(0, i64::MAX)),
            opt("source", Kind::OneOf(&["archive", "active", "all"])),
            opt("typefilter", Kind::Text),
            opt("userfilter", Kind::Text),
            opt("since", Kind::Int(0, i64::MAX)),
            opt("until", Kind::Int(0, i64::MAX)),
            opt("statusfilter", Kind::Text),
        ],
    )?;
    let all_seen = context.may(&format!("/nodes/{host}"), "Sys.Audit");
    let source = context.param("source").unwrap_or("archive");
    let start = context.number("start").unwrap_or(0) as usize;
    let limit = context.number("limit").unwrap_or(50) as usize;
    let since = context.number("since").map(|time| time as i64);
    context.dc.with(|state| {
        let wanted = |task: &&Task| {
            task.host == host
                && (all_seen || task.who == context.who)
                && match source {
                    "archive" => task.end.is_some(),
                    "active" => task.end.is_none(),
                    _ => true,
                }
                && context.param("vmid").is_none_or(|vmid| vmid == task.id)
                && context.param("typefilter").is_none_or(|kind| kind == task.kind)
                && context.param("userfilter").is_none_or(|user| task.who.id().contains(user))
                && since.is_none_or(|since| task.start >= since)
                && (!context.flag("errors")
                    || task.end.as_ref().is_some_and(|(_, end)| end != "OK" && !end.starts_with("WARNINGS")))
        };
        let found: Vec<&Task> = state.tasks.newest().filter(wanted).collect();
        let page = found.iter().skip(start).take(limit).map(|task| list_row(task)).collect();
        Ok(Data { data: Value::Array(page), total: Some(found.len()) })
    })
}

/// `GET /cluster/tasks`: of each host what runs, filled up to 25 with what ended last.
pub(super) fn cluster_list(context: &Context) -> Answer {
    verify(&context.params, &[])?;
    let all_seen = context.may("/", "Sys.Audit");
    // Proxmox compares the task's user with the caller's whole id, so that a token never sees its own tasks here.
    let seen = |task: &&Task| all_seen || task.who.user == context.who.id();
    context.dc.with(|state| {
        let mut found = Vec::new();
        for host in state.hosts.keys() {
            let here = || state.tasks.newest().filter(|task| task.host == *host);
            let running: Vec<&Task> = here().filter(|task| task.end.is_none()).collect();
            let room = 25_usize.saturating_sub(running.len());
            let ended = here().filter(|task| task.end.is_some()).take(room);
            found.extend(running.iter().copied().chain(ended).filter(seen).map(list_row));
        }
        rows(found)
    })
}

fn may_see(context: &Context, host: &str, task: &Task, privilege: &str) -> Result<(), Fail> {
    if task.who == context.who { Ok(()) } else { context.need(&format!("/nodes/{host}"), &[privilege]) }
}

/// `GET /nodes/{node}/tasks/{upid}/status`
pub(super) fn status(context: &Context, host: &str, upid: &str) -> Answer {
    check_upid(upid)?;
    let task = context.dc.with(|state| state.tasks.get(upid).filter(|task| task.host == host).cloned());
    let task = task.ok_or_else(|| Fail::parameter("upid", "no such task"))?;
    may_see(context, host, &task, "Sys.Audit")?;
    let mut row = row(&task, true);
    match &task.end {
        Some((_, end)) => {
            row["status"] = "stopped".into();
            row["exitstatus"] = end.clone().into();
        }
        None => row["status"] = "running".into(),
    }
    Ok(Data::from(row))
}

/// `GET /nodes/{node}/tasks/{upid}/log`
pub(super) fn log(context: &Context, host: &str, upid: &str) -> Answer {
    verify(
        &context.params,
        &[
            opt("start", Kind::Int(0, i64::MAX)),
            opt("limit", Kind::Int(0, i64::MAX)),
            opt("download", Kind::Bool),
        ],
    )?;
    check_upid(upid)?;
    let task = context.dc.with(|state| state.tasks.get(upid).filter(|task| task.host == host).cloned());
    let Some(task) = task else {
        // Proxmox answers 200 with the reason as the only line.
        let path = format!(
            "/var/log/pve/tasks/{}/{upid}",
            upid.split(':').nth(4).map_or("", |time| &time[time.len() - 1..])
        );
        let line =
            json!({ "n": 1, "t": format!("unable to open file '{path}' - No such file or directory") });
        return Ok(Data { data: json!([line]), total: Some(1) });
    };
    may_see(context, host, &task, "Sys.Audit")?;
    let start = context.number("start").unwrap_or(0) as usize;
    let limit = match context.number("limit").unwrap_or(50) as usize {
        0 => usize::MAX,
        limit => limit,
    };
    let lines = task.log.iter().enumerate().skip(start).take(limit);
    let lines: Vec<Value> = lines.map(|(index, text)| json!({ "n": index + 1, "t": text })).collect();
    Ok(Data { data: Value::Array(lines), total: Some(task.log.len()) })
}

/// `DELETE /nodes/{node}/tasks/{upid}`
pub(super) fn abort(context: &Context, host: &str, upid: &str) -> Answer {
    check_upid(upid)?;
    let task = context.dc.with(|state| state.tasks.get(upid).filter(|task| task.host == host).cloned());
    let task = task.ok_or_else(|| Fail::parameter("upid", "no such task"))?;
    may_see(context, host, &task, "Sys.Modify")?;
    context.dc.abort_worker(upid);
    Data::null()
}
