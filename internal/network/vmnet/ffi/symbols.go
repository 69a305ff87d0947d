// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/ebitengine/purego"

	"github.com/socket-vmnet2/socket_vmnet2/internal/network/vmnet/api"
)

// A fn is a C function.
type fn struct {
	name string
	addr uintptr // 0: this macOS does not have it
}

// call calls f, which must be there. Its result is whatever was in the register.
//
//go:uintptrescapes
func (f *fn) call(args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(f.addr, args...)
	return r
}

// status calls a function that returns a vmnet_return_t.
//
//go:uintptrescapes
func (f *fn) status(args ...uintptr) api.Status {
	r, _, _ := purego.SyscallN(f.addr, args...)
	return api.Status(uint32(r))
}

// failed is the error of a call that ended with st, nil for api.Success.
func (f *fn) failed(st api.Status) error {
	if st == api.Success {
		return nil
	}
	return &api.CallError{Call: f.name, Status: st}
}

// A key is a `const char *` that vmnet.h names as the key of a dictionary.
type key struct {
	addr uintptr // of the text
	text string
}

// functions are all functions that the binding calls. As in keys and statics, a field's tag has its symbol and the first macOS with it.
type functions struct {
	startInterface   fn `c:"vmnet_start_interface" since:"10.10"`
	stopInterface    fn `c:"vmnet_stop_interface" since:"10.10"`
	setEventCallback fn `c:"vmnet_interface_set_event_callback" since:"10.10"`
	read             fn `c:"vmnet_read" since:"10.10"`
	write            fn `c:"vmnet_write" since:"10.10"`
	sharedInterfaces fn `c:"vmnet_copy_shared_interface_list" since:"10.15"`
	addForward       fn `c:"vmnet_interface_add_ip_port_forwarding_rule" since:"11"`
	configCreate     fn `c:"vmnet_network_configuration_create" since:"26"`
	configExternal   fn `c:"vmnet_network_configuration_set_external_interface" since:"26"`
	configSubnet     fn `c:"vmnet_network_configuration_set_ipv4_subnet" since:"26"`
	configPrefix6    fn `c:"vmnet_network_configuration_set_ipv6_prefix" since:"26"`
	configMTU        fn `c:"vmnet_network_configuration_set_mtu" since:"26"`
	configReserve    fn `c:"vmnet_network_configuration_add_dhcp_reservation" since:"26"`
	configForward    fn `c:"vmnet_network_configuration_add_port_forwarding_rule" since:"26"`
	configNoNAT44    fn `c:"vmnet_network_configuration_disable_nat44" since:"26"`
	configNoNAT66    fn `c:"vmnet_network_configuration_disable_nat66" since:"26"`
	configNoDHCP     fn `c:"vmnet_network_configuration_disable_dhcp" since:"26"`
	configNoDNSProxy fn `c:"vmnet_network_configuration_disable_dns_proxy" since:"26"`
	configNoRA       fn `c:"vmnet_network_configuration_disable_router_advertisement" since:"26"`
	networkCreate    fn `c:"vmnet_network_create" since:"26"`
	networkStart     fn `c:"vmnet_interface_start_with_network" since:"26"`
	networkSubnet    fn `c:"vmnet_network_get_ipv4_subnet" since:"26"`
	dictCreate       fn `c:"xpc_dictionary_create" since:"10.7"`
	dictSetUint64    fn `c:"xpc_dictionary_set_uint64" since:"10.7"`
	dictSetBool      fn `c:"xpc_dictionary_set_bool" since:"10.7"`
	dictSetString    fn `c:"xpc_dictionary_set_string" since:"10.7"`
	dictSetUUID      fn `c:"xpc_dictionary_set_uuid" since:"10.7"`
	dictApply        fn `c:"xpc_dictionary_apply" since:"10.7"`
	typeOf           fn `c:"xpc_get_type" since:"10.7"`
	uint64Value      fn `c:"xpc_uint64_get_value" since:"10.7"`
	int64Value       fn `c:"xpc_int64_get_value" since:"10.7"`
	boolValue        fn `c:"xpc_bool_get_value" since:"10.7"`
	stringValue      fn `c:"xpc_string_get_string_ptr" since:"10.7"`
	uuidValue        fn `c:"xpc_uuid_get_bytes" since:"10.7"`
	arrayCount       fn `c:"xpc_array_get_count" since:"10.7"`
	arrayString      fn `c:"xpc_array_get_string" since:"10.7"`
	xpcRelease       fn `c:"xpc_release" since:"10.7"`
	queueCreate      fn `c:"dispatch_queue_create" since:"10.6"`
	queueRelease     fn `c:"dispatch_release" since:"10.6"`
	cfRelease        fn `c:"CFRelease" since:"10.0"`
}

