//! The page says what the tests say, and wrong lines are found.

use super::sources::{Said, one};
use super::{page, problems, root, seeds, state};

fn said(name: &str, text: &str) -> Said {
    let mut said = Said::default();
    one(name, text, &mut said);
    said
}

#[test]
fn the_page_is_what_the_tests_say() {
    let page = page(&root()).unwrap_or_else(|problems| panic!("{}", problems.join("\n")));
    let kept = std::fs::read_to_string(super::file()).unwrap();
    assert!(kept == page, "docs/mission.md is not what the tests say: run `cargo xtask mission`");
}

#[test]
fn ninety_requirements_each_once() {
    let seeds = seeds(super::REQUIREMENTS);
    let counts: Vec<(&str, usize)> =
        seeds.iter().map(|seed| (seed.letter, seed.requirements.len())).collect();
    assert_eq!(counts, [("E", 22), ("M", 23), ("H", 19), ("I", 13), ("F", 13)]);
    for seed in &seeds {
        for (index, requirement) in seed.requirements.iter().enumerate() {
            assert_eq!(requirement.id, format!("{}{}", seed.letter, index + 1));
            assert!(!requirement.text.is_empty() && !requirement.text.contains('|'));
        }
    }
}

#[test]
fn tests_and_gaps_make_the_state() {
    let said = said(
        "a/tests/b.rs",
        "//! Mission gap: E2, E3 — nobody does it.\n\n/// Does.\n/// Mission: E1, E2 — it works\n#[test]\nfn it_works() {\n\
         stories! {\n    /// Mission: E1\n    told \"file\"\n}\n",
    );
    assert!(said.problems.is_empty(), "{:?}", said.problems);
    assert_eq!(state("E1", &said), ("met", vec!["it_works", "told"], vec![]));
    assert_eq!(state("E2", &said), ("in part", vec!["it_works"], vec!["nobody does it."]));
    assert_eq!(state("E3", &said), ("not met", vec![], vec!["nobody does it."]));
    let problems = problems(&seeds("# E enterprise Enterprise\nE1 one\nE2 two\nE4 four"), &said);
    assert_eq!(problems.len(), 5, "{problems:?}");
    assert!(problems[0].contains("a/tests/b.rs:1: there is no requirement E3"), "{problems:?}");
    assert!(problems[1].starts_with("E4 has no test and no gap"), "{problems:?}");
    assert_eq!(problems[2], "E1 is neither shown in tests/seeds/enterprise.rs: nor a gap there");
}

#[test]
fn lines_that_name_no_test_are_refused() {
    for (text, why) in [
        ("/// Mission: E1\nfn helper() {}\n", "no test follows"),
        ("/// Mission: E1\nconst NOTHING: u8 = 1;\n", "no test follows"),
        ("/// Mission: E1\n", "no test follows"),
        ("/// Mission: E1\n#[test]\n#[ignore = \"slow\"]\nfn slow() {\n", "ignored"),
        ("/// Mission: — nothing\n#[test]\nfn which() {\n", "which requirements"),
        ("/// Mission gap: E1\n", "a gap is"),
        ("/// Mission gap: E1 —\n", "a gap is"),
        ("/// Mission elsewhere: E1\n", "Mission elsewhere: E1, E2"),
    ] {
        let said = said("a/tests/b.rs", text);
        assert!(said.lines.is_empty(), "{text}: {:?}", said.lines);
        assert!(said.problems.len() == 1 && said.problems[0].contains(why), "{text}: {:?}", said.problems);
    }
}

#[test]
fn steps_of_a_walk_are_its_test() {
    let text = "#[test]\nfn the_whole_way() {\n    walk();\n}\n\n/// Mission: E1\nfn capacity() {\n}\n";
    let in_seeds = said("daedal/tests/seeds/enterprise.rs", text);
    assert_eq!(state("E1", &in_seeds).1, ["the_whole_way"]);
    assert_eq!(said("daedal/tests/other.rs", text).problems.len(), 1);
}
