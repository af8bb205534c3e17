//! Asks on the terminal what has to be answered before a plan is executed, and says why one was not.

use daedal_app::{Answers, Approver, Error, Intent, Question, Refusal};
use daedal_planner::{Level, Plan, Unseen, World};

use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::part::{self, Stage};
use crate::session::{Session, failure};
use crate::words::count;

/// What to do where nobody answers.
pub struct Otherwise<'a> {
    /// The command line that says the same again.
    pub again: &'a str,
    /// How to do without the question whether to execute the plan.
    pub yes: &'a str,
}

/// Has a plan approved: by what was answered in advance, or on the terminal.
pub async fn approve(
    session: &Session,
    intent: &Intent<'_>,
    world: &World,
    plan: &Plan,
    answers: &Answers,
    otherwise: &Otherwise<'_>,
) -> Outcome<()> {
    // Whoever is asked about one cluster holds up no other that is being changed.
    part::all(Stage::Planned).await;
    let approved = session.approve(intent, world, plan, answers, &mut Terminal).await;
    approved.map_err(|error| match &error {
        Error::Refused(refusal) => otherwise.refused(refusal, plan),
        other => failure(other),
    })?;
    part::all(Stage::Approved).await;
    Ok(())
}

/// Whoever sits at the terminal, if anybody does.
struct Terminal;

impl Approver for Terminal {
    fn agrees(&mut self, question: &Question, plan: &Plan) -> Option<bool> {
        match question {
            Question::Generation(unseen) => {
                let (words, number) = (daedal_words::unseen(unseen), unseen.newest.number);
                console::agrees(&format!("Note that {words}. Go on from generation {number}?"))
            }
            _ => console::agrees(&whether(plan)),
        }
    }

    fn says(&mut self, question: &Question, plan: &Plan) -> Option<String> {
        console::ask(&match question {
            Question::Vms => {
                "No secrets prove that these VMs are yours. Type how many VMs the plan destroys:".to_owned()
            }
            Question::Templates => {
                "No secrets prove that these templates are yours. Type how many they are:".to_owned()
            }
            Question::Volumes => {
                "No secrets prove that these volumes are yours. Type how many they are:".to_owned()
            }
            _ => by_name(plan),
        })
    }
}

impl Otherwise<'_> {
    fn refused(&self, refusal: &Refusal, plan: &Plan) -> Failure {
        let cluster = &plan.cluster;
        let destroyed = |exit, why: &str| Failure::new(exit, format!("nothing was destroyed: {why}"));
        let done = |exit, why: &str| Failure::new(exit, format!("nothing was done: {why}"));
        match refusal {
            Refusal::OtherGeneration { onto, newest } => {
                let is =
                    newest.map_or_else(|| "at none".to_owned(), |number| format!("at generation {number}"));
                done(Exit::Failed, &format!("the cluster is not at generation {onto}, but {is}"))
                    .hint("Look at the plan again: somebody applied meanwhile.")
            }
            Refusal::No(Question::Generation(unseen)) => {
                self.not_gone_on(Exit::Failed, unseen, "the answer was not yes")
            }
            Refusal::Unanswered(Question::Generation(unseen)) => {
                self.not_gone_on(Exit::Usage, unseen, NOBODY)
            }
            Refusal::No(_) => done(Exit::Failed, "the answer was not yes"),
            Refusal::Unanswered(Question::Execute) => done(Exit::Usage, NOBODY).hint(self.yes),
            Refusal::Unanswered(Question::Name) => {
                destroyed(Exit::Usage, NOBODY).hint(format!("Give --confirm {cluster}"))
            }
            Refusal::Unanswered(Question::Vms) => destroyed(Exit::Usage, NOBODY)
                .hint("Give --without-secrets=NUMBER, the number of VMs that the plan destroys"),
            Refusal::Unanswered(Question::Templates) => {
                destroyed(Exit::Usage, NOBODY).hint("Give --without-secrets=NUMBER, the number of templates")
            }
            Refusal::Unanswered(Question::Volumes) => {
                destroyed(Exit::Usage, NOBODY).hint("Give --without-secrets=NUMBER, the number of volumes")
            }
            Refusal::Wrong(Question::Vms, given) => {
                destroyed(Exit::Failed, &format!("the plan does not destroy {given} VMs"))
            }
            Refusal::Wrong(Question::Templates | Question::Volumes, _) => {
                destroyed(Exit::Failed, "that is not their number")
            }
            Refusal::Wrong(_, given) => {
                destroyed(Exit::Failed, &format!("the cluster is called {cluster}, not {given}"))
            }
        }
    }

    fn not_gone_on(&self, exit: Exit, unseen: &Unseen, why: &str) -> Failure {
        let (words, number, again) = (daedal_words::unseen(unseen), unseen.newest.number, self.again);
        Failure::new(exit, format!("nothing was done: {words}, and {why}"))
            .hint(format!("If this inventory has that change, or should undo it: {again} --onto {number}"))
    }
}

