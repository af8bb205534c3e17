//! A typed client for the Proxmox VE API.
