//! Programs that an inventory names to print a secret: run where the operator's settings allow it, without a shell, for a limited time.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use crate::escape;
use crate::exit::Exit;
use crate::failure::{Failure, Outcome};
use crate::operator;

/// How long a program may take: somebody may have to confirm something on a phone.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most that it may print.
const LARGEST: u64 = 64 << 10;
/// How often it is looked after.
const EVERY: Duration = Duration::from_millis(10);

/// What a program prints, without the white space around it. It runs in the inventory's folder; a path in its name is relative to
/// that. The message of a failure says which program, its causes say why.
pub fn output(words: &[String], folder: &Path) -> Outcome<String> {
    operator::may_run(folder)?;
    within(PATIENCE, words, folder)
}

fn within(patience: Duration, words: &[String], folder: &Path) -> Outcome<String> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Failure::new(Exit::BadDocument, "the command has no program"));
    };
    let failed = |why: &str| {
        let failure = Failure::new(Exit::MissingSecret, format!("the command `{program}` printed no secret"));
        failure.because(&io::Error::other(why.to_owned()))
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut child = Command::new(located(program, folder))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed("it cannot be run").because(&error))?;
    let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
    let end = Instant::now() + patience;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => std::thread::sleep(EVERY),
            ended => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match ended {
                    Err(error) => failed("it cannot be waited for").because(&error),
                    Ok(_) => failed(&format!("it did not end within {} seconds", patience.as_secs())),
                });
            }
        }
    };
    // What it started may go on, and keep these open.
    let rest = end.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    let (Ok(out), err) = (out.recv_timeout(rest), err.recv_timeout(rest).unwrap_or_default()) else {
        return Err(failed("it ended, but something that it started did not, and may print more"));
    };
    // Before its end is judged: whoever prints more than is read may be ended by that.
    if out.len() as u64 > LARGEST {
        return Err(failed(&format!("it printed more than {} KiB", LARGEST >> 10)));
    }
    if !status.success() {
        return Err(refused(failed(&ended(status)), &err));
    }
    match std::str::from_utf8(&out).map(str::trim) {
        Ok("") => Err(refused(failed("it printed nothing"), &err)),
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(failed("what it printed is not text")),
    }
}

/// Where a program is: by a path in the inventory's folder, or by its name as the operating system finds it.
fn located(program: &str, folder: &Path) -> PathBuf {
    match program.contains('/') {
        // Absolute, as it is run in that folder.
        true => std::path::absolute(folder.join(program)).unwrap_or_else(|_| folder.join(program)),
        false => PathBuf::from(program),
    }
}

/// Reads all that a program prints, aside, so that it is not held up.
fn collect(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Zeroizing<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
        if let Some(pipe) = pipe {
            // What was read before an error is all that there is.
            let _ = pipe.take(LARGEST + 1).read_to_end(&mut bytes);
        }
        let _ = sender.send(bytes);
    });
    receiver
}

fn ended(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("it ended with exit code {code}"),
        None => format!("it was ended ({status})"),
    }
}

/// Adds what the program said, cut where it becomes too long to read.
fn refused(failure: Failure, said: &[u8]) -> Failure {
    let said = String::from_utf8_lossy(said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The last lines say why.
    let last = lines.get(lines.len().saturating_sub(3)..).unwrap_or_default().join(" / ");
    match last.as_str() {
        "" => failure,
        last => failure.because(&io::Error::other(format!("it says: {}", escape::quote(last)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(words: &[&str]) -> Outcome<String> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        within(Duration::from_secs(300), &words, Path::new("/"))
    }

    #[test]
    fn what_a_program_prints_is_the_secret() {
        assert_eq!(run(&["printf", " s3cret\n\n"]).unwrap(), "s3cret");
        // No shell has a hand in it.
        assert_eq!(run(&["echo", "$HOME; `id` | cat"]).unwrap(), "$HOME; `id` | cat");
        assert_eq!(run(&["bin/pwd"]).unwrap(), "/");
        assert_eq!(run(&["/bin/pwd"]).unwrap(), "/");
    }

    #[test]
    fn a_program_that_fails_is_quoted() {
        let failed = |words: &[&str]| {
            let failure = run(words).unwrap_err();
            assert_eq!(failure.exit, Exit::MissingSecret);
            failure.render(false)
        };
        let said = failed(&["sh", "-c", "echo canary; echo 'no such \u{1b}[31mentry' >&2; exit 3"]);
        assert!(said.contains("the command `sh` printed no secret"), "{said}");
        assert!(said.contains("exit code 3") && said.contains("no such"), "{said}");
        assert!(!said.contains("canary") && !said.contains('\u{1b}'), "{said}");
        let said = failed(&["sh", "-c", "yes out of order | head -c 90000 >&2; exit 1"]);
        assert!(said.len() < 2000 && said.contains("out of order"), "{said}");
        assert!(failed(&["true"]).contains("it printed nothing"));
        assert!(failed(&["no-such-program"]).contains("it cannot be run"));
        assert!(failed(&["head", "-c", "70000", "/dev/zero"]).contains("more than 64 KiB"));
        // More than a pipe holds beside what was read: the program is ended by the closed pipe.
        assert!(failed(&["head", "-c", "9000000", "/dev/zero"]).contains("more than 64 KiB"));
        assert!(failed(&["sh", "-c", "kill -9 $$"]).contains("signal: 9"));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let words = ["sleep".to_owned(), "1000".to_owned()];
        let failure = within(Duration::from_millis(50), &words, Path::new("/")).unwrap_err();
        assert!(failure.render(false).contains("did not end within"), "{failure:?}");
    }
}
