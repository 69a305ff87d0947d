// SPDX-License-Identifier: Apache-2.0

//go:build darwin && cgo

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/Code-Hex/vz/v3"
)

// stopGrace is how long a guest may take to turn itself off once it was asked to.
const stopGrace = 10 * time.Second

// boot runs a guest until it ends, or, when ctx is done, until it was stopped. link is a connected datagram socket. The
// error is nil when the guest turned itself off, ctx's cause when that made it stop.
func boot(ctx context.Context, o options, link *os.File) error {
	defer runtime.KeepAlive(link) // the framework knows its number only
	opts := []vz.LinuxBootLoaderOption{vz.WithCommandLine(o.cmdline)}
	if o.initrd != "" {
		opts = append(opts, vz.WithInitrd(o.initrd))
	}
	loader, err := vz.NewLinuxBootLoader(o.kernel, opts...)
	if err != nil {
		return fmt.Errorf("load the kernel: %w", err)
	}
	config, err := configure(o, loader, link)
	if err != nil {
		return err
	}
	vm, err := vz.NewVirtualMachine(config)
	if err != nil {
		return fmt.Errorf("make the virtual machine: %w", err)
	}
	lost, err := vm.NetworkDeviceAttachmentWasDisconnected()
	if err != nil {
		return fmt.Errorf("watch the network device: %w", err)
	}
	if err := vm.Start(); err != nil {
		return fmt.Errorf("start the guest: %w: is vzguest signed with the entitlement com.apple.security.virtualization?", err)
	}
	return watch(ctx, vm, lost)
}

// watch returns when the guest has ended.
func watch(ctx context.Context, vm *vz.VirtualMachine, lost <-chan *vz.DisconnectedError) error {
	changes := vm.StateChangedNotify()
	asked := ctx.Done()
	var late <-chan time.Time
	for {
		select {
		case state := <-changes:
			switch state {
			case vz.VirtualMachineStateStopped:
				return context.Cause(ctx)
			case vz.VirtualMachineStateError:
				return errors.New("the guest has failed: the framework reports an internal error")
			}
		case err := <-lost:
			return errors.Join(fmt.Errorf("%w: %w", errNetworkLost, err), vm.Stop())
		case <-asked:
			asked = nil
			late = time.After(stopGrace)
			if ok, err := vm.RequestStop(); !ok || err != nil {
				late = time.After(0)
			}
		case <-late:
			late = nil
			if err := vm.Stop(); err != nil {
				return errors.Join(context.Cause(ctx), fmt.Errorf("stop the guest: %w", err))
			}
			return context.Cause(ctx)
		}
	}
}

// configure puts the machine together.
func configure(o options, loader vz.BootLoader, link *os.File) (*vz.VirtualMachineConfiguration, error) {
	c, err := vz.NewVirtualMachineConfiguration(loader, o.cpus, uint64(o.memory)<<20)
	if err != nil {
		return nil, fmt.Errorf("configure the guest: %w", err)
	}
	nic, err := networkDevice(o, link)
	if err != nil {
		return nil, fmt.Errorf("configure the network: %w", err)
	}
	c.SetNetworkDevicesVirtualMachineConfiguration([]*vz.VirtioNetworkDeviceConfiguration{nic})
	var console *vz.VirtioConsoleDeviceSerialPortConfiguration
	terminal, err := vz.NewFileHandleSerialPortAttachment(os.Stdin, os.Stdout)
	if err == nil {
		console, err = vz.NewVirtioConsoleDeviceSerialPortConfiguration(terminal)
	}
	if err != nil {
		return nil, fmt.Errorf("configure the console: %w", err)
	}
	c.SetSerialPortsVirtualMachineConfiguration([]*vz.VirtioConsoleDeviceSerialPortConfiguration{console})
	entropy, err := vz.NewVirtioEntropyDeviceConfiguration()
	if err != nil {
		return nil, fmt.Errorf("configure entropy: %w", err)
	}
	c.SetEntropyDevicesVirtualMachineConfiguration([]*vz.VirtioEntropyDeviceConfiguration{entropy})
	ok, err := c.Validate()
	if err == nil && !ok {
		err = errors.New("no reason is given")
	}
	if err != nil {
		return nil, fmt.Errorf("the framework refuses the configuration: %w", err)
	}
	return c, nil
}

func networkDevice(o options, link *os.File) (*vz.VirtioNetworkDeviceConfiguration, error) {
	attachment, err := vz.NewFileHandleNetworkDeviceAttachment(link)
	if err != nil {
		return nil, err
	}
	nic, err := vz.NewVirtioNetworkDeviceConfiguration(attachment)
	if err != nil {
		return nil, err
	}
	mac, err := vz.NewMACAddress(o.mac)
	if err != nil {
		return nil, err
	}
	nic.SetMACAddress(mac)
	return nic, nil
}
