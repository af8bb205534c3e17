//! The client's side of a lab that runs as a process of its own: find it, ask it, stop it.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};

use crate::{Wanted, own};

/// What a running lab writes into its folder, so that others find it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Announcement {
    /// The process.
    pub pid: u32,
    /// The proxy's loopback address: HTTP CONNECT and SOCKS5.
    pub proxy: SocketAddr,
    /// The SSH server's loopback address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<SocketAddr>,
    /// The control API's loopback address.
    pub control: SocketAddr,
    /// What the control API wants to be shown; the file is private to its owner.
    pub key: String,
    /// Speed-up factor (1 = real time).
    pub speed: f64,
    /// When it started.
    pub started: jiff::Timestamp,
}

/// What a running lab says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabStatus {
    /// The process.
    pub pid: u32,
    /// The proxy's loopback address.
    pub proxy: SocketAddr,
    /// Speed-up factor (1 = real time).
    pub speed: f64,
    /// When it started.
    pub started: jiff::Timestamp,
    /// Seconds since anybody was connected; none while somebody is.
    pub idle_seconds: Option<u64>,
    /// Hosts.
    pub hosts: Vec<String>,
    /// VMs in all.
    pub vms: usize,
    /// VMs that run.
    pub running: usize,
    /// Addresses on which something answers.
    pub answering: Vec<String>,
    /// The command that runs the VMs, if the lab does not run them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner: Option<PathBuf>,
}

