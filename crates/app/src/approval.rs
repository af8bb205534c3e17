//! What has to be answered before a plan is executed, and by whom it is.

use daedal_planner::{Fate, Level, Phase, Plan, Unseen, World};

use crate::error::Error;
use crate::intent::Intent;
use crate::session::Session;

/// What somebody has to answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether to go on from what somebody else applied last.
    Generation(Unseen),
    /// Whether to execute the plan.
    Execute,
    /// The name of the cluster that is destroyed.
    Name,
    /// How many VMs the plan destroys, of somebody without the secrets that prove whose they are.
    Vms,
    /// How many templates the plan destroys, of the same.
    Templates,
    /// How many volumes the plan deletes, of the same.
    Volumes,
}

/// Somebody who answers.
pub trait Approver: Send {
    /// Whether they agree to [`Question::Generation`] or [`Question::Execute`]; none if there is nobody to ask.
    fn agrees(&mut self, question: &Question, plan: &Plan) -> Option<bool>;
    /// What they say to the other questions; none if there is nobody to ask.
    fn says(&mut self, question: &Question, plan: &Plan) -> Option<String>;
}

/// What was answered in advance: by the flags of a command, or in a request.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// The plan may be executed.
    pub yes: bool,
    /// The generation to go on from.
    pub onto: Option<u32>,
    /// The name of the cluster that is destroyed.
    pub name: Option<String>,
    /// How many VMs or templates go.
    pub number: Option<usize>,
}

/// Why a plan is not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster is not at the generation that was given in advance.
    OtherGeneration {
        /// The one that was given.
        onto: u32,
        /// The newest.
        newest: Option<u32>,
    },
    /// There was nobody to ask.
    Unanswered(Question),
    /// The answer was not yes.
    No(Question),
    /// The answer was another one than it takes.
    Wrong(Question, String),
}

/// Whether part of the intent cannot be reached by this plan.
pub fn has_problems(plan: &Plan) -> bool {
    plan.notes.iter().any(|note| note.level == Level::Problem)
}

impl Session {
    /// Has a plan approved that is not empty: asks, in this order, what was not answered in advance.
    pub async fn approve(
        &self,
        intent: &Intent<'_>,
        world: &World,
        plan: &Plan,
        answers: &Answers,
        approver: &mut dyn Approver,
    ) -> Result<(), Error> {
        let mut approval = Approval { plan, answers, approver };
        match intent {
            // It changes nothing but files of its own, which every later phase writes again.
            Intent::Phase(Phase::Generate) => Ok(()),
            Intent::Phase(_) => {
                if plan.touches_cluster() {
                    approval.generation(world)?;
                }
                Ok(approval.execute()?)
            }
            Intent::Apply | Intent::Saved(_) => {
                match plan.touches_cluster() {
                    true => approval.generation(world)?,
                    false => self.agree(world, plan).await?,
                }
                match intent {
                    // That was asked when it was saved.
                    Intent::Saved(_) => Ok(()),
                    _ => Ok(approval.execute()?),
                }
            }
            Intent::Destroy { .. } => {
                // A store without anything cannot know what was applied; the number of VMs is asked for then.
                let asks = intent.is_proven() || world.known.is_some();
                if asks {
                    approval.generation(world)?;
                }
                if !intent.is_proven() {
                    let vms = plan.nodes.iter().filter(|node| node.fate == Fate::Destroy).count();
                    approval.number(Question::Vms, vms)?;
                }
                approval.name()?;
                match asks {
                    true => Ok(self.engine.acknowledge(world).await?),
                    false => Ok(()),
                }
            }
            Intent::Remove(_) => {
                approval.generation(world)?;
                approval.execute()?;
                // Only who goes on to the end agrees: a no to the last question takes back what was said before.
                Ok(self.engine.acknowledge(world).await?)
            }
            // What guards a VM, its mark and what nobody uses say nothing of what is declared: the next apply asks again.
            Intent::Mark(_)
            | Intent::Firewall(_)
            | Intent::Ha { .. }
            | Intent::BackupJob(_)
            | Intent::Restore(_) => {
                approval.generation(world)?;
                Ok(approval.execute()?)
            }
            Intent::PruneTemplates(_) | Intent::PruneVolumes(_) => {
                // A store without anything cannot know what was applied; how much goes is asked for then.
                if !plan.without_secrets || world.known.is_some() {
                    approval.generation(world)?;
                }
                approval.execute()?;
                let question = match intent {
                    Intent::PruneVolumes(_) => Question::Volumes,
                    _ => Question::Templates,
                };
                match plan.without_secrets {
                    true => Ok(approval.number(question, plan.steps.len())?),
                    false => Ok(()),
                }
            }
        }
    }

    /// Where the plan changes nothing and leaves no difference, this inventory says the same as whatever somebody else applied: the
    /// store knows it from now on.
    pub async fn agree(&self, world: &World, plan: &Plan) -> Result<(), Error> {
        if has_problems(plan) || plan.unseen || !plan.differences.is_empty() {
            return Ok(());
        }
        Ok(self.engine.acknowledge(world).await?)
    }
}

struct Approval<'a> {
    plan: &'a Plan,
    answers: &'a Answers,
    approver: &'a mut dyn Approver,
}

