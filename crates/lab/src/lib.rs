//! A datacenter in a process: Proxmox, Talos, the Image Factory and Kubernetes.
