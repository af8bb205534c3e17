# The example em-infra, up.
example: em-infra
first: daedal apply --lab --yes
---
$ daedal status --lab
NODE      HOST  VMID  ADDRESS     VM       TALOS           ETCD    KUBERNETES
dev-cp-1  pve1  2000  10.0.10.11  running  v1.8.2 running  member  Ready
dev-wk-1  pve1  3000  10.0.10.21  running  v1.8.2 running  –       Ready

API endpoint https://10.0.10.11:6443 answers. 2 of 2 nodes are as they should be.
