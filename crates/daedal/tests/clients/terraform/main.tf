# A VM's life through a provider of Terraform: download, upload, create with an import, template, clone, change, grow, delete.

terraform {
  required_providers {
    proxmox = { source = "bpg/proxmox" }
  }
}

variable "image" {
  type = string
}

variable "iso" {
  type = string
}

variable "memory" {
  type    = number
  default = 1024
}

variable "disk" {
  type    = number
  default = 10
}

provider "proxmox" {
  endpoint = "https://atlas.lan:8006/"
}

resource "proxmox_virtual_environment_pool" "story" {
  pool_id = "terraform"
  comment = "made by a story"
}

resource "proxmox_virtual_environment_download_file" "talos" {
  content_type = "import"
  datastore_id = "local"
  node_name    = "atlas"
  url          = var.image
  file_name    = "terraform.qcow2"
}

resource "proxmox_virtual_environment_file" "iso" {
  content_type = "iso"
  datastore_id = "local"
  node_name    = "atlas"
  source_file {
    path = var.iso
  }
}

resource "proxmox_virtual_environment_vm" "base" {
  name      = "terraform-base"
  node_name = "atlas"
  vm_id     = 9100
  template  = true
  started   = false
  bios      = "ovmf"
  machine   = "q35"

  cpu {
    cores = 2
    type  = "x86-64-v2-AES"
  }
  memory {
    dedicated = 1024
  }
  efi_disk {
    datastore_id = "local-lvm"
    type         = "4m"
  }
  disk {
    datastore_id = "local-lvm"
    import_from  = proxmox_virtual_environment_download_file.talos.id
    interface    = "scsi0"
    size         = 10
  }
  network_device {
    bridge = "vmbr0"
  }
  operating_system {
    type = "l26"
  }
  serial_device {}
}

resource "proxmox_virtual_environment_vm" "copy" {
  name            = "terraform-copy"
  description     = "cloned by a story"
  tags            = ["story", "terraform"]
  node_name       = "atlas"
  vm_id           = 9101
  pool_id         = proxmox_virtual_environment_pool.story.pool_id
  stop_on_destroy = true

  clone {
    vm_id = proxmox_virtual_environment_vm.base.vm_id
    full  = true
  }
  agent {
    enabled = false
  }
  cpu {
    cores = 2
    type  = "x86-64-v2-AES"
  }
  memory {
    dedicated = var.memory
  }
  disk {
    datastore_id = "local-lvm"
    interface    = "scsi0"
    size         = var.disk
  }
  cdrom {
    file_id   = proxmox_virtual_environment_file.iso.id
    interface = "ide2"
  }
  network_device {
    bridge  = "vmbr0"
    vlan_id = 20
  }
}

data "proxmox_virtual_environment_nodes" "all" {}

data "proxmox_virtual_environment_vms" "ours" {
  tags       = ["terraform"]
  depends_on = [proxmox_virtual_environment_vm.copy]
}

output "hosts" {
  value = data.proxmox_virtual_environment_nodes.all.names
}

output "vms" {
  value = [for vm in data.proxmox_virtual_environment_vms.ours.vms : vm.vm_id]
}
