// SPDX-License-Identifier: Apache-2.0

package expr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/packetcap/go-pcap/filter"
	"golang.org/x/net/bpf"
)

// ErrNeedsTcpdump is that a filter cannot be compiled without tcpdump. It may be right or wrong.
var ErrNeedsTcpdump = errors.New("this filter takes tcpdump, which is not installed: install it, or use a simpler one, " +
	"such as \"tcp port 80\" or \"host 192.168.105.2\"")

// maxTerms is how many conditions the library is given at once.
const maxTerms = 16

// byLibrary compiles without tcpdump. The library makes wrong programs of much that it takes, "arp" among it, so it is only given
// forms for which a test has compared it with tcpdump: conditions joined by "or", two joined by "and", or "not" and one.
func byLibrary(text string) (program []bpf.RawInstruction, err error) {
	if !simple(strings.Fields(text)) {
		return nil, fmt.Errorf("the filter %q: %w", text, ErrNeedsTcpdump)
	}
	defer func() { // what it cannot do it answers in many ways
		if r := recover(); r != nil {
			program, err = nil, fmt.Errorf("the filter %q: %w", text, ErrNeedsTcpdump)
		}
	}()
	instructions, err := filter.NewExpression(strings.Join(strings.Fields(text), " ")).Compile().Compile()
	if err == nil {
		program, err = bpf.Assemble(instructions)
	}
	if err == nil {
		_, err = bpf.NewVM(instructions)
	}
	if err != nil {
		return nil, fmt.Errorf("the filter %q: %w (%w)", text, ErrNeedsTcpdump, err)
	}
	return program, nil
}

// simple tells whether the library makes a right program of these words.
func simple(words []string) bool {
	if len(words) > 1 && words[0] == "not" {
		return condition(words[1:])
	}
	terms := split(words, "or")
	if len(terms) == 1 {
		if terms = split(words, "and"); len(terms) > 2 {
			return false
		} else if len(terms) == 2 && (len(terms[0]) == 1 || len(terms[1]) == 1) {
			return false // "tcp" or "udp" and something
		}
	}
	for _, t := range terms {
		if !condition(t) {
			return false
		}
	}
	return len(terms) <= maxTerms
}

// split cuts words at each by.
func split(words []string, by string) (parts [][]string) {
	begin := 0
	for i, w := range words {
		if w == by {
			parts = append(parts, words[begin:i])
			begin = i + 1
		}
	}
	return append(parts, words[begin:])
}

// condition is one of: tcp, udp; [tcp|udp] [src|dst] port N; [src|dst] host A; [src|dst] net A/N; ether [src|dst] host M.
func condition(w []string) bool {
	next := func(allowed ...string) string {
		if len(w) > 0 {
			for _, a := range allowed {
				if w[0] == a {
					w = w[1:]
					return a
				}
			}
		}
		return ""
	}
	proto := next("tcp", "udp", "ether")
	if len(w) == 0 {
		return proto == "tcp" || proto == "udp"
	}
	next("src", "dst")
	kind := next("port", "host", "net")
	if len(w) != 1 {
		return false
	}
	switch {
	case kind == "port" && proto != "ether":
		n, err := strconv.ParseUint(w[0], 10, 16)
		return err == nil && n > 0 && w[0][0] != '0'
	case kind == "host" && proto == "ether":
		m, err := net.ParseMAC(w[0])
		return err == nil && len(m) == 6 && strings.Count(w[0], ":") == 5
	case kind == "host" && proto == "":
		a, err := netip.ParseAddr(w[0])
		return err == nil && a.Zone() == "" && !a.Is4In6()
	case kind == "net" && proto == "":
		p, err := netip.ParsePrefix(w[0])
		return err == nil && p == p.Masked() && p.Bits() > 0 && !p.Addr().Is4In6()
	}
	return false
}
