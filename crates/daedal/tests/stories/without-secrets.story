# A colleague has the inventory and the Proxmox token, but not the store.
example: home
first: daedal apply --lab --yes
---
$ daedal status --lab --state elsewhere
NODE      HOST   VMID  ADDRESS    VM       TALOS      ETCD       KUBERNETES
cp-1      atlas  300   10.0.0.11  running  not asked  not asked  not asked
cp-2      atlas  301   10.0.0.12  running  not asked  not asked  not asked
cp-3      atlas  302   10.0.0.13  running  not asked  not asked  not asked
worker-1  atlas  303   10.0.0.21  running  not asked  –          not asked
worker-2  atlas  304   10.0.0.22  running  not asked  –          not asked

API endpoint https://10.0.0.20:6443 was not asked. 5 of 5 VMs run. 5 nodes could not be checked.
error: Talos and Kubernetes could not be asked: the secrets of cluster home are not in
  elsewhere/home
  help: Copy the store from the machine that applied the cluster, or name it with --state DIR.
  help: Or import them from the machine config of a control plane:
    daedal secrets import FILE --lab --state elsewhere
$ echo $?
78
