//! Exit codes: what a calling script may rely on. `daedal --help` lists them.

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

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
