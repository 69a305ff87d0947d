# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion of socket_vmnet2, socket_vmnet and socket_vmnet_client for bash, 3.2 or newer, with bash-completion or without.
# Written by cmd/socket_vmnet2/manual_test.go: change the commands in cmd/socket_vmnet2 or the code there, then run make manual.

# _socket_vmnet2_options COMMAND prints its options. Those that take a value end with an equals sign.
_socket_vmnet2_options() {
	case $1 in
	'socket_vmnet2') echo '--socket-group= --vmnet-mode= --vmnet-interface= --vmnet-gateway= --vmnet-dhcp-end= --vmnet-mask= --vmnet-interface-id= --vmnet-network-identifier= --vmnet-nat66-prefix= --vmnet-disable-dhcp --pidfile= --help --version --socket-user= --socket-mode= --queue-size= --max-clients= --keeper --state-dir= --runtime-dir= --allow-uid= --metrics-listen= --metrics-anywhere --log-format= --log-level= --list-interfaces --backend= --dns-record= --host-loopback= --gateway-user= --vmnet-gateway-any --vmnet-api= --vmnet-interfaces= --vmnet-disable-nat44 --vmnet-disable-nat66 --vmnet-disable-dns-proxy --vmnet-disable-ra --vmnet-mtu= --vmnet-reserve= --vmnet-forward= --isolate --anti-spoof --offload' ;;
	'socket_vmnet') echo '--socket-group= --vmnet-mode= --vmnet-interface= --vmnet-gateway= --vmnet-dhcp-end= --vmnet-mask= --vmnet-interface-id= --vmnet-network-identifier= --vmnet-nat66-prefix= --vmnet-disable-dhcp --pidfile= --help --version' ;;
	'socket_vmnet2 capture') echo '--client= --write= --snaplen= --count= --help' ;;
	'socket_vmnet2 clients') echo '--json --names --wide --help' ;;
	'socket_vmnet2 doctor') echo '--problems --json --root= --reach= --help' ;;
	'socket_vmnet2 exec') echo '--stream --dgram --fd= --mac= --name= --interface-id= --json= --help' ;;
	'socket_vmnet2 help') echo '--help' ;;
	'socket_vmnet2 install') echo '--prefix= --root= --from= --dry-run --help' ;;
	'socket_vmnet2 kick') echo '--help' ;;
	'socket_vmnet2 log-level') echo '--help' ;;
	'socket_vmnet2 logs') echo '--lines= --follow --help' ;;
	'socket_vmnet2 migrate') echo '--json --root= --help' ;;
	'socket_vmnet2 rollback') echo '--prefix= --root= --dry-run --help' ;;
	'socket_vmnet2 selftest') echo '--json --quick --help --vmnet-mode= --vmnet-interface= --vmnet-gateway= --vmnet-dhcp-end= --vmnet-mask= --vmnet-interface-id= --vmnet-network-identifier= --vmnet-nat66-prefix= --vmnet-disable-dhcp --backend= --dns-record= --host-loopback= --gateway-user= --vmnet-gateway-any --vmnet-api= --vmnet-interfaces= --vmnet-disable-nat44 --vmnet-disable-nat66 --vmnet-disable-dns-proxy --vmnet-disable-ra --vmnet-mtu= --vmnet-reserve= --vmnet-forward= --isolate --anti-spoof --offload' ;;
	'socket_vmnet2 service') echo '--network= --interface= --name= --user --socket-activated --prefix= --dry-run --help' ;;
	'socket_vmnet2 status') echo '--json --watch --hosts --sockets --wide --web --help' ;;
	'socket_vmnet2 try') echo '--json --socket-group= --socket-user= --help --vmnet-mode= --vmnet-interface= --vmnet-gateway= --vmnet-dhcp-end= --vmnet-mask= --vmnet-interface-id= --vmnet-network-identifier= --vmnet-nat66-prefix= --vmnet-disable-dhcp --backend= --dns-record= --host-loopback= --gateway-user= --vmnet-gateway-any --vmnet-api= --vmnet-interfaces= --vmnet-disable-nat44 --vmnet-disable-nat66 --vmnet-disable-dns-proxy --vmnet-disable-ra --vmnet-mtu= --vmnet-reserve= --vmnet-forward= --isolate --anti-spoof --offload' ;;
	'socket_vmnet2 upgrade') echo '--gateway --json --help' ;;
	'socket_vmnet2 version') echo '--json --help' ;;
	esac
}

