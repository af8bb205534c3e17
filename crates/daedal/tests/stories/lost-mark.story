# Somebody overwrites the notes of a VM, and its mark with them.
example: home
replace: count: 3  => count: 1 
first: daedal apply --lab --yes
---
root@atlas# qm set 304 --description 'rack 4, ask Ann'
$ daedal status --lab
NODE      HOST   VMID  ADDRESS    VM         TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running    v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running    v1.12.0 running  –       Ready
worker-2  atlas  304   10.0.0.22  mark lost  not asked        –       not asked

API endpoint https://10.0.0.20:6443 answers. 2 of 3 VMs run, 1 not proven to be of this cluster. 2
nodes are as they should be, 1 node could not be checked.
Not seen: node worker-2: VM 304 on atlas runs and has lost its mark, so nothing proves that it is
  this node
  if it is, give it its mark back: daedal node mark worker-2 --lab
$ daedal destroy --lab --confirm home
Plan to destroy cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Problems
  VM 304 "worker-2" on atlas: May be ours: it has the tag daedal-home but no mark. It is not
    touched.
    fix: if it is worker-2, give it its mark back: daedal node mark worker-2 --lab, then run again

Notes
  images: Disk images and boot ISOs stay on the storage, so that the next apply need not download
    them.

Host    vCPU           memory, GiB     disk, GiB         our nodes there after
atlas   14 → 6 of 96   28 → 12 of 63   192 → 92 of 800   -

- cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    - stop VM 300     hard, without asking the guest
    - destroy VM 300  with its disks; its data is lost

- worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    - stop VM 303     hard, without asking the guest
    - destroy VM 303  with its disks; its data is lost

These VMs are destroyed with everything on their disks: cp-1 (VM 300), worker-1 (VM 303).
etcd: 1 voting member now, 0 after.

0 to create, 0 to change, 2 to destroy.

Cluster home was destroyed in part, 4 steps in … s. The next apply gives the same VMIDs, MACs and
addresses.
What stays:
  image local:import/talos-v1.12.0-7d4c31cbd96d-nocloud-amd64.qcow2 on atlas
  its secrets in the store
Cluster home is not gone. Left, see the problems above: VM 304 "worker-2" on atlas
$ echo $?
1
$ daedal node mark worker-2 --lab --yes
Plan to restore a mark of cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

~ worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    ~ restore the mark of VM 304  its VMID, SMBIOS uuid and MAC match; Talos accepts the keys of
                                  this cluster
        SMBIOS uuid: 3b15bac2-af44-5f21-9e0b-a5bbe29f8ca8
        MAC: 02:86:3A:0C:9C:58
        its notes stay, and get this line: daedal-mark
          cluster=a9623640-a958-5aef-95ba-f152174b0c80 node=worker-2 vmid=304 generation=1
          digest=unknown secrets=5f0c1d83a92be647

Nothing is restarted or destroyed.

1 mark to restore.

Cluster home: 1 mark restored, 1 step in … s.
$ daedal destroy --lab --confirm home
Plan to destroy cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  images: Disk images and boot ISOs stay on the storage, so that the next apply need not download
    them.

Host    vCPU          memory, GiB    disk, GiB        our nodes there after
atlas   6 → 2 of 96   12 → 4 of 63   92 → 32 of 800   -

- worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    - stop VM 304     hard, without asking the guest
    - destroy VM 304  with its disks; its data is lost

These VMs are destroyed with everything on their disks: worker-2 (VM 304).

0 to create, 0 to change, 1 to destroy.

Cluster home is gone, 2 steps in … s. Its outputs, which led to it, are deleted. The next apply
gives the same VMIDs, MACs and addresses.
What stays:
  image local:import/talos-v1.12.0-7d4c31cbd96d-nocloud-amd64.qcow2 on atlas
  its secrets in the store