impl Approval<'_> {
    /// Lets a change begin only where the store knows the newest generation, or somebody says that they go on from it: by its
    /// number in advance, or by an answer. A general yes is not enough.
    fn generation(&mut self, world: &World) -> Result<(), Refusal> {
        let newest = world.applied.iter().map(|one| one.number).max();
        match (self.answers.onto, world.unseen()) {
            (Some(onto), _) if newest != Some(onto) => Err(Refusal::OtherGeneration { onto, newest }),
            (Some(_), _) | (None, None) => Ok(()),
            (None, Some(unseen)) => self.agreed(Question::Generation(unseen)),
        }
    }

    fn execute(&mut self) -> Result<(), Refusal> {
        if self.answers.yes { Ok(()) } else { self.agreed(Question::Execute) }
    }

    fn agreed(&mut self, question: Question) -> Result<(), Refusal> {
        match self.approver.agrees(&question, self.plan) {
            Some(true) => Ok(()),
            Some(false) => Err(Refusal::No(question)),
            None => Err(Refusal::Unanswered(question)),
        }
    }

    fn name(&mut self) -> Result<(), Refusal> {
        let (given, cluster) = (self.answers.name.clone(), self.plan.cluster.clone());
        self.said(Question::Name, given, &cluster)
    }

    fn number(&mut self, question: Question, number: usize) -> Result<(), Refusal> {
        let given = self.answers.number.map(|number| number.to_string());
        self.said(question, given, &number.to_string())
    }

    fn said(&mut self, question: Question, given: Option<String>, right: &str) -> Result<(), Refusal> {
        let Some(given) = given.or_else(|| self.approver.says(&question, self.plan)) else {
            return Err(Refusal::Unanswered(question));
        };
        if given == right { Ok(()) } else { Err(Refusal::Wrong(question, given)) }
    }
}

#[cfg(test)]
mod tests {
    use daedal_inventory::{Source, load};
    use daedal_planner::{Generation, plan_destroy};

    use super::*;

    /// Somebody who answers the same to everything.
    struct Someone(Option<&'static str>);

    impl Approver for Someone {
        fn agrees(&mut self, _: &Question, _: &Plan) -> Option<bool> {
            self.0.map(|answer| answer == "yes")
        }

        fn says(&mut self, _: &Question, _: &Plan) -> Option<String> {
            self.0.map(str::to_owned)
        }
    }

    const NOBODY: Someone = Someone(None);

    fn plan() -> Plan {
        let text = include_str!("../../../examples/home/cluster.yaml").to_owned();
        let none = |_: &std::path::Path| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
        let cluster = load(&[Source { name: "cluster.yaml".into(), text }], &none).unwrap().cluster;
        plan_destroy(&cluster, &World::default()).unwrap()
    }

    /// A cluster whose newest generation this store has not seen.
    fn unseen() -> World {
        let third = Generation { number: 3, by: "them@mill".into(), at: "2026-01-01T00:00:00Z".into() };
        World { applied: [third].into_iter().collect(), ..World::default() }
    }

    fn ask<T>(answers: &Answers, mut someone: Someone, what: impl FnOnce(&mut Approval<'_>) -> T) -> T {
        what(&mut Approval { plan: &plan(), answers, approver: &mut someone })
    }

    #[test]
    fn a_generation_that_the_store_has_not_seen_takes_more_than_a_general_yes() {
        let world = unseen();
        let question = Question::Generation(world.unseen().unwrap());
        let yes = Answers { yes: true, ..Answers::default() };
        let onto = |number| Answers { onto: Some(number), ..Answers::default() };
        let go_on = |answers: &Answers, someone| ask(answers, someone, |asked| asked.generation(&world));
        assert_eq!(go_on(&yes, NOBODY), Err(Refusal::Unanswered(question.clone())));
        assert_eq!(go_on(&yes, Someone(Some("no"))), Err(Refusal::No(question)));
        assert_eq!(go_on(&yes, Someone(Some("yes"))), Ok(()));
        assert_eq!(go_on(&onto(3), NOBODY), Ok(()));
        let other = Refusal::OtherGeneration { onto: 2, newest: Some(3) };
        assert_eq!(go_on(&onto(2), NOBODY), Err(other));
        let known = World::default();
        assert_eq!(ask(&yes, NOBODY, |asked| asked.generation(&known)), Ok(()));
    }

    #[test]
    fn a_yes_in_advance_is_an_answer_and_a_name_has_to_be_the_right_one() {
        let yes = Answers { yes: true, ..Answers::default() };
        let nothing = Answers::default();
        assert_eq!(ask(&yes, NOBODY, |asked| asked.execute()), Ok(()));
        assert_eq!(
            ask(&nothing, NOBODY, |asked| asked.execute()),
            Err(Refusal::Unanswered(Question::Execute))
        );
        assert_eq!(ask(&yes, NOBODY, |asked| asked.name()), Err(Refusal::Unanswered(Question::Name)));
        assert_eq!(ask(&nothing, Someone(Some("home")), |asked| asked.name()), Ok(()));
        let named = Answers { name: Some("other".into()), ..Answers::default() };
        let wrong = Refusal::Wrong(Question::Name, "other".into());
        assert_eq!(ask(&named, Someone(Some("home")), |asked| asked.name()), Err(wrong));
    }

    #[test]
    fn whoever_has_no_secrets_says_how_many_go() {
        let given = |number| Answers { number: Some(number), ..Answers::default() };
        let vms = |answers: &Answers| ask(answers, NOBODY, |asked| asked.number(Question::Vms, 5));
        assert_eq!(vms(&given(5)), Ok(()));
        assert_eq!(vms(&given(4)), Err(Refusal::Wrong(Question::Vms, "4".into())));
        assert_eq!(vms(&Answers::default()), Err(Refusal::Unanswered(Question::Vms)));
    }
}
