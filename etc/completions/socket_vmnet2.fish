# SPDX-License-Identifier: Apache-2.0
#
# Completion of socket_vmnet2, socket_vmnet and socket_vmnet_client for fish, 3.4 or newer.
# Written by cmd/socket_vmnet2/manual_test.go: change the commands in cmd/socket_vmnet2 or the code there, then run make manual.

# __socket_vmnet2_options COMMAND prints its options, with a text behind a tab. Those that take a value end with an equals sign.
function __socket_vmnet2_options
    switch $argv[1]
        case 'socket_vmnet2'
            string replace -- : \t \
                '--socket-group=:group that may use the socket (default: "staff")' \
                '--vmnet-mode=:kind of network (default: "shared")' \
                '--vmnet-interface=:interface of this host, needed with mode "bridged", such as "en0"' \
                '--vmnet-gateway=:this host\'s address in the network, such as "192.168.105.1"' \
                '--vmnet-dhcp-end=:last address for guests (default: the gateway\'s with 254 as last byte)' \
                '--vmnet-mask=:netmask (default: "255.255.255.0")' \
                '--vmnet-interface-id=:id of the vmnet interface (default: random)' \
                '--vmnet-network-identifier=:with mode "host": id of an isolated network without DHCP' \
                '--vmnet-nat66-prefix=:IPv6 prefix of 64 bits out of fd00::/8, for mode "shared" (default: random)' \
                '--vmnet-disable-dhcp:no DHCP server in the network' \
                '--pidfile=:file that holds the process id while the daemon is ready' \
                '--help:show this help and exit' \
                '--version:show the version and exit' \
                '--socket-user=:owner of the socket (default: the daemon\'s user)' \
                '--socket-mode=:permissions of the socket (default: 0770)' \
                '--queue-size=:frames kept for a busy client (default: 2M)' \
                '--max-clients=:clients at once, 1 to 4096 (default: 256)' \
                '--keeper:a parent process keeps the clients\' sockets and starts the daemon again after a crash' \
                '--state-dir=:where leases and identities are kept' \
                '--runtime-dir=:the sockets beside SOCKET (default: SOCKET.d)' \
                '--allow-uid=:serve the datagram sockets of this user' \
                '--metrics-listen=:metrics for Prometheus, as in "127.0.0.1:9105"' \
                '--metrics-anywhere:let ADDR be one that other hosts reach' \
                '--log-format=:form of the log (default: plain)' \
                '--log-level=:what is logged, and what is worse (default: info)' \
                '--list-interfaces:print the interfaces that mode "bridged" can use' \
                '--backend=:vmnet.framework or the embedded network' \
                '--dns-record=:a name for the guests\' DNS' \
                '--host-loopback=:guests reach this host\'s 127.0.0.1 as host.internal' \
                '--gateway-user=:user of the embedded network\'s gateway process' \
                '--vmnet-gateway-any:let --vmnet-gateway be a public address' \
                '--vmnet-api=:how vmnet makes the network' \
                '--vmnet-interfaces=:an interface for each client or one for all (default: client)' \
                '--vmnet-disable-nat44:no way out of the network by IPv4' \
                '--vmnet-disable-nat66:no way out of the network by IPv6' \
                '--vmnet-disable-dns-proxy:no DNS server in the network' \
                '--vmnet-disable-ra:no router advertisements in the network (IPv6)' \
                '--vmnet-mtu=:largest packet, 1280 to 16384 (default: 1500)' \
                '--vmnet-reserve=:an address that DHCP gives to this guest only' \
                '--vmnet-forward=:lead a TCP or UDP port of this host to a guest' \
                '--isolate:guests do not reach each other' \
                '--anti-spoof:drop what guests send from addresses of others' \
                '--offload:leave checksums and segmentation of TCP to the host' \
                ;
        case 'socket_vmnet'
            string replace -- : \t \
                '--socket-group=:group that may use the socket (default: "staff")' \
                '--vmnet-mode=:kind of network (default: "shared")' \
                '--vmnet-interface=:interface of this host, needed with mode "bridged", such as "en0"' \
                '--vmnet-gateway=:this host\'s address in the network, such as "192.168.105.1"' \
                '--vmnet-dhcp-end=:last address for guests (default: the gateway\'s with 254 as last byte)' \
                '--vmnet-mask=:netmask (default: "255.255.255.0")' \
                '--vmnet-interface-id=:id of the vmnet interface (default: random)' \
                '--vmnet-network-identifier=:with mode "host": id of an isolated network without DHCP' \
                '--vmnet-nat66-prefix=:IPv6 prefix of 64 bits out of fd00::/8, for mode "shared" (default: random)' \
                '--vmnet-disable-dhcp:no DHCP server in the network' \
                '--pidfile=:file that holds the process id while the daemon is ready' \
                '--help:print this text and end' \
                '--version:print the version and end' \
                ;
        case 'socket_vmnet2 capture'
            string replace -- : \t \
                '--client=:of this client only: its number, name, Ethernet or IP address, as socket_vmnet2 clients shows them. May be given several times. Otherwise it is all clients, also those that connect later' \
                '--write=:write pcapng to FILE, which must not exist; - is the standard output, also for a FIFO or a device. Otherwise print a line for each frame' \
                '--snaplen=:keep the first N bytes of each frame, from 14 to 69632 (default: all)' \
                '--count=:end after N frames' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 clients'
            string replace -- : \t \
                '--json:print the daemon\'s list, one JSON document a line' \
                '--names:print a word for each client that kick knows it by, a line each' \
                '--wide:print all columns, however narrow the terminal' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 doctor'
            string replace -- : \t \
                '--problems:print errors and warnings only, and the line that sums it up' \
                '--json:print one JSON document instead of text' \
                '--root=:look below this directory as if it were /: at files only, no program and no daemon is asked' \
                '--reach=:also try to reach the guest with this address, and say why it cannot be reached' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 exec'
            string replace -- : \t \
                '--stream:a stream socket, each frame with its length in front, as QEMU\'s -netdev stream and socket have it (default)' \
                '--dgram:a datagram socket, one frame in each, as vfkit, krunkit and QEMU\'s -netdev dgram have it' \
                '--fd=:the descriptor\'s number (default: 3)' \
                '--mac=:the guest\'s Ethernet address: {mac}, and told to the daemon (default for {mac}: that of the daemon\'s interface)' \
                '--name=:what the client is called in the daemon\'s log' \
                '--interface-id=:the identity of the daemon\'s interface: the same one gets the same address again' \
                '--json=:write what the daemon tells of the connection to FILE, as a line of JSON; - is stdout' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 help'
            string replace -- : \t \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 install'
            string replace -- : \t \
                '--prefix=:install below this directory (default: /opt/socket_vmnet)' \
                '--root=:prepare another system\'s files below this directory (default: /)' \
                '--from=:where the programs are: a directory with all of them, or with bin and libexec in it (default: where this program is)' \
                '--dry-run:print what would be done, and change nothing' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 kick'
            string replace -- : \t \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 log-level'
            string replace -- : \t \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 logs'
            string replace -- : \t \
                '--lines=:show this many lines (default: 100)' \
                '--follow:go on with new ones until Ctrl-C' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 migrate'
            string replace -- : \t \
                '--json:print one JSON document instead of text' \
                '--root=:look below this directory as if it were /, and at no running process' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 rollback'
            string replace -- : \t \
                '--prefix=:roll back below this directory (default: /opt/socket_vmnet)' \
                '--root=:work below this directory (default: /)' \
                '--dry-run:print what would be done, and change nothing' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 selftest'
            string replace -- : \t \
                '--json:print one JSON document instead of text' \
                '--quick:8 interfaces at most' \
                '--help:show this help and exit' \
                '--vmnet-mode=:kind of network (default: "shared")' \
                '--vmnet-interface=:interface of this host, needed with mode "bridged", such as "en0"' \
                '--vmnet-gateway=:this host\'s address in the network, such as "192.168.105.1"' \
                '--vmnet-dhcp-end=:last address for guests (default: the gateway\'s with 254 as last byte)' \
                '--vmnet-mask=:netmask (default: "255.255.255.0")' \
                '--vmnet-interface-id=:id of the vmnet interface (default: random)' \
                '--vmnet-network-identifier=:with mode "host": id of an isolated network without DHCP' \
                '--vmnet-nat66-prefix=:IPv6 prefix of 64 bits out of fd00::/8, for mode "shared" (default: random)' \
                '--vmnet-disable-dhcp:no DHCP server in the network' \
                '--backend=:vmnet.framework or the embedded network' \
                '--dns-record=:a name for the guests\' DNS' \
                '--host-loopback=:guests reach this host\'s 127.0.0.1 as host.internal' \
                '--gateway-user=:user of the embedded network\'s gateway process' \
                '--vmnet-gateway-any:let --vmnet-gateway be a public address' \
                '--vmnet-api=:how vmnet makes the network' \
                '--vmnet-interfaces=:an interface for each client or one for all (default: client)' \
                '--vmnet-disable-nat44:no way out of the network by IPv4' \
                '--vmnet-disable-nat66:no way out of the network by IPv6' \
                '--vmnet-disable-dns-proxy:no DNS server in the network' \
                '--vmnet-disable-ra:no router advertisements in the network (IPv6)' \
                '--vmnet-mtu=:largest packet, 1280 to 16384 (default: 1500)' \
                '--vmnet-reserve=:an address that DHCP gives to this guest only' \
                '--vmnet-forward=:lead a TCP or UDP port of this host to a guest' \
                '--isolate:guests do not reach each other' \
                '--anti-spoof:drop what guests send from addresses of others' \
                '--offload:leave checksums and segmentation of TCP to the host' \
                ;
        case 'socket_vmnet2 service'
            string replace -- : \t \
                '--network=:the kind of network (default: shared)' \
                '--interface=:the interface of this host that bridged mode uses, such as "en0"' \
                '--name=:a service with a name of its own, for a further network' \
                '--user:a service of this user, without root; on macOS from version 26 on' \
                '--socket-activated:with install: the service manager makes the socket, and no client is refused during a restart' \
                '--prefix=:with install: the program is DIR/bin/socket_vmnet2 (default: /opt/socket_vmnet, or /usr in a package)' \
                '--dry-run:print every file and command, and change nothing' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 status'
            string replace -- : \t \
                '--json:print the daemon\'s description, one JSON document a line' \
                '--watch:show it again each second, with rates, until interrupted. A daemon that ends is waited for' \
                '--hosts:print lines for /etc/hosts, with the guests\' names and addresses' \
                '--sockets:print the sockets of the daemons that are found, a line each, and ask none' \
                '--wide:print all columns, however narrow the terminal' \
                '--web:show one daemon on a page for a browser of this host, whose address is printed, until interrupted' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 try'
            string replace -- : \t \
                '--json:print one line of JSON instead of text' \
                '--socket-group=:group that may use the socket (default: "staff")' \
                '--socket-user=:owner of the socket (default: the daemon\'s user)' \
                '--help:show this help and exit' \
                '--vmnet-mode=:kind of network (default: "shared")' \
                '--vmnet-interface=:interface of this host, needed with mode "bridged", such as "en0"' \
                '--vmnet-gateway=:this host\'s address in the network, such as "192.168.105.1"' \
                '--vmnet-dhcp-end=:last address for guests (default: the gateway\'s with 254 as last byte)' \
                '--vmnet-mask=:netmask (default: "255.255.255.0")' \
                '--vmnet-interface-id=:id of the vmnet interface (default: random)' \
                '--vmnet-network-identifier=:with mode "host": id of an isolated network without DHCP' \
                '--vmnet-nat66-prefix=:IPv6 prefix of 64 bits out of fd00::/8, for mode "shared" (default: random)' \
                '--vmnet-disable-dhcp:no DHCP server in the network' \
                '--backend=:vmnet.framework or the embedded network' \
                '--dns-record=:a name for the guests\' DNS' \
                '--host-loopback=:guests reach this host\'s 127.0.0.1 as host.internal' \
                '--gateway-user=:user of the embedded network\'s gateway process' \
                '--vmnet-gateway-any:let --vmnet-gateway be a public address' \
                '--vmnet-api=:how vmnet makes the network' \
                '--vmnet-interfaces=:an interface for each client or one for all (default: client)' \
                '--vmnet-disable-nat44:no way out of the network by IPv4' \
                '--vmnet-disable-nat66:no way out of the network by IPv6' \
                '--vmnet-disable-dns-proxy:no DNS server in the network' \
                '--vmnet-disable-ra:no router advertisements in the network (IPv6)' \
                '--vmnet-mtu=:largest packet, 1280 to 16384 (default: 1500)' \
                '--vmnet-reserve=:an address that DHCP gives to this guest only' \
                '--vmnet-forward=:lead a TCP or UDP port of this host to a guest' \
                '--isolate:guests do not reach each other' \
                '--anti-spoof:drop what guests send from addresses of others' \
                '--offload:leave checksums and segmentation of TCP to the host' \
                ;
        case 'socket_vmnet2 upgrade'
            string replace -- : \t \
                '--gateway:start the embedded network\'s gateway anew as well, which ends the guests\' connections to the outside' \
                '--json:print the daemon\'s answer, a line of JSON, instead of text' \
                '--help:show this help and exit' \
                ;
        case 'socket_vmnet2 version'
            string replace -- : \t \
                '--json:print a line of JSON: version, the version of go that built it, os and arch' \
                '--help:show this help and exit' \
                ;
    end
