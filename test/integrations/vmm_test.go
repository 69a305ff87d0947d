// SPDX-License-Identifier: Apache-2.0

package integrations

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// vmms are the programs that this test binary is when it is called by their names.
var vmms = map[string]func(args []string) (fakeguest.Link, net.HardwareAddr, error){
	"vfkit":              vfkit,
	"krunkit":            krunkit,
	"qemu-system-x86_64": qemu,
}

// reportEnv names the file to which a machine writes that it has an address.
const reportEnv = "TEST_REPORT"

// runVMM boots a machine on what the options say, gets an address, pings the gateway, and reports.
func runVMM(program string, args []string) error {
	link, mac, err := vmms[program](args)
	if err != nil {
		return err
	}
	g, err := fakeguest.New(link, fakeguest.Options{MAC: mac, Timeout: patience})
	if err != nil {
		return err
	}
	defer g.Close()
	l, err := g.Configure()
	if err != nil {
		return fmt.Errorf("get an address: %w", err)
	}
	if _, err := g.Ping(l.Gateway, 1); err != nil {
		return fmt.Errorf("ping the gateway: %w", err)
	}
	f, err := os.OpenFile(os.Getenv(reportEnv), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s %s\n", program, mac, g.Addr())
	return err
}

// option returns the argument that follows name, which must be there once.
func option(args []string, name string) (string, error) {
	found := ""
	for i, a := range args[:len(args)-1] {
		if a == name {
			if found != "" {
				return "", fmt.Errorf("%s is there twice", name)
			}
			found = args[i+1]
		}
	}
	if found == "" {
		return "", fmt.Errorf("no %s in %q", name, args)
	}
	return found, nil
}

// keys reads kind,key=value,key=value and refuses keys that are not known.
func keys(text, kind string, known ...string) (map[string]string, error) {
	parts := strings.Split(text, ",")
	if parts[0] != kind {
		return nil, fmt.Errorf("%q, want %s", text, kind)
	}
	all := map[string]string{}
	for _, p := range parts[1:] {
		key, value, _ := strings.Cut(p, "=")
		if !strings.Contains(" "+strings.Join(known, " ")+" ", " "+key+" ") || value == "" {
			return nil, fmt.Errorf("%q: %s is no key of %s, or has no value", text, key, kind)
		}
		all[key] = value
	}
	return all, nil
}

// vfkit understands --device virtio-net: a path, beside which it binds its own and says hello, or a descriptor.
func vfkit(args []string) (fakeguest.Link, net.HardwareAddr, error) {
	text, err := option(args, "--device")
	if err != nil {
		return nil, nil, err
	}
	k, err := keys(text, "virtio-net", "unixSocketPath", "fd", "mac")
	if err != nil {
		return nil, nil, err
	}
	mac, err := net.ParseMAC(k["mac"])
	if err != nil {
		return nil, nil, err
	}
	if k["fd"] != "" {
		l, err := inherited(k["fd"], fakeguest.DatagramLink)
		return l, mac, err
	}
	path := k["unixSocketPath"]
	local := filepath.Join(filepath.Dir(path), fmt.Sprintf("vfkit-%x-%x.sock", os.Getpid(), time.Now().UnixNano()&0xffff))
	l, err := connected(path, local, true)
	return l, mac, err
}

// krunkit understands --device virtio-net,type=...; its own socket is in the directory for temporary files, and it says no hello.
func krunkit(args []string) (fakeguest.Link, net.HardwareAddr, error) {
	text, err := option(args, "--device")
	if err != nil {
		return nil, nil, err
	}
	k, err := keys(text, "virtio-net", "type", "path", "fd", "mac", "offloading")
	if err != nil {
		return nil, nil, err
	}
	mac, err := net.ParseMAC(k["mac"])
	if err != nil {
		return nil, nil, err
	}
	var l fakeguest.Link
	switch {
	case k["type"] == "unixstream" && k["path"] != "":
		l, err = stream(k["path"])
	case k["type"] == "unixgram" && k["fd"] != "":
		l, err = inherited(k["fd"], fakeguest.DatagramLink)
	case k["type"] == "unixgram" && k["path"] != "":
		l, err = connected(k["path"], filepath.Join("/tmp", fmt.Sprintf("krun-net-%d-0.sock", os.Getpid())), false)
	default:
		err = fmt.Errorf("%q: no type that krunkit has", text)
	}
	return l, mac, err
}

// qemu understands the netdevs stream, dgram and socket, with one virtio-net-pci on it.
func qemu(args []string) (fakeguest.Link, net.HardwareAddr, error) {
	text, err := option(args, "-netdev")
	if err != nil {
		return nil, nil, err
	}
	device, err := option(args, "-device")
	if err != nil {
		return nil, nil, err
	}
	d, err := keys(device, "virtio-net-pci", "netdev", "mac")
	if err != nil {
		return nil, nil, err
	}
	mac, err := net.ParseMAC(d["mac"])
	if err != nil {
		return nil, nil, err
	}
	kind, _, _ := strings.Cut(text, ",")
	k, err := keys(text, kind, "id", "server", "addr.type", "addr.path", "reconnect-ms", "local.type", "local.path", "local.str",
		"remote.type", "remote.path", "fd")
	if err != nil {
		return nil, nil, err
	}
	if k["id"] != d["netdev"] {
		return nil, nil, fmt.Errorf("netdev %q, device on %q", k["id"], d["netdev"])
	}
	l, err := netdev(kind, k)
	return l, mac, err
}

// netdev makes one of QEMU's network back ends.
func netdev(kind string, k map[string]string) (fakeguest.Link, error) {
	switch {
	case kind == "stream" && k["server"] == "off" && k["addr.type"] == "unix":
		return stream(k["addr.path"])
	case kind == "dgram" && k["local.type"] == "fd":
		return inherited(k["local.str"], fakeguest.DatagramLink)
	case kind == "dgram" && k["local.type"] == "unix" && k["remote.type"] == "unix":
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return fakeguest.PathLink(ctx, fakeguest.PathOptions{Server: k["remote.path"], Local: k["local.path"]})
	case kind == "socket" && k["fd"] != "":
		return inherited(k["fd"], func(c *net.UnixConn) (fakeguest.Link, error) { return fakeguest.StreamLink(c), nil })
	}
	return nil, fmt.Errorf("-netdev %s %v", kind, k)
}

// inherited is the link on a descriptor by its number.
func inherited(number string, link func(*net.UnixConn) (fakeguest.Link, error)) (fakeguest.Link, error) {
	fd, err := strconv.Atoi(number)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "inherited")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	uc, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a unix socket")
	}
	return link(uc)
}

// connected is the link on a datagram socket that is connected to the daemon's, or to a helper's.
func connected(path, local string, hello bool) (fakeguest.Link, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return fakeguest.PathLink(ctx, fakeguest.PathOptions{Server: path, Local: local, Connected: true, Hello: hello})
}

// stream is the link on the daemon's stream socket.
func stream(path string) (fakeguest.Link, error) {
	c, err := fakeguest.DialStream(path, patience)
	if err != nil {
		return nil, err
	}
	return fakeguest.StreamLink(c), nil
}
