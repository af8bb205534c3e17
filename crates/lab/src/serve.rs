//! A lab as a process of its own: one per folder, reached over loopback, its world kept on disk.

use std::fs::{File, TryLockError};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Json, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rand::RngCore as _;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::activity::Activity;
use crate::handle::{Announcement, LabStatus, SMALL, files};
use crate::own::{self, write_private};
use crate::{Lab, LabError, LabSpec, Wanted, loopback, proxy, ssh};

/// How often the world is written while somebody uses the lab.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// How a lab is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The lab's folder.
    pub folder: PathBuf,
    /// What a new world contains; an old one stays as it is.
    pub spec: LabSpec,
    /// End after so long without a connection.
    pub idle: Option<Duration>,
}

/// Why a lab cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// One runs already.
    #[error("a lab runs already for {}", folder.display())]
    Running {
        /// The folder.
        folder: PathBuf,
    },
    /// A file or socket.
    #[error("cannot {what}")]
    Io {
        /// What was attempted.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The world on disk.
    #[error("the lab's world cannot be used")]
    World {
        /// Why.
        source: LabError,
    },
}

#[derive(Clone)]
struct Served {
    lab: Lab,
    folder: Arc<Path>,
    /// Why the world could not be written the last time.
    unkept: Arc<Mutex<Option<String>>>,
    announcement: Arc<Announcement>,
    activity: Activity,
    stop: CancellationToken,
}

/// Serves until it is stopped or idle for too long. `ready` is called once everything answers.
pub async fn serve(
    options: ServeOptions,
    stop: CancellationToken,
    ready: impl FnOnce(&Announcement),
) -> Result<(), ServeError> {
    let folder = &options.folder;
    make_folder(folder)?;
    let _lock = take_lock(folder).await?;
    let before = previous(folder);
    let now = jiff::Timestamp::now();
    let runner = options.spec.runner.clone();
    let lab = match Lab::load(folder, options.spec.speed, now.as_second(), runner).map_err(unusable)? {
        Some(lab) => {
            let LabSpec { datacenter, factories, charts, .. } = options.spec.clone();
            lab.ensure(&Wanted { datacenter, factories, charts, ..Wanted::default() }).map_err(unusable)?;
            lab
        }
        None => Lab::new(LabSpec { epoch: now.as_second(), ..options.spec.clone() }).map_err(unusable)?,
    };
    token_secret(folder)?;
    write(&folder.join(files::CA), lab.pki().ca_pem().as_bytes())?;

    let activity = Activity::default();
    let proxy_listener = bind(before.as_ref().map(|b| b.proxy)).await?;
    let ssh_listener = bind(before.as_ref().and_then(|b| b.ssh)).await?;
    let ssh_at = local(&ssh_listener)?;
    let ssh_keys = ssh::Keys::of(folder).map_err(failed("keep the keys of the SSH server"))?;
    ssh_keys.announce(folder, ssh_at).map_err(failed("write what the SSH server is known by"))?;
    let control_listener = bind(None).await?;
    let announcement = Arc::new(Announcement {
        pid: std::process::id(),
        proxy: local(&proxy_listener)?,
        ssh: Some(ssh_at),
        control: local(&control_listener)?,
        key: random_hex(),
        speed: options.spec.speed,
        started: now,
    });
    let served = Served {
        lab: lab.clone(),
        folder: folder.as_path().into(),
        unkept: Arc::default(),
        announcement: announcement.clone(),
        activity: activity.clone(),
        stop,
    };
    let text = serde_json::to_vec_pretty(&*announcement).unwrap_or_default();
    let tasks = [
        tokio::spawn(proxy::serve(proxy_listener, lab.fabric().clone(), activity.clone())),
        tokio::spawn(ssh::serve(ssh_listener, ssh_keys, lab.clone(), activity.clone())),
        tokio::spawn(loopback::serve(lab.fabric().clone(), activity.clone())),
        tokio::spawn(control(control_listener, served.clone())),
    ];
    write(&folder.join(files::ANNOUNCEMENT), &text)?;
    ready(&announcement);

    keep_until_stopped(&served, options.idle).await;
    lab.save(folder).map_err(unusable)?;
    let _ = std::fs::remove_file(folder.join(files::ANNOUNCEMENT));
    for task in &tasks {
        task.abort();
    }
    // The next lab of this folder takes the same port, so that kubeconfigs stay good.
    write(&folder.join(files::LAST), &text)?;
    Ok(())
}

/// Keeps the world from time to time until the lab is stopped or idle for too long.
async fn keep_until_stopped(served: &Served, longest_idle: Option<Duration>) {
    let activity = &served.activity;
    let mut saved_at = activity.total();
    let mut every = tokio::time::interval(SAVE_EVERY);
    loop {
        tokio::select! {
            () = served.stop.cancelled() => return,
            _ = every.tick() => {}
        }
        let idle = activity.idle_for();
        if let (Some(limit), Some(idle)) = (longest_idle, idle)
            && idle >= limit
            && !served.is_unkept()
        {
            return;
        }
        // While somebody is connected the world moves; once nobody is, one last save suffices.
        let total = activity.total();
        if idle.is_none() || total != saved_at || served.is_unkept() {
            saved_at = if idle.is_none() { u64::MAX } else { total };
            // The world goes on in memory; whoever uses the lab is told.
            let _ = served.keep();
        }
    }
}

