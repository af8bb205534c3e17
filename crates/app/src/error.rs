//! What keeps a use case from being carried out.

use daedal_engine::NotInFactory;
use daedal_planner::{Finding, PlanError, Unfit};

use crate::approval::Refusal;

/// Why a use case ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine could not look or act.
    #[error(transparent)]
    Engine(#[from] daedal_engine::Error),
    /// The store could not be read or written.
    #[error(transparent)]
    Store(#[from] daedal_store::Error),
    /// The planner refuses.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The checker refuses.
    #[error("the plan breaks a safety rule and will not be executed")]
    Unsafe(Vec<Finding>),
    /// A saved plan is for something else than an apply.
    #[error(
        "the saved plan destroys or removes something; `apply` executes only plans that create or change a cluster"
    )]
    NotAnApply,
    /// A saved plan is no longer right.
    #[error("the saved plan no longer fits and was not executed")]
    NoLongerFits(#[source] Unfit),
    /// The Image Factory cannot build the image.
    #[error("the Image Factory at {factory} cannot build the image")]
    NotBuildable {
        /// Its URL.
        factory: String,
        /// What it lacks.
        missing: Vec<NotInFactory>,
    },
    /// The declared token is none.
    #[error(transparent)]
    Token(#[from] daedal_proxmox::TokenError),
    /// No client of the declared Proxmox can be made.
    #[error(transparent)]
    Client(#[from] daedal_proxmox::BuildError),
    /// No client of the declared Image Factory can be made.
    #[error(transparent)]
    Factory(#[from] daedal_image_factory::Error),
    /// Somebody who had to agree did not.
    #[error("the plan was not approved")]
    Refused(Refusal),
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
