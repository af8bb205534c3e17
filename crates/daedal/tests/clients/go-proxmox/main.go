// A VM's life through go-proxmox: download, upload, create, resize, start, stop, template, clone, delete.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"
	"time"

	proxmox "github.com/luthermonson/go-proxmox"
)

const factory = "https://factory.talos.dev"

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func check(right bool, what any) {
	if !right {
		log.Fatalf("wrong: %v", what)
	}
}

func done(ctx context.Context, what string) func(*proxmox.Task, error) {
	return func(task *proxmox.Task, err error) {
		if err != nil {
			log.Fatalf("%s: %v", what, err)
		}
		if err := task.Wait(ctx, 50*time.Millisecond, time.Minute); err != nil {
			log.Fatalf("%s: %v", what, err)
		}
		check(task.IsSuccessful, what+": "+task.ExitStatus)
		fmt.Println("ok:", what)
	}
}

func story(ctx context.Context, client *proxmox.Client) {
	fmt.Println("version", must(client.Version(ctx)).Version)
	node := must(client.Node(ctx, "atlas"))
	local := must(node.Storage(ctx, "local"))
	answer := must(http.Post(factory+"/schematics", "application/yaml", strings.NewReader("customization: {}\n")))
	var schematic struct{ ID string }
	check(json.NewDecoder(answer.Body).Decode(&schematic) == nil, "schematic")
	image := factory + "/image/" + schematic.ID + "/v1.12.0/nocloud-amd64.qcow2"
	done(ctx, "download")(local.DownloadURL(ctx, "import", "go.qcow2", image))
	iso := os.Getenv("LAB_ISO")
	done(ctx, "upload")(local.Upload("iso", iso))
	volid := "local:iso/" + iso[strings.LastIndex(iso, "/")+1:]

	cluster := must(client.Cluster(ctx))
	vmid := must(cluster.NextID(ctx))
	option := func(name string, value any) proxmox.VirtualMachineOption {
		return proxmox.VirtualMachineOption{Name: name, Value: value}
	}
	done(ctx, "create")(node.NewVirtualMachine(ctx, vmid,
		option("name", "story"), option("cores", 2), option("memory", 1024), option("scsihw", "virtio-scsi-single"),
		option("scsi0", "local-lvm:0,import-from=local:import/go.qcow2"), option("ide2", volid+",media=cdrom"),
		option("net0", "virtio,bridge=vmbr0"), option("boot", "order=scsi0"), option("onboot", true)))
	vm := must(node.VirtualMachine(ctx, vmid))
	check(vm.Name == "story" && vm.VirtualMachineConfig.Cores == 2, vm.VirtualMachineConfig)
	done(ctx, "resize")(vm.ResizeDisk(ctx, "scsi0", "+5G"))
	done(ctx, "start")(vm.Start(ctx))
	check(vm.Ping(ctx) == nil && vm.IsRunning(), vm.Status)
	done(ctx, "stop")(vm.Stop(ctx))
	check(vm.Ping(ctx) == nil && vm.IsStopped(), vm.Status)
	done(ctx, "config")(vm.Config(ctx, option("memory", 2048), option("tags", "one;two")))
	done(ctx, "template")(vm.ConvertToTemplate(ctx))
	newid, task, err := vm.Clone(ctx, &proxmox.VirtualMachineCloneOptions{Name: "copy", Full: 1, Storage: "local-lvm"})
	done(ctx, "clone")(task, err)
	copied := must(node.VirtualMachine(ctx, newid))
	check(copied.Name == "copy" && copied.VirtualMachineConfig.Net0 != vm.VirtualMachineConfig.Net0, copied.Name)
	done(ctx, "delete the clone")(copied.Delete(ctx))
	done(ctx, "delete")(must(node.VirtualMachine(ctx, vmid)).Delete(ctx))
	for _, volume := range []string{volid, "local:import/go.qcow2"} {
		done(ctx, "delete "+volume)(local.DeleteContent(ctx, volume))
	}
	_, err = node.VirtualMachine(ctx, vmid)
	check(err != nil && strings.Contains(err.Error(), "does not exist"), err)
}

func main() {
	ctx := context.Background()
	url := "https://atlas.lan:8006/api2/json"
	story(ctx, proxmox.NewClient(url, proxmox.WithAPIToken("daedal@pve!cli", os.Getenv("LAB_TOKEN"))))
	credentials := proxmox.Credentials{Username: "root@pam", Password: os.Getenv("LAB_PASSWORD")}
	if credentials.Password != "" {
		story(ctx, proxmox.NewClient(url, proxmox.WithCredentials(&credentials)))
	}
	fmt.Println("the story ends well")
}
