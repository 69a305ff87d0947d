// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/perclient/passfd/proto"
)

const someUUID = "2835E074-9892-4A79-AFFB-7E41D2605678"

func TestParse(t *testing.T) {
	id, err := proto.ParseUUID(someUUID)
	require.NoError(t, err)
	addr := netip.MustParseAddr
	tests := []struct {
		name string
		args string
		want config
	}{
		{
			"minikube", "--socket /m/vmnet-helper.sock --interface-id " + someUUID,
			config{fd: -1, socket: "/m/vmnet-helper.sock", interfaceID: id, mode: "shared"},
		},
		{
			"minikube with offload", "--socket /m/s --interface-id " + someUUID + " --enable-tso --enable-checksum-offload",
			config{fd: -1, socket: "/m/s", interfaceID: id, mode: "shared", tso: true, checksum: true},
		},
		{
			"with equal signs", "--socket=/m/s --interface-id=" + someUUID + " --operation-mode=host",
			config{fd: -1, socket: "/m/s", interfaceID: id, mode: "host"},
		},
		{"short", "-f 3 -v -i " + someUUID, config{fd: 3, interfaceID: id, mode: "shared", verbose: true}},
		{
			"addresses", "--fd 0 --start-address 192.168.105.1 --end-address 192.168.105.254 --subnet-mask 255.255.255.0 --enable-isolation",
			config{mode: "shared", isolation: true, start: addr("192.168.105.1"), end: addr("192.168.105.254"), mask: addr("255.255.255.0")},
		},
		{"bridged", "--fd 3 --operation-mode bridged --shared-interface en0", config{fd: 3, mode: "bridged", sharedInterface: "en0"}},
		{"network", "--fd 3 --network shared", config{fd: 3, mode: "shared", network: "shared"}},
		{"list", "--list-shared-interfaces -v", config{fd: -1, list: true, verbose: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(strings.Fields(tt.args))
			require.NoError(t, err)
			assert.Equal(t, &tt.want, c)
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for args, mention := range map[string]string{
		"":                                     "either --fd or --socket",
		"-h --bogus":                           compat.ErrHelp.Error(),
		"--version --bogus":                    compat.ErrVersion.Error(),
		"--fd 3 --socket /s":                   "--fd conflicts with --socket",
		"--fd x":                               `--fd "x"`,
		"--fd -1":                              `--fd "-1"`,
		"--fd 99999999999":                     "2147483647",
		"--fd":                                 "needs an argument",
		"--socket " + strings.Repeat("x", 200): "200 bytes",
		"--socket=":                            "--socket",
		"--fd 3 --interface-id x":              "UUID",
		"--fd 3 --operation-mode nat":          `"nat"`,
		"--fd 3 --operation-mode bridged":      "--shared-interface",
		"--fd 3 --start-address 192.168.105.1": "given together",
		"--fd 3 --start-address x":             "--start-address",
		"--fd 3 --subnet-mask 300.0.0.0":       "--subnet-mask",
		"--fd 3 --network a --operation-mode=host": "--network conflicts",
		"--fd 3 --network-id " + someUUID:          "--vmnet-network-identifier",
		"--fd 3 --host-ip-address 192.168.1.1":     "--vmnet-network-identifier",
		"--fd 3 --stats-interval 0":                "--stats-interval",
		"--fd 3 --bogus":                           "unknown option --bogus",
		"--fd 3 extra":                             `"extra"`,
		"--fd 3 --operation-mode bridged --shared-interface en0 --enable-isolation": "--enable-isolation conflicts",
	} {
		t.Run(args, func(t *testing.T) {
			_, err := parse(strings.Fields(args))
			require.ErrorContains(t, err, mention)
		})
	}
}

// TestVersionText reads the version as minikube does: YAML with two keys, and a semantic version of at least 0.9.0.
func TestVersionText(t *testing.T) {
	semver := regexp.MustCompile(`^version: v0\.13\.0\+socket-vmnet2(\.[0-9A-Za-z-]+)+\ncommit: \S+\n$`)
	for _, ours := range []string{"v1.2.3", "v0.0.0-1a2b3c4.m", "v0.0.0-dev", "x y:z\n", "v1.2.3+x"} {
		text := versionText(ours)
		assert.Regexp(t, semver, text)
		assert.Equal(t, 2, strings.Count(text, "\n"))
	}
}

func TestCompare(t *testing.T) {
	shared := proto.Reply{
		Mode: "shared", StartAddress: "192.168.105.1", EndAddress: "192.168.105.254", SubnetMask: "255.255.255.0",
	}
	host, bridged, isolated, offload := shared, proto.Reply{Mode: "bridged", Interface: "en0"}, shared, shared
	host.Mode, isolated.Isolated, offload.Offload = "host", true, true
	const addresses = " --start-address 192.168.105.1 --end-address 192.168.105.254 --subnet-mask 255.255.255.0"
	tests := []struct {
		name  string
		args  string
		reply proto.Reply
		want  []string // of the complaint, none: it fits
	}{
		{"these addresses", addresses, shared, nil},
		{"another start", strings.Replace(addresses, "105.1 ", "106.1 ", 1), shared, []string{"192.168.105.1", "--vmnet-gateway=192.168.106.1"}},
		{"another end", strings.Replace(addresses, ".254", ".99", 1), shared, []string{"192.168.105.254", "--vmnet-dhcp-end=192.168.105.99"}},
		{"another mask", strings.Replace(addresses, "255.255.255.0", "255.255.0.0", 1), shared, []string{"--vmnet-mask=255.255.0.0"}},
		{"host on shared", "--operation-mode host", shared, []string{"has a shared network, not a host one", "--vmnet-mode=host"}},
		{"shared on host", "", host, []string{"--vmnet-mode=shared"}},
		{"bridged", "--operation-mode bridged --shared-interface en0", bridged, nil},
		{"bridged to another", "--operation-mode bridged --shared-interface en1", bridged, []string{`"en0"`, "--vmnet-interface=en1"}},
		{"isolation", "--enable-isolation", isolated, nil},
		{"isolation missing", "--enable-isolation", shared, []string{"--isolate"}},
		{"isolated anyway", "", isolated, nil},
		{"TSO", "--enable-tso --enable-checksum-offload", offload, nil},
		{"TSO without offload", "--enable-tso", shared, []string{"without offload", "--vmnet-offloading=false", "--offload"}},
		{"offload that was not asked for", "", offload, []string{"with offload", "--enable-tso"}},
		{"network by name", "--network host", host, nil},
		{"network by another name", "--network host", shared, []string{"--vmnet-mode=host"}},
		{"own network's name", "--network lab", host, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(strings.Fields("--fd 3 " + tt.args))
			require.NoError(t, err)
			err = compare(c, &tt.reply)
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			for _, text := range tt.want {
				require.ErrorContains(t, err, text)
			}
		})
	}
}

func TestInfoLine(t *testing.T) {
	r := proto.Reply{
		Mode: "shared", Backend: "vmnet", Gateway: "192.168.105.1", MACAddress: "52:54:00:12:34:56", MTU: 1500, MaxPacketSize: 1514,
		SubnetMask: "255.255.255.0", StartAddress: "192.168.105.1", EndAddress: "192.168.105.254",
		InterfaceID: strings.ToLower(someUUID), ReadMaxPackets: 256, WriteMaxPackets: 256,
	}
	const want = `{"vmnet_subnet_mask":"255.255.255.0","vmnet_mtu":1500,"vmnet_end_address":"192.168.105.254",` +
		`"vmnet_start_address":"192.168.105.1","vmnet_interface_id":"` + someUUID + `","vmnet_max_packet_size":1514,` +
		`"vmnet_read_max_packets":256,"vmnet_write_max_packets":256,"vmnet_mac_address":"52:54:00:12:34:56"`
	assert.Equal(t, want+"}\n", string(infoLine(&config{mode: "shared"}, &r)))
	assert.Equal(t, want+`,"net_ipv4_subnet":"192.168.105.0","net_ipv4_mask":"255.255.255.0"}`+"\n",
		string(infoLine(&config{network: "shared"}, &r)))
	assert.Equal(t, `{"vmnet_mac_address":"52:54:00:12:34:56"}`+"\n",
		string(infoLine(&config{network: "lab"}, &proto.Reply{MACAddress: r.MACAddress})), "a bridged network has no addresses")
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "user"), filepath.Join(dir, "system")}
	write := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write(files[0], "# mine\n\nhost = /u/host\n  bridged.en0=/u/bridged  \nnetwork.lab = /u/lab\n")
	write(files[1], "host = /s/host\nbridged.en1 = /s/bridged\n")
	from := func(file int, socket string) []place { return []place{{socket, files[file]}} }
	at := func(sockets ...string) (all []place) {
		for _, s := range sockets {
			all = append(all, place{socket: s})
		}
		return all
	}
	tests := []struct {
		name string
		args string
		want []place
	}{
		{"option", "--daemon /x", []place{{"/x", "--daemon"}}},
		{"user's file first", "--operation-mode host", from(0, "/u/host")},
		{"user's bridge", "--operation-mode bridged --shared-interface en0", from(0, "/u/bridged")},
		{"system's bridge", "--operation-mode bridged --shared-interface en1", from(1, "/s/bridged")},
		{"network", "--network lab", from(0, "/u/lab")},
		{"usual paths", "", at("/var/run/socket_vmnet", "/opt/homebrew/var/run/socket_vmnet", "/usr/local/var/run/socket_vmnet",
			"/private/var/run/lima/socket_vmnet.shared")},
		{"usual paths of a bridge", "--operation-mode bridged --shared-interface en7", at("/var/run/socket_vmnet.bridged.en7",
			"/opt/homebrew/var/run/socket_vmnet.bridged.en7", "/usr/local/var/run/socket_vmnet.bridged.en7",
			"/private/var/run/lima/socket_vmnet.bridged")},
		{"usual paths of a host network by name", "--network host", at("/var/run/socket_vmnet.host",
			"/opt/homebrew/var/run/socket_vmnet.host", "/usr/local/var/run/socket_vmnet.host",
			"/private/var/run/lima/socket_vmnet.host")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := parse(strings.Fields("--fd 3 " + tt.args))
			require.NoError(t, err)
			got, err := find(c, files)
			require.NoError(t, err)
			assert.Equal(t, tt.want, got)
		})
	}
	t.Run("unknown network", func(t *testing.T) {
		_, err := find(&config{network: "other"}, files)
		require.ErrorContains(t, err, `"network.other = SOCKET"`)
	})
	for _, bad := range []string{"shared", "shared /x", "nat = /x", "bridged. = /x", "shared = x", "shared =", "= /x", strings.Repeat("x", 70000)} {
		t.Run("bad line", func(t *testing.T) {
			write(files[0], "# first\n"+bad+"\n")
			_, err := find(&config{mode: "shared"}, files)
			require.ErrorContains(t, err, files[0])
		})
	}
}

func TestConfigFiles(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", "/x")
	assert.Equal(t, []string{"/x/" + configName, "/etc/" + configName}, configFiles())
	t.Setenv("XDG_CONFIG_HOME", "relative")
	files := configFiles()
	require.Len(t, files, 2)
	assert.True(t, filepath.IsAbs(files[0]), files[0])
	assert.Contains(t, files[0], "/.config/")
}
