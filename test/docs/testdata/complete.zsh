# SPDX-License-Identifier: Apache-2.0
#
# complete.zsh SCRIPT: completes each line of standard input as zsh would, without a terminal. The answers come one a line, then a
# line with a dot. What only the line editor can do is done by functions of the same names.
compadd() {
	local -a names
	names=("${(@)argv[$argv[(i)--]+1,-1]}")
	names=("${(@M)names:#$PREFIX*}")
	print -rl -- "${names[@]}"
	(( $#names ))
}
compset() { PREFIX=${PREFIX#$2} }
compdef() { :; }
_files() { if [[ $1 == -/ ]]; then compadd -- *(/N); else compadd -- *(N); fi }
_users() { compadd -- root; }
_groups() { compadd -- root; }
_net_interfaces() { compadd -- lo; }
_message() { :; }
_command_names() { compadd -- basename; }
_normal() { print -r -- "normal: ${words[*]} at $CURRENT"; }
source $1
while IFS= read -r line; do
	words=(${(s: :)line})
	[[ $line != *' ' ]] || words+=('')
	CURRENT=$#words PREFIX=$words[-1]
	_socket_vmnet2
	print .
done