# _socket_vmnet2_value "COMMAND --OPTION" prints what the option takes: words, and kinds of things with a colon in front.
_socket_vmnet2_value() {
	case $1 in
	'socket_vmnet2 capture --client')
		echo ':client' ;;
	'socket_vmnet2 --state-dir' | 'socket_vmnet2 doctor --root' | 'socket_vmnet2 install --prefix' | 'socket_vmnet2 install --root' | 'socket_vmnet2 install --from' | 'socket_vmnet2 migrate --root' | 'socket_vmnet2 rollback --prefix' | 'socket_vmnet2 rollback --root' | 'socket_vmnet2 service --prefix')
		echo ':dir' ;;
	'socket_vmnet2 --runtime-dir')
		echo ':dir none' ;;
	'socket_vmnet2 --pidfile' | 'socket_vmnet2 -p' | 'socket_vmnet --pidfile' | 'socket_vmnet -p' | 'socket_vmnet2 capture --write' | 'socket_vmnet2 capture -w' | 'socket_vmnet2 exec --json')
		echo ':file' ;;
	'socket_vmnet2 --socket-group' | 'socket_vmnet --socket-group' | 'socket_vmnet2 try --socket-group')
		echo ':group' ;;
	'socket_vmnet2 --vmnet-interface' | 'socket_vmnet --vmnet-interface' | 'socket_vmnet2 selftest --vmnet-interface' | 'socket_vmnet2 service --interface' | 'socket_vmnet2 try --vmnet-interface')
		echo ':interface' ;;
	'socket_vmnet2 --vmnet-gateway' | 'socket_vmnet2 --vmnet-dhcp-end' | 'socket_vmnet2 --vmnet-mask' | 'socket_vmnet2 --vmnet-interface-id' | 'socket_vmnet2 --vmnet-network-identifier' | 'socket_vmnet2 --vmnet-nat66-prefix' | 'socket_vmnet2 --socket-mode' | 'socket_vmnet2 --queue-size' | 'socket_vmnet2 --max-clients' | 'socket_vmnet2 --metrics-listen' | 'socket_vmnet2 --dns-record' | 'socket_vmnet2 --vmnet-mtu' | 'socket_vmnet2 --vmnet-reserve' | 'socket_vmnet2 --vmnet-forward' | 'socket_vmnet --vmnet-gateway' | 'socket_vmnet --vmnet-dhcp-end' | 'socket_vmnet --vmnet-mask' | 'socket_vmnet --vmnet-interface-id' | 'socket_vmnet --vmnet-network-identifier' | 'socket_vmnet --vmnet-nat66-prefix' | 'socket_vmnet2 capture --snaplen' | 'socket_vmnet2 capture -s' | 'socket_vmnet2 capture --count' | 'socket_vmnet2 capture -c' | 'socket_vmnet2 doctor --reach' | 'socket_vmnet2 exec --fd' | 'socket_vmnet2 exec --mac' | 'socket_vmnet2 exec --name' | 'socket_vmnet2 exec --interface-id' | 'socket_vmnet2 logs --lines' | 'socket_vmnet2 selftest --vmnet-gateway' | 'socket_vmnet2 selftest --vmnet-dhcp-end' | 'socket_vmnet2 selftest --vmnet-mask' | 'socket_vmnet2 selftest --vmnet-interface-id' | 'socket_vmnet2 selftest --vmnet-network-identifier' | 'socket_vmnet2 selftest --vmnet-nat66-prefix' | 'socket_vmnet2 selftest --dns-record' | 'socket_vmnet2 selftest --vmnet-mtu' | 'socket_vmnet2 selftest --vmnet-reserve' | 'socket_vmnet2 selftest --vmnet-forward' | 'socket_vmnet2 service --name' | 'socket_vmnet2 try --vmnet-gateway' | 'socket_vmnet2 try --vmnet-dhcp-end' | 'socket_vmnet2 try --vmnet-mask' | 'socket_vmnet2 try --vmnet-interface-id' | 'socket_vmnet2 try --vmnet-network-identifier' | 'socket_vmnet2 try --vmnet-nat66-prefix' | 'socket_vmnet2 try --dns-record' | 'socket_vmnet2 try --vmnet-mtu' | 'socket_vmnet2 try --vmnet-reserve' | 'socket_vmnet2 try --vmnet-forward')
		echo ':none' ;;
	'socket_vmnet2 --socket-user' | 'socket_vmnet2 --allow-uid' | 'socket_vmnet2 --gateway-user' | 'socket_vmnet2 selftest --gateway-user' | 'socket_vmnet2 try --socket-user' | 'socket_vmnet2 try --gateway-user')
		echo ':user' ;;
	'socket_vmnet2 --vmnet-api' | 'socket_vmnet2 selftest --vmnet-api' | 'socket_vmnet2 try --vmnet-api')
		echo 'auto network interface' ;;
	'socket_vmnet2 --backend' | 'socket_vmnet2 selftest --backend' | 'socket_vmnet2 try --backend')
		echo 'auto usernet vmnet' ;;
	'socket_vmnet2 --vmnet-interfaces' | 'socket_vmnet2 selftest --vmnet-interfaces' | 'socket_vmnet2 try --vmnet-interfaces')
		echo 'client one' ;;
	'socket_vmnet2 --log-level')
		echo 'debug info warn error' ;;
	'socket_vmnet2 --vmnet-mode' | 'socket_vmnet --vmnet-mode' | 'socket_vmnet2 selftest --vmnet-mode' | 'socket_vmnet2 try --vmnet-mode')
		echo 'host shared bridged' ;;
	'socket_vmnet2 --host-loopback' | 'socket_vmnet2 selftest --host-loopback' | 'socket_vmnet2 try --host-loopback')
		echo 'on off' ;;
	'socket_vmnet2 --log-format')
		echo 'plain text json' ;;
	'socket_vmnet2 service --network')
		echo 'shared host bridged' ;;
	esac
}

