// SPDX-License-Identifier: Apache-2.0

//go:build darwin || vmnetsim

package ffi

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ebitengine/purego"

	"github.com/socket-vmnet2/socket_vmnet2/internal/vmnet/api"
)

// A fn is a C function.
type fn struct {
	name  string
	since string  // first macOS that has it
	addr  uintptr // 0: this macOS does not
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
	name  string // of the variable
	since string
	addr  uintptr // of the text
	text  string
}

// functions are all functions that the binding calls.
type functions struct {
	startInterface, stopInterface, setEventCallback, read, write, sharedInterfaces, addForward fn

	configCreate, configExternal, configSubnet, configPrefix6, configMTU, configReserve, configForward fn
	configNoNAT44, configNoNAT66, configNoDHCP, configNoDNSProxy, configNoRA                           fn
	networkCreate, networkStart, networkSubnet, networkPrefix6                                         fn

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
	name     string
	since    string // macOS
	required bool
	fn       *fn
	key      *key
	addr     *uintptr
}

// What every macOS that Go runs on has is required, so that a wrong library is found out at once; what came later is not.
func (f *functions) table() []symbol { return slices.Concat(f.interfaces(), f.networks(), f.system()) }

func (f *functions) interfaces() []symbol {
	const need = true
	return []symbol{
		{"vmnet_start_interface", "10.10", need, &f.startInterface, nil, nil},
		{"vmnet_stop_interface", "10.10", need, &f.stopInterface, nil, nil},
		{"vmnet_interface_set_event_callback", "10.10", need, &f.setEventCallback, nil, nil},
		{"vmnet_read", "10.10", need, &f.read, nil, nil},
		{"vmnet_write", "10.10", need, &f.write, nil, nil},
		{"vmnet_copy_shared_interface_list", "10.15", need, &f.sharedInterfaces, nil, nil},
		{"vmnet_interface_add_ip_port_forwarding_rule", "11", false, &f.addForward, nil, nil},
	}
}

func (f *functions) networks() []symbol {
	return []symbol{
		{"vmnet_network_configuration_create", "26", false, &f.configCreate, nil, nil},
		{"vmnet_network_configuration_set_external_interface", "26", false, &f.configExternal, nil, nil},
		{"vmnet_network_configuration_set_ipv4_subnet", "26", false, &f.configSubnet, nil, nil},
		{"vmnet_network_configuration_set_ipv6_prefix", "26", false, &f.configPrefix6, nil, nil},
		{"vmnet_network_configuration_set_mtu", "26", false, &f.configMTU, nil, nil},
		{"vmnet_network_configuration_add_dhcp_reservation", "26", false, &f.configReserve, nil, nil},
		{"vmnet_network_configuration_add_port_forwarding_rule", "26", false, &f.configForward, nil, nil},
		{"vmnet_network_configuration_disable_nat44", "26", false, &f.configNoNAT44, nil, nil},
		{"vmnet_network_configuration_disable_nat66", "26", false, &f.configNoNAT66, nil, nil},
		{"vmnet_network_configuration_disable_dhcp", "26", false, &f.configNoDHCP, nil, nil},
		{"vmnet_network_configuration_disable_dns_proxy", "26", false, &f.configNoDNSProxy, nil, nil},
		{"vmnet_network_configuration_disable_router_advertisement", "26", false, &f.configNoRA, nil, nil},
		{"vmnet_network_create", "26", false, &f.networkCreate, nil, nil},
		{"vmnet_interface_start_with_network", "26", false, &f.networkStart, nil, nil},
		{"vmnet_network_get_ipv4_subnet", "26", false, &f.networkSubnet, nil, nil},
		{"vmnet_network_get_ipv6_prefix", "26", false, &f.networkPrefix6, nil, nil},
	}
}

func (f *functions) system() []symbol {
	const need = true
	return []symbol{
		{"xpc_dictionary_create", "10.7", need, &f.dictCreate, nil, nil},
		{"xpc_dictionary_set_uint64", "10.7", need, &f.dictSetUint64, nil, nil},
		{"xpc_dictionary_set_bool", "10.7", need, &f.dictSetBool, nil, nil},
		{"xpc_dictionary_set_string", "10.7", need, &f.dictSetString, nil, nil},
		{"xpc_dictionary_set_uuid", "10.7", need, &f.dictSetUUID, nil, nil},
		{"xpc_dictionary_apply", "10.7", need, &f.dictApply, nil, nil},
		{"xpc_get_type", "10.7", need, &f.typeOf, nil, nil},
		{"xpc_uint64_get_value", "10.7", need, &f.uint64Value, nil, nil},
		{"xpc_int64_get_value", "10.7", need, &f.int64Value, nil, nil},
		{"xpc_bool_get_value", "10.7", need, &f.boolValue, nil, nil},
		{"xpc_string_get_string_ptr", "10.7", need, &f.stringValue, nil, nil},
		{"xpc_uuid_get_bytes", "10.7", need, &f.uuidValue, nil, nil},
		{"xpc_array_get_count", "10.7", need, &f.arrayCount, nil, nil},
		{"xpc_array_get_string", "10.7", need, &f.arrayString, nil, nil},
		{"xpc_release", "10.7", need, &f.xpcRelease, nil, nil},

		{"dispatch_queue_create", "10.6", need, &f.queueCreate, nil, nil},
		{"dispatch_release", "10.6", need, &f.queueRelease, nil, nil},
		{"CFRelease", "10.0", need, &f.cfRelease, nil, nil},
	}
}

