// SPDX-License-Identifier: Apache-2.0

package compat

// newOptions are those that only socket_vmnet2 knows.
var newOptions = []option{
	{name: "backend", arg: "(auto|usernet|vmnet)", help: "what makes the network: vmnet.framework or the embedded one\n(default: vmnet on macOS, usernet elsewhere)", set: setBackend, atOnce: true},
	{name: "socket-user", arg: "USER", help: "owner of the socket (default: the daemon's user)", set: setSocketUser, atOnce: true},
	{name: "socket-mode", arg: "OCTAL", help: "permissions of the socket (default: 0770)", set: setSocketMode, atOnce: true},
	{name: "queue-size", arg: "BYTES", help: "frames kept for a busy client, 64K to 8M (default: 2M)", set: setQueueSize, atOnce: true},
	{name: "max-clients", arg: "N", help: "clients at once, 1 to 4096 (default: 256)", set: setMaxClients, atOnce: true},
	{name: "state-dir", arg: "DIR", help: "where leases and identities are kept over restarts", set: setStateDir, atOnce: true},
	{name: "runtime-dir", arg: "DIR|none", help: "where the sockets for datagrams and passed descriptors are (default: SOCKET.d)\n\"none\": have no such sockets", set: setRuntimeDir, atOnce: true},
	{name: "allow-uid", arg: "UID", help: "user, by number or name, whose datagram sockets are served where they would be\nrefused, as root's are; may be given several times", set: addAllowUID, atOnce: true, repeat: true},
	{name: "dns-record", arg: "NAME=IP", help: "a name for the guests' DNS, may be given several times", set: addDNSRecord, atOnce: true, repeat: true},
	{name: "host-loopback", arg: "(on|off)", help: "guests of the embedded network reach 127.0.0.1 of this host as host.internal\n(default: on; off in mode \"host\" and with --isolate)", set: setHostLoopback, atOnce: true},
	{name: "gateway-user", arg: "USER", help: "user that the embedded network's gateway becomes under root (default: nobody)", set: setGatewayUser, atOnce: true},
	{name: "metrics-listen", arg: "ADDR:PORT", help: "tell Prometheus what happens at http://ADDR:PORT/metrics, as in \"127.0.0.1:9105\"", set: setMetricsListen, atOnce: true},
	{name: "metrics-anywhere", help: "let ADDR be one that other hosts reach; there is no password", set: setMetricsAnywhere},
	{name: "vmnet-gateway-any", help: "let --vmnet-gateway be a public address, whose owner guests then do not reach", set: setGatewayAny},
	{name: "vmnet-api", arg: "(auto|network|interface)", help: "how vmnet makes the network: by a network object (macOS 26) or plain interfaces\n(default: interfaces, unless another option needs the network object)", set: setVmnetAPI, atOnce: true},
	{name: "vmnet-interfaces", arg: "(client|one)", help: "a vmnet interface for each client or one for all (default: client)", set: setVmnetInterfaces, atOnce: true},
	{name: "vmnet-disable-nat44", help: "no way out of the network by IPv4", set: setDisableNAT44},
	{name: "vmnet-disable-nat66", help: "no way out of the network by IPv6", set: setDisableNAT66},
	{name: "vmnet-disable-dns-proxy", help: "no DNS server in the network", set: setDisableDNSProxy},
	{name: "vmnet-disable-ra", help: "no router advertisements in the network (IPv6)", set: setDisableRA},
	{name: "vmnet-mtu", arg: "BYTES", help: "largest packet, 1280 to 16384 (default: 1500)", set: setMTU, atOnce: true},
	{name: "vmnet-reserve", arg: "MAC=IP", help: "an address that DHCP gives to this guest only, may be given several times\nneeds --vmnet-gateway", set: addReservation, atOnce: true, repeat: true},
	{name: "vmnet-forward", arg: "PROTO:PORT=IP:PORT", help: "lead a TCP or UDP port of this host to a guest, may be given several times\nas in \"tcp:8080=192.168.105.5:80\"", set: addForward, atOnce: true, repeat: true},
	{name: "isolate", help: "guests do not reach each other", set: setIsolate},
	{name: "anti-spoof", help: "drop what guests send from addresses of others; one MAC address per client\nnot for guests that bridge or route", set: setAntiSpoof},
	{name: "offload", help: "leave checksums and the cutting of large TCP packets to the host\nclients of SOCKET get frames of 32768 bytes at most, larger ones are dropped", set: setOffload},
	{name: "log-format", arg: "(plain|text|json)", help: "form of the log: socket_vmnet's own, or with times, as key=value or JSON\n(default: plain)", set: setLogFormat, atOnce: true},
	{name: "log-level", arg: "(debug|info|warn|error)", help: "what is logged, and what is worse (default: info)\nDEBUG in the environment has all of it logged", set: setLogLevel, atOnce: true},
	{name: "list-interfaces", help: "print the interfaces that mode \"bridged\" can use, and end; needs no SOCKET", set: setListInterfaces, alone: true},
}