# _socket_vmnet2_operand COMMAND NUMBER prints what its operand of this number, from 0, may be.
_socket_vmnet2_operand() {
	case "$1 $2" in
	'socket_vmnet2 0') echo ':file' ;;
	'socket_vmnet 0') echo ':file' ;;
	'socket_vmnet2 capture '*) echo ':socket' ;;
	'socket_vmnet2 clients '*) echo ':socket' ;;
	'socket_vmnet2 doctor 0') echo ':socket' ;;
	'socket_vmnet2 exec 0') echo ':socket' ;;
	'socket_vmnet2 exec 1') echo '--' ;;
	'socket_vmnet2 exec 2') echo ':command' ;;
	'socket_vmnet2 help 0') echo 'capture clients doctor exec help install kick log-level logs migrate rollback selftest service status try upgrade version' ;;
	'socket_vmnet2 kick '*) echo ':client :socket' ;;
	'socket_vmnet2 log-level 0') echo 'debug info warn error' ;;
	'socket_vmnet2 log-level 1') echo ':socket' ;;
	'socket_vmnet2 logs 0') echo ':socket' ;;
	'socket_vmnet2 service 0') echo 'install uninstall start stop restart status' ;;
	'socket_vmnet2 service 1') echo ':option --' ;;
	'socket_vmnet2 service 2') echo ':daemon' ;;
	'socket_vmnet2 status '*) echo ':socket' ;;
	'socket_vmnet2 upgrade 0') echo ':socket' ;;
	'socket_vmnet_client 0') echo ':file' ;;
	socket_vmnet_client*) echo ':command' ;;
	esac
}

# _socket_vmnet2_offer WORD... offers those that begin with $cur. A blank follows, but for an equals sign.
_socket_vmnet2_offer() {
	local word
	for word; do
		[[ $word == "$cur"* ]] || continue
		[[ $word == *= ]] || word+=' '
		COMPREPLY+=("$before$word")
	done
}

# _socket_vmnet2_generate TYPE has compgen offer what begins with $cur.
_socket_vmnet2_generate() {
	local word
	while IFS= read -r word; do
		if [[ $1 == -[df] ]]; then COMPREPLY+=("$before$word"); else COMPREPLY+=("$before$word "); fi
	done < <(compgen "$1" -- "$cur")
}

# _socket_vmnet2_ask COMMAND OPTION has the program say what there is, and offers what begins with $cur. It fails if nothing does.
_socket_vmnet2_ask() {
	local list n=${#COMPREPLY[@]}
	IFS=$'\n' read -r -a list -d '' < <(command "${words[0]}" "$@" 2>/dev/null)
	_socket_vmnet2_offer "${list[@]}"
	((${#COMPREPLY[@]} > n))
}

# _socket_vmnet2_kind KIND... offers what is of one of these kinds and begins with $cur.
_socket_vmnet2_kind() {
	local kind interfaces
	for kind; do
		case $kind in
		:file | :dir)
			# Without compopt, which bash 3.2 does not have, nothing is offered, and so bash offers files itself.
			compopt -o filenames +o nospace 2>/dev/null || [[ -n ${_socket_vmnet2_test:-} ]] || continue
			if [[ $kind == :dir ]]; then _socket_vmnet2_generate -d; else _socket_vmnet2_generate -f; fi
			;;
		:socket) _socket_vmnet2_ask status --sockets || _socket_vmnet2_kind :file ;;
		:client) _socket_vmnet2_ask clients --names ;;
		:user) _socket_vmnet2_generate -u ;;
		:group) _socket_vmnet2_generate -g ;;
		:interface)
			read -r -a interfaces -d '' < <(ls /sys/class/net 2>/dev/null || ifconfig -l 2>/dev/null)
			_socket_vmnet2_offer "${interfaces[@]}"
			;;
		:command) _socket_vmnet2_generate -c ;;
		:option) _socket_vmnet2_offer "${options[@]}" ;;
		:none) compopt +o default 2>/dev/null ;;
		*) _socket_vmnet2_offer "$kind" ;;
		esac
	done
}