end

# __socket_vmnet2_value "COMMAND --OPTION" prints what the option takes: words, and kinds of things with a colon in front.
function __socket_vmnet2_value
    switch $argv[1]
        case 'socket_vmnet2 capture --client'
            printf '%s\n' :client
        case 'socket_vmnet2 --state-dir' 'socket_vmnet2 doctor --root' 'socket_vmnet2 install --prefix' 'socket_vmnet2 install --root' 'socket_vmnet2 install --from' 'socket_vmnet2 migrate --root' 'socket_vmnet2 rollback --prefix' 'socket_vmnet2 rollback --root' 'socket_vmnet2 service --prefix'
            printf '%s\n' :dir
        case 'socket_vmnet2 --runtime-dir'
            printf '%s\n' :dir none
        case 'socket_vmnet2 --pidfile' 'socket_vmnet2 -p' 'socket_vmnet --pidfile' 'socket_vmnet -p' 'socket_vmnet2 capture --write' 'socket_vmnet2 capture -w' 'socket_vmnet2 exec --json'
            printf '%s\n' :file
        case 'socket_vmnet2 --socket-group' 'socket_vmnet --socket-group' 'socket_vmnet2 try --socket-group'
            printf '%s\n' :group
        case 'socket_vmnet2 --vmnet-interface' 'socket_vmnet --vmnet-interface' 'socket_vmnet2 selftest --vmnet-interface' 'socket_vmnet2 service --interface' 'socket_vmnet2 try --vmnet-interface'
            printf '%s\n' :interface
        case 'socket_vmnet2 --vmnet-gateway' 'socket_vmnet2 --vmnet-dhcp-end' 'socket_vmnet2 --vmnet-mask' 'socket_vmnet2 --vmnet-interface-id' 'socket_vmnet2 --vmnet-network-identifier' 'socket_vmnet2 --vmnet-nat66-prefix' 'socket_vmnet2 --socket-mode' 'socket_vmnet2 --queue-size' 'socket_vmnet2 --max-clients' 'socket_vmnet2 --metrics-listen' 'socket_vmnet2 --dns-record' 'socket_vmnet2 --vmnet-mtu' 'socket_vmnet2 --vmnet-reserve' 'socket_vmnet2 --vmnet-forward' 'socket_vmnet --vmnet-gateway' 'socket_vmnet --vmnet-dhcp-end' 'socket_vmnet --vmnet-mask' 'socket_vmnet --vmnet-interface-id' 'socket_vmnet --vmnet-network-identifier' 'socket_vmnet --vmnet-nat66-prefix' 'socket_vmnet2 capture --snaplen' 'socket_vmnet2 capture -s' 'socket_vmnet2 capture --count' 'socket_vmnet2 capture -c' 'socket_vmnet2 doctor --reach' 'socket_vmnet2 exec --fd' 'socket_vmnet2 exec --mac' 'socket_vmnet2 exec --name' 'socket_vmnet2 exec --interface-id' 'socket_vmnet2 logs --lines' 'socket_vmnet2 selftest --vmnet-gateway' 'socket_vmnet2 selftest --vmnet-dhcp-end' 'socket_vmnet2 selftest --vmnet-mask' 'socket_vmnet2 selftest --vmnet-interface-id' 'socket_vmnet2 selftest --vmnet-network-identifier' 'socket_vmnet2 selftest --vmnet-nat66-prefix' 'socket_vmnet2 selftest --dns-record' 'socket_vmnet2 selftest --vmnet-mtu' 'socket_vmnet2 selftest --vmnet-reserve' 'socket_vmnet2 selftest --vmnet-forward' 'socket_vmnet2 service --name' 'socket_vmnet2 try --vmnet-gateway' 'socket_vmnet2 try --vmnet-dhcp-end' 'socket_vmnet2 try --vmnet-mask' 'socket_vmnet2 try --vmnet-interface-id' 'socket_vmnet2 try --vmnet-network-identifier' 'socket_vmnet2 try --vmnet-nat66-prefix' 'socket_vmnet2 try --dns-record' 'socket_vmnet2 try --vmnet-mtu' 'socket_vmnet2 try --vmnet-reserve' 'socket_vmnet2 try --vmnet-forward'
            printf '%s\n' :none
        case 'socket_vmnet2 --socket-user' 'socket_vmnet2 --allow-uid' 'socket_vmnet2 --gateway-user' 'socket_vmnet2 selftest --gateway-user' 'socket_vmnet2 try --socket-user' 'socket_vmnet2 try --gateway-user'
            printf '%s\n' :user
        case 'socket_vmnet2 --vmnet-api' 'socket_vmnet2 selftest --vmnet-api' 'socket_vmnet2 try --vmnet-api'
            printf '%s\n' auto network interface
        case 'socket_vmnet2 --backend' 'socket_vmnet2 selftest --backend' 'socket_vmnet2 try --backend'
            printf '%s\n' auto usernet vmnet
        case 'socket_vmnet2 --vmnet-interfaces' 'socket_vmnet2 selftest --vmnet-interfaces' 'socket_vmnet2 try --vmnet-interfaces'
            printf '%s\n' client one
        case 'socket_vmnet2 --log-level'
            printf '%s\n' debug info warn error
        case 'socket_vmnet2 --vmnet-mode' 'socket_vmnet --vmnet-mode' 'socket_vmnet2 selftest --vmnet-mode' 'socket_vmnet2 try --vmnet-mode'
            printf '%s\n' host shared bridged
        case 'socket_vmnet2 --host-loopback' 'socket_vmnet2 selftest --host-loopback' 'socket_vmnet2 try --host-loopback'
            printf '%s\n' on off
        case 'socket_vmnet2 --log-format'
            printf '%s\n' plain text json
        case 'socket_vmnet2 service --network'
            printf '%s\n' shared host bridged
    end
