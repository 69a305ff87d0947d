// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"errors"
	"fmt"
	"slices"

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

// functions are all functions that the binding calls.
type functions struct {
	startInterface, stopInterface, setEventCallback, read, write, sharedInterfaces, addForward fn

	configCreate, configExternal, configSubnet, configPrefix6, configMTU, configReserve, configForward fn
	configNoNAT44, configNoNAT66, configNoDHCP, configNoDNSProxy, configNoRA                           fn
	networkCreate, networkStart, networkSubnet                                                         fn

	dictCreate, dictSetUint64, dictSetBool, dictSetString, dictSetUUID, dictApply fn
	typeOf, uint64Value, int64Value, boolValue, stringValue, uuidValue            fn
	arrayCount, arrayString, xpcRelease                                           fn

	queueCreate, queueRelease, cfRelease fn
}

// keys are all keys that the binding uses.
type keys struct {
	mode, sharedInterface, start, end, mask, interfaceID, networkID, nat66Prefix, mtu key
	isolation, tso, checksum                                                          key
	mac, maxPacket, readMax, writeMax                                                 key
}

// statics are variables, and functions that are not called from Go, of which only the address counts.
type statics struct {
	globalBlock, write, xpcRetain                         uintptr
	typeUint64, typeInt64, typeBool, typeString, typeUUID uintptr
}

// A symbol is one row of the table: a name, and where what is found under it goes.
type symbol struct {
	name  string
	since string // first macOS that has it
	fn    *fn
	key   *key
	addr  *uintptr
}

// optional tells what not every macOS has that Go runs on, which begins with 12. All else is required, so that a wrong library is
// found out at once.
func (s *symbol) optional() bool { return s.since == "15" || s.since == "26" }

func (f *functions) table() []symbol { return slices.Concat(f.interfaces(), f.networks(), f.system()) }

func (f *functions) interfaces() []symbol {
	return []symbol{
		{"vmnet_start_interface", "10.10", &f.startInterface, nil, nil},
		{"vmnet_stop_interface", "10.10", &f.stopInterface, nil, nil},
		{"vmnet_interface_set_event_callback", "10.10", &f.setEventCallback, nil, nil},
		{"vmnet_read", "10.10", &f.read, nil, nil},
		{"vmnet_write", "10.10", &f.write, nil, nil},
		{"vmnet_copy_shared_interface_list", "10.15", &f.sharedInterfaces, nil, nil},
		{"vmnet_interface_add_ip_port_forwarding_rule", "11", &f.addForward, nil, nil},
	}
}

func (f *functions) networks() []symbol {
	return []symbol{
		{"vmnet_network_configuration_create", "26", &f.configCreate, nil, nil},
		{"vmnet_network_configuration_set_external_interface", "26", &f.configExternal, nil, nil},
		{"vmnet_network_configuration_set_ipv4_subnet", "26", &f.configSubnet, nil, nil},
		{"vmnet_network_configuration_set_ipv6_prefix", "26", &f.configPrefix6, nil, nil},
		{"vmnet_network_configuration_set_mtu", "26", &f.configMTU, nil, nil},
		{"vmnet_network_configuration_add_dhcp_reservation", "26", &f.configReserve, nil, nil},
		{"vmnet_network_configuration_add_port_forwarding_rule", "26", &f.configForward, nil, nil},
		{"vmnet_network_configuration_disable_nat44", "26", &f.configNoNAT44, nil, nil},
		{"vmnet_network_configuration_disable_nat66", "26", &f.configNoNAT66, nil, nil},
		{"vmnet_network_configuration_disable_dhcp", "26", &f.configNoDHCP, nil, nil},
		{"vmnet_network_configuration_disable_dns_proxy", "26", &f.configNoDNSProxy, nil, nil},
		{"vmnet_network_configuration_disable_router_advertisement", "26", &f.configNoRA, nil, nil},
		{"vmnet_network_create", "26", &f.networkCreate, nil, nil},
		{"vmnet_interface_start_with_network", "26", &f.networkStart, nil, nil},
		{"vmnet_network_get_ipv4_subnet", "26", &f.networkSubnet, nil, nil},
	}
}