# _socket_vmnet2_split sets words and cword to what they would be if bash did not cut words at = and :. first has where each
# begins in COMP_WORDS.
_socket_vmnet2_split() {
	local i n=0 word glue=
	for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
		word=${COMP_WORDS[i]}
		if ((n > 0)) && { [[ $word == [=:]* ]] || [[ -n $glue && -n $word ]]; }; then
			words[n - 1]+=$word
		else
			first[n]=$i
			words[n++]=$word
		fi
		if [[ $word == *[=:] && $word == [=:]* ]]; then glue=1; else glue=; fi
		((i != COMP_CWORD)) || cword=$((n - 1))
	done
}

_socket_vmnet2() {
	local words=() first=() cword=0 cur before='' command subcommand='' i kind list options taker='' n=0 dashes=''
	COMPREPLY=()
	_socket_vmnet2_split
	cur=${words[cword]}
	command=${words[0]##*/}
	i=1
	if [[ $command == socket_vmnet2 ]]; then
		for subcommand in capture clients doctor exec help install kick log-level logs migrate rollback selftest service status try upgrade version; do
			if ((cword > 1)) && [[ ${words[1]} == "$subcommand" ]]; then
				command+=" $subcommand"
				i=2
				break
			fi
		done
	fi

	# What was there before: n operands, and perhaps an option whose value this is.
	for (( ; i < cword; i++)); do
		if [[ -n $taker ]]; then
			taker=
		elif [[ -n $dashes || $command == socket_vmnet_client || ${words[i]} != -?* ]]; then
			kind=$(_socket_vmnet2_operand "$command" "$n")
			[[ $kind == ':command' ]] && break
			n=$((n + 1))
		elif [[ ${words[i]} == -- ]]; then
			dashes=1
			[[ $(_socket_vmnet2_operand "$command" "$n") != *-- ]] || n=$((n + 1))
			if [[ $(_socket_vmnet2_operand "$command" "$n") == :daemon ]]; then
				command=socket_vmnet2 dashes='' n=0
			fi
		elif [[ -n $(_socket_vmnet2_value "$command ${words[i]}") ]]; then
			taker=${words[i]}
		fi
	done

	kind=$(_socket_vmnet2_operand "$command" "$n")
	if [[ -z $taker && $kind == :command ]] && declare -F _command_offset >/dev/null && ((i < cword)); then
		compopt +o nospace 2>/dev/null
		_command_offset "${first[i]}"
		return
	fi
	if [[ -z $taker && -z $dashes && $command != socket_vmnet_client && $cur == --*=* ]]; then
		taker=${cur%%=*}
		cur=${cur#*=}
		# Bash has cut the word there, and wants what follows, unless it was told not to.
		[[ $COMP_WORDBREAKS == *=* ]] || before=$taker=
	fi
	if [[ -n $taker ]]; then
		read -r -a list <<<"$(_socket_vmnet2_value "$command $taker")"
		_socket_vmnet2_kind "${list[@]:-:none}"
		return
	fi
	read -r -a options <<<"$(_socket_vmnet2_options "$command")"
	if [[ $cur == -* && -z $dashes && $command != socket_vmnet_client ]]; then
		_socket_vmnet2_offer "${options[@]}"
	elif [[ -n $kind ]]; then
		if ((cword == 1)) && [[ $command == socket_vmnet2 ]]; then
			_socket_vmnet2_offer capture clients doctor exec help install kick log-level logs migrate rollback selftest service status try upgrade version
			((${#COMPREPLY[@]} == 0)) || return 0
		fi
		read -r -a list <<<"$kind"
		_socket_vmnet2_kind "${list[@]}"
	elif [[ -z $dashes ]]; then
		_socket_vmnet2_offer "${options[@]}"
	fi
}

complete -o default -o nospace -F _socket_vmnet2 socket_vmnet2 socket_vmnet socket_vmnet_client