end

# __socket_vmnet2_operand COMMAND NUMBER prints what its operand of this number, from 0, may be.
function __socket_vmnet2_operand
    switch "$argv"
        case 'socket_vmnet2 0'
            printf '%s\n' :file
        case 'socket_vmnet 0'
            printf '%s\n' :file
        case 'socket_vmnet2 capture *'
            printf '%s\n' :socket
        case 'socket_vmnet2 clients *'
            printf '%s\n' :socket
        case 'socket_vmnet2 doctor 0'
            printf '%s\n' :socket
        case 'socket_vmnet2 exec 0'
            printf '%s\n' :socket
        case 'socket_vmnet2 exec 1'
            printf '%s\n' --
        case 'socket_vmnet2 exec 2'
            printf '%s\n' :command
        case 'socket_vmnet2 help 0'
            printf '%s\n' capture clients doctor exec help install kick log-level logs migrate rollback selftest service status try upgrade version
        case 'socket_vmnet2 kick *'
            printf '%s\n' :client :socket
        case 'socket_vmnet2 log-level 0'
            printf '%s\n' debug info warn error
        case 'socket_vmnet2 log-level 1'
            printf '%s\n' :socket
        case 'socket_vmnet2 logs 0'
            printf '%s\n' :socket
        case 'socket_vmnet2 service 0'
            printf '%s\n' install uninstall start stop restart status
        case 'socket_vmnet2 service 1'
            printf '%s\n' :option --
        case 'socket_vmnet2 service 2'
            printf '%s\n' :daemon
        case 'socket_vmnet2 status *'
            printf '%s\n' :socket
        case 'socket_vmnet2 upgrade 0'
            printf '%s\n' :socket
        case 'socket_vmnet_client 0'
            echo :file
        case 'socket_vmnet_client *'
            echo :command
    end
