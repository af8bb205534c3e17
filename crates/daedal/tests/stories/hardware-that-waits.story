# More memory for a worker, and restarts are not allowed: the VM takes it in at its next start.
example: home
replace: count: 3  => count: 1 
replace: count: 2 => count: 1
replace: memory: 8GiB\n      disk: 60GiB => memory: 8192MiB\n      disk: 60GiB
replace:   environment: lab  =>   restarts: never\n  environment: lab 
first: daedal apply --lab --yes
---
$ sed -i 's/memory: 8192MiB/memory: 12GiB/' cluster.yaml
$ daedal apply --lab --yes
Plan to apply cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Warnings
  worker-1: memory is 8 GiB until its next start, declared is 12 GiB.
    fix: `restarts: allowed` in the inventory, or on atlas: qm shutdown 303 && qm start 303

Host    vCPU       memory, GiB     disk, GiB    our nodes there after
atlas   10 of 64   20 → 24 of 63   132 of 800   cp-1, worker-1
Running guests count in full; stopped guests and templates only by their disks. New disks count in
full, also on thin storage.

For the whole cluster
    + write the output files  they are missing or older than the inventory

~ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 12 GiB, disk 60 GiB
    ~ change VM 303  it differs from the inventory
        memory: 8 GiB → 12 GiB (takes effect at its next start)

Nothing is restarted or destroyed. etcd: 1 voting member now, 1 after.

0 to create, 1 to change, 0 to destroy; 1 difference on 1 node stays (see Warnings).

Cluster home is up: 2 nodes Ready; 1 difference on 1 node stays, 2 steps in … s (critical path … s).
API server: https://10.0.0.20:6443

Next:
  daedal status --lab
  eval "$(daedal env --lab)" && kubectl get nodes -o wide
  daedal destroy --lab
$ daedal plan --lab --detailed-exitcode
Warnings
  worker-1: memory is 8 GiB until its next start, declared is 12 GiB.
    fix: `restarts: allowed` in the inventory, or on atlas: qm shutdown 303 && qm start 303

No changes, but cluster home is not as declared: 1 difference on 1 node stays (see Warnings).
$ echo $?
2
$ daedal status --lab --detailed-exitcode
NODE      HOST   VMID  ADDRESS    VM       TALOS            ETCD    KUBERNETES
cp-1      atlas  300   10.0.0.11  running  v1.12.0 running  member  Ready
worker-1  atlas  303   10.0.0.21  running  v1.12.0 running  –       Ready

API endpoint https://10.0.0.20:6443 answers. 1 of 2 nodes is as it should be.
worker-1: memory 12 GiB declared, 8 GiB until its next start
$ echo $?
2
$ daedal node show worker-1 --lab
worker-1: worker of home, pool worker, 10.0.0.21

Proxmox
  VM           303 (worker-1) on atlas, running, starts with its host
  owner        ours
  size         4 vCPU, 8 GiB of memory
  pending      memory: 12288 from its next start on
  disks        efidisk0: local-lvm:vm-303-disk-0, 4 MiB
               scsi0: local-lvm:vm-303-disk-1, 60 GiB
  network      net0: virtio 02:C4:71:13:59:F8, bridge vmbr0
  tags         daedal, daedal-home, lab
  config       digest 9d1c5bd1f0a7c2e4b6835d07a1e2f3c48b596a70, made from
               783950b82236f9bb40303421eb25ea99

Talos
  version      v1.12.0 on nocloud/amd64
  stage        running, ready
  services     apid Running, healthy
               containerd Running, healthy
               cri Running, healthy
               kubelet Running, healthy
               machined Running, healthy
               syslogd Running
               udevd Running, healthy
  addresses    10.0.0.21/16 on eth0
               127.0.0.1/8 on lo
               ::1/128 on lo
  links        eth0 02:c4:71:13:59:f8 up
               lo 00:00:00:00:00:00 unknown
  disks        /dev/sda 60 GiB QEMU HARDDISK
  extensions   qemu-guest-agent v1.12.0
               tailscale v1.12.0
               schematic 7d4c31cbd96db9f90c874990697c523482b2bae27fb4631d5583dcd9c281b1ff
  certificate  valid until 2120-01-01 00:00 UTC

Kubernetes
  name         worker-1
  versions     kubelet v1.35.0, containerd://2.1.5, kernel 6.18.1-talos, Talos (v1.12.0)
  conditions   MemoryPressure: False (KubeletHasSufficientMemory)
               DiskPressure: False (KubeletHasNoDiskPressure)
               PIDPressure: False (KubeletHasSufficientPID)
               Ready: True (KubeletReady)
  addresses    InternalIP: 10.0.0.21
               Hostname: worker-1
  labels       beta.kubernetes.io/arch=amd64
               beta.kubernetes.io/os=linux
               kubernetes.io/arch=amd64
               kubernetes.io/hostname=worker-1
               kubernetes.io/os=linux
  scheduling   takes new pods
