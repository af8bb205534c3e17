//! Loads charts from folders, archives and memory.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use super::archive::{self, Room};
use super::ignore::Ignore;
use super::{Chart, File, Metadata, Values};
use crate::error::Error;
use crate::parallel;

/// Largest single file of a chart.
pub(super) const MAX_FILE: u64 = 5 << 20;
/// Largest chart once unpacked.
pub(super) const MAX_CHART: u64 = 100 << 20;
/// Charts within charts.
const MAX_DEPTH: usize = 32;

const VALUES: &str = "values.yaml";
/// Values that take longer to parse than a thread to start.
const LARGE: u64 = 32 << 10;
const BOM: &[u8] = b"\xEF\xBB\xBF";

impl Chart {
    /// Loads a chart from a folder or a `.tgz` archive.
    pub fn load(path: impl AsRef<Path>) -> Result<Chart, Error> {
        let path = path.as_ref();
        let read = |source| Error::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(read)?.is_dir() {
            let values = path.join(VALUES);
            if std::fs::metadata(&values).is_ok_and(|m| m.len() > LARGE) {
                let (files, ahead) = parallel::both(|| folder(path), || Ahead::read(&values));
                return from_files(files?, ahead, 0, &mut Room::new());
            }
            return from_files(folder(path)?, None, 0, &mut Room::new());
        }
        let data = std::fs::read(path).map_err(read)?;
        if !data.starts_with(&[0x1f, 0x8b]) {
            return Err(Error::Archive(format!(
                "{} does not appear to be a gzipped archive",
                path.display()
            )));
        }
        Chart::from_archive(&data)
    }

    /// Loads a chart from the bytes of a `.tgz` archive.
    pub fn from_archive(data: &[u8]) -> Result<Chart, Error> {
        let mut room = Room::new();
        from_files(archive::unpack(data, &mut room)?, None, 0, &mut room)
    }

    /// Loads a chart from files in memory, by their paths from the chart's folder.
    pub fn from_files(files: Vec<File>) -> Result<Chart, Error> {
        from_files(files, None, 0, &mut Room::new())
    }
}

/// A large `values.yaml`, parsed while the other files were being read. It counts only if the chart has it as it is here.
struct Ahead {
    data: Vec<u8>,
    values: Result<Values, Error>,
}

impl Ahead {
    fn read(path: &Path) -> Option<Ahead> {
        let data = without_bom(bounded(path, MAX_FILE).ok()??);
        Some(Ahead { values: Values::from_yaml(&data), data })
    }
}

fn folder(root: &Path) -> Result<Vec<File>, Error> {
    let ignore_file = root.join(".helmignore");
    let rules = match std::fs::read(&ignore_file) {
        Ok(text) => crate::strconv::lossy(&text).into_owned(),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Error::Read { path: ignore_file, source }),
    };
    let rules = Ignore::parse(&rules)?;
    let mut files = Vec::new();
    let mut total = 0;
    walk(root, "", &rules, &mut files, &mut total, 0)?;
    Ok(files)
}

fn walk(
    folder: &Path,
    prefix: &str,
    rules: &Ignore,
    files: &mut Vec<File>,
    total: &mut u64,
    depth: usize,
) -> Result<(), Error> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Read { path, source }
    };
    if depth > 64 {
        return Err(Error::Chart(format!("folders nest too deep at {}", folder.display())));
    }
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).map_err(read(folder))?.collect::<Result<_, _>>().map_err(read(folder))?;
    entries.sort_by_cached_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let mut kind = entry.file_type().map_err(read(&path))?;
        if kind.is_symlink() {
            // Symbolic links are followed, as Helm does for charts on disk.
            kind = std::fs::metadata(&path).map_err(read(&path))?.file_type();
        }
        if rules.ignores(&name, kind.is_dir()) {
            continue;
        }
        if kind.is_dir() {
            walk(&path, &name, rules, files, total, depth + 1)?;
            continue;
        }
        if !kind.is_file() {
            return Err(Error::Chart(format!("cannot load irregular file {}", path.display())));
        }
        let Some(data) = bounded(&path, MAX_FILE.min(MAX_CHART - *total)).map_err(read(&path))? else {
            return Err(Error::Chart(format!("chart file {name:?} is larger than the maximum file size")));
        };
        *total += data.len() as u64;
        files.push(File { name, data: without_bom(data) });
    }
    Ok(())
}