end

# __socket_vmnet2_offer BEGIN LINE... prints the lines that begin with that. It fails if there is none.
function __socket_vmnet2_offer
    string match -r -- '^'(string escape --style=regex -- $argv[1])'.*' $argv[2..]
end

# __socket_vmnet2_kind COMMAND PROGRAM BEGIN KIND... prints what is of one of these kinds and begins with that.
function __socket_vmnet2_kind
    for kind in $argv[4..]
        switch $kind
            case :file
                __fish_complete_path $argv[3]
            case :dir
                __fish_complete_directories $argv[3] ''
            case :socket
                command -sq $argv[2]; and __socket_vmnet2_offer $argv[3] (command $argv[2] status --sockets 2>/dev/null)
                or __fish_complete_path $argv[3]
            case :client
                command -sq $argv[2]; and __socket_vmnet2_offer $argv[3] (command $argv[2] clients --names 2>/dev/null)
            case :user
                __socket_vmnet2_offer $argv[3] (__fish_complete_users)
            case :group
                __socket_vmnet2_offer $argv[3] (__fish_complete_groups)
            case :interface
                __socket_vmnet2_offer $argv[3] (__fish_print_interfaces)
            case :command
                complete -C $argv[3]
            case :option
                __socket_vmnet2_offer $argv[3] (__socket_vmnet2_options $argv[1])
            case :none
            case '*'
                __socket_vmnet2_offer $argv[3] $kind
        end
    end
