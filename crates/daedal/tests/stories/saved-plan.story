# A plan that is approved, and then executed as exactly that.
example: home
replace: count: 3  => count: 1 
first: daedal apply --lab --yes
---
$ sed -i 's/count: 2/count: 3/' cluster.yaml
$ daedal plan --lab --save plan.json
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Host    vCPU            memory, GiB     disk, GiB          our nodes there after
atlas   14 → 18 of 96   28 → 36 of 63   192 → 252 of 800   cp-1, worker-1, worker-2, worker-3
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files                     they are missing or older than the inventory
    + download the disk image to local on atlas  it is there: only its SHA-256 is compared

+ worker-3  worker, VM 305 on atlas, 10.0.0.23: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 305                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 305                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 1 voting member now, 1 after.

1 to create, 0 to change, 0 to destroy.
Saved as plan 3f9c02d1a7be. Execute exactly this: daedal apply plan.json --expect 3f9c02d1a7be
$ daedal plan show plan.json
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Host    vCPU            memory, GiB     disk, GiB          our nodes there after
atlas   14 → 18 of 96   28 → 36 of 63   192 → 252 of 800   cp-1, worker-1, worker-2, worker-3
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files                     they are missing or older than the inventory
    + download the disk image to local on atlas  it is there: only its SHA-256 is compared

+ worker-3  worker, VM 305 on atlas, 10.0.0.23: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 305                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 305                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 1 voting member now, 1 after.

1 to create, 0 to change, 0 to destroy.
Plan 3f9c02d1a7be, made by daedal 0.1.0 from cluster.yaml. Execute exactly this:
daedal apply plan.json --expect 3f9c02d1a7be
$ daedal apply plan.json --lab
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Host    vCPU            memory, GiB     disk, GiB          our nodes there after
atlas   14 → 18 of 96   28 → 36 of 63   192 → 252 of 800   cp-1, worker-1, worker-2, worker-3
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files                     they are missing or older than the inventory
    + download the disk image to local on atlas  it is there: only its SHA-256 is compared

+ worker-3  worker, VM 305 on atlas, 10.0.0.23: 4 vCPU, 8 GiB, disk 60 GiB
    + upload its config medium to local  its machine config, for the first boot
    + create VM 305                      declared, and not there
    ~ grow the disk to 60 GiB            the imported image is smaller
    + start VM 305                       first boot, straight into its config
    · wait until its Talos API answers   its config must be in force
    - eject its media                    the node has its config
    - delete the config medium           it holds keys
    · wait until it is Ready             the last thing a new node needs

Nothing is restarted or destroyed. etcd: 1 voting member now, 1 after.

1 to create, 0 to change, 0 to destroy.

Cluster home is up: 4 nodes Ready, 1 VM created, 10 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab -f cluster.yaml
  eval "$(daedal env --lab -f cluster.yaml)" && kubectl get nodes -o wide
  daedal destroy --lab -f cluster.yaml
$ daedal apply plan.json --lab
error: the saved plan no longer fits and was not executed
  because: the world has changed since the plan was made. No longer needed or possible: write the
    output files; download the disk image to local; worker-3: upload its config medium to local
  help: To make a new one: daedal plan --save FILE --lab -f cluster.yaml
$ echo $?
1