/// Why a running lab could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum HandleError {
    /// Its folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What names its addresses was not written by a lab of this user.
    #[error("the lab's control file {} is not used: {why}", path.display())]
    Distrusted {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It did not answer.
    #[error("the lab does not answer on {address}")]
    Silent {
        /// Its control address.
        address: SocketAddr,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It runs, but cannot write its files.
    #[error("the lab cannot keep its world")]
    Unkept {
        /// Which file, and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It refused.
    #[error("the lab refused: {status}: {text}")]
    Refused {
        /// HTTP status.
        status: StatusCode,
        /// What it said.
        text: String,
    },
}

/// Names of the files in a lab's folder.
pub mod files {
    /// The announcement of a running lab.
    pub const ANNOUNCEMENT: &str = "lab.json";
    /// The lab's CA certificate.
    pub const CA: &str = "ca.pem";
    /// The secret of the lab's API token.
    pub const TOKEN: &str = "token";
    /// Held locked while a lab runs.
    pub const LOCK: &str = "lock";
    /// What the lab's process wrote to standard error.
    pub const LOG: &str = "lab.log";
    /// The announcement of the last lab that ended by itself.
    pub const LAST: &str = "last.json";
    /// The saved world.
    pub const WORLD: &str = "world.json";
    /// Folder of the media for machines outside.
    pub const MEDIA: &str = "media";
    /// The private key that logs root in to the lab's SSH server.
    pub const SSH_KEY: &str = "ssh_key";
    /// The private key of that server.
    pub const SSH_HOST_KEY: &str = "ssh_host_key";
    /// Its public one, as known_hosts has it.
    pub const SSH_KNOWN_HOSTS: &str = "ssh_known_hosts";
    /// Every file that a lab keeps.
    pub const ALL: [&str; 10] =
        [ANNOUNCEMENT, CA, TOKEN, LOCK, LOG, LAST, WORLD, SSH_KEY, SSH_HOST_KEY, SSH_KNOWN_HOSTS];
}

/// Whether a lab runs for this folder, be it only that it is starting or ending.
pub fn is_held(folder: &Path) -> bool {
    let lock = own::open(&folder.join(files::LOCK));
    lock.is_ok_and(|file| matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

/// How long a lab may take to write its world and end.
const ENDING: Duration = Duration::from_secs(120);

/// How long a lab may take to answer: the machine may be busy.
const ANSWER: Duration = Duration::from_secs(60);

/// The most that is read of a control file, a CA or a token.
pub(crate) const SMALL: u64 = 64 << 10;

/// The most that a lab may say of itself.
const LARGEST_ANSWER: usize = 16 << 20;

/// A running lab.
#[derive(Clone)]
pub struct Handle {
    announcement: Announcement,
    folder: PathBuf,
    runner: Option<PathBuf>,
}

impl Handle {
    /// The lab that runs for this folder; none if none does.
    ///
    /// Its control file counts only if this user's lab may have written it: a private file of the user's own that leads to
    /// loopback. Anything else could have come with the folder, and would lead wherever its author likes.
    pub async fn find(folder: &Path) -> Result<Option<Self>, HandleError> {
        let path = folder.join(files::ANNOUNCEMENT);
        let text = match own::read_private(&path, SMALL) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(HandleError::Distrusted { path, why: error.to_string() }),
        };
        let Ok(announcement) = serde_json::from_slice::<Announcement>(&text) else { return Ok(None) };
        for address in [announcement.control, announcement.proxy] {
            if !address.ip().is_loopback() {
                let why = format!("it leads to {address}, which is not on this machine");
                return Err(HandleError::Distrusted { path, why });
            }
        }
        // A lab holds its lock while it lives, which no copied file can.
        if !is_held(folder) {
            return Ok(None);
        }
        let mut handle = Self { announcement, folder: folder.to_owned(), runner: None };
        // A killed lab leaves its announcement behind; only an answer proves that it runs.
        let Ok(status) = handle.status().await else { return Ok(None) };
        handle.runner = status.runner;
        Ok(Some(handle))
    }

    /// The folder that it runs for.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The command that runs its VMs, if it does not run them itself.
    pub fn runner(&self) -> Option<&Path> {
        self.runner.as_deref()
    }

    /// The proxy's address.
    pub fn proxy(&self) -> SocketAddr {
        self.announcement.proxy
    }

    /// The SSH server's address; none of a lab of an older version.
    pub fn ssh(&self) -> Option<SocketAddr> {
        self.announcement.ssh
    }

    /// The CA that signed every certificate of the lab's Proxmox and factory.
    pub fn ca_pem(&self) -> Result<String, HandleError> {
        self.read(files::CA)
    }

    /// The secret of the lab's API token.
    pub fn token_secret(&self) -> Result<String, HandleError> {
        Ok(self.read(files::TOKEN)?.trim().to_owned())
    }

    /// What it says of itself.
    pub async fn status(&self) -> Result<LabStatus, HandleError> {
        let body = self.call(Method::GET, "/status", Vec::new()).await?;
        serde_json::from_slice(&body).map_err(|source| self.silent(source))
    }

    /// Has it write its world now.
    pub async fn save(&self) -> Result<(), HandleError> {
        self.call(Method::POST, "/save", Vec::new()).await.map(drop)
    }

    /// Furnishes a new world, or extends an old one where that is wanted.
    pub async fn ensure(&self, wanted: &Wanted) -> Result<(), HandleError> {
        let body = serde_json::to_vec(wanted).map_err(|source| self.silent(source))?;
        self.call(Method::POST, "/ensure", body).await.map(drop)
    }

    /// Ends it; its world is on disk when this returns. One that cannot write its world goes on.
    pub async fn stop(&self) -> Result<(), HandleError> {
        self.end("/stop").await
    }

    /// Ends it, whether or not its world can be written.
    pub async fn abandon(&self) -> Result<(), HandleError> {
        self.end("/abandon").await
    }

    async fn end(&self, how: &str) -> Result<(), HandleError> {
        // It may be gone before its answer is.
        let told = match self.call(Method::POST, how, Vec::new()).await {
            Err(error) if !matches!(error, HandleError::Silent { .. }) => return Err(error),
            told => told.map(drop),
        };
        // The lock goes with the process, after the world is written.
        let began = tokio::time::Instant::now();
        while began.elapsed() < ENDING {
            if !is_held(&self.folder) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Err(told.err().unwrap_or_else(|| self.silent("it was told to stop and still runs")))
    }

    fn read(&self, name: &str) -> Result<String, HandleError> {
        let path = self.folder.join(name);
        own::read(&path, SMALL)
            .and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other))
            .map_err(|source| HandleError::Read { path, source })
    }

    fn silent(&self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HandleError {
        HandleError::Silent { address: self.announcement.control, source: source.into() }
    }

    async fn call(&self, method: Method, path: &str, body: Vec<u8>) -> Result<Bytes, HandleError> {
        let exchange = async {
            let stream = tokio::net::TcpStream::connect(self.announcement.control).await?;
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(io::Error::other)?;
            let driver = tokio::spawn(connection);
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("host", "lab")
                .header("authorization", format!("Bearer {}", self.announcement.key))
                .header("content-type", "application/json")
                .body(Full::new(Bytes::from(body)))
                .map_err(io::Error::other)?;
            let response = sender.send_request(request).await.map_err(io::Error::other)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST_ANSWER);
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            driver.abort();
            Ok::<_, io::Error>((status, body))
        };
        let (status, body) = tokio::time::timeout(ANSWER, exchange)
            .await
            .map_err(|source| self.silent(source))?
            .map_err(|source| self.silent(source))?;
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body).trim().to_owned();
        Err(match status {
            StatusCode::INSUFFICIENT_STORAGE => HandleError::Unkept { source: text.into() },
            _ => HandleError::Refused { status, text },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lab that is told to stop may be gone before its answer is: that it is gone is what counts.
    #[tokio::test]
    async fn a_lab_that_hangs_up_when_it_is_told_to_stop_has_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let control = listener.local_addr().unwrap();
        let lock = std::fs::File::create(folder.path().join(files::LOCK)).unwrap();
        lock.lock().unwrap();
        let announcement = Announcement {
            pid: 1,
            proxy: control,
            ssh: None,
            control,
            key: String::new(),
            speed: 1.0,
            started: jiff::Timestamp::UNIX_EPOCH,
        };
        let lab = Handle { announcement, folder: folder.path().to_owned(), runner: None };
        tokio::spawn(async move {
            drop(listener.accept().await.unwrap());
            tokio::time::sleep(Duration::from_millis(60)).await;
            drop(lock);
        });
        lab.stop().await.unwrap();
    }
    /// What comes with a folder from somebody else must not lead a token anywhere.
    #[tokio::test]
    async fn a_control_file_counts_only_if_it_is_private_and_leads_to_this_machine() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(files::ANNOUNCEMENT);
        let announce = |proxy: &str, control: &str, mode: u32| {
            let text = serde_json::json!({"pid": 1, "proxy": proxy, "control": control, "key": "k", "speed": 1.0,
                "started": "2026-01-01T00:00:00Z"});
            own::write_private(&path, text.to_string().as_bytes()).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = listener.local_addr().unwrap().to_string();
        let lock = std::fs::File::create(folder.path().join(files::LOCK)).unwrap();
        lock.lock().unwrap();
        for (proxy, control, mode, why) in [
            ("192.0.2.1:3128", here.as_str(), 0o600, "192.0.2.1:3128"),
            (here.as_str(), "192.0.2.1:80", 0o600, "192.0.2.1:80"),
            (here.as_str(), here.as_str(), 0o644, "other users"),
        ] {
            announce(proxy, control, mode);
            let refused = Handle::find(folder.path()).await.err().unwrap().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        // Nobody was asked, not even on this machine, while no lab holds its lock.
        drop(lock);
        announce(&here, &here, 0o600);
        assert!(Handle::find(folder.path()).await.unwrap().is_none());
        let asked = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
        assert!(asked.is_err());
    }
}
