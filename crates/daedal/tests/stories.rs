//! Stories: commands and what stands on the screen after each, kept as files and played again against the lab.
//!
//! A file of `tests/stories` has a head, `---`, and a transcript. The head names the `example` that the story's folder begins
//! with, texts to `replace` in its inventory and commands to run `first`, unseen. The README and the docs show transcripts below
//! a line `<!-- story: NAME -->`, or some of the commands: `<!-- story: NAME 2-3 -->`. `UPDATE=1` writes what is so into both.

use crate::common;

mod shell;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::root;
use shell::Shell;

/// One story, as its file has it.
#[derive(Debug, PartialEq, Eq)]
struct Story {
    /// Everything before the transcript, as written.
    head: String,
    example: String,
    replacements: Vec<(String, String)>,
    first: Vec<String>,
    /// The transcript: each command with its prompt, and what it printed.
    screens: Vec<Screen>,
}

/// A command and what followed it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Screen {
    command: String,
    output: String,
}

/// What commands of people and of root on a Proxmox host begin with.
const PROMPTS: [&str; 2] = ["$ ", "root@atlas# "];
/// Asks for the last exit code: written after every command that fails, never played.
const CODE: &str = "$ echo $?";

impl Story {
    fn parse(text: &str) -> Self {
        let (head, transcript) = text.split_once("\n---\n").expect("a head, ---, a transcript");
        let mut story = Self {
            head: head.to_owned(),
            example: String::new(),
            replacements: Vec::new(),
            first: Vec::new(),
            screens: Vec::new(),
        };
        for line in head.lines().filter(|line| !line.starts_with('#')) {
            match line.split_once(": ").expect("key: value") {
                ("example", name) => name.clone_into(&mut story.example),
                ("first", command) => story.first.push(command.to_owned()),
                ("replace", pair) => {
                    let (from, to) = pair.split_once(" => ").expect("FROM => TO");
                    story.replacements.push((from.to_owned(), to.to_owned()));
                }
                (other, _) => panic!("a story's head has no {other}"),
            }
        }
        story.screens = screens(transcript);
        story.screens.retain(|screen| screen.command != CODE);
        story
    }

    /// Plays all commands; gives the screens as they are now.
    fn play(&self) -> Vec<Screen> {
        let mut shell = Shell::new(&self.example, &self.replacements);
        for command in &self.first {
            shell.run(&format!("$ {command}"));
        }
        let mut screens = Vec::new();
        for Screen { command, .. } in &self.screens {
            let (output, code) = shell.run(command);
            screens.push(Screen { command: command.clone(), output });
            if code != 0 {
                screens.push(Screen { command: CODE.to_owned(), output: format!("{code}\n") });
            }
        }
        screens
    }
}

/// The screens of a transcript, exit codes among them.
fn screens(transcript: &str) -> Vec<Screen> {
    let mut screens: Vec<Screen> = Vec::new();
    for line in transcript.lines() {
        match screens.last_mut() {
            Some(screen) if !PROMPTS.iter().any(|prompt| line.starts_with(prompt)) => {
                screen.output.push_str(line);
                screen.output.push('\n');
            }
            _ => screens.push(Screen { command: line.to_owned(), output: String::new() }),
        }
    }
    screens
}

/// A transcript, or some of its commands, counted from 1; exit codes belong to the command before.
fn shown(screens: &[Screen], range: Option<(usize, usize)>) -> String {
    let mut text = String::new();
    let mut number = 0;
    for screen in screens {
        number += usize::from(screen.command != CODE);
        if range.is_none_or(|(from, to)| (from..=to).contains(&number)) {
            writeln!(text, "{}", screen.command).unwrap();
            text.push_str(&screen.output);
        }
    }
    text
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stories")
}

fn update() -> bool {
    std::env::var_os("UPDATE").is_some()
}

/// Plays a story and compares every screen with its file.
fn tell(name: &str) {
    let file = folder().join(format!("{name}.story"));
    let kept = std::fs::read_to_string(&file).unwrap();
    let story = Story::parse(&kept);
    let now = format!("{}\n---\n{}", story.head, shown(&story.play(), None));
    if update() {
        std::fs::write(&file, now).unwrap();
    } else {
        let differences = similar(&kept, &now);
        assert!(
            differences.is_empty(),
            "{name} is told otherwise now (UPDATE=1 writes it down):\n{differences}"
        );
    }
}

/// Lines that are only in one of two texts, with what they are near to.
fn similar(kept: &str, now: &str) -> String {
    let mut text = String::new();
    let (kept, now): (Vec<_>, Vec<_>) = (kept.lines().collect(), now.lines().collect());
    let same = kept.iter().zip(&now).take_while(|(kept, now)| kept == now).count();
    if same < kept.len().max(now.len()) {
        writeln!(text, "from line {} on:", same + 1).unwrap();
        kept.iter().skip(same).take(12).for_each(|line| writeln!(text, "- {line}").unwrap());
        now.iter().skip(same).take(12).for_each(|line| writeln!(text, "+ {line}").unwrap());
    }
    text
}

