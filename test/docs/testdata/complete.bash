# SPDX-License-Identifier: Apache-2.0
#
# complete.bash SCRIPT: completes each line of standard input as bash would, without a terminal. The answers come one a line, then
# a line with a dot.
. "$1"
_socket_vmnet2_test=1
while IFS= read -r line; do
	# Where readline cuts: at blanks, and before and behind = and :.
	read -r -a COMP_WORDS <<<"$(sed -E 's/([=:]+)/ \1 /g' <<<"$line")"
	[[ $line != *' ' ]] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
	_socket_vmnet2
	((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
	echo .
done
