# The example enterprise, up.
example: enterprise
first: daedal apply --lab --yes
---
$ daedal status --lab
NODE      HOST   VMID  ADDRESS       VM       TALOS           ETCD    KUBERNETES
cp-1      pve-a  401   10.120.0.105  running  v1.9.0 running  member  Ready
cp-2      pve-b  402   10.120.0.101  running  v1.9.0 running  member  Ready
cp-3      pve-c  403   10.120.0.103  running  v1.9.0 running  member  Ready
worker-1  pve-a  501   10.120.0.102  running  v1.9.0 running  –       Ready
worker-2  pve-b  502   10.120.0.107  running  v1.9.0 running  –       Ready
worker-3  pve-c  503   10.120.0.109  running  v1.9.0 running  –       Ready
worker-4  pve-a  504   10.120.0.106  running  v1.9.0 running  –       Ready
worker-5  pve-b  505   10.120.0.104  running  v1.9.0 running  –       Ready
worker-6  pve-a  506   10.120.0.108  running  v1.9.0 running  –       Ready

API endpoint https://10.120.0.5:6443 answers. 9 of 9 nodes are as they should be.
