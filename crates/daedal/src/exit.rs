//! Exit codes: what a calling script may rely on. `daedal --help` lists them.

use daedal_engine::ErrorKind;

/// An exit code with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed; running again goes on from there.
    Failed = 1,
    /// `--detailed-exitcode`: there are changes, or not all is well.
    Changes = 2,
    /// The command line is wrong.
    Usage = 64,
    /// A document is wrong.
    BadDocument = 65,
    /// A named file cannot be read.
    NoInput = 66,
    /// A service cannot be reached.
    Unavailable = 69,
    /// An output cannot be written.
    CannotWrite = 73,
    /// Somebody else holds the lock.
    Busy = 75,
    /// Credentials or privileges are missing.
    Denied = 77,
    /// A referenced secret is missing.
    MissingSecret = 78,
    /// Ended by SIGHUP.
    HungUp = 129,
    /// Interrupted by Ctrl-C.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

impl Exit {
    /// How a command ends that met such a failure, whether in a look or in a step.
    pub fn of(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Denied => Self::Denied,
            ErrorKind::Unreachable | ErrorKind::Untrusted => Self::Unavailable,
            ErrorKind::Busy => Self::Busy,
            ErrorKind::Key => Self::MissingSecret,
            _ => Self::Failed,
        }
    }

    /// How a command ends that ended so for several clusters: a code of its own only where all failures agree.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().fold(Self::Done, |worst, exit| match (worst, exit) {
            (worst, Self::Done) => worst,
            (Self::Done, exit) | (Self::Changes, exit) => exit,
            (worst, exit) if worst == exit || exit == Self::Changes => worst,
            _ => Self::Failed,
        })
    }

    /// How a run ends whose steps failed in these ways: a code of its own only where they all agree.
    pub fn of_all(kinds: impl IntoIterator<Item = ErrorKind>) -> Self {
        let mut exits = kinds.into_iter().map(Self::of);
        let first = exits.next().unwrap_or(Self::Failed);
        if exits.all(|exit| exit == first) { first } else { Self::Failed }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_clusters_end_with_the_worst() {
        use Exit::{Changes, Denied, Done, Failed, Unavailable};
        for (all, worst) in [
            (&[][..], Done),
            (&[Done, Done], Done),
            (&[Done, Changes], Changes),
            (&[Changes, Denied, Done], Denied),
            (&[Denied, Changes, Denied], Denied),
            (&[Denied, Unavailable], Failed),
        ] {
            assert_eq!(Exit::worst(all.iter().copied()), worst, "{all:?}");
        }
    }

    #[test]
    fn a_run_ends_with_a_code_of_its_own_only_where_all_failures_agree() {
        use ErrorKind::{Denied, Timeout, Unreachable, Untrusted};
        assert_eq!(Exit::of_all([Denied, Denied]), Exit::Denied);
        assert_eq!(Exit::of_all([Unreachable, Untrusted]), Exit::Unavailable);
        assert_eq!(Exit::of_all([Denied, Timeout]), Exit::Failed);
        assert_eq!(Exit::of_all([]), Exit::Failed);
    }
}