macro_rules! stories {
    ($($test:ident $file:literal)*) => {
        $(
            #[test]
            fn $test() {
                tell($file);
            }
        )*
        const STORIES: &[&str] = &[$($file),*];
    };
}

stories! {
    a_first_cluster "first-cluster"
    a_lost_mark "lost-mark"
    phases_one_by_one "phases"
    without_secrets "without-secrets"
    another_version "another-version"
    hardware_that_waits "hardware-that-waits"
    pruning_under_protection "pruning-under-protection"
    scaling_down "scaling-down"
    a_saved_plan "saved-plan"
    a_strangers_vm "strangers-vm"
    a_wrong_inventory "wrong-inventory"
    a_backup "backup"
    guards "guards"
    the_enterprise_example_up "seed-enterprise"
    the_modules_example_up "seed-modules"
    the_em_infra_example_up "seed-em-infra"
    the_fluodata_example_up "seed-fluodata"
}

#[test]
fn every_story_is_told() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "story") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            assert!(STORIES.contains(&name.as_str()), "no test tells {name}");
        }
    }
}

/// The README and everything in the docs.
fn pages() -> Vec<PathBuf> {
    fn below(folder: &Path, pages: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, pages);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    let mut pages = vec![root().join("README.md")];
    below(&root().join("docs"), &mut pages);
    pages
}

/// How many blocks of commands in the docs are not run, because they need what a test has not.
const NOT_RUN: usize = 25;

/// Commands in the docs are told by a story, or it is said why they are not; then they exist, at least.
#[test]
fn every_command_of_the_docs_is_told_or_says_why_not() {
    let mut not_run = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| **line == "```console") {
            let (before, place) = (lines[at - 1], format!("{}:{}", page.display(), at + 1));
            if before.starts_with("<!-- story: ") {
                continue;
            }
            let why = before.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
            assert!(why.is_some_and(|why| !why.is_empty()), "{place}: no story, and not said why");
            let block = lines[at + 1..].iter().take_while(|line| **line != "```");
            let commands =
                block.filter(|line| line.starts_with("$ ")).filter_map(|line| line.split_once("daedal "));
            commands.for_each(|(_, command)| exists(command, &place));
            not_run.push(place);
        }
    }
    assert_eq!(not_run.len(), NOT_RUN, "{not_run:#?}");
}

/// Insists that there is such a command.
fn exists(command: &str, place: &str) {
    let command = command.split([' ', ')', '"']).take_while(|word| !word.starts_with(['-', '#', '\'', '|']));
    let words: Vec<&str> = command.filter(|word| !word.is_empty()).collect();
    let run = common::daedal(words.iter().chain(&["--help"]));
    assert!(run.status.success(), "{place}: daedal {words:?}: {}", common::text(&run.stderr));
}

/// The README and the docs show what the stories' files say.
#[test]
fn the_docs_show_the_stories() {
    let mut seen = 0;
    for page in &pages() {
        let text = std::fs::read_to_string(page).unwrap();
        let (now, stories) = with_stories(&text);
        seen += stories;
        if update() {
            std::fs::write(page, now).unwrap();
        } else {
            assert_eq!(similar(&text, &now), "", "{} shows a story otherwise (UPDATE=1)", page.display());
        }
    }
    assert!(seen >= STORIES.len() / 2, "only {seen} stories are shown anywhere");
}

/// A page with its stories as their files are, and how many it shows.
fn with_stories(page: &str) -> (String, usize) {
    const MARK: &str = "<!-- story: ";
    const FENCE: &str = "```";
    let (mut text, mut stories) = (String::new(), 0);
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        writeln!(text, "{line}").unwrap();
        let Some(told) = line.strip_prefix(MARK).and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let (name, range) = match told.split_once(' ') {
            Some((name, range)) => {
                let (from, to) = range.split_once('-').expect("FROM-TO");
                (name, Some((from.parse().unwrap(), to.parse().unwrap())))
            }
            None => (told, None),
        };
        let kept = std::fs::read_to_string(folder().join(format!("{name}.story"))).unwrap();
        let (_, transcript) = kept.split_once("\n---\n").unwrap();
        let screens = screens(transcript);
        assert_eq!(lines.next(), Some("```console"), "a transcript stands below {line}");
        lines.by_ref().find(|line| *line == FENCE).expect("the end of the transcript");
        write!(text, "```console\n{}{FENCE}\n", shown(&screens, range)).unwrap();
        stories += 1;
    }
    (text, stories)
}
