//! The command line: every command, flag and its help text.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use daedal_app::{Answers, Sites};

use crate::commands::plan_report::PlanFiles;
use crate::findings::FindingsArgs;
use crate::keys::KeyArgs;

/// Create and maintain Talos Linux clusters on Proxmox VE from a declared inventory.
#[derive(Debug, Parser)]
#[command(name = "daedal", version, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    /// What every command understands.
    #[command(flatten)]
    pub global: Global,
    /// The inventory, or the folder with its cluster.yaml; means the same after the command.
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes:
    0  done
    1  failed; completed steps stay done, and running again continues from there
    2  `--detailed-exitcode`: not all is as declared, or could not be seen
   64  the command line is wrong
   65  the inventory or another document is wrong
   66  a named file, node or output does not exist or cannot be read
   69  Proxmox or a service cannot be reached
   73  an output file cannot be written
   75  somebody else holds the lock; try again later
   77  credentials or privileges are missing
   78  a secret that the inventory refers to is missing
  129  ended by SIGHUP, as when its terminal closes
  130  interrupted by Ctrl-C (SIGINT)
  143  ended by SIGTERM
After a signal, a run starts no new steps and finishes those in progress; a
second signal abandons them.";

/// What every command understands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Print text or JSON.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Log more (-v, -vv, -vvv); secrets are never logged.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// Do not trust the inventory: allow only variables and endpoints that your settings list (docs/ci.md).
    #[arg(long, global = true, env = "DAEDAL_UNTRUSTED", value_parser = clap::builder::FalseyValueParser::new())]
    pub untrusted: bool,
}

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal that can.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Which inventory, and which world it is about.
#[derive(Clone, Debug, Args)]
pub struct Target {
    /// The inventory, or the folder with its cluster.yaml [default: cluster.yaml]; may be given several times.
    #[arg(short, long = "file", value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The cluster, by its name, if the inventories declare several.
    #[arg(long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Use the built-in lab instead of Proxmox; start it if it does not run.
    #[arg(long)]
    pub lab: bool,
    /// The lab's options.
    #[command(flatten)]
    pub lab_options: LabOptions,
    /// The store: the folder of secrets, lock and outputs [default: .daedal/<cluster> beside the inventory; inside the
    /// lab's folder with --lab].
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// The key to the secrets.
    #[command(flatten)]
    pub keys: KeyArgs,
    /// What clusters on the same Proxmox share.
    #[arg(skip)]
    pub sites: Sites,
}

impl Target {
    /// The inventory's path, as given or as it is usually called.
    pub fn inventory(&self) -> PathBuf {
        self.files.first().cloned().unwrap_or_else(|| PathBuf::from("cluster.yaml"))
    }
}

/// Whether a command is about every cluster that is declared.
#[derive(Clone, Copy, Debug, Args)]
pub struct Many {
    /// Do it for every cluster that the inventories declare, at once; a folder stands for all inventories in it.
    #[arg(long, conflicts_with = "cluster")]
    pub all: bool,
}

/// What is agreed to in advance by whoever has a plan carried out.
#[derive(Clone, Copy, Debug, Args)]
pub struct Consent {
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    /// Continue from this generation of the cluster although this store has not seen it.
    #[arg(long, value_name = "GENERATION")]
    pub onto: Option<u32>,
    /// Only show the plan.
    #[arg(long)]
    pub plan_only: bool,
}

impl Consent {
    /// The answers to the questions about a plan, with the number of what goes without secrets, where that was given.
    pub fn answers(&self, number: Option<usize>) -> Answers {
        Answers { yes: self.yes, onto: self.onto, number, ..Answers::default() }
    }
}

/// A phase of an apply.
#[derive(Clone, Debug, Args)]
pub struct PhaseArgs {
    /// Which inventory.
    #[command(flatten)]
    pub target: Target,
    /// One cluster or all.
    #[command(flatten)]
    pub many: Many,
    /// What is agreed to in advance.
    #[command(flatten)]
    pub consent: Consent,
    /// Show every node in full; do not fold nodes that are alike.
    #[arg(long)]
    pub full: bool,
}

