# A snapshot of etcd, and the cluster made again from it.
example: home
replace: count: 3  => count: 1 
replace: count: 2 => count: 1
first: daedal apply --lab --yes
---
$ daedal backup create --lab --to snapshot.db
snapshot.db: 73 KiB from cp-1, revision 22, 20 keys, checksum verified
$ daedal destroy --lab --confirm home
Plan to destroy cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  images: Disk images and boot ISOs stay on the storage, so that the next apply need not download
    them.

Host    vCPU           memory, GiB    disk, GiB         our nodes there after
atlas   10 → 2 of 64   20 → 4 of 63   132 → 32 of 800   -

- cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 300     hard, without asking the guest
    - destroy VM 300  with its disks; its data is lost

- worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    - stop VM 303     hard, without asking the guest
    - destroy VM 303  with its disks; its data is lost

These VMs are destroyed with everything on their disks: cp-1 (VM 300), worker-1 (VM 303).
etcd: 1 voting member now, 0 after.

0 to create, 0 to change, 2 to destroy.

Cluster home is gone, 4 steps in … s. Its outputs, which led to it, are deleted. The next apply
gives the same VMIDs, MACs and addresses.
What stays:
  image local:import/talos-v1.12.0-7d4c31cbd96d-nocloud-amd64.qcow2 on atlas
  its secrets in the store
$ daedal backup restore snapshot.db --lab --yes
The snapshot was taken on 2026-11-18 12:00 from cp-1: what happened since is not in it.
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Host    vCPU           memory, GiB    disk, GiB         our nodes there after
atlas   2 → 10 of 64   4 → 20 of 63   32 → 132 of 800   cp-1, worker-1
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files                     they are missing or older than the inventory
    + download the disk image to local on atlas  it is there: only its SHA-256 is compared
    · wait for the API server                    https://10.0.0.20:6443 does not answer yet

+ cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    + upload its config medium to local             its machine config, for the first boot
    + create VM 300                                 declared, and not there
    ~ grow the disk to 40 GiB                       the imported image is smaller
    + start VM 300                                  first boot, straight into its config
    · wait until its Talos API answers              its config must be in force
    - eject its media                               the node has its config
    - delete the config medium                      it holds keys
    + bootstrap etcd from the snapshot snapshot.db  no control plane has an etcd yet; it begins at
                                                    revision 22 (73 KiB)
    · wait until it votes in etcd                   the others join it
    · wait until it is Ready                        the last thing a new node needs

+ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 303                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 303                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 0 voting members now, 1 after.

2 to create, 0 to change, 0 to destroy.

Cluster home is up: 2 nodes Ready, 2 VMs created, 21 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
$ daedal status --lab
NODE      HOST   VMID  ADDRESS    VM       TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running  v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running  v1.12.0 running  –       Ready

API endpoint https://10.0.0.20:6443 answers. 2 of 2 nodes are as they should be.