func (f *functions) system() []symbol {
	return []symbol{
		{"xpc_dictionary_create", "10.7", &f.dictCreate, nil, nil},
		{"xpc_dictionary_set_uint64", "10.7", &f.dictSetUint64, nil, nil},
		{"xpc_dictionary_set_bool", "10.7", &f.dictSetBool, nil, nil},
		{"xpc_dictionary_set_string", "10.7", &f.dictSetString, nil, nil},
		{"xpc_dictionary_set_uuid", "10.7", &f.dictSetUUID, nil, nil},
		{"xpc_dictionary_apply", "10.7", &f.dictApply, nil, nil},
		{"xpc_get_type", "10.7", &f.typeOf, nil, nil},
		{"xpc_uint64_get_value", "10.7", &f.uint64Value, nil, nil},
		{"xpc_int64_get_value", "10.7", &f.int64Value, nil, nil},
		{"xpc_bool_get_value", "10.7", &f.boolValue, nil, nil},
		{"xpc_string_get_string_ptr", "10.7", &f.stringValue, nil, nil},
		{"xpc_uuid_get_bytes", "10.7", &f.uuidValue, nil, nil},
		{"xpc_array_get_count", "10.7", &f.arrayCount, nil, nil},
		{"xpc_array_get_string", "10.7", &f.arrayString, nil, nil},
		{"xpc_release", "10.7", &f.xpcRelease, nil, nil},

		{"dispatch_queue_create", "10.6", &f.queueCreate, nil, nil},
		{"dispatch_release", "10.6", &f.queueRelease, nil, nil},
		{"CFRelease", "10.0", &f.cfRelease, nil, nil},
	}
}

func (k *keys) table() []symbol {
	return []symbol{
		{"vmnet_operation_mode_key", "10.10", nil, &k.mode, nil},
		{"vmnet_shared_interface_name_key", "10.15", nil, &k.sharedInterface, nil},
		{"vmnet_start_address_key", "10.15", nil, &k.start, nil},
		{"vmnet_end_address_key", "10.15", nil, &k.end, nil},
		{"vmnet_subnet_mask_key", "10.15", nil, &k.mask, nil},
		{"vmnet_interface_id_key", "10.10", nil, &k.interfaceID, nil},
		{"vmnet_network_identifier_key", "11", nil, &k.networkID, nil},
		{"vmnet_nat66_prefix_key", "10.15", nil, &k.nat66Prefix, nil},
		{"vmnet_mtu_key", "10.10", nil, &k.mtu, nil},
		{"vmnet_enable_isolation_key", "11", nil, &k.isolation, nil},
		{"vmnet_enable_tso_key", "11", nil, &k.tso, nil},
		{"vmnet_enable_checksum_offload_key", "12", nil, &k.checksum, nil},
		{"vmnet_mac_address_key", "10.10", nil, &k.mac, nil},
		{"vmnet_max_packet_size_key", "10.10", nil, &k.maxPacket, nil},
		{"vmnet_read_max_packets_key", "15", nil, &k.readMax, nil},
		{"vmnet_write_max_packets_key", "15", nil, &k.writeMax, nil},
	}
}

func (s *statics) table() []symbol {
	return []symbol{
		{"_NSConcreteGlobalBlock", "10.6", nil, nil, &s.globalBlock},
		{"write", "10.0", nil, nil, &s.write},
		{"xpc_retain", "10.7", nil, nil, &s.xpcRetain},
		{"_xpc_type_uint64", "10.7", nil, nil, &s.typeUint64},
		{"_xpc_type_int64", "10.7", nil, nil, &s.typeInt64},
		{"_xpc_type_bool", "10.7", nil, nil, &s.typeBool},
		{"_xpc_type_string", "10.7", nil, nil, &s.typeString},
		{"_xpc_type_uuid", "10.7", nil, nil, &s.typeUUID},
	}
}

// resolve looks all symbols up, once. The first missing required one is the error.
func (a *API) resolve() error {
	for _, s := range slices.Concat(a.f.table(), a.k.table(), a.s.table()) {
		addr, err := a.lookup(s.name)
		if err != nil && !s.optional() {
			return fmt.Errorf("open vmnet.framework: every macOS since %s has %s, this one does not: %w", s.since, s.name, err)
		}
		s.put(addr)
	}
	return nil
}

// put stores the address that was found, or 0.
func (s *symbol) put(addr uintptr) {
	switch {
	case s.fn != nil:
		*s.fn = fn{s.name, addr}
	case s.addr != nil:
		*s.addr = addr
	case addr != 0: // of the variable, which holds the address of the text
		s.key.addr = *(*uintptr)(pointer(addr))
		s.key.text = gostring(s.key.addr)
	}
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

// needNetworks returns an error that names the first function for networks that this macOS does not have.
func (a *API) needNetworks() error {
	for _, s := range a.f.networks() {
		if s.fn.addr == 0 {
			return fmt.Errorf("%s: %w, it came with macOS %s", s.name, api.ErrMissing, s.since)
		}
	}
	return nil
}
