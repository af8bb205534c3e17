# Templates of a protected cluster.
example: home
replace: count: 3  => count: 1 
replace: count: 2 => count: 1
replace:   network:\n =>   boot: {from: template, config: cidata}\n\n  network:\n
first: daedal apply --lab --yes
first: daedal destroy --lab --confirm home
---
$ sed -i 's/  environment: lab /  protect: true\n  environment: lab /' cluster.yaml
$ daedal templates list --lab
VMID  HOST   ROLE           STATE    LINKED CLONES  NAME
998   atlas  control plane  current  -              talos-v1-12-0-7d4c31cbd96d-controlplane
999   atlas  worker         current  -              talos-v1-12-0-7d4c31cbd96d-worker
$ daedal templates prune --all --lab --yes
error: cluster home is protected: nothing of it is destroyed while the inventory says
  `protect: true`
  help: To prune them all the same: --protected
$ echo $?
1
$ daedal templates prune --all --lab --yes --protected
Plan to prune templates of cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

For the whole cluster
    - destroy template 998 on atlas  it is current; the next apply that needs it re-creates it
    - destroy template 999 on atlas  it is current; the next apply that needs it re-creates it

Destroys templates 998, 999.

2 templates to destroy.

Cluster home: 2 templates destroyed, 2 steps in … s.
