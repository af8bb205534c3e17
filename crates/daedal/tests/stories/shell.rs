//! The few commands that stories are made of, in a folder of their own, and what is masked on their screens.

use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use crate::common::hands::Hands;
use crate::common::{command, root};

/// Where a story happens. Its lab is stopped when this is dropped.
pub(super) struct Shell {
    folder: tempfile::TempDir,
}

impl Shell {
    /// A folder with an example, some texts of its inventory replaced, and a quick lab.
    pub(super) fn new(example: &str, replacements: &[(String, String)]) -> Self {
        let shell = Self { folder: tempfile::tempdir().unwrap() };
        copy_folder(&root().join("examples").join(example), shell.folder.path());
        for (from, to) in replacements {
            shell.replace("cluster.yaml", from, to);
        }
        let args = ["check", "--live", "--lab", "--lab-speed", "60"];
        // An inventory that is wrong on purpose starts no lab.
        let _ = command(args).current_dir(shell.folder.path()).output().unwrap();
        shell
    }

    fn path(&self, name: &str) -> PathBuf {
        assert!(!name.starts_with('/') && !name.contains(".."), "{name} is outside of the story");
        self.folder.path().join(name)
    }

    fn replace(&self, name: &str, from: &str, to: &str) {
        let text = std::fs::read_to_string(self.path(name)).unwrap();
        let from = &from.replace("\\n", "\n");
        assert!(text.contains(from), "{name} still says: {from}");
        std::fs::write(self.path(name), text.replace(from, &to.replace("\\n", "\n"))).unwrap();
    }

    /// Runs a line with its prompt; gives what it printed, masked, and the exit code.
    pub(super) fn run(&mut self, line: &str) -> (String, i32) {
        let (prompt, line) = line.split_once(' ').unwrap();
        let words = words(line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match (prompt, words.as_slice()) {
            ("$", ["daedal", args @ ..]) => return self.daedal(args),
            ("$", ["sed", "-i", script, name]) => {
                let separator = script.chars().nth(1).unwrap();
                let parts: Vec<&str> = script.split(separator).collect();
                let ["s", from, to, ""] = parts.as_slice() else { panic!("not s/FROM/TO/: {script}") };
                self.replace(name, from, to);
            }
            ("$", ["mv", from, to]) => std::fs::rename(self.path(from), self.path(to)).unwrap(),
            ("root@atlas#", ["qm", "set", vmid, option, value]) => {
                let option = option.strip_prefix("--").unwrap();
                self.hands().set(vmid.parse().unwrap(), option, value);
            }
            ("root@atlas#", ["qm", "create", vmid, "--name", name]) => {
                self.hands().create(vmid.parse().unwrap(), name);
            }
            _ => panic!("stories do not know `{line}`"),
        }
        (String::new(), 0)
    }

    fn hands(&self) -> Hands {
        Hands::at(&self.path(".daedal/lab"))
    }

    /// Both outputs as a terminal shows them: in the order in which they were written.
    fn daedal(&self, args: &[&str]) -> (String, i32) {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut daedal = command(args);
        daedal
            .arg0("daedal")
            .current_dir(self.folder.path())
            .env("COLUMNS", WIDTH.to_string())
            .env("PROXMOX_TOKEN_SECRET", "not the lab's");
        daedal.stdout(writer.try_clone().unwrap()).stderr(writer);
        let mut child = daedal.spawn().unwrap();
        // The command holds the writing ends; with them the reader would never come to an end.
        drop(daedal);
        let mut screen = String::new();
        reader.read_to_string(&mut screen).unwrap();
        let code = child.wait().unwrap().code().unwrap();
        (masked(&screen, &self.folder.path().display().to_string()), code)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = command(["lab", "stop"]).current_dir(self.folder.path()).output();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The words of a line: blanks part them, single and double quotes hold them together.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut begun) = (Vec::new(), String::new(), None, false);
    for char in line.chars() {
        match (quote, char) {
            (Some(open), char) if open == char => quote = None,
            (None, '\'' | '"') => (quote, begun) = (Some(char), true),
            (None, ' ') if begun => {
                words.push(std::mem::take(&mut word));
                begun = false;
            }
            (None, ' ') => {}
            (_, char) => {
                word.push(char);
                begun = true;
            }
        }
    }
    if begun {
        words.push(word);
    }
    words
}

/// Columns of a story's terminal.
const WIDTH: usize = 100;

/// A screen without what is another in every run: progress (its order), durations, dates, random ids, the folder.
fn masked(screen: &str, folder: &str) -> String {
    let mut text = String::new();
    let mut progress = false;
    for line in screen.lines() {
        let clock = line.len() > 9 && line.is_char_boundary(9) && is_clock(&line[..9]);
        progress = clock || (progress && line.starts_with("         "));
        if !progress {
            text.push_str(line);
            text.push('\n');
        }
    }
    let text = refilled(&text.replace(folder, "~/cluster"));
    let masks = [
        (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(Z|\+\d\d:\d\d)?( UTC)?", "2026-11-18 12:00"),
        (r"\b([Pp])lan [0-9a-f]{12}\b", "${1}lan 3f9c02d1a7be"),
        (r"--expect [0-9a-f]{12}\b", "--expect 3f9c02d1a7be"),
        (r"secrets=[0-9a-f]{16}", "secrets=5f0c1d83a92be647"),
        (r"digest [0-9a-f]{40}", "digest 9d1c5bd1f0a7c2e4b6835d07a1e2f3c48b596a70"),
        (r"\d+ KiB from", "73 KiB from"),
        (r"\(\d+ KiB\)", "(73 KiB)"),
        // Whatever controllers wrote by then.
        (r"\brevision \d+\b", "revision 22"),
        (r"\b\d+ keys\b", "20 keys"),
    ];
    masks.iter().fold(text, |text, (pattern, to)| replaced(&text, pattern, to))
}

/// The last sentences of a run, filled again after their durations are masked: those change where lines end.
fn refilled(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let ending = line.starts_with("Cluster ") || line.contains(" gone from cluster ");
        if !ending {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut sentence = line.to_owned();
        while !sentence.ends_with(['.', ':']) {
            let Some(more) = lines.next() else { break };
            sentence.push(' ');
            sentence.push_str(more);
        }
        let mut column = 0;
        for word in replaced(&sentence, r"\b\d+(\.\d+)? s\b", "… s").split(' ') {
            let length = word.chars().count();
            match column {
                0 => {}
                _ if column + 1 + length > WIDTH => {
                    out.push('\n');
                    column = 0;
                }
                _ => {
                    out.push(' ');
                    column += 1;
                }
            }
            out.push_str(word);
            column += length;
        }
        out.push('\n');
    }
    out
}

fn replaced(text: &str, pattern: &str, to: &str) -> String {
    regex::Regex::new(pattern).unwrap().replace_all(text, to).into_owned()
}

/// `12:34:56 `, which progress begins with.
fn is_clock(text: &str) -> bool {
    text.bytes().zip("00:00:00 ".bytes()).all(|(is, like)| match like {
        b'0' => is.is_ascii_digit(),
        like => is == like,
    })
}
