module github.com/socket-vmnet2/socket_vmnet2/attach

go 1.24
