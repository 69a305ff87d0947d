# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# Completion of socket_vmnet2, socket_vmnet and socket_vmnet_client for bash, 3.2 or newer, with bash-completion or without.
# Written by cmd/socket_vmnet2/manual_test.go: change the commands in cmd/socket_vmnet2 or the code there, then run make manual.

# _socket_vmnet2_options COMMAND prints its options. Those that take a value end with an equals sign.
_socket_vmnet2_options() {
	case $1 in
{{- range .Takers}}
	{{quote .Name}}) echo {{quote (join .Words " ")}} ;;
{{- end}}
	esac
}

# _socket_vmnet2_value "COMMAND --OPTION" prints what the option takes: words, and kinds of things with a colon in front.
_socket_vmnet2_value() {
	case $1 in
{{- range $kind, $keys := .Values}}
	{{join $keys " | "}})
		echo {{quote $kind}} ;;
{{- end}}
	esac
}

# _socket_vmnet2_operand COMMAND NUMBER prints what its operand of this number, from 0, may be.
_socket_vmnet2_operand() {
	case "$1 $2" in
{{- range .Takers}}{{$name := .Name}}{{range $i, $kind := .Operands}}
	'{{$name}} {{$i}}') echo {{quote $kind}} ;;
{{- end}}{{if .Rest}}
	'{{.Name}} '*) echo {{quote .Rest}} ;;
{{- end}}{{end}}
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
		for subcommand in {{join .Names " "}}; do
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
			_socket_vmnet2_offer {{join .Names " "}}
			((${#COMPREPLY[@]} == 0)) || return 0
		fi
		read -r -a list <<<"$kind"
		_socket_vmnet2_kind "${list[@]}"
	elif [[ -z $dashes ]]; then
		_socket_vmnet2_offer "${options[@]}"
	fi
}

complete -o default -o nospace -F _socket_vmnet2 socket_vmnet2 socket_vmnet socket_vmnet_client
