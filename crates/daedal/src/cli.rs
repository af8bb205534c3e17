//! The command line: every command, flag and its help text.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::keys::KeyArgs;

/// Takes a declared inventory to a running Talos Linux cluster on Proxmox VE and keeps it there.
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
    1  failed; what was done stands, and running again goes on from there
    2  `--detailed-exitcode`: not all is as declared, or not all of it could be seen
   64  the command line is wrong
   65  the inventory or another document is wrong
   66  a file that was named cannot be read, or no node has the name that was given
   69  Proxmox or a service cannot be reached
   73  an output file cannot be written
   75  somebody else holds the lock; try again later
   77  credentials or privileges are missing
   78  a secret that the inventory refers to is missing
  129  ended by SIGHUP, as when its terminal closes
  130  interrupted by Ctrl-C (SIGINT)
  143  ended by SIGTERM
A run that is ended by a signal begins nothing new and sees through what is in flight; a second signal abandons that, too.";

/// What every command understands.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Text for people or JSON for programs.
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Text)]
    pub output: Format,
    /// Say more of what is happening (-v, -vv); secrets never show.
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// When to use colours.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
    /// Treat the inventory as somebody else's: only variables and endpoints that your settings list (docs/ci.md).
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
    /// Use the built-in lab instead of the Proxmox named in the inventory; it is started if it does not run.
    #[arg(long)]
    pub lab: bool,
    /// The lab's options.
    #[command(flatten)]
    pub lab_options: LabOptions,
    /// Where secrets, lock and outputs are kept [default: .daedal/<cluster> beside the inventory; inside the lab's
    /// folder with --lab].
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
        /// Write the plan to a file that `apply FILE` executes as exactly that.
        #[arg(long, value_name = "FILE")]
        save: Option<PathBuf>,
        /// Show every node in full, also those that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Make the world what the inventory says.
    Apply {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// A plan saved by `plan --save`; refused when the world no longer fits it.
        #[arg(value_name = "PLAN")]
        saved: Option<PathBuf>,
        /// Execute the saved plan only if this is its id, as `plan --save` and `plan show` print it.
        #[arg(long, value_name = "ID", requires = "saved")]
        expect: Option<String>,
        /// Do not ask.
        #[arg(short, long)]
        yes: bool,
        /// Go on from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Draw which step ran when, with the critical path marked, as SVG.
        #[arg(long, value_name = "FILE")]
        timeline: Option<PathBuf>,
        /// Show every node in full, also those that are alike.
        #[arg(long)]
        full: bool,
    },
    /// Stop and delete every VM of the cluster; images, templates and secrets stay.
    Destroy {
        /// Which inventory.
        #[command(flatten)]
        target: Target,
        /// The cluster's name, instead of being asked for it.
        #[arg(long, value_name = "NAME")]
        confirm: Option<String>,
        /// Go on from this generation of the cluster although this store has not seen it.
        #[arg(long, value_name = "GENERATION")]
        onto: Option<u32>,
        /// Show every node in full, also those that are alike.
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
        /// Exit with 2 if not every node is as it should be.
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
    /// Single nodes.
    #[command(subcommand)]
    Node(crate::commands::node::NodeCommand),
    /// Snapshots of etcd: take, list, restore.
    #[command(subcommand)]
    Backup(crate::commands::backup::BackupCommand),
    /// The cluster's secrets: bring in, take out, look at; mint talosconfig and kubeconfig.
    #[command(subcommand)]
    Secrets(crate::commands::secrets::SecretsCommand),
    /// Look at the inventory itself.
    #[command(subcommand)]
    Inventory(InventoryCommand),
    /// Helm charts, rendered without Helm.
    #[command(subcommand)]
    Helm(crate::commands::helm::HelmCommand),
    /// What VMs are cloned from: list it, and prune what is left over.
    #[command(subcommand)]
    Templates(crate::commands::templates::TemplatesCommand),
    /// Volumes that Proxmox left behind: list them, and delete them.
    #[command(subcommand)]
    Volumes(crate::commands::volumes::VolumesCommand),
    /// Prepare Proxmox itself: the account and its privileges.
    #[command(subcommand)]
    Proxmox(crate::commands::proxmox::ProxmoxCommand),
    /// The built-in lab: a datacenter in a process.
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
        /// Show every node in full, also those that are alike.
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
        /// With every default, name, number and address decided.
        #[arg(long)]
        resolved: bool,
    },
    /// Print the JSON Schema of the inventory, for editors.
    Schema,
}

/// The lab's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Whether it runs, since when, and what is in it.
    Status {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Stop it; its world stays on disk.
    Stop {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Stop it and forget its world.
    Reset {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
    },
    /// Add to its world what an inventory names and the world lacks: hosts, storages, bridges, pools, tokens.
    Extend {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
        /// The inventory.
        #[arg(short, long, value_name = "FILE")]
        file: PathBuf,
    },
    /// Run it in the foreground, for other clients.
    Serve {
        /// The lab's options.
        #[command(flatten)]
        lab: LabOptions,
        /// An inventory whose hosts, storages and bridges a new world has.
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// End after so many idle minutes; 0 means never.
        #[arg(long, value_name = "MINUTES", default_value_t = 0)]
        idle: u64,
    },
}
