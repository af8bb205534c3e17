# The phases of an apply, one of them too early.
example: home
replace: count: 3  => count: 1 
replace: count: 2 => count: 1
---
$ daedal generate --lab
Plan to generate secrets and outputs of cluster home
Talos v1.12.0, Kubernetes v1.35.0

For the whole cluster
    + create the secrets bundle  this cluster has none yet
    + write the output files     they are missing or older than the inventory

Proxmox and the nodes are not asked.

secrets and outputs to write.

Cluster home: its secrets are stored in .daedal/lab/clusters/home/home. 8 output files in
.daedal/lab/clusters/home/outputs. Proxmox and the nodes were not asked.

Next:
  daedal provision --lab
$ daedal bootstrap --lab --yes
Problems
  cp-1, worker-1: They have no VMs yet.
    fix: daedal provision --lab

bootstrap leaves out cp-1, worker-1 (see Problems). The cluster gets 0 of 1 control plane and 0 of 1
worker.

No changes: nothing can be done for cluster home until the problems above are solved.
$ echo $?
1
$ daedal provision --lab --yes
Plan to provision cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  bootstrap: 5 steps of this phase are left.
    fix: to go on: daedal bootstrap --lab

Host    vCPU           memory, GiB    disk, GiB         our nodes there after
atlas   2 → 10 of 64   4 → 20 of 63   32 → 132 of 800   cp-1, worker-1
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + register schematic 7d4c31cbd96d            the factory builds only what it was told of
    + pin the disk image                         its size and SHA-256 are not known yet
    + download the disk image to local on atlas  it is not there
    + write the output files                     they name the hosts of the nodes

+ cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 300                      declared, and not there
    ~ grow the disk to 40 GiB            the imported image is smaller
    + start VM 300                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys

+ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 303                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 303                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys

Nothing is restarted or destroyed. etcd: 0 voting members now, 0 after.

2 to create, 0 to change, 0 to destroy.

Cluster home is provisioned: 2 nodes answer over mutual TLS, 2 VMs created, 18 steps in … s.

Next:
  daedal bootstrap --lab
$ daedal bootstrap --lab --yes
Plan to bootstrap cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

For the whole cluster
    · wait for the API server  https://10.0.0.20:6443 does not answer yet

~ cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    + bootstrap etcd               no control plane has an etcd yet; once, on the first
    · wait until it votes in etcd  the others join it
    · wait until it is Ready       no API server answers yet

~ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    · wait until it is Ready  no API server answers yet

Nothing is restarted or destroyed. etcd: 0 voting members now, 1 after.

2 nodes to wait for.

Cluster home is up: 2 nodes Ready, 5 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