end

function __socket_vmnet2
    set -l words (commandline -opc)
    set -l cur (commandline -ct)
    set -l program $words[1]
    set -l command (string replace -r '.*/' '' -- $program)
    set -l first "$command$words[2]"
    set -l i 2
    if test $command = socket_vmnet2; and contains -- "$words[2]" capture clients doctor exec help install kick log-level logs migrate rollback selftest service status try upgrade version
        set command "$command $words[2]"
        set i 3
    end

    # What was there before: n operands, and perhaps an option whose value this is.
    set -l n 0
    set -l taker ''
    set -l dashes ''
    for i in (seq $i (count $words))
        set -l kind (__socket_vmnet2_operand $command $n)
        if test -n "$taker"
            set taker ''
        else if test -n "$dashes" -o $command = socket_vmnet_client; or not string match -q -- '-?*' "$words[$i]"
            if test "$kind" = :command
                complete -C "$(string join ' ' -- (string escape -- $words[$i..]) $cur'')"
                return
            end
            set n (math $n + 1)
        else if test "$words[$i]" = --
            set dashes 1
            test "$kind[-1]" != --; or set n (math $n + 1)
            if test "$(__socket_vmnet2_operand $command $n)" = :daemon
                set command socket_vmnet2
                set n 0
                set dashes ''
            end
        else if set -l value (__socket_vmnet2_value "$command $words[$i]"); and set -q value[1]
            set taker $words[$i]
        end
    end

    if test -n "$taker"
        __socket_vmnet2_kind $command $program "$cur" (__socket_vmnet2_value "$command $taker")
        return
    end
    if test -z "$dashes" -a $command != socket_vmnet_client
        if set -l parts (string split -m 1 = -- $cur); and string match -q -- '--*' $cur
            __socket_vmnet2_kind $command $program "$parts[2]" (__socket_vmnet2_value "$command $parts[1]") | string replace -r '^' -- "$parts[1]="
            return
        else if string match -q -- '-*' $cur
            __socket_vmnet2_offer $cur (__socket_vmnet2_options $command)
            return
        end
    end
    if test "$first" = socket_vmnet2
        __socket_vmnet2_offer "$cur" (string replace -- : \t \
            'capture:show the clients\' frames, or record them for Wireshark' \
            'clients:list the clients' \
            'doctor:check what on this machine stops the network, and what to do' \
            'exec:run a program, such as a VM, with a connection to the network' \
            'help:show this help, or that of a command' \
            'install:put the programs where socket_vmnet\'s are' \
            'kick:disconnect clients' \
            'log-level:show or change how much the daemon logs' \
            'logs:show what the daemon logged' \
            'migrate:plan the move from socket_vmnet' \
            'rollback:undo install' \
            'selftest:test the network with fake guests' \
            'service:have launchd or systemd run the daemon' \
            'status:show the network, its clients and what is wrong' \
            'try:try a network beside what is installed' \
            'upgrade:have the daemon become the installed program; clients stay' \
            'version:show the version of this program' \
            )
        and return
    end
    set -l kinds (__socket_vmnet2_operand $command $n)
    if set -q kinds[1]
        __socket_vmnet2_kind $command $program "$cur" $kinds
    else if test -z "$dashes"
        __socket_vmnet2_offer "$cur" (__socket_vmnet2_options $command)
    end
end

for program in socket_vmnet2 socket_vmnet socket_vmnet_client
    complete -c $program -f -a '(__socket_vmnet2)'
end
