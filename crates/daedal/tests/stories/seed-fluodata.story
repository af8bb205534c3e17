# The example fluodata, up.
example: fluodata
first: daedal apply --lab --yes
---
$ daedal status --lab
NODE      HOST      VMID  ADDRESS     VM       TALOS            ETCD    KUBERNETES
cp-0      fluodata  110   10.10.0.10  running  v1.12.4 running  member  Ready
worker-0  fluodata  120   10.10.0.20  running  v1.12.4 running  –       Ready
worker-1  fluodata  121   10.10.0.21  running  v1.12.4 running  –       Ready

API endpoint https://10.10.0.10:6443 answers. 3 of 3 nodes are as they should be.
