# The firewall of the VMs, twice.
example: home
first: daedal apply --lab --yes
---
$ daedal proxmox firewall --lab --yes
Plan to set the firewall of cluster home
Talos v1.12.0, Kubernetes v1.35.0 on Proxmox VE 9.2.11

Notes
  datacenter: The VMs' firewalls filter only while the firewall of the datacenter is on, which
    this does not change.
    fix: on a host: pvesh set /cluster/firewall/options --enable 1; or Datacenter → Firewall →
         Options

~ cp-1  control plane, VM 300 on atlas, 10.0.0.11: 4 vCPU, 8 GiB, disk 40 GiB
    + create the IP set cluster   the addresses of the nodes, the virtual IP and the pods
    + create its firewall rules   accepts the cluster, icmp, tcp/50000, tcp/6443
    ~ set its firewall's options  drops everything else
        enable: not set → 1
        policy_in: not set → DROP
        policy_out: not set → ACCEPT
    ~ turn its firewall on        its network card is filtered from now on [interrupts its network]

~ cp-2  control plane, VM 301 on atlas, 10.0.0.12: 4 vCPU, 8 GiB, disk 40 GiB
    + create the IP set cluster   the addresses of the nodes, the virtual IP and the pods
    + create its firewall rules   accepts the cluster, icmp, tcp/50000, tcp/6443
    ~ set its firewall's options  drops everything else
        enable: not set → 1
        policy_in: not set → DROP
        policy_out: not set → ACCEPT
    ~ turn its firewall on        its network card is filtered from now on [interrupts its network]

~ cp-3  control plane, VM 302 on atlas, 10.0.0.13: 4 vCPU, 8 GiB, disk 40 GiB
    + create the IP set cluster   the addresses of the nodes, the virtual IP and the pods
    + create its firewall rules   accepts the cluster, icmp, tcp/50000, tcp/6443
    ~ set its firewall's options  drops everything else
        enable: not set → 1
        policy_in: not set → DROP
        policy_out: not set → ACCEPT
    ~ turn its firewall on        its network card is filtered from now on [interrupts its network]

~ worker-1  worker, VM 303 on atlas, 10.0.0.21: 4 vCPU, 8 GiB, disk 60 GiB
    + create the IP set cluster   the addresses of the nodes, the virtual IP and the pods
    + create its firewall rules   accepts the cluster, icmp, tcp/50000
    ~ set its firewall's options  drops everything else
        enable: not set → 1
        policy_in: not set → DROP
        policy_out: not set → ACCEPT
    ~ turn its firewall on        its network card is filtered from now on [interrupts its network]

~ worker-2  worker, VM 304 on atlas, 10.0.0.22: 4 vCPU, 8 GiB, disk 60 GiB
    + create the IP set cluster   the addresses of the nodes, the virtual IP and the pods
    + create its firewall rules   accepts the cluster, icmp, tcp/50000
    ~ set its firewall's options  drops everything else
        enable: not set → 1
        policy_in: not set → DROP
        policy_out: not set → ACCEPT
    ~ turn its firewall on        its network card is filtered from now on [interrupts its network]

Interrupts the network of cp-1, cp-2, cp-3, worker-1, worker-2.

5 firewalls to turn on, 18 rules to create, 5 IP sets to create.

Cluster home: 5 firewalls turned on, 18 rules created, 5 IP sets created, 20 steps in … s.
$ daedal proxmox firewall --lab --yes
Notes
  datacenter: The VMs' firewalls filter only while the firewall of the datacenter is on, which
    this does not change.
    fix: on a host: pvesh set /cluster/firewall/options --enable 1; or Datacenter → Firewall →
         Options

No changes: the firewall of cluster home is as asked for.
