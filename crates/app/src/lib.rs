//! What Daedal does for its users, without a terminal: the use cases that the binary, and whatever comes beside it, are made of.
//!
//! A [`Session`] is one cluster. Whatever is to become of it is an [`Intent`], and always takes the same way:
//!
//! ```text
//! let _lock  = lock(&session.store, &owner).await?;         // whoever changes anything is alone
//! let world  = session.look(&intent).await?;                // as much as the intent is about
//! let plan   = session.plan(&intent, &world)?;              // judged by the checker
//! session.approve(&intent, &world, &plan, &answers, &mut approver).await?;
//! let report = session.run(&world, &plan, &run).await?;     // events tell what goes on
//! let end    = session.destroyed(&world, &plan).await?;     // or removed, …: what a last look shows
//! ```
//!
//! Invariants: it reads no environment and prints nothing. What it finds is typed; whoever shows it makes the words.

mod addons;
mod approval;
mod charts;
mod connect;
pub mod dhcp;
mod draft;
mod ending;
mod error;
mod fit;
mod intent;
mod inventories;
mod overlap;
mod session;
mod survey;

pub use addons::{AddonParts, ReadSecret};
pub use approval::{Answers, Approver, Question, Refusal, has_problems};
pub use charts::Https;
pub use connect::{Access, Keeping, Sites};
pub use draft::Draft;
pub use ending::{Destroyed, Removed};
pub use error::Error;
pub use fit::{Asked, Misfit, fits};
pub use intent::Intent;
pub use inventories::{Found, USUAL, inventories};
pub use overlap::{Overlap, Overlapping, overlaps};
pub use session::{Session, lock};
pub use survey::{Addresses, Choice, HostSeen, Lack, StorageSeen, Survey, Wishes, addresses};
