//! Accounts: what a plan does to one, what it never does, and laws about both.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::*;

fn grant(path: &str, role: &'static str, privileges: &[&'static str]) -> Grant {
    let privileges = privileges.iter().copied().collect();
    Grant { path: path.to_owned(), role, privileges, propagate: true, loss: None }
}

fn account() -> Account {
    Account {
        user: "daedal@pve".into(),
        token: "cli".into(),
        comment: "Talos clusters".into(),
        pool: Some("talos".into()),
        grants: vec![
            grant("/pool/talos", "DaedalVM", &["VM.Allocate", "VM.Audit"]),
            grant("/storage/local", "DaedalImages", &["Datastore.Allocate"]),
            grant("/storage/nas", "DaedalImages", &["Datastore.Allocate"]),
            Grant { propagate: false, ..grant("/", "DaedalTasks", &["Sys.Audit"]) },
        ],
    }
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

/// What others have.
fn theirs() -> AccountView {
    let role = |names: &[&str], built_in| RoleView { privileges: set(names), built_in };
    AccountView {
        pools: set(&["backups"]),
        roles: [("Administrator", role(&["Sys.Modify"], true)), ("Ops", role(&["VM.Audit"], false))]
            .map(|(name, role)| (name.to_owned(), role))
            .into(),
        users: [("root@pam", ""), ("ann@pve", "on call")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        tokens: BTreeSet::new(),
        acl: BTreeSet::from([AclView {
            path: "/".into(),
            role: "Administrator".into(),
            id: "ann@pve".into(),
            propagate: true,
        }]),
    }
}

fn made(account: &Account, view: &AccountView, secret: Secret) -> AccountPlan {
    let plan = plan_account(account, view, secret).unwrap();
    assert_eq!(check_account(account, view, secret, &plan), [], "{plan:#?}");
    plan
}

/// What Proxmox makes of a step; panics where it would refuse.
fn carry_out(view: &mut AccountView, step: &AccountStep) {
    match step {
        AccountStep::CreatePool { pool, .. } => assert!(view.pools.insert(pool.clone())),
        AccountStep::CreateRole { role, privileges } => {
            let made = RoleView { privileges: privileges.clone(), built_in: false };
            assert_eq!(view.roles.insert(role.clone(), made), None);
        }
        AccountStep::ChangeRole { role, privileges, before } => {
            let role = view.roles.get_mut(role).unwrap();
            assert!(!role.built_in && role.privileges == *before);
            role.privileges = privileges.clone();
        }
        AccountStep::CreateUser { user, comment } => {
            assert_eq!(view.users.insert(user.clone(), comment.clone()), None);
        }
        AccountStep::CreateToken { user, token, replaces, .. } => {
            assert!(view.users.contains_key(user));
            assert_eq!(view.tokens.insert(token.clone()), !replaces);
            view.acl.retain(|entry| entry.id != format!("{user}!{token}"));
        }
        AccountStep::SetAcl { path, role, id, propagate, holder } => {
            let known = match holder {
                Holder::User => view.users.contains_key(id),
                Holder::Token => view.tokens.contains(id.split_once('!').unwrap().1),
            };
            assert!(known && view.roles.contains_key(role), "{step:?}");
            let entry =
                AclView { path: path.clone(), role: role.clone(), id: id.clone(), propagate: *propagate };
            view.acl.retain(|other| {
                (&other.path, &other.role, &other.id) != (&entry.path, &entry.role, &entry.id)
            });
            view.acl.insert(entry);
        }
    }
}

#[test]
fn an_account_is_made_once() {
    let (account, mut view) = (account(), theirs());
    let plan = made(&account, &view, Secret::Unknown);
    // A pool, three roles, user, token, and four grants to both.
    assert_eq!(plan.steps.len(), 1 + 3 + 1 + 1 + 4 * 2, "{plan:#?}");
    assert_eq!(plan.notes, []);
    plan.steps.iter().for_each(|step| carry_out(&mut view, step));
    assert!(made(&account, &view, Secret::Known).is_empty());
    // Whoever does not have the secret takes the token away from nobody.
    let error = plan_account(&account, &view, Secret::Unknown).unwrap_err();
    assert_eq!(error, PlanError::TokenExists { id: "daedal@pve!cli".into() });
    // Re-created, it has to be given everything again; its user has it.
    let plan = made(&account, &view, Secret::Rotate);
    let replaces = |step: &AccountStep| matches!(step, AccountStep::CreateToken { replaces: true, .. });
    assert!(plan.steps.len() == 1 + 4 && replaces(&plan.steps[0]), "{plan:#?}");
}

#[test]
fn what_differs_is_put_right_and_told() {
    let (account, mut view) = (account(), theirs());
    made(&account, &view, Secret::Unknown).steps.iter().for_each(|step| carry_out(&mut view, step));
    view.roles.get_mut("DaedalVM").unwrap().privileges = set(&["VM.Audit", "VM.Console"]);
    view.acl = view.acl.into_iter().map(|entry| AclView { propagate: true, ..entry }).collect();
    let plan = made(&account, &view, Secret::Known);
    let [
        AccountStep::ChangeRole { privileges, before, .. },
        AccountStep::SetAcl { .. },
        AccountStep::SetAcl { .. },
    ] = &plan.steps[..]
    else {
        panic!("{plan:#?}")
    };
    assert_eq!((privileges, before), (&set(&["VM.Allocate", "VM.Audit"]), &set(&["VM.Audit", "VM.Console"])));
    view.roles.get_mut("DaedalVM").unwrap().built_in = true;
    let error = plan_account(&account, &view, Secret::Known).unwrap_err();
    assert_eq!(error, PlanError::BuiltInRole { role: "DaedalVM".into() });
}

#[test]
fn a_user_that_others_made_is_warned_of() {
    let account = Account { user: "ann@pve".into(), ..account() };
    let plan = made(&account, &theirs(), Secret::Unknown);
    assert_eq!(plan.notes, [AccountNote::SharedUser { user: "ann@pve".into() }]);
    assert!(!plan.steps.iter().any(|step| matches!(step, AccountStep::CreateUser { .. })));
}

/// Damages one step; none if this damage does not apply.
fn damage(plan: &AccountPlan, kind: u8, at: usize) -> Option<(&'static str, AccountPlan)> {
    let mut bad = plan.clone();
    let at = at % bad.steps.len();
    let what = match (kind % 13, &mut bad.steps[at]) {
        (0, _) => {
            bad.token = "root@pam!x".into();
            "another account"
        }
        (1, step) => {
            let twin = step.clone();
            bad.steps.push(twin);
            "twice"
        }
        (2, AccountStep::CreateRole { privileges, .. } | AccountStep::ChangeRole { privileges, .. }) => {
            privileges.insert("Sys.Modify".into());
            "a role that allows more"
        }
        (3, AccountStep::CreateRole { role, .. } | AccountStep::ChangeRole { role, .. }) => {
            *role = "Ops".into();
            "a role of others"
        }
        (4, AccountStep::ChangeRole { before, .. }) => {
            before.insert("Sys.Modify".into());
            "a role as nobody saw it"
        }
        (5, AccountStep::CreateUser { user, .. }) => {
            *user = "eve@pve".into();
            "another user"
        }
        (6, AccountStep::CreateToken { user, .. }) => {
            *user = "ann@pve".into();
            "a token of others"
        }
        (7, AccountStep::CreateToken { replaces, .. }) => {
            *replaces = !*replaces;
            "a token that is or is not there"
        }
        (8, AccountStep::SetAcl { id, .. }) => {
            *id = "ann@pve".into();
            "somebody else"
        }
        (9, AccountStep::SetAcl { path, .. }) => {
            *path = "/vms".into();
            "another path"
        }
        (10, AccountStep::SetAcl { propagate, .. }) => {
            *propagate = !*propagate;
            "below the path"
        }
        (11, AccountStep::SetAcl { role, .. }) => {
            *role = "Administrator".into();
            "another role"
        }
        (12, AccountStep::SetAcl { .. }) if at > 0 => {
            let needed = |step: &AccountStep| {
                !matches!(step, AccountStep::SetAcl { .. } | AccountStep::CreatePool { .. })
            };
            let gone = bad.steps.iter().position(needed)?;
            let AccountStep::SetAcl { role: given, holder, .. } = &plan.steps[at] else { return None };
            let needs = match &bad.steps[gone] {
                AccountStep::CreateRole { role, .. } | AccountStep::ChangeRole { role, .. } => role == given,
                AccountStep::CreateUser { .. } => *holder == Holder::User,
                AccountStep::CreateToken { replaces, .. } => *holder == Holder::Token && !replaces,
                _ => false,
            };
            if !needs {
                return None;
            }
            bad.steps.remove(gone);
            "before what it needs"
        }
        _ => return None,
    };
    Some((what, bad))
}

proptest! {
    #![proptest_config(super::config())]

    /// Whatever is there already of an account, a plan passes the checker, leaves everything of others as it is, and leads to the
    /// same account, after which there is nothing to do. Damaged in one place, it does not pass.
    #[test]
    fn accounts_come_out_the_same(
        there in any::<u16>(),
        propagates in any::<bool>(),
        rotate in any::<bool>(),
        kind in any::<u8>(),
        at in any::<prop::sample::Index>(),
    ) {
        let (account, mut view) = (account(), theirs());
        // Some of the steps were done before, perhaps by an older version.
        let whole = made(&account, &view, Secret::Unknown);
        for (bit, step) in whole.steps.iter().enumerate().filter(|(bit, _)| there & (1 << bit) != 0) {
            let orphan = match step {
                AccountStep::CreateToken { user, .. } => !view.users.contains_key(user),
                AccountStep::SetAcl { role, id, .. } => {
                    let token = id.split_once('!').is_some_and(|(_, token)| !view.tokens.contains(token));
                    let user = !id.contains('!') && !view.users.contains_key(id);
                    !view.roles.contains_key(role) || token || user
                }
                _ => false,
            };
            if !orphan {
                carry_out(&mut view, step);
            }
            if let (AccountStep::CreateRole { role, .. }, true) = (step, bit % 2 == 1) {
                view.roles.get_mut(role).unwrap().privileges.insert("VM.Old".into());
            }
        }
        if propagates {
            view.acl = view.acl.into_iter().map(|entry| AclView { propagate: true, ..entry }).collect();
        }
        let secret = match (view.tokens.contains("cli"), rotate) {
            (true, true) => Secret::Rotate,
            (true, false) => Secret::Known,
            (false, _) => Secret::Unknown,
        };
        let before = view.clone();
        let plan = made(&account, &view, secret);
        if !plan.is_empty()
            && let Some((what, bad)) = damage(&plan, kind, at.index(plan.steps.len()))
        {
            prop_assert!(!check_account(&account, &view, secret, &bad).is_empty(), "{what}: {bad:#?}");
        }
        plan.steps.iter().for_each(|step| carry_out(&mut view, step));
        prop_assert!(made(&account, &view, Secret::Known).is_empty());
        let mut wanted = theirs();
        whole.steps.iter().for_each(|step| carry_out(&mut wanted, step));
        prop_assert_eq!(&view, &wanted);
        prop_assert!(before.pools.is_subset(&view.pools) && before.tokens.is_subset(&view.tokens));
    }
}
