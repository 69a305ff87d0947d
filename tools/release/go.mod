module github.com/socket-vmnet2/socket_vmnet2/tools/release

go 1.26.3

toolchain go1.26.8

require (
	github.com/blacktop/go-macho v1.1.296
	github.com/socket-vmnet2/socket_vmnet2 v0.0.0
	github.com/stretchr/testify v1.12.1
	howett.net/plist v1.0.1
)

require (
	github.com/blacktop/go-dwarf v1.1.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/socket-vmnet2/socket_vmnet2 => ../..
