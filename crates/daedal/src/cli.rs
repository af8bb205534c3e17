//! The command line: every command, flag and its help text.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::keys::KeyArgs;

/// Create and maintain Talos Linux clusters on Proxmox VE from a declared inventory.
#[derive(Debug, Parser)]
#[command(name = "daedal", version, max_term_width = 110, after_help = EXIT_CODES)]
pub struct Cli {
    /// What every command understands.
    #[command(flatten)]
    pub global: Global,
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
    /// The inventory, or the folder with its cluster.yaml [default: cluster.yaml].
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
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
}

impl Target {
    /// The inventory's path, as given or as it is usually called.
    pub fn inventory(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| PathBuf::from("cluster.yaml"))
    }
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
    Check {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Also ask Proxmox: reachability, version, privileges, storages, capacity, addresses.
        #[arg(long)]
        live: bool,
    },
    /// Show what apply would do.
    #[command(args_conflicts_with_subcommands = true)]
    Plan {
        /// Plans that were saved.
        #[command(subcommand)]
        saved: Option<PlanCommand>,
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Exit with 2 if there are changes or differences, or if something could not be seen; with 0 if all is as declared.
        #[arg(long)]
        detailed_exitcode: bool,
        /// Save the plan to a file; `apply FILE` executes exactly this plan.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Create the cluster, or change it to match the inventory.
    Apply {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// A plan saved by `plan --save`; refused if the cluster has changed since.
        #[arg(value_name = "PLAN")]
        saved: Option<PathBuf>,
        /// Execute the saved plan only if this is its id, as `plan --save` and `plan show` print it.
        #[arg(long, value_name = "ID", requires = "saved")]
        expect: Option<String>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Write a timeline of the steps as SVG, with the critical path marked.
        #[arg(long, value_name = "FILE")]
        timeline: Option<PathBuf>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Stop and delete every VM of the cluster; images, templates and secrets stay.
    Destroy {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Confirm with the cluster's name instead of being asked for it.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
        /// Continue from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Show every node in full; do not fold nodes that are alike.
        #[arg(long)]
        full: bool,
        /// Destroy VMs although no secrets prove that they are yours; asks for the number of VMs unless it is given.
        #[arg(long, value_name = "NUMBER", num_args = 0..=1, require_equals = true)]
        without_secrets: Option<Option<usize>>,
    },
    /// Show every node from all three sides: Proxmox, Talos, Kubernetes.
    Status {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// Exit with 2 if a node is not as it should be, or could not be checked.
        #[arg(long)]
        detailed_exitcode: bool,
    },
    /// List the files a cluster's users need, or print one of them.
    Outputs {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The file to print, such as `kubeconfig` or `machines.json`; or `dnsmasq`, `kea` or `isc`: the nodes' DHCP
        /// reservations for that server.
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
    /// Manage single nodes: list, show, mark, remove.
    #[command(subcommand)]
    Node(crate::commands::node::NodeCommand),
    /// Manage snapshots of etcd: create, list, restore.
    #[command(subcommand)]
    Backup(crate::commands::backup::BackupCommand),
    /// Manage the cluster's secrets: import, export, show; issue talosconfig and kubeconfig.
    #[command(subcommand)]
    Secrets(crate::commands::secrets::SecretsCommand),
    /// Print the inventory or its JSON Schema.
    #[command(subcommand)]
    Inventory(InventoryCommand),
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
    /// Print a completion script; nodes, outputs and roles are completed, too (bash, zsh, fish).
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
