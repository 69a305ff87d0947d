module github.com/socket-vmnet2/socket_vmnet2/test/report

go 1.26.0

require github.com/socket-vmnet2/socket_vmnet2 v0.0.0

replace github.com/socket-vmnet2/socket_vmnet2 => ../..
