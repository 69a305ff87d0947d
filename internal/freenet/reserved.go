// SPDX-License-Identifier: Apache-2.0

package freenet

import "net/netip"

// reserved are networks that may come up later, and at the time of the choice be on no interface: what routers, macOS and other
// programs for virtual machines and containers use unless they are told otherwise. A network among them can still be asked for.
var reserved = []Conflict{
	use("many home routers", "192.168.0.0/23"), // 192.168.0.0/24 and 192.168.1.0/24
	use("macOS's Internet Sharing", "192.168.2.0/24"),
	use("macOS's vmnet", "192.168.64.0/24"),
	use("socket_vmnet, shared", "192.168.105.0/24"),
	use("socket_vmnet, host", "192.168.106.0/24"),
	use("Lima's user network", "192.168.5.0/24"),
	use("Lima's user-v2 network", "192.168.104.0/24"),
	use("Rancher Desktop, shared", "192.168.205.0/24"),
	use("Rancher Desktop, host", "192.168.206.0/24"),
	use("podman machine", "192.168.127.0/24"), // gvproxy's default
	use("minikube's KVM driver", "192.168.39.0/24"),
	use("minikube's Docker driver", "192.168.49.0/24"),
	use("VirtualBox", "192.168.56.0/24"),
	use("Docker Desktop", "192.168.65.0/24"),
	use("libvirt", "192.168.122.0/24"),

	use("QEMU's user network", "10.0.2.0/24"),
	use("Podman", "10.88.0.0/16"),
	use("Kubernetes' services", "10.96.0.0/12"),
	use("Kubernetes' pods", "10.244.0.0/16"),
	use("k3s", "10.42.0.0/15"), // pods and services
	use("Docker", "172.17.0.0/16"),
	use("Docker Compose", "172.18.0.0/15"), // its first networks
	use("Docker Compose", "172.20.0.0/14"),
}

func use(name, prefix string) Conflict { return Conflict{name, netip.MustParsePrefix(prefix)} }
