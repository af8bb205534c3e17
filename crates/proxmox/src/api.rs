//! The endpoints, one method each.

use std::collections::BTreeMap;

use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    client::{Ask, Client, Repeat},
    create::{CloneVm, CreateVm},
    error::{Error, Kind},
    lenient::{self, as_text},
    model::{
        AgentReply, ClusterMember, GuestInterface, Interface, Node, NodeStatus, NodeTime, Permissions, Pool,
        Resource, Storage, Version, VmRow, VmStatus, Volume, VolumeInfo,
    },
    params::{Params, format_size, segment, tail},
    task::{LogLine, TaskFilter, TaskRow, TaskState, TaskStatus},
    upid::Upid,
    upload::Upload,
    vm::{UpdateVm, VmConfig},
};

/// What is read of a VNet.
#[derive(Deserialize)]
struct Vnet {
    #[serde(default, deserialize_with = "lenient::opt_text")]
    vnet: Option<String>,
    #[serde(default, deserialize_with = "lenient::opt_text")]
    zone: Option<String>,
}

/// A file that a node should fetch by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Download {
    /// `iso`, `vztmpl` or `import`.
    pub content: String,
    /// Name on the storage; for `import` it must end in `.qcow2`, `.raw`, `.vmdk` or `.ova`.
    pub filename: String,
    /// Where it comes from.
    pub url: String,
    /// SHA-256 it must have. With it, a file that is already there and right counts as done; without it, any file of
    /// the name that is already there is a failure.
    pub sha256: Option<String>,
    /// Whether the node checks the server's certificate.
    pub verify_certificates: bool,
}

impl Client {
    // --- the cluster ---

    /// `GET /version`.
    pub async fn version(&self) -> Result<Version, Error> {
        self.ask(Ask::get("/version", "read the Proxmox version")).await
    }

    /// `GET /cluster/resources`: guests, nodes and storages that the token may see, everywhere, in one call.
    pub async fn resources(&self) -> Result<Vec<Resource>, Error> {
        self.ask(Ask::get("/cluster/resources", "list the cluster's resources")).await
    }

    /// The same, of one kind: `vm`, `node`, `storage` or `sdn`.
    pub async fn resources_of(&self, kind: &str) -> Result<Vec<Resource>, Error> {
        let mut query = Params::new();
        query.set("type", kind);
        let operation = format!("list the cluster's resources of type {kind}");
        self.ask(Ask::get("/cluster/resources", operation).query(query)).await
    }

    /// `GET /cluster/status`; needs Sys.Audit on `/`.
    pub async fn cluster_status(&self) -> Result<Vec<ClusterMember>, Error> {
        self.ask(Ask::get("/cluster/status", "read the cluster's status")).await
    }

