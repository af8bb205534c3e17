"""A VM's life through proxmoxer, as its users write it: create, clone, start, stop, resize, delete, upload, download.

LAB_PASSWORD is root@pam's password, LAB_TOKEN the secret of daedal@pve!cli; the proxy and the CA come from the environment.
"""

import io
import os
import sys

import requests
from proxmoxer import ProxmoxAPI, ResourceException
from proxmoxer.tools import Tasks

HOST, NODE = "atlas.lan", "atlas"
FACTORY = "https://factory.talos.dev"


def done(px, upid, what):
    status = Tasks.blocking_status(px, upid, timeout=120, polling_interval=0.05)
    assert status and status["exitstatus"] == "OK", (what, status, Tasks.decode_log(px.nodes(NODE).tasks(upid).log.get()))
    print("ok:", what)


def refused(call, *words):
    try:
        call()
    except ResourceException as error:
        text = f"{error.status_code} {error.status_message} {error.content} {error.errors}"
        assert all(word in text for word in words), text
        print("ok: refused with", words[0])
        return
    raise AssertionError(f"was not refused: {words}")


def story(px):
    print("version", px.version.get()["version"])
    node = px.nodes(NODE)
    assert [n["node"] for n in px.nodes.get()] == [NODE]
    storages = {s["storage"]: s for s in node.storage.get()}
    assert {"local", "local-lvm"} <= storages.keys(), storages
    local = node.storage("local")

    schematic = requests.post(f"{FACTORY}/schematics", data="customization: {}\n", timeout=30).json()["id"]
    image = f"{FACTORY}/image/{schematic}/v1.12.0/nocloud-amd64.qcow2"
    done(px, local("download-url").post(content="import", filename="story.qcow2", url=image), "download")
    seed = io.BytesIO(b"\0" * 70000)
    seed.name = "story.iso"
    done(px, local.upload.post(content="iso", filename=seed), "upload")
    volumes = {v["volid"] for v in local.content.get()}
    assert {"local:iso/story.iso", "local:import/story.qcow2"} <= volumes, volumes

    vmid = int(px.cluster.nextid.get())
    done(px, node.qemu.post(
        vmid=vmid, name="story", cores=2, memory=1024, scsihw="virtio-scsi-single", ostype="l26",
        scsi0="local-lvm:0,import-from=local:import/story.qcow2,discard=on", ide2="local:iso/story.iso,media=cdrom",
        net0="virtio,bridge=vmbr0", boot="order=scsi0", tags="one;two", description="a story = with ; signs"), "create")
    vm = node.qemu(vmid)
    config = vm.config.get()
    assert config["name"] == "story" and config["cores"] == 2 and config["tags"] == "one;two", config
    mac = config["net0"].split("=")[1].split(",")[0]
    assert mac.startswith("BC:24:11"), config
    done(px, vm.resize.put(disk="scsi0", size="+5G"), "resize")
    done(px, vm.status.start.post(), "start")
    assert vm.status.current.get()["status"] == "running"
    refused(vm.delete, "is running")
    done(px, vm.status.stop.post(), "stop")
    vm.config.put(memory=2048, digest=config_digest(vm))
    assert vm.config.get()["memory"] == "2048"
    refused(lambda: vm.config.put(memory="plenty"), "400", "memory")
    refused(lambda: vm.config.put(nonsense=1), "400", "nonsense")

    done(px, vm.template.post(), "template")
    clone_id = int(px.cluster.nextid.get())
    done(px, vm.clone.post(newid=clone_id, name="copy", full=1, storage="local-lvm"), "full clone")
    linked_id = int(px.cluster.nextid.get())
    done(px, vm.clone.post(newid=linked_id, name="linked"), "linked clone")
    copy = node.qemu(clone_id)
    assert copy.config.get()["name"] == "copy" and mac not in copy.config.get()["net0"]
    done(px, copy.status.start.post(), "start the clone")
    done(px, copy.status.stop.post(), "stop the clone")
    names = {v["vmid"]: v["name"] for v in node.qemu.get()}
    assert names[clone_id] == "copy" and names[linked_id] == "linked", names
    listed = {r["vmid"] for r in px.cluster.resources.get(type="vm")}
    assert {vmid, clone_id, linked_id} <= listed, listed
    for one in (clone_id, linked_id, vmid):
        done(px, node.qemu(one).delete(purge=1), f"destroy {one}")
    refused(lambda: vm.config.get(), "500", "does not exist")
    for volume in ("iso/story.iso", "import/story.qcow2"):
        upid = local.content(f"local:{volume}").delete()
        if upid:
            done(px, upid, f"delete {volume}")
    left = {v["volid"] for v in local.content.get()} & {"local:iso/story.iso", "local:import/story.qcow2"}
    assert not left, left
    refused(lambda: node("nonsense").get(), "501")


def config_digest(vm):
    return vm.config.get()["digest"]


def main():
    verify = os.environ["REQUESTS_CA_BUNDLE"]
    by_password = ProxmoxAPI(HOST, user="root@pam", password=os.environ["LAB_PASSWORD"], verify_ssl=verify, timeout=60)
    story(by_password)
    by_token = ProxmoxAPI(
        HOST, user="daedal@pve", token_name="cli", token_value=os.environ["LAB_TOKEN"], verify_ssl=verify, timeout=60)
    story(by_token)
    refused(lambda: by_token.access.users.post(userid="x@pve"), "403")
    print("the story ends well")


sys.exit(main())