fn previous(folder: &Path) -> Option<Announcement> {
    [files::ANNOUNCEMENT, files::LAST].iter().find_map(|name| {
        let text = own::read(&folder.join(name), SMALL).ok()?;
        serde_json::from_slice(&text).ok()
    })
}

impl Served {
    /// Writes the world, and remembers why that failed.
    fn keep(&self) -> Result<(), Refusal> {
        let said = self.lab.save(&self.folder).err().map(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            format!("{error}{}", cause.unwrap_or_default())
        });
        self.unkept.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&said);
        match said {
            Some(said) => Err((StatusCode::INSUFFICIENT_STORAGE, said)),
            None => Ok(()),
        }
    }

    fn is_unkept(&self) -> bool {
        self.unkept.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// What the control API answers where it does not do what it is asked.
type Refusal = (StatusCode, String);

fn unusable(source: LabError) -> ServeError {
    ServeError::World { source }
}

async fn control(listener: TcpListener, served: Served) {
    let router = Router::new()
        .route("/status", get(status))
        .route("/ensure", post(ensure))
        .route("/save", post(save))
        .route("/stop", post(stop))
        .route("/abandon", post(abandon))
        .layer(axum::middleware::from_fn_with_state(served.clone(), only_with_key))
        .with_state(served);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, most likely; they come back.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let connection = hyper::server::conn::http1::Builder::new();
            if let Err(error) = connection.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a connection to the lab's control API ended");
            }
        });
    }
}

async fn only_with_key(
    State(served): State<Served>,
    request: Request,
    next: Next,
) -> Result<Response, StatusCode> {
    let wanted = format!("Bearer {}", served.announcement.key);
    let given = request.headers().get("authorization").and_then(|value| value.to_str().ok());
    if given != Some(wanted.as_str()) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    Ok(next.run(request).await)
}

async fn status(State(served): State<Served>) -> Json<LabStatus> {
    let vms = served.lab.datacenter().vms();
    Json(LabStatus {
        pid: served.announcement.pid,
        proxy: served.announcement.proxy,
        speed: served.announcement.speed,
        started: served.announcement.started,
        runner: served.lab.runner().map(Path::to_owned),
        idle_seconds: served.activity.idle_for().map(|idle| idle.as_secs()),
        hosts: served.lab.datacenter().hosts(),
        vms: vms.len(),
        running: vms.iter().filter(|(_, _, _, running)| *running).count(),
        answering: served.lab.fabric().targets().iter().map(ToString::to_string).collect(),
    })
}

async fn ensure(State(served): State<Served>, Json(wanted): Json<Wanted>) -> Result<StatusCode, Refusal> {
    let _busy = served.activity.begin();
    if served.is_unkept() {
        served.keep()?;
    }
    match served.lab.ensure(&wanted) {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

async fn save(State(served): State<Served>) -> Result<StatusCode, Refusal> {
    served.keep().map(|()| StatusCode::NO_CONTENT)
}

async fn stop(State(served): State<Served>) -> Result<StatusCode, Refusal> {
    served.keep()?;
    served.stop.cancel();
    Ok(StatusCode::NO_CONTENT)
}

async fn abandon(State(served): State<Served>) -> StatusCode {
    served.stop.cancel();
    StatusCode::NO_CONTENT
}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
    let what = what.into();
    move |source| ServeError::Io { what, source }
}

fn make_folder(folder: &Path) -> Result<(), ServeError> {
    own::make_folder(folder).map_err(failed(format!("make the folder {}", folder.display())))
}

/// How often the lock is tried: whoever asks whether a lab runs holds it for a moment.
const LOCK_TRIES: u32 = 10;

async fn take_lock(folder: &Path) -> Result<File, ServeError> {
    let path = folder.join(files::LOCK);
    let file = own::open_or_make(&path).map_err(failed(format!("open {}", path.display())))?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(TryLockError::Error(source)) => {
                return Err(ServeError::Io { what: format!("lock {}", path.display()), source });
            }
        }
    }
    Err(ServeError::Running { folder: folder.to_owned() })
}

/// The secret of the API token that a folder's lab knows, made at the first call.
pub fn token_secret(folder: &Path) -> Result<String, ServeError> {
    make_folder(folder)?;
    let path = folder.join(files::TOKEN);
    let kept = own::read(&path, SMALL).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    if let Some(secret) = kept {
        return Ok(secret.trim().to_owned());
    }
    let secret = uuid::Uuid::new_v4().to_string();
    write(&path, secret.as_bytes())?;
    Ok(secret)
}

/// Writes a private file as a whole.
fn write(path: &Path, bytes: &[u8]) -> Result<(), ServeError> {
    write_private(path, bytes).map_err(failed(format!("write {}", path.display())))
}

/// Listens on loopback, on the wanted port if it is free.
async fn bind(wanted: Option<SocketAddr>) -> Result<TcpListener, ServeError> {
    if let Some(address) = wanted.filter(|a| a.ip().is_loopback())
        && let Ok(listener) = TcpListener::bind(address).await
    {
        return Ok(listener);
    }
    TcpListener::bind("127.0.0.1:0").await.map_err(failed("listen on loopback"))
}

fn local(listener: &TcpListener) -> Result<SocketAddr, ServeError> {
    listener.local_addr().map_err(failed("learn the port"))
}

fn random_hex() -> String {
    let mut bytes = [0; 16];
    rand::thread_rng().fill_bytes(&mut bytes);
    hex::encode(bytes)
}