    /// `GET /cluster/nextid`: a free VMID. A hint, not a reservation.
    pub async fn next_vmid(&self) -> Result<u32, Error> {
        let operation = "ask for a free VMID";
        let value: Value = self.ask(Ask::get("/cluster/nextid", operation)).await?;
        as_text(&value)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| Error::new(operation, Kind::Protocol { text: format!("{value} is not a VMID") }))
    }

    /// `GET /cluster/nextid?vmid=N`: whether any guest has the VMID, also one that the token may not see.
    pub async fn vmid_taken(&self, vmid: u32) -> Result<bool, Error> {
        let mut query = Params::new();
        query.set("vmid", vmid);
        let ask = Ask::get("/cluster/nextid", format!("ask whether VMID {vmid} is free")).query(query);
        match self.ask::<Value>(ask).await {
            Ok(_) => Ok(false),
            Err(error) => match error.kind() {
                Kind::AlreadyExists { .. } => Ok(true),
                Kind::Parameter { errors, .. }
                    if errors.get("vmid").is_some_and(|why| why.contains("already exists")) =>
                {
                    Ok(true)
                }
                _ => Err(error),
            },
        }
    }

    /// `GET /cluster/tasks`: running and recent tasks of all nodes. A token sees its own here only with Sys.Audit on
    /// `/`, and each node lists at most about 25.
    pub async fn cluster_tasks(&self) -> Result<Vec<TaskRow>, Error> {
        self.ask(Ask::get("/cluster/tasks", "list the cluster's tasks")).await
    }

    /// `GET /access/permissions`: what the token may do, by path.
    pub async fn permissions(&self) -> Result<Permissions, Error> {
        self.ask(Ask::get("/access/permissions", "read the token's permissions")).await
    }

    /// `GET /pools`.
    pub async fn pools(&self) -> Result<Vec<Pool>, Error> {
        self.ask(Ask::get("/pools", "list the pools")).await
    }

    /// `POST /pools`.
    pub async fn create_pool(&self, pool: &str, comment: Option<&str>) -> Result<(), Error> {
        let mut form = Params::new();
        form.set("poolid", pool).set_some("comment", comment);
        let ask = Ask::change(Method::POST, "/pools", Repeat::Once, format!("create pool {pool}"));
        self.ask::<Value>(ask.form(form)).await.map(drop)
    }

    // --- a node ---

    /// `GET /nodes`.
    pub async fn nodes(&self) -> Result<Vec<Node>, Error> {
        self.ask(Ask::get("/nodes", "list the nodes")).await
    }

    /// `GET /nodes/N/status`; needs Sys.Audit on the node.
    pub async fn node_status(&self, node: &str) -> Result<NodeStatus, Error> {
        let path = format!("/nodes/{}/status", segment(node));
        self.ask(Ask::get(path, format!("read the status of node {node}"))).await
    }

    /// `GET /nodes/N/time`: the node's clock in Unix seconds; needs Sys.Audit on the node.
    pub async fn node_time(&self, node: &str) -> Result<i64, Error> {
        let path = format!("/nodes/{}/time", segment(node));
        let told: NodeTime = self.ask(Ask::get(path, format!("read the clock of node {node}"))).await?;
        Ok(told.time)
    }

    /// `GET /nodes/N/storage`.
    pub async fn storages(&self, node: &str) -> Result<Vec<Storage>, Error> {
        let path = format!("/nodes/{}/storage", segment(node));
        self.ask(Ask::get(path, format!("list the storages of node {node}"))).await
    }

    /// `GET /nodes/N/network?type=any_bridge`: bridges that the token may use.
    pub async fn bridges(&self, node: &str) -> Result<Vec<Interface>, Error> {
        let mut query = Params::new();
        query.set("type", "any_bridge");
        let path = format!("/nodes/{}/network", segment(node));
        self.ask(Ask::get(path, format!("list the bridges of node {node}")).query(query)).await
    }

    /// `GET /cluster/sdn/vnets`: the zones of the VNets that the token may see (SDN.Audit).
    pub async fn vnets(&self) -> Result<BTreeMap<String, String>, Error> {
        let rows: Vec<Vnet> = self.ask(Ask::get("/cluster/sdn/vnets", "list the VNets")).await?;
        Ok(rows.into_iter().filter_map(|row| Some((row.vnet?, row.zone?))).collect())
    }

    /// `GET /nodes/N/storage/S/status`.
    pub async fn storage_status(&self, node: &str, storage: &str) -> Result<Storage, Error> {
        let path = format!("/nodes/{}/storage/{}/status", segment(node), segment(storage));
        self.ask(Ask::get(path, format!("read the status of storage {storage} on node {node}"))).await
    }

    // --- storage content ---

    /// `GET …/content`, of one content type (`iso`, `import`, `images`) or of all.
    pub async fn volumes(
        &self,
        node: &str,
        storage: &str,
        content: Option<&str>,
    ) -> Result<Vec<Volume>, Error> {
        let mut query = Params::new();
        query.set_some("content", content);
        let path = format!("/nodes/{}/storage/{}/content", segment(node), segment(storage));
        let operation = format!("list the content of storage {storage} on node {node}");
        self.ask(Ask::get(path, operation).query(query)).await
    }

    /// `GET …/content/V`: what the file is by itself. The size is that of the disk in an image, not that of the file.
    pub async fn volume(&self, node: &str, volid: &str) -> Result<VolumeInfo, Error> {
        let storage = volid.split(':').next().unwrap_or_default();
        let path = format!("/nodes/{}/storage/{}/content/{}", segment(node), segment(storage), tail(volid));
        self.ask(Ask::get(path, format!("look at {volid} on node {node}"))).await
    }

    /// `DELETE …/content/V`. A file that is not there counts as deleted. Proxmox may answer without a task.
    /// (Its `delay` option would save waiting, but holds one of the node's few workers for at least a second.)
    pub async fn delete_volume(&self, node: &str, volid: &str) -> Result<Option<Upid>, Error> {
        let storage = volid.split(':').next().unwrap_or_default();
        let path = format!("/nodes/{}/storage/{}/content/{}", segment(node), segment(storage), tail(volid));
        let operation = format!("delete {volid} on node {node}");
        self.ask(Ask::change(Method::DELETE, path, Repeat::Idempotent, operation)).await
    }

    /// `POST …/download-url`: the node fetches a file by itself.
    pub async fn download(&self, node: &str, storage: &str, download: &Download) -> Result<Upid, Error> {
        let mut form = Params::new();
        form.set("content", &download.content).set("filename", &download.filename).set("url", &download.url);
        if let Some(sha256) = &download.sha256 {
            form.set("checksum", sha256).set("checksum-algorithm", "sha256");
        }
        form.flag("verify-certificates", download.verify_certificates);
        let path = format!("/nodes/{}/storage/{}/download-url", segment(node), segment(storage));
        let operation = format!("have node {node} download {} to storage {storage}", download.filename);
        // With a checksum a second download finds the first one's file and is content.
        let repeat = if download.sha256.is_some() { Repeat::Idempotent } else { Repeat::Once };
        self.ask(Ask::change(Method::POST, path, repeat, operation).form(form)).await
    }

    /// `POST …/upload`: puts a file on a storage, replacing one of the same name.
    pub async fn upload(&self, node: &str, storage: &str, upload: &Upload) -> Result<Upid, Error> {
        let path = format!("/nodes/{}/storage/{}/upload", segment(node), segment(storage));
        let operation = format!("upload {} to storage {storage} on node {node}", upload.filename);
        let mut ask = Ask::change(Method::POST, path, Repeat::Idempotent, operation);
        ask.body = upload.body();
        // A megabyte a second is slow enough to wait for.
        let seconds = 90 + (upload.bytes.len() >> 20) as u64;
        ask.limit = Some(std::time::Duration::from_secs(seconds));
        self.ask(ask).await
    }

    // --- VMs ---

    /// `GET /nodes/N/qemu`: the node's VMs, immediate.
    pub async fn vms(&self, node: &str) -> Result<Vec<VmRow>, Error> {
        let path = format!("/nodes/{}/qemu", segment(node));
        self.ask(Ask::get(path, format!("list the VMs of node {node}"))).await
    }

    /// `POST /nodes/N/qemu`. Never repeated once sent: a failed try leaves the VMID reserved or taken.
    pub async fn create_vm(&self, node: &str, vm: &CreateVm) -> Result<Upid, Error> {
        let path = format!("/nodes/{}/qemu", segment(node));
        let operation = format!("create VM {} ({}) on node {node}", vm.vmid, vm.name);
        self.ask(Ask::change(Method::POST, path, Repeat::Once, operation).form(vm.params())).await
    }

    /// `POST …/clone`: the task carries the source's VMID. Never repeated once sent.
    pub async fn clone_vm(&self, node: &str, vmid: u32, clone: &CloneVm) -> Result<Upid, Error> {
        let operation = format!("clone VM {vmid} on node {node} to VM {}", clone.newid);
        let ask = Ask::change(Method::POST, vm_path(node, vmid, "/clone"), Repeat::Once, operation);
        self.ask(ask.form(clone.params())).await
    }

    /// `POST …/template`: the VM becomes a template, for good. It must be stopped.
    pub async fn make_template(&self, node: &str, vmid: u32) -> Result<Option<Upid>, Error> {
        let operation = format!("make a template of VM {vmid} on node {node}");
        self.ask(Ask::change(Method::POST, vm_path(node, vmid, "/template"), Repeat::Once, operation)).await
    }

    /// `GET …/config`: with changes that wait for the next start already in.
    pub async fn vm_config(&self, node: &str, vmid: u32) -> Result<VmConfig, Error> {
        let operation = format!("read the config of VM {vmid} on node {node}");
        let data: Map<String, Value> =
            self.ask(Ask::get(vm_path(node, vmid, "/config"), operation).about_one()).await?;
        Ok(VmConfig::parse(&data))
    }

    /// `GET …/pending`: the same config, and beside it what the running VM has where that differs.
    pub async fn vm_config_pending(&self, node: &str, vmid: u32) -> Result<VmConfig, Error> {
        let operation = format!("read the config of VM {vmid} on node {node}, pending changes apart");
        let rows: Vec<Map<String, Value>> =
            self.ask(Ask::get(vm_path(node, vmid, "/pending"), operation).about_one()).await?;
        Ok(VmConfig::parse_pending(&rows))
    }

    /// `PUT …/config`. Not for options that make disks, which take longer than Proxmox waits.
    pub async fn update_vm(&self, node: &str, vmid: u32, update: &UpdateVm) -> Result<(), Error> {
        let operation = format!("change the config of VM {vmid} on node {node}");
        let ask = Ask::change(Method::PUT, vm_path(node, vmid, "/config"), Repeat::Idempotent, operation);
        self.ask::<Value>(ask.form(update.params())).await.map(drop)
    }

    /// `PUT …/resize` to an absolute size; a disk that has it already is left alone. Before release 8 Proxmox answers
    /// without a task.
    pub async fn resize_disk(
        &self,
        node: &str,
        vmid: u32,
        slot: &str,
        bytes: u64,
    ) -> Result<Option<Upid>, Error> {
        let mut form = Params::new();
        form.set("disk", slot).set("size", format_size(bytes));
        let operation = format!("grow disk {slot} of VM {vmid} on node {node}");
        let ask = Ask::change(Method::PUT, vm_path(node, vmid, "/resize"), Repeat::Idempotent, operation);
        self.ask(ask.form(form)).await
    }

    /// `POST …/status/start`. Starting a VM that runs is a task that fails with [`Kind::Running`].
    pub async fn start_vm(&self, node: &str, vmid: u32) -> Result<Upid, Error> {
        self.power(node, vmid, "start", Params::new()).await
    }

    /// `POST …/status/stop`: pulls the plug. A stopped VM counts as stopped.
    pub async fn stop_vm(&self, node: &str, vmid: u32) -> Result<Upid, Error> {
        self.power(node, vmid, "stop", Params::new()).await
    }

    /// `POST …/status/shutdown`: asks the guest, and after `timeout` seconds pulls the plug if `force`.
    pub async fn shutdown_vm(&self, node: &str, vmid: u32, timeout: u32, force: bool) -> Result<Upid, Error> {
        let mut form = Params::new();
        form.set("timeout", timeout).flag("forceStop", force);
        self.power(node, vmid, "shutdown", form).await
    }

    async fn power(&self, node: &str, vmid: u32, what: &str, form: Params) -> Result<Upid, Error> {
        let operation = match what {
            "shutdown" => format!("shut down VM {vmid} on node {node}"),
            _ => format!("{what} VM {vmid} on node {node}"),
        };
        let path = vm_path(node, vmid, &format!("/status/{what}"));
        let mut ask = Ask::change(Method::POST, path, Repeat::Idempotent, operation);
        if !form.is_empty() {
            ask = ask.form(form);
        }
        self.ask(ask).await
    }

    /// `DELETE /nodes/N/qemu/ID` with its disks, and with `purge` its jobs and HA membership. It must be stopped.
    pub async fn destroy_vm(&self, node: &str, vmid: u32, purge: bool) -> Result<Upid, Error> {
        let mut query = Params::new();
        if purge {
            query.flag("purge", true);
        }
        let operation = format!("destroy VM {vmid} on node {node}");
        let ask = Ask::change(Method::DELETE, vm_path(node, vmid, ""), Repeat::Idempotent, operation);
        self.ask(ask.query(query)).await
    }

    /// `GET …/status/current`.
    pub async fn vm_status(&self, node: &str, vmid: u32) -> Result<VmStatus, Error> {
        let operation = format!("read the status of VM {vmid} on node {node}");
        self.ask(Ask::get(vm_path(node, vmid, "/status/current"), operation)).await
    }

    /// `GET …/agent/network-get-interfaces`.
    pub async fn agent_interfaces(&self, node: &str, vmid: u32) -> Result<Vec<GuestInterface>, Error> {
        let operation = format!("ask the guest agent of VM {vmid} on node {node} for its addresses");
        let path = vm_path(node, vmid, "/agent/network-get-interfaces");
        let reply: AgentReply = self.ask(Ask::get(path, operation)).await?;
        Ok(reply.result.into_iter().map(Into::into).collect())
    }

    // --- tasks ---

    /// `GET /nodes/N/tasks`: the token's own tasks; others too with Sys.Audit on the node.
    pub async fn tasks(&self, node: &str, filter: &TaskFilter) -> Result<Vec<TaskRow>, Error> {
        let path = format!("/nodes/{}/tasks", segment(node));
        self.ask(Ask::get(path, format!("list the tasks of node {node}")).query(filter.params())).await
    }

    /// `GET /nodes/N/tasks/UPID/status`. For many tasks use a [`crate::TaskWatcher`].
    pub async fn task_state(&self, upid: &Upid) -> Result<TaskState, Error> {
        let path = format!("/nodes/{}/tasks/{}/status", segment(upid.node()), segment(upid.as_str()));
        let status: TaskStatus = self.ask(Ask::get(path, format!("read the state of task {upid}"))).await?;
        Ok(status.state())
    }

    /// The last lines of a task's log.
    pub async fn task_log_tail(&self, upid: &Upid, lines: usize) -> Result<Vec<String>, Error> {
        let path = format!("/nodes/{}/tasks/{}/log", segment(upid.node()), segment(upid.as_str()));
        let mut query = Params::new();
        // Lines are counted from the start; 0 asks for all of them.
        query.set("limit", 0);
        let log: Vec<LogLine> =
            self.ask(Ask::get(path, format!("read the log of task {upid}")).query(query)).await?;
        let skip = log.len().saturating_sub(lines);
        Ok(log.into_iter().skip(skip).map(|line| line.t).collect())
    }

    /// `DELETE /nodes/N/tasks/UPID`: asks the worker to stop. It may finish all the same.
    pub async fn abort_task(&self, upid: &Upid) -> Result<(), Error> {
        let path = format!("/nodes/{}/tasks/{}", segment(upid.node()), segment(upid.as_str()));
        let ask = Ask::change(Method::DELETE, path, Repeat::Idempotent, format!("abort task {upid}"));
        self.ask::<Value>(ask).await.map(drop)
    }
}

fn vm_path(node: &str, vmid: u32, rest: &str) -> String {
    format!("/nodes/{}/qemu/{vmid}{rest}", segment(node))
}
