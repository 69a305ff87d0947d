# SPDX-License-Identifier: Apache-2.0
#
# complete.fish SCRIPT: completes each line of standard input as fish does. The answers come one a line without an option in front, then a line
# with a dot.
source $argv[1]
while read -l line
    complete -C $line | string replace -r '\t.*' '' | string replace -r '^--[^=]*=(.+)' '$1' | string replace -r '/$' ''
    echo .
end
