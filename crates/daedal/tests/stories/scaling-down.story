# One worker fewer.
example: home
first: daedal apply --lab --yes
---
$ sed -i 's/count: 2/count: 1/' cluster.yaml
$ daedal plan --lab
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Warnings
  worker-2: VM 304 "worker-2" on atlas belongs to this cluster and is not declared. apply removes
    no nodes.
    fix: to remove it: daedal node remove worker-2 --lab

Host    vCPU        memory, GiB   disk, GiB    our nodes there after
atlas   22 of 128   44 of 95      272 of 800   cp-1, cp-2, cp-3, worker-1
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files  they are missing or older than the inventory

Nothing is restarted or destroyed. etcd: 3 voting members now, 3 after.

0 to create, 0 to change, 0 to destroy; 1 difference on 1 node stays (see Warnings).
$ daedal node remove worker-2 --lab --yes
Plan to remove nodes from cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Host    vCPU             memory, GiB     disk, GiB          our nodes there after
atlas   22 → 18 of 128   44 → 36 of 95   272 → 212 of 800   cp-1, cp-2, cp-3, worker-1

- worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    ~ let no new pods come to it  it goes, and what leaves it must find another place
    ~ evict its pods              they are re-created elsewhere; one node at a time
    - stop VM 304                 hard: nothing on it is needed any more
    - delete it from Kubernetes   its kubelet is gone for good
    - destroy VM 304              with its disks; its data is lost

These VMs are destroyed with everything on their disks: worker-2 (VM 304).
etcd: 3 voting members now, 3 after, of which 2 must live (its quorum).

0 to create, 0 to change, 1 to destroy.

worker-2 is gone from cluster home, 5 steps in … s. To update the output files: daedal apply --lab
$ daedal status --lab
NODE      HOST   VMID  ADDRESS    VM       TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running  v1.12.0 running  member  Ready
cp-2      atlas  301   10.0.0.12  running  v1.12.0 running  member  Ready
cp-3      atlas  302   10.0.0.13  running  v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running  v1.12.0 running  –       Ready

API endpoint https://10.0.0.20:6443 answers. 4 of 4 nodes are as they should be.