/// Options of the lab.
#[derive(Clone, Debug, Args)]
pub struct LabOptions {
    /// The lab's folder.
    #[arg(long, value_name = "DIR", default_value = ".daedal/lab")]
    pub lab_dir: PathBuf,
    /// Speed-up factor of the lab (1 = real time); used when the lab is started.
    #[arg(long, value_name = "N", default_value_t = 10.0, value_parser = speed, allow_negative_numbers = true)]
    pub lab_speed: f64,
    /// A command that runs the guests instead of simulating them (docs/lab.md); name it on every command line.
    #[arg(long, value_name = "COMMAND")]
    pub lab_runner: Option<PathBuf>,
}

/// A factor that time can run by.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed > 0.0 && speed.is_finite() => Ok(speed),
        _ => Err("a number greater than 0 is needed".to_owned()),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look at a Proxmox and write the inventory of a cluster that fits on it.
    Init(Box<crate::commands::init::InitArgs>),
    /// Check the inventory; with --live also that Proxmox can do what it asks.
    #[command(
        after_long_help = "Examples:\n  daedal check\n  daedal check --live -f prod/cluster.yaml\n  daedal check --all --format sarif"
    )]
    Check {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Also ask Proxmox: reachability, version, privileges, storages, capacity, addresses.
        #[arg(long)]
        live: bool,
        /// What to look for and how to show it.
        #[command(flatten)]
        findings: FindingsArgs,
    },
    /// Show what apply would do.
    #[command(args_conflicts_with_subcommands = true)]
    #[command(
        after_long_help = "Examples:\n  daedal plan\n  daedal plan --save plan.json --markdown plan.md\n  daedal plan --detailed-exitcode"
    )]
    Plan {
        /// Plans that were saved.
        #[command(subcommand)]
        saved: Option<PlanCommand>,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Exit with 2 if there are changes or differences, or if something could not be seen; with 0 if all is as declared.
        #[arg(long)]
        detailed_exitcode: bool,
        /// Files to write the plan to.
        #[command(flatten)]
        files: PlanFiles,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Create the cluster, or change it to match the inventory.
    #[command(
        after_long_help = "Examples:\n  daedal apply\n  daedal apply --yes --timeline run.svg\n  daedal apply plan.json --expect 3f2a91c0"
    )]
    Apply {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// A plan saved by `plan --save`; refused if the cluster has changed since.
        #[arg(value_name = "PLAN", conflicts_with = "all")]
        saved: Option<PathBuf>,
        /// Execute the saved plan only if this is its id, as `plan --save` and `plan show` print it.
        #[arg(long, value_name = "ID", requires = "saved")]
        expect: Option<String>,
        /// Refuse the saved plan if it is older, such as 30m, 24h or 7d.
        #[arg(long, value_name = "TIME", requires = "saved", value_parser = crate::commands::secrets::lifetime)]
        max_age: Option<jiff::SignedDuration>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION", conflicts_with = "all")]
        onto: Option<u32>,
        /// Write a timeline of the steps as SVG, with the critical path marked.
        #[arg(long, value_name = "FILE", conflicts_with = "all")]
        timeline: Option<PathBuf>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// First phase of apply: secrets and outputs, without asking Proxmox or the nodes.
    #[command(after_long_help = "Examples:\n  daedal generate\n  daedal generate --all -f inventory/")]
    Generate {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
    },
    /// Second phase of apply: every VM exists, runs, has its config and answers over mutual TLS.
    #[command(after_long_help = "Examples:\n  daedal provision\n  daedal provision --plan-only")]
    Provision(PhaseArgs),
    /// Third phase of apply: etcd is bootstrapped, the API server answers, every node is Ready.
    #[command(after_long_help = "Examples:\n  daedal bootstrap\n  daedal bootstrap --yes")]
    Bootstrap(PhaseArgs),
    /// Fourth phase of apply: every add-on is in the cluster, and ready; list, show and compare add-ons.
    #[command(args_conflicts_with_subcommands = true)]
    #[command(
        after_long_help = "Examples:\n  daedal addons --yes\n  daedal addons list\n  daedal addons diff policies"
    )]
    Addons {
        /// Looking at add-ons.
        #[command(subcommand)]
        command: Option<crate::commands::addons::AddonsCommand>,
        /// How the phase is carried out.
        #[command(flatten)]
        args: Box<PhaseArgs>,
    },
    /// Destroy the cluster and create it again, empty, with the same secrets, VMIDs, MACs and addresses.
    #[command(after_long_help = "Examples:\n  daedal recreate\n  daedal recreate --confirm home")]
    Recreate {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Confirm with the cluster's name instead of being asked for it; once for each cluster.
        #[arg(long, value_name = "NAME")]
        confirm: Vec<String>,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION", conflicts_with = "all")]
        onto: Option<u32>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Stop and delete every VM of the cluster; images, templates and secrets stay.
    #[command(after_long_help = "Examples:\n  daedal destroy\n  daedal destroy --confirm home")]
    Destroy {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Confirm with the cluster's name instead of being asked for it; once for each cluster.
        #[arg(long, value_name = "NAME")]
        confirm: Vec<String>,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION", conflicts_with = "all")]
        onto: Option<u32>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
        /// Destroy VMs although no secrets prove that they are yours; asks for the number of VMs unless it is given.
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true, conflicts_with = "all")]
        without_secrets: Option<Option<usize>>,
    },
    /// Show every node from all three sides: Proxmox, Talos, Kubernetes.
    #[command(after_long_help = "Examples:\n  daedal status\n  daedal status --detailed-exitcode -o json")]
    Status {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// Exit with 2 if a node is not as it should be, or could not be checked.
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// List the files a cluster's users need, or print one of them.
    Outputs {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// One cluster or all.
        #[command(flatten)]
        many: Many,
        /// The file to print, such as `kubeconfig` or `machines.json`; or `dnsmasq`, `kea` or `isc`: the nodes' DHCP
        /// reservations for that server; or `tfvars`, `tfvars.json`, `ansible`, `ssh-config` or `envrc`: what these tools read.
        name: Option<String>,
    },
    /// Print KUBECONFIG and TALOSCONFIG for a shell: eval "$(daedal env -f cluster.yaml)".
    Env {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The shell's syntax.
        #[arg(long, value_enum, default_value_t = ShellSyntax::Posix)]
        shell: ShellSyntax,
    },
    /// Let other programs reach the cluster: a proxy on this machine (HTTP CONNECT and SOCKS5).
    Proxy {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The port to listen on, on 127.0.0.1 (0 = any that is free) [default: that of `outputs.kubeconfig`, else 0].
        #[arg(long, value_name = "PORT")]
        port: Option<u16>,
    },
    /// Run your kubectl with the cluster's kubeconfig, over the declared `reach`: daedal kubectl -- get nodes.
    Kubectl {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Arguments for kubectl.
        #[arg(last = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Run your talosctl with the cluster's talosconfig, over the declared `reach`: daedal talosctl -- version.
    Talosctl {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Arguments for talosctl.
        #[arg(last = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Manage single nodes: list, show, mark, remove.
    #[command(subcommand)]
    Node(crate::commands::node::NodeCommand),
    /// Manage snapshots of etcd: create, list, restore.
    #[command(subcommand)]
    Backup(crate::commands::backup::BackupCommand),
    /// Manage the cluster's secrets: import, export, show; issue talosconfig and kubeconfig.
    #[command(subcommand)]
    Secrets(crate::commands::secrets::SecretsCommand),
    /// Manage the store of secrets, lock and snapshots: migrate, reset.
    #[command(subcommand)]
    Store(crate::commands::store::StoreCommand),
    /// Print the inventory or its JSON Schema.
    #[command(subcommand)]
    Inventory(InventoryCommand),
    /// Print the JSON Schema of the inventory, or of what `-o json` prints.
    Schema {
        /// Of what.
        of: crate::schema::Document,
    },
    /// Render Helm charts, without Helm.
    #[command(subcommand)]
    Helm(crate::commands::helm::HelmCommand),
    /// Manage the templates that VMs are cloned from: list, prune.
    #[command(subcommand)]
    Templates(crate::commands::templates::TemplatesCommand),
    /// Manage volumes that Proxmox left behind: list, prune.
    #[command(subcommand)]
    Volumes(crate::commands::volumes::VolumesCommand),
    /// Prepare Proxmox: accounts and privileges; firewall, high availability, backup jobs.
    #[command(subcommand)]
    Proxmox(crate::commands::proxmox::ProxmoxCommand),
    /// Manage the built-in lab, a simulated datacenter.
    #[command(subcommand)]
    Lab(LabCommand),
    /// Print a completion script; nodes, outputs, roles and clusters are completed, too (bash, zsh, fish).
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
    /// Print the names that a shell completes.
    #[command(hide = true)]
    Complete {
        /// Names of what.
        what: crate::commands::completions::Names,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
    },
    /// Print a manual page, or write all of them into a folder.
    Man {
        /// Of which command, such as `plan` or `node remove`; of daedal itself if none is given.
        command: Vec<String>,
        /// Write the pages of all commands into this folder.
        #[arg(long, value_name = "DIR", conflicts_with = "command")]
        to: Option<PathBuf>,
    },
}

/// Plans that were saved.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Show a plan that `plan --save` wrote; asks neither Proxmox nor the nodes.
    Show {
        /// The saved plan.
        #[arg(value_name = "PLAN")]
        file: PathBuf,
        /// Print only the plan's id.
        #[arg(long)]
        id: bool,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
}

/// Shell syntax for `env`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShellSyntax {
    /// sh, bash, zsh, direnv.
    Posix,
    /// fish.
    Fish,
}

/// Looking at the inventory.
#[derive(Debug, Subcommand)]
pub enum InventoryCommand {
    /// Print the inventory.
    Show {
        /// The inventory.
        #[arg(short, long, value_name = "FILE", default_value = "cluster.yaml")]
        file: PathBuf,
        /// Fill in every default, name, VMID and address.
        #[arg(long)]
        resolved: bool,
    },
    /// Print the JSON Schema of the inventory, for editors.
    Schema,
    /// Make an inventory of what other tools were told: Terraform variables (HCL or JSON), a nodes.json, Ansible variables.
    #[command(
        after_long_help = "Examples:\n  daedal inventory import terraform.tfvars credentials.auto.tfvars\n  daedal inventory import group_vars/all.yml --to cluster.yaml"
    )]
    Import {
        /// The files of one cluster; a later one wins. What they are is seen by what they say.
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
        /// Write the inventory to this file; an existing file is never overwritten [default: standard output].
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Show whether the lab runs, since when, and what it contains.
    Status {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Stop the lab; its world stays on disk.
    Stop {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Stop the lab and delete its world.
    Reset {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Add what an inventory names and the lab lacks: hosts, storages, bridges, pools, tokens.
    Extend {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
        /// The inventory.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Run the lab in the foreground, for other clients.
    Serve {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
        /// The inventory that names the hosts, storages and bridges of a new lab.
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// Stop after so many idle minutes (0 = never).
        #[arg(long, value_name = "MINUTES", default_value_t = 0)]
        idle: u64,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use clap::CommandFactory as _;

    use super::*;

    /// Every command with its path.
    fn walk(command: &clap::Command, path: &str, see: &mut impl FnMut(&str, &clap::Command)) {
        see(path, command);
        for sub in command.get_subcommands() {
            walk(sub, &format!("{path} {}", sub.get_name()), see);
        }
    }

    #[test]
    fn an_option_that_many_commands_share_has_one_text() {
        const SHARED: [&str; 9] =
            ["yes", "plan-only", "full", "onto", "protected", "lab", "lab-dir", "lab-speed", "state"];
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut shorts: BTreeMap<String, BTreeSet<Option<char>>> = BTreeMap::new();
        walk(&Cli::command(), "daedal", &mut |path, command| {
            for option in command.get_arguments() {
                let Some(long) = option.get_long().filter(|long| SHARED.contains(long)) else { continue };
                // What an option is without is another matter where there is no lab.
                let help = option.get_help().map(ToString::to_string).unwrap_or_default();
                let help = help.split(" [default").next().unwrap_or_default().to_owned();
                assert!(!help.is_empty(), "{path} --{long}");
                texts.entry(long.to_owned()).or_default().insert(help);
                shorts.entry(long.to_owned()).or_default().insert(option.get_short());
            }
        });
        assert_eq!(texts.len(), SHARED.len());
        assert!(texts.values().all(|texts| texts.len() == 1), "{texts:#?}");
        assert!(shorts.values().all(|shorts| shorts.len() == 1), "{shorts:#?}");
    }

    #[test]
    fn commands_of_every_day_have_examples_that_are_understood() {
        let mut found = 0;
        walk(&Cli::command(), "daedal", &mut |path, command| {
            let Some(examples) = command.get_after_long_help().map(ToString::to_string) else { return };
            for line in examples.lines().filter_map(|line| line.strip_prefix("  ")) {
                assert!(line.starts_with(path), "{path}: {line}");
                let read = Cli::try_parse_from(line.split_whitespace());
                assert!(read.is_ok(), "{line}: {:?}", read.err());
                found += 1;
            }
        });
        assert!(found >= 15, "{found}");
    }
}
