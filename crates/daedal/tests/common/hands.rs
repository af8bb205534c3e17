//! What somebody does in Proxmox by hand, past the program.

use daedal_lab::Handle;
use daedal_proxmox::{Client, CreateVm, TaskWatcher, Token, Trust, UpdateVm, VmConfig};

use super::Lab;

/// A client of a lab's Proxmox, as the home example's token.
pub struct Hands {
    runtime: tokio::runtime::Runtime,
    client: Client,
}

impl Hands {
    /// The lab must run.
    pub fn on(lab: &Lab) -> Self {
        Self::at(&lab.dir())
    }

    /// The lab of this folder must run.
    pub fn at(lab: &std::path::Path) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let handle = runtime.block_on(Handle::find(lab)).unwrap().unwrap();
        let proxy = daedal_dial::Proxy::parse(&format!("http://{}", handle.proxy())).unwrap();
        let token = Token::new("daedal@pve!cli", handle.token_secret().unwrap()).unwrap();
        let client = Client::builder("https://atlas.lan:8006", token)
            .dialer(std::sync::Arc::new(proxy))
            .trust(Trust::Ca(handle.ca_pem().unwrap()))
            .build()
            .unwrap();
        Self { runtime, client }
    }

    /// Host and config of a VM; none if there is none.
    pub fn vm(&self, vmid: u32) -> Option<(String, VmConfig)> {
        self.runtime.block_on(async {
            let rows = self.client.resources_of("vm").await.unwrap();
            let host = rows.iter().find(|row| row.vmid == Some(vmid))?.node.clone();
            let config = self.client.vm_config(&host, vmid).await.unwrap();
            Some((host, config))
        })
    }

    /// A VM's notes.
    pub fn notes(&self, vmid: u32) -> String {
        self.vm(vmid).unwrap().1.description.unwrap_or_default()
    }

    /// Sets an option of a VM.
    pub fn set(&self, vmid: u32, option: &str, value: &str) {
        let (host, _) = self.vm(vmid).unwrap();
        let update = UpdateVm::new().set(option, value);
        self.runtime.block_on(self.client.update_vm(&host, vmid, &update)).unwrap();
    }

    /// Creates an empty VM on atlas.
    pub fn create(&self, vmid: u32, name: &str) {
        let vm = CreateVm { vmid, name: name.to_owned(), cores: 1, memory_mib: 512, ..CreateVm::default() };
        self.runtime.block_on(async {
            let creating = self.client.create_vm("atlas", &vm).await.unwrap();
            TaskWatcher::new(&self.client).finish(&creating, "create a VM").await.unwrap();
        });
    }

    /// Stops a VM and destroys it.
    pub fn destroy(&self, vmid: u32) {
        let (host, _) = self.vm(vmid).unwrap();
        self.runtime.block_on(async {
            let tasks = TaskWatcher::new(&self.client);
            let stopping = self.client.stop_vm(&host, vmid).await.unwrap();
            tasks.finish(&stopping, "stop a VM").await.unwrap();
            let destroying = self.client.destroy_vm(&host, vmid, true).await.unwrap();
            tasks.finish(&destroying, "destroy a VM").await.unwrap();
        });
    }

    /// The files of a kind on a storage of all hosts.
    pub fn files(&self, storage: &str, content: &str) -> Vec<String> {
        self.runtime.block_on(async {
            let hosts = self.client.resources_of("node").await.unwrap();
            let mut files = Vec::new();
            for host in hosts {
                let volumes = self.client.volumes(&host.node, storage, Some(content)).await.unwrap();
                files.extend(volumes.into_iter().map(|volume| volume.volid));
            }
            files
        })
    }
}
