//! Who a run is for, as the environment says: the person behind a pipeline, or whoever is logged in here.

use daedal_inventory::visible;

use crate::operator;
use crate::session::user_name;

/// The person and, of a pipeline, where its log is.
pub fn approver() -> String {
    named(&|name| operator::variable(name).map(|value| value.to_string_lossy().into_owned()))
        .unwrap_or_else(user_name)
}

fn named(variable: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let with_log = |who: String, log: Option<String>| match log {
        Some(log) => format!("{who} ({log})"),
        None => who,
    };
    let said = if variable("GITHUB_ACTIONS").is_some() {
        let log = || {
            let parts = ["GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_RUN_ID"].map(variable);
            let [Some(server), Some(repository), Some(run)] = parts else { return None };
            Some(format!("{server}/{repository}/actions/runs/{run}"))
        };
        // Whoever ran it again, not whoever pushed.
        let who = variable("GITHUB_TRIGGERING_ACTOR").or_else(|| variable("GITHUB_ACTOR"))?;
        with_log(who, log())
    } else if variable("GITLAB_CI").is_some() {
        with_log(variable("GITLAB_USER_LOGIN")?, variable("CI_JOB_URL"))
    } else {
        return None;
    };
    // Somebody else chose these words.
    Some(visible(&said).chars().take(300).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(variables: &[(&str, &str)]) -> Option<String> {
        named(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_person_behind_a_pipeline_is_named() {
        let github = [
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_ACTOR", "ann"),
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "team/clusters"),
            ("GITHUB_RUN_ID", "42"),
        ];
        assert_eq!(from(&github).unwrap(), "ann (https://github.com/team/clusters/actions/runs/42)");
        let gitlab = [("GITLAB_CI", "true"), ("GITLAB_USER_LOGIN", "bob")];
        assert_eq!(from(&gitlab).unwrap(), "bob");
        // A variable alone does not make a pipeline.
        assert_eq!(from(&[("GITHUB_ACTOR", "eve")]), None);
    }
}
