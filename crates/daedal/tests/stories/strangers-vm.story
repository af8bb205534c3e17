# A VM of somebody else has the VMID of a node.
example: home
replace: count: 3  => count: 1 
replace: count: 2 => count: 1
---
root@atlas# qm create 303 --name printer
$ daedal apply --lab --yes
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Problems
  worker-1: Its VMID 303 is taken by VM 303 "printer" on atlas, which is not ours. Neither is
    touched.
    fix: give worker-1 another VMID in the inventory, or move that guest away

Notes
  host atlas: 1 stopped guest there (1 vCPU, 512 MiB of memory) is not counted and would still fit
    if started.

Host    vCPU          memory, GiB    disk, GiB        our nodes there after
atlas   2 → 6 of 64   4 → 12 of 63   32 → 72 of 800   cp-1
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + create the secrets bundle                  this cluster has none yet
    + write the output files                     they are missing or older than the inventory
    + register schematic 7d4c31cbd96d            the factory builds only what it was told of
    + pin the disk image                         its size and SHA-256 are not known yet
    + download the disk image to local on atlas  it is not there
    · wait for the API server                    https://10.0.0.20:6443 does not answer yet

+ cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 300                      declared, and not there
    ~ grow the disk to 40 GiB            the imported image is smaller
    + start VM 300                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    + bootstrap etcd                     no control plane has an etcd yet; once, on the first
    · wait until it votes in etcd        the others join it
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 0 voting members now, 1 after.

apply leaves out worker-1 (see Problems). The cluster gets 0 of 1 worker.

1 to create, 0 to change, 0 to destroy, 1 blocked.

Cluster home is incomplete: see Problems above, 1 VM created, 16 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
$ echo $?
1
$ daedal destroy --lab --confirm home
Plan to destroy cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  VM 303 "printer" on atlas: Has one of our VMIDs but is not ours. It is not touched.
  images: Disk images and boot ISOs stay on the storage, so that the next apply need not download
    them.

Host    vCPU          memory, GiB    disk, GiB        our nodes there after
atlas   6 → 2 of 64   12 → 4 of 63   72 → 32 of 800   -

- cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 300     hard, without asking the guest
    - destroy VM 300  with its disks; its data is lost

These VMs are destroyed with everything on their disks: cp-1 (VM 300).
etcd: 1 voting member now, 0 after.

0 to create, 0 to change, 1 to destroy.

Cluster home is gone, 2 steps in … s. Its outputs, which led to it, are deleted. The next apply
gives the same VMIDs, MACs and addresses.
What stays:
  image local:import/talos-v1.12.0-7d4c31cbd96d-nocloud-amd64.qcow2 on atlas
  its secrets in the store
