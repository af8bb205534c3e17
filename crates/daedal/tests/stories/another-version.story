# Another version of Talos, and a label in the same edit.
example: home
first: daedal apply --lab --yes
---
$ sed -i 's/version: v1.12.0/version: v1.12.1/' cluster.yaml
$ sed -i 's/role: worker/role: worker\n      labels: {disk: fast}/' cluster.yaml
$ daedal apply --lab --yes
Plan to apply cluster home
Talos v1.12.1, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Warnings
  cp-1, cp-2, cp-3, worker-1, worker-2: Talos version is v1.12.0, declared is v1.12.1. It takes an
    upgrade, which apply does not do.
    fix: one node after the other:
         talosctl upgrade -n 10.0.0.11 --image factory.talos.dev/nocloud-installer/7d4c31cbd96db9f90c874990697c523482b2bae27fb4631d5583dcd9c281b1ff:v1.12.1

Host    vCPU        memory, GiB   disk, GiB    our nodes there after
atlas   22 of 128   44 of 95      272 of 800   cp-1, cp-2, cp-3, worker-1, worker-2
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files  they are missing or older than the inventory

~ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    ~ change its machine config  it differs from the inventory; without a reboot
        v1alpha1
          + machine.nodeLabels.disk: fast

~ worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    ~ change its machine config  it differs from the inventory; without a reboot
        the same changes as worker-1

Nothing is restarted or destroyed. etcd: 3 voting members now, 3 after.

0 to create, 2 to change, 0 to destroy; 5 differences on 5 nodes stay (see Warnings).

Cluster home is up: 5 nodes Ready; 5 differences on 5 nodes stay, 3 steps in … s (critical path …
s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
$ daedal plan --lab --detailed-exitcode
Warnings
  cp-1, cp-2, cp-3, worker-1, worker-2: Talos version is v1.12.0, declared is v1.12.1. It takes an
    upgrade, which apply does not do.
    fix: one node after the other:
         talosctl upgrade -n 10.0.0.11 --image factory.talos.dev/nocloud-installer/7d4c31cbd96db9f90c874990697c523482b2bae27fb4631d5583dcd9c281b1ff:v1.12.1

No changes, but cluster home is not as declared: 5 differences on 5 nodes stay (see Warnings).
$ echo $?
2
$ daedal status --lab --detailed-exitcode
NODE      HOST   VMID  ADDRESS    VM       TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running  v1.12.0 running  member  Ready
cp-2      atlas  301   10.0.0.12  running  v1.12.0 running  member  Ready
cp-3      atlas  302   10.0.0.13  running  v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running  v1.12.0 running  –       Ready
worker-2  atlas  304   10.0.0.22  running  v1.12.0 running  –       Ready

API endpoint https://10.0.0.20:6443 answers. 0 of 5 nodes are as they should be.
cp-1, cp-2, cp-3, worker-1, worker-2: Talos version v1.12.1 declared, v1.12.0 until it is upgraded
$ echo $?
2