const NOBODY: &str = "there is no terminal to ask on";

/// What a plan comes to, for beside the question: a long plan has left the screen by then.
fn in_short(plan: &Plan) -> String {
    let noted = |level, word: &str| {
        let noted = plan.notes.iter().filter(|note| note.level == level).count();
        (noted > 0).then(|| format!("{} above", count(noted, word)))
    };
    let parts = [
        Some(daedal_words::summary(plan)),
        noted(Level::Problem, "problem"),
        noted(Level::Warning, "warning"),
    ];
    let comes_to = format!("{}.", parts.into_iter().flatten().collect::<Vec<_>>().join("; "));
    let text: Vec<String> = daedal_words::left_out(plan).into_iter().chain([comes_to]).collect();
    console::wrapped(&text.join(" "), 0)
}

fn whether(plan: &Plan) -> String {
    format!("{}\nDo this to cluster {}?", in_short(plan), plan.cluster)
}

fn by_name(plan: &Plan) -> String {
    format!("{}\nType the cluster's name ({}) to destroy it:", in_short(plan), plan.cluster)
}

/// Asks whether to execute what is left, after part of it was done.
pub fn consent_to_rest(plan: &Plan, otherwise: &str) -> Outcome<()> {
    agreed(&whether(plan), "the rest was not done", otherwise)
}

/// Asks whether to go on; where there is no terminal to ask on, says how to do without.
pub fn agreed(question: &str, undone: &str, otherwise: &str) -> Outcome<()> {
    match console::agrees(question) {
        Some(true) => Ok(()),
        Some(false) => Err(Failure::new(Exit::Failed, format!("{undone}: the answer was not yes"))),
        None => Err(Failure::new(Exit::Usage, format!("{undone}: {NOBODY}")).hint(otherwise)),
    }
}

#[cfg(test)]
mod tests {
    use daedal_inventory::Role;
    use daedal_planner::{Advice, Fate, Note, PlannedNode, Purpose};

    use super::*;

    /// A plan with a problem, two warnings and a node that is left out.
    fn plan(purpose: Purpose) -> Plan {
        let node = |name: &str, role, fate| PlannedNode {
            name: name.into(),
            role: Some(role),
            vmid: 300,
            host: None,
            address: String::new(),
            cores: 1,
            memory: 1,
            disk: 1,
            fate,
        };
        let lost = if purpose == Purpose::Apply { Fate::Create } else { Fate::Destroy };
        let note = |level| Note { level, advice: Advice::NoApiServer { node: "worker-1".into() } };
        let plan: serde_json::Value = serde_json::json!({
            "format": 1, "purpose": purpose, "cluster": "home", "uuid": "00000000-0000-0000-0000-000000000000",
            "intent": "", "basis": "", "steps": [], "hosts": [], "notes": [],
            "quorum": {"before": 0, "lowest": 0, "after": 0},
        });
        Plan {
            nodes: vec![
                node("cp-1", Role::ControlPlane, lost),
                node("worker-1", Role::Worker, Fate::Blocked),
                node("worker-2", Role::Worker, lost),
            ],
            notes: [Level::Problem, Level::Warning, Level::Warning].map(note).into(),
            ..serde_json::from_value(plan).unwrap()
        }
    }

    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_question_names_what_was_noted_and_what_is_left_out() {
        assert_eq!(
            words(&whether(&plan(Purpose::Apply))),
            "apply leaves out worker-1 (see Problems). The cluster gets 1 of 2 workers. 2 to create, 0 to change, 0 to destroy, \
             1 blocked; 1 problem above; 2 warnings above. Do this to cluster home?"
        );
        assert_eq!(
            words(&by_name(&plan(Purpose::Destroy))),
            "0 to create, 0 to change, 2 to destroy, 1 blocked; 1 problem above; 2 warnings above. Type the cluster's name \
             (home) to destroy it:"
        );
        let quiet = Plan { notes: Vec::new(), nodes: Vec::new(), ..plan(Purpose::Apply) };
        assert_eq!(words(&in_short(&quiet)), "0 to create, 0 to change, 0 to destroy.");
    }
}
