# Mistakes in an inventory.
example: home
replace: memory: 8GiB\n      disk: 60GiB => memroy: 8GiB\n      disk: 60GiB
replace: address: 10.0.0.21 => address: 10.1.0.21
replace: count: 3  => count: 2 
---
$ daedal check
control-planes

  × The cluster has 2 control planes, but needs an odd number.
    ╭─[cluster.yaml:50:14]
 49 │       role: controlplane
 50 │       count: 2              # an odd number: most of them must be alive
    ·              ─
 51 │       cores: 4
    ╰────
  help: 2 survive the loss of none, which 1 can do as well. Use 1 or 3.

unknown-key

  × `memroy` is not a key of `spec.pools[1]`.
    ╭─[cluster.yaml:61:7]
 60 │       cores: 4
 61 │       memroy: 8GiB
    ·       ──────
 62 │       disk: 60GiB
    ╰────
  help: Did you mean `memory`?

address

  × `worker-1` cannot be there: 10.1.0.21 is outside the network 10.0.0.0/16.
    ╭─[cluster.yaml:64:16]
 63 │       vmid: 303             # 303, 304
 64 │       address: 10.1.0.21    # .21, .22
    ·                ─────────
    ╰────
  help: Machines in it have addresses from 10.0.0.1 to 10.0.255.254.

The inventory has 3 errors.
$ echo $?
65
