# SPDX-License-Identifier: Apache-2.0
#
# Completion of socket_vmnet2, socket_vmnet and socket_vmnet_client for fish, 3.4 or newer.
# Written by cmd/socket_vmnet2/manual_test.go: change the commands in cmd/socket_vmnet2 or the code there, then run make manual.

# __socket_vmnet2_options COMMAND prints its options, with a text behind a tab. Those that take a value end with an equals sign.
function __socket_vmnet2_options
    switch $argv[1]
{{- range .Takers}}
        case {{fish .Name}}
            string replace -- : \t \
{{- range .Texts}}
                {{fish .}} \
{{- end}}
                ;
{{- end}}
    end
end

# __socket_vmnet2_value "COMMAND --OPTION" prints what the option takes: words, and kinds of things with a colon in front.
function __socket_vmnet2_value
    switch $argv[1]
{{- range $kind, $keys := .Values}}
        case {{join $keys " "}}
            printf '%s\n' {{$kind}}
{{- end}}
    end
end

# __socket_vmnet2_operand COMMAND NUMBER prints what its operand of this number, from 0, may be.
function __socket_vmnet2_operand
    switch "$argv"
{{- range .Takers}}{{$name := .Name}}{{range $i, $kind := .Operands}}
        case '{{$name}} {{$i}}'
            printf '%s\n' {{$kind}}
{{- end}}{{if .Rest}}
        case '{{$name}} *'
            printf '%s\n' {{.Rest}}
{{- end}}{{end}}
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
    if test $command = socket_vmnet2; and contains -- "$words[2]" {{join .Names " "}}
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
{{- range .Texts}}
            {{fish .}} \
{{- end}}
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