/// A file's content, unless it is larger than `most`.
fn bounded(path: &Path, most: u64) -> std::io::Result<Option<Vec<u8>>> {
    let file = std::fs::File::open(path)?;
    let size = file.metadata()?.len();
    if size > most {
        return Ok(None);
    }
    // Few different sizes, because allocators keep pages apart for each.
    let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0).next_power_of_two());
    // What is appended meanwhile is not part of the chart.
    file.take(size).read_to_end(&mut data)?;
    Ok(Some(data))
}

fn without_bom(data: Vec<u8>) -> Vec<u8> {
    match data.strip_prefix(BOM) {
        Some(rest) => rest.to_vec(),
        None => data,
    }
}

/// Sorts a chart's files into what they are for.
fn from_files(
    files: Vec<File>,
    mut ahead: Option<Ahead>,
    depth: usize,
    room: &mut Room,
) -> Result<Chart, Error> {
    if depth > MAX_DEPTH {
        return Err(Error::Chart("charts nest too deep".into()));
    }
    let Some(description) = files.iter().find(|f| f.name == "Chart.yaml") else {
        return Err(Error::Chart("Chart.yaml file is missing".into()));
    };
    let mut chart = Chart {
        metadata: Metadata::parse(&description.data)?,
        templates: Arc::default(),
        files: Arc::default(),
        values: Values::default(),
        schema: None,
        dependencies: Vec::new(),
    };
    let (mut templates, mut others) = (Vec::new(), Vec::new());
    let old = chart.metadata.api_version == "v1";
    let mut inner: BTreeMap<String, Vec<File>> = BTreeMap::new();
    for file in files {
        match file.name.as_str() {
            "Chart.yaml" | "Chart.lock" => {}
            VALUES => {
                let parsed = match ahead.take() {
                    Some(ahead) if ahead.data == file.data => ahead.values,
                    _ => Values::from_yaml(&file.data),
                };
                chart.values = parsed.map_err(|e| Error::Values(format!("cannot load values.yaml: {e}")))?;
            }
            "values.schema.json" => chart.schema = Some(file.data.into()),
            "requirements.yaml" | "requirements.lock" => {
                if file.name == "requirements.yaml" {
                    chart.metadata.add_requirements(&file.data)?;
                }
                if old {
                    others.push(file);
                }
            }
            name if name.starts_with("templates/") => templates.push(file),
            name if name.starts_with("charts/") && !name.ends_with(".prov") => {
                let path = name["charts/".len()..].to_owned();
                let owner = path.split('/').next().unwrap_or_default().to_owned();
                inner.entry(owner).or_default().push(File { name: path, data: file.data });
            }
            _ => others.push(file),
        }
    }
    (chart.templates, chart.files) = (templates.into(), others.into());
    chart.metadata.validate()?;
    for (name, files) in inner {
        if name.starts_with(['_', '.']) {
            continue;
        }
        let dependency = subchart(&name, files, depth, room).map_err(|e| {
            Error::Chart(format!("error unpacking subchart {name} in {}: {e}", chart.metadata.name))
        })?;
        chart.dependencies.extend(dependency);
    }
    Ok(chart)
}

/// The chart that lies under one name in `charts/`, packed or as a folder; none if the name is no chart's.
fn subchart(name: &str, files: Vec<File>, depth: usize, room: &mut Room) -> Result<Option<Chart>, Error> {
    let files = match name.ends_with(".tgz") {
        true => match files.into_iter().next() {
            Some(file) if file.name == name => archive::unpack(&file.data, room)?,
            _ => return Ok(None),
        },
        false => {
            let inside = |file: File| {
                let (_, rest) = file.name.split_once('/')?;
                Some(File { name: rest.to_owned(), data: file.data })
            };
            files.into_iter().filter_map(inside).collect()
        }
    };
    from_files(files, None, depth + 1, room).map(Some)
}