func (k *keys) table() []symbol {
	const need = true
	return []symbol{
		{"vmnet_operation_mode_key", "10.10", need, nil, &k.mode, nil},
		{"vmnet_shared_interface_name_key", "10.15", need, nil, &k.sharedInterface, nil},
		{"vmnet_start_address_key", "10.15", need, nil, &k.start, nil},
		{"vmnet_end_address_key", "10.15", need, nil, &k.end, nil},
		{"vmnet_subnet_mask_key", "10.15", need, nil, &k.mask, nil},
		{"vmnet_interface_id_key", "10.10", need, nil, &k.interfaceID, nil},
		{"vmnet_network_identifier_key", "11", false, nil, &k.networkID, nil},
		{"vmnet_nat66_prefix_key", "10.15", need, nil, &k.nat66Prefix, nil},
		{"vmnet_mtu_key", "10.10", need, nil, &k.mtu, nil},
		{"vmnet_enable_isolation_key", "11", false, nil, &k.isolation, nil},
		{"vmnet_enable_tso_key", "11", false, nil, &k.tso, nil},
		{"vmnet_enable_checksum_offload_key", "12", false, nil, &k.checksum, nil},
		{"vmnet_mac_address_key", "10.10", need, nil, &k.mac, nil},
		{"vmnet_max_packet_size_key", "10.10", need, nil, &k.maxPacket, nil},
		{"vmnet_read_max_packets_key", "15", false, nil, &k.readMax, nil},
		{"vmnet_write_max_packets_key", "15", false, nil, &k.writeMax, nil},
	}
}

func (s *statics) table() []symbol {
	const need = true
	return []symbol{
		{"_NSConcreteGlobalBlock", "10.6", need, nil, nil, &s.globalBlock},
		{"write", "10.0", need, nil, nil, &s.write},
		{"xpc_retain", "10.7", need, nil, nil, &s.xpcRetain},
		{"_xpc_type_uint64", "10.7", need, nil, nil, &s.typeUint64},
		{"_xpc_type_int64", "10.7", need, nil, nil, &s.typeInt64},
		{"_xpc_type_bool", "10.7", need, nil, nil, &s.typeBool},
		{"_xpc_type_string", "10.7", need, nil, nil, &s.typeString},
		{"_xpc_type_uuid", "10.7", need, nil, nil, &s.typeUUID},
	}
}

// resolve looks all symbols up, once. Missing newer ones are noted in a.missing; the first missing required one is the
// error.
func (a *API) resolve() error {
	for _, table := range [][]symbol{a.f.table(), a.k.table(), a.s.table()} {
		for _, s := range table {
			addr, err := a.lookup(s.name)
			if err != nil {
				if s.required {
					return fmt.Errorf("open vmnet.framework: every macOS since %s has %s, this one does not: %w", s.since, s.name, err)
				}
				a.missing = append(a.missing, s.name)
			}
			s.put(addr)
		}
	}
	return nil
}

// put stores the address that was found, or 0.
func (s *symbol) put(addr uintptr) {
	switch {
	case s.fn != nil:
		*s.fn = fn{s.name, s.since, addr}
	case s.key != nil:
		*s.key = key{name: s.name, since: s.since}
		if addr != 0 { // the address of the variable, which holds that of the text
			s.key.addr = *(*uintptr)(pointer(addr))
			s.key.text = gostring(s.key.addr)
		}
	default:
		*s.addr = addr
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

// need returns an error that names the first of fns that this macOS does not have.
func need(fns ...*fn) error {
	for _, f := range fns {
		if f.addr == 0 {
			return missing(f.name, f.since)
		}
	}
	return nil
}

func missing(name, since string) error {
	return fmt.Errorf("%s: %w, it came with macOS %s", name, api.ErrMissing, since)
}
