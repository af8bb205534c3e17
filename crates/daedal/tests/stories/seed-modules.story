# The example modules, up.
example: modules
first: daedal apply --lab --yes
---
$ daedal status --lab
NODE      HOST  VMID  ADDRESS     VM       TALOS            ETCD    KUBERNETES
cp-1      pve1  2000  10.20.0.10  running  v1.12.0 running  member  Ready
cp-2      pve2  2001  10.20.0.11  running  v1.12.0 running  member  Ready
cp-3      pve1  2002  10.20.0.12  running  v1.12.0 running  member  Ready
worker-1  pve1  3000  10.20.0.20  running  v1.12.0 running  –       Ready
worker-2  pve2  3001  10.20.0.21  running  v1.12.0 running  –       Ready
worker-3  pve1  3002  10.20.0.22  running  v1.12.0 running  –       Ready
worker-4  pve2  3003  10.20.0.23  running  v1.12.0 running  –       Ready

API endpoint https://10.20.0.5:6443 answers. 7 of 7 nodes are as they should be.
