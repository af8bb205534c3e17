//! `daedal completions`: a completion script for a shell, which asks `daedal complete` for the names of things.

use clap::{CommandFactory as _, ValueEnum};
use daedal_talos_config::ApiRole;

use crate::cli::{Cli, Format, Target};
use crate::commands::outputs;
use crate::exit::Exit;
use crate::failure::Outcome;
use crate::{clusters, console, documents, session};

/// What a shell can ask the names of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Names {
    /// Declared nodes.
    Nodes,
    /// Output files.
    Outputs,
    /// Roles of the Talos API.
    Roles,
    /// Declared clusters.
    Clusters,
}

/// Prints the script.
pub fn run(shell: clap_complete::Shell, format: Format) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "daedal", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    script.push_str(match shell {
        clap_complete::Shell::Bash => BASH,
        clap_complete::Shell::Zsh => ZSH,
        clap_complete::Shell::Fish => FISH,
        _ => "",
    });
    match format {
        Format::Json => console::json(&serde_json::json!({"shell": shell.to_string(), "script": script})),
        Format::Text => console::result(&script),
    }
    Ok(Exit::Done)
}

/// Prints names, one per line. Whoever completes wants no complaints: what cannot be read has no names.
pub fn names(what: Names, target: &Target) -> Outcome {
    let inventory = || documents::of_lacking(target, false).ok();
    let names: Vec<String> = match what {
        Names::Roles => ApiRole::ALL.iter().map(|role| role.as_str().to_owned()).collect(),
        Names::Clusters => clusters::declared(target),
        Names::Nodes => inventory()
            .map(|inventory| inventory.loaded.cluster.nodes.iter().map(|node| node.name.clone()).collect())
            .unwrap_or_default(),
        Names::Outputs => {
            let files = inventory().map(|inventory| {
                let cluster = &inventory.loaded.cluster;
                session::outputs(target, &inventory.folder, cluster).names()
            });
            let computed = outputs::computed().into_iter().map(str::to_owned);
            files.unwrap_or_default().into_iter().chain(computed).collect()
        }
    };
    if !names.is_empty() {
        console::result(&names.join("\n"));
    }
    Ok(Exit::Done)
}

/// After the script of clap: names where a command takes them. The inventory is the one of the command line.
const BASH: &str = r#"
__daedal_names() {
    _daedal "$@"
    local word what="" previous="" target=() cur="${COMP_WORDS[COMP_CWORD]}"
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case "$previous" in
            -f|--file|--state|--lab-dir|--cluster) target+=("$previous" "$word") ;;
        esac
        case "$word" in
            --lab) target+=("$word") ;;
            show|remove|mark) [[ $previous == node ]] && what=nodes ;;
            outputs) what=outputs ;;
        esac
        previous="$word"
    done
    [[ $previous == --role ]] && what=roles
    [[ $previous == --cluster ]] && what=clusters
    if [[ -n $what && $cur != -* && ( $previous != -* || $what == roles || $what == clusters ) ]]; then
        local IFS=$'\n'
        COMPREPLY+=($(compgen -W "$(daedal complete "$what" "${target[@]}" 2>/dev/null)" -- "$cur"))
    fi
}
complete -F __daedal_names -o nosort -o bashdefault -o default daedal 2>/dev/null ||
    complete -F __daedal_names -o bashdefault -o default daedal
"#;

const ZSH: &str = r#"
__daedal_names() {
    local word what="" previous="" target=()
    for word in "${words[@]:1:$((CURRENT-2))}"; do
        case "$previous" in
            -f|--file|--state|--lab-dir|--cluster) target+=("$previous" "$word") ;;
        esac
        case "$word" in
            --lab) target+=("$word") ;;
            show|remove|mark) [[ $previous == node ]] && what=nodes ;;
            outputs) what=outputs ;;
        esac
        previous="$word"
    done
    [[ $previous == --role ]] && what=roles
    [[ $previous == --cluster ]] && what=clusters
    if [[ -n $what && $PREFIX != -* && ( $previous != -* || $what == roles || $what == clusters ) ]]; then
        compadd -- ${(f)"$(daedal complete "$what" "${target[@]}" 2>/dev/null)"}
    fi
    _daedal "$@"
}
compdef __daedal_names daedal
"#;

const FISH: &str = r#"
function __daedal_names
    set -l target
    set -l previous
    for word in (commandline -opc)
        if contains -- "$previous" -f --file --state --lab-dir --cluster
            set -a target $previous $word
        end
        test "$word" = --lab; and set -a target --lab
        set previous $word
    end
    daedal complete $argv[1] $target 2>/dev/null
end
complete -c daedal -n "__fish_seen_subcommand_from node; and __fish_seen_subcommand_from show remove mark" -f -a "(__daedal_names nodes)"
complete -c daedal -n "__fish_seen_subcommand_from outputs" -f -a "(__daedal_names outputs)"
complete -c daedal -l cluster -x -a "(__daedal_names clusters)"
complete -c daedal -n "__fish_seen_subcommand_from talosconfig" -l role -x -a "(__daedal_names roles)"
"#;
