//! `cargo xtask dist`: what a release is: for each target an archive with binary, manual pages, completions and licences, a list of
//! what is in it (SBOM), and one file of checksums.

mod packages;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use packages::Package;

use crate::archive::{Entries, Entry, add, gzip, sha256, tar};
use crate::{build, image};

const USAGE: &str = "\
usage: cargo xtask dist [--target TRIPLE] [--binary FILE] [--runnable FILE] [--to FOLDER]

  --target TRIPLE   what to build for (default: musl of this machine where its library is installed, else this machine)
  --binary FILE     take this binary of the target instead of building one
  --runnable FILE   the same version for this machine, for manual pages and completions, if the binary does not run here
  --to FOLDER       where everything is put (default: target/dist)";

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMS: &str = "SHA256SUMS";

#[derive(Default)]
struct Options {
    target: Option<String>,
    binary: Option<PathBuf>,
    runnable: Option<PathBuf>,
    to: Option<PathBuf>,
}

/// Runs the chore.
pub fn run(args: &[String]) -> ExitCode {
    let Some(options) = parse(args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64);
    };
    match make(&options) {
        Ok(files) => {
            files.iter().for_each(|file| println!("{}", file.display()));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("cannot make the release: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(args: &[String]) -> Option<Options> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(flag) = args.next() {
        let value = args.next()?;
        match flag.as_str() {
            "--target" => options.target = Some(value.clone()),
            "--binary" => options.binary = Some(value.into()),
            "--runnable" => options.runnable = Some(value.into()),
            "--to" => options.to = Some(value.into()),
            _ => return None,
        }
    }
    Some(options)
}

fn make(options: &Options) -> Result<Vec<PathBuf>, String> {
    let (binary, target) = match (&options.binary, &options.target) {
        (Some(binary), Some(target)) => (binary.clone(), target.clone()),
        (Some(_), None) => {
            return Err("--binary needs --target: a file does not say what it was built for".to_owned());
        }
        (None, target) => {
            let target = target.clone().map_or_else(build::usual, Ok)?;
            (build::release(Some(&target))?, target)
        }
    };
    let bytes = read(&binary)?;
    if target.contains("-linux-") {
        image::standalone(&binary, &bytes)?;
    }
    let packages = packages::shipped(&target)?;
    let runnable = options.runnable.as_ref().unwrap_or(&binary);
    let sbom = sbom::document(&packages, VERSION);
    let sbom = serde_json::to_string_pretty(&sbom).map_err(|error| error.to_string())? + "\n";
    let name = format!("daedal-{VERSION}-{target}");
    let mut entries = Entries::new();
    contents(&mut entries, &name, bytes, runnable)?;
    let licences = packages::licences(&packages)?;
    add(&mut entries, &format!("{name}/THIRD-PARTY.txt"), Entry::file(0o644, licences));
    add(&mut entries, &format!("{name}/daedal.cdx.json"), Entry::file(0o644, sbom.clone()));
    let archive = tar(&entries).and_then(|tar| gzip(&tar)).map_err(|error| error.to_string())?;
    let folder = options.to.clone().unwrap_or_else(|| crate::root().join("target/dist"));
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let made = [
        write(&folder, &format!("{name}.tar.gz"), &archive)?,
        write(&folder, &format!("{name}.cdx.json"), sbom.as_bytes())?,
        sums(&folder)?,
    ];
    Ok(made.into())
}

/// What an archive has besides lists: the binary, its pages, completions for shells, and the project's own texts.
fn contents(entries: &mut Entries, name: &str, binary: Vec<u8>, runnable: &Path) -> Result<(), String> {
    add(entries, &format!("{name}/daedal"), Entry::file(0o755, binary));
    for text in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        add(entries, &format!("{name}/{text}"), Entry::file(0o644, read(&crate::root().join(text))?));
    }
    for (shell, file) in [("bash", "daedal.bash"), ("zsh", "_daedal"), ("fish", "daedal.fish")] {
        let script = said(runnable, &["completions", shell])?;
        add(entries, &format!("{name}/completions/{file}"), Entry::file(0o644, script));
    }
    let pages = std::env::temp_dir().join(format!("daedal-man-{}", std::process::id()));
    let _ = fs::remove_dir_all(&pages);
    said(runnable, &["man", "--to", &pages.display().to_string()])?;
    let listed = fs::read_dir(&pages).map_err(|error| format!("cannot read {}: {error}", pages.display()))?;
    for page in listed {
        let path = page.map_err(|error| error.to_string())?.path();
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        add(entries, &format!("{name}/man/{file}"), Entry::file(0o644, read(&path)?));
    }
    let _ = fs::remove_dir_all(&pages);
    Ok(())
}

/// What a run of the binary prints.
fn said(binary: &Path, args: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(binary).args(args).output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", binary.display()))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => {
            Err(format!("`daedal {}` fails: {}", args.join(" "), String::from_utf8_lossy(&output.stderr)))
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn write(folder: &Path, name: &str, content: &[u8]) -> Result<PathBuf, String> {
    let path = folder.join(name);
    fs::write(&path, content).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// The checksums of everything in the folder, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> Result<PathBuf, String> {
    let listed =
        fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    let files = listed.filter_map(Result::ok).map(|entry| entry.path());
    let mut files: Vec<PathBuf> = files.filter(|path| path.is_file() && !path.ends_with(SUMS)).collect();
    files.sort();
    let mut text = String::new();
    for file in files {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        text += &format!("{}  {name}\n", sha256(&read(&file)?));
    }
    write(folder, SUMS, text.as_bytes())
}

#[cfg(test)]
#[path = "dist/tests.rs"]
mod tests;