// keys are all keys that the binding uses.
type keys struct {
	mode            key `c:"vmnet_operation_mode_key" since:"10.10"`
	sharedInterface key `c:"vmnet_shared_interface_name_key" since:"10.15"`
	start           key `c:"vmnet_start_address_key" since:"10.15"`
	end             key `c:"vmnet_end_address_key" since:"10.15"`
	mask            key `c:"vmnet_subnet_mask_key" since:"10.15"`
	interfaceID     key `c:"vmnet_interface_id_key" since:"10.10"`
	networkID       key `c:"vmnet_network_identifier_key" since:"11"`
	nat66Prefix     key `c:"vmnet_nat66_prefix_key" since:"10.15"`
	mtu             key `c:"vmnet_mtu_key" since:"10.10"`
	isolation       key `c:"vmnet_enable_isolation_key" since:"11"`
	tso             key `c:"vmnet_enable_tso_key" since:"11"`
	checksum        key `c:"vmnet_enable_checksum_offload_key" since:"12"`
	mac             key `c:"vmnet_mac_address_key" since:"10.10"`
	maxPacket       key `c:"vmnet_max_packet_size_key" since:"10.10"`
	readMax         key `c:"vmnet_read_max_packets_key" since:"15"`
	writeMax        key `c:"vmnet_write_max_packets_key" since:"15"`
}

// statics are variables, and functions that are not called from Go, of which only the address counts.
type statics struct {
	globalBlock uintptr `c:"_NSConcreteGlobalBlock" since:"10.6"`
	write       uintptr `c:"write" since:"10.0"`
	xpcRetain   uintptr `c:"xpc_retain" since:"10.7"`
	typeUint64  uintptr `c:"_xpc_type_uint64" since:"10.7"`
	typeInt64   uintptr `c:"_xpc_type_int64" since:"10.7"`
	typeBool    uintptr `c:"_xpc_type_bool" since:"10.7"`
	typeString  uintptr `c:"_xpc_type_string" since:"10.7"`
	typeUUID    uintptr `c:"_xpc_type_uuid" since:"10.7"`
}

// resolve looks all symbols up, once. What not every macOS has that Go runs on, which begins with 12, may be missing. All else is
// required, so that a wrong library is found out at once: the first missing one is the error.
func (a *API) resolve() error {
	for _, table := range []any{&a.f, &a.k, &a.s} {
		for field, v := range reflect.ValueOf(table).Elem().Fields() {
			name, since := field.Tag.Get("c"), field.Tag.Get("since")
			addr, err := a.lookup(name)
			if err != nil && since != "15" && since != "26" {
				return fmt.Errorf("open vmnet.framework: every macOS since %s has %s, this one does not: %w", since, name, err)
			}
			switch p := reflect.NewAt(field.Type, v.Addr().UnsafePointer()).Interface().(type) {
			case *fn:
				if *p = (fn{name, addr}); addr == 0 && since == "26" && a.noNetworks == nil {
					a.noNetworks = fmt.Errorf("%s: %w, it came with macOS %s", name, api.ErrMissing, since)
				}
			case *uintptr:
				*p = addr
			case *key:
				if addr != 0 { // of the variable, which holds the address of the text
					p.addr = *(*uintptr)(pointer(addr))
					p.text = gostring(p.addr)
				}
			}
		}
	}
	return nil
}

// lookup finds a symbol in any of the libraries.
func (a *API) lookup(name string) (uintptr, error) {
	var errs []error
	for _, h := range a.handles {
		addr, err := purego.Dlsym(h, name)
		if err == nil {
			return addr, nil
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}
