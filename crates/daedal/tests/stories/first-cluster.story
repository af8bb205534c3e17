# A cluster from nothing and back.
example: home
---
$ daedal check --lab
cluster.yaml is valid: cluster home with 3 control planes and 2 workers, Talos v1.12.0, Kubernetes
v1.35.0.
`daedal check --live --lab` also asks Proxmox and the Image Factory.
`daedal check --lint --lab` shows 5 findings about what could be safer.
$ daedal apply --lab --yes
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  host atlas: Holds 3 of 3 control planes: if this host fails, etcd is lost.

Host    vCPU            memory, GiB    disk, GiB         our nodes there after
atlas   2 → 22 of 128   4 → 44 of 95   32 → 272 of 800   cp-1, cp-2, cp-3, worker-1, worker-2
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

+ cp-2  control plane, VM 301 on atlas, 10.0.0.12: 4 vCPU, 8 GiB, disk 40 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 301                      declared, and not there
    ~ grow the disk to 40 GiB            the imported image is smaller
    + start VM 301                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it votes in etcd        it joins etcd by itself
    · wait until it is Ready             the last thing a new node needs

+ cp-3  control plane, VM 302 on atlas, 10.0.0.13: 4 vCPU, 8 GiB, disk 40 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 302                      declared, and not there
    ~ grow the disk to 40 GiB            the imported image is smaller
    + start VM 302                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it votes in etcd        it joins etcd by itself
    · wait until it is Ready             the last thing a new node needs

+ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 303                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 303                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

+ worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 304                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 304                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 0 voting members now, 3 after.

5 to create, 0 to change, 0 to destroy.

Cluster home is up: 5 nodes Ready, 5 VMs created, 50 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
$ daedal plan --lab
No changes: cluster home is as declared (5 nodes, 3 voting etcd members).
$ daedal status --lab
NODE      HOST   VMID  ADDRESS    VM       TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running  v1.12.0 running  member  Ready
cp-2      atlas  301   10.0.0.12  running  v1.12.0 running  member  Ready
cp-3      atlas  302   10.0.0.13  running  v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running  v1.12.0 running  –       Ready
worker-2  atlas  304   10.0.0.22  running  v1.12.0 running  –       Ready

API endpoint https://10.0.0.20:6443 answers. 5 of 5 nodes are as they should be.
$ daedal destroy --lab --confirm home
Plan to destroy cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  images: Disk images and boot ISOs stay on the storage, so that the next apply need not download
    them.

Host    vCPU            memory, GiB    disk, GiB         our nodes there after
atlas   22 → 2 of 128   44 → 4 of 95   272 → 32 of 800   -

- cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 300     hard, without asking the guest
    - destroy VM 300  with its disks; its data is lost

- cp-2  control plane, VM 301 on atlas, 10.0.0.12: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 301     hard, without asking the guest
    - destroy VM 301  with its disks; its data is lost

- cp-3  control plane, VM 302 on atlas, 10.0.0.13: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 302     hard, without asking the guest
    - destroy VM 302  with its disks; its data is lost

- worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    - stop VM 303     hard, without asking the guest
    - destroy VM 303  with its disks; its data is lost

- worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    - stop VM 304     hard, without asking the guest
    - destroy VM 304  with its disks; its data is lost

These VMs are destroyed with everything on their disks: cp-1 (VM 300), cp-2 (VM 301), cp-3 (VM 302),
worker-1 (VM 303), worker-2 (VM 304).
etcd: 3 voting members now, 0 after.

0 to create, 0 to change, 5 to destroy.

Cluster home is gone, 10 steps in … s. Its outputs, which led to it, are deleted. The next apply
gives the same VMIDs, MACs and addresses.
What stays:
  image local:import/talos-v1.12.0-7d4c31cbd96d-nocloud-amd64.qcow2 on atlas
  its secrets in the store
