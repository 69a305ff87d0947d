// SPDX-License-Identifier: Apache-2.0

package dns

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// headerLen is the length of a DNS header in bytes.
const headerLen = 12

// parse checks a question. It returns the question, or the answer to a bad one, or neither for what deserves none.
func (s *Server) parse(b []byte) (q, answer *dns.Msg) {
	if len(b) < headerLen || b[2]&0x80 != 0 { // too short to answer, or an answer itself
		return nil, nil
	}
	q = new(dns.Msg)
	err := q.Unpack(b)
	rcode := dns.RcodeSuccess
	switch {
	case q.Opcode != dns.OpcodeQuery:
		rcode = dns.RcodeNotImplemented
	case err != nil, len(q.Question) != 1, len(q.Answer) > 0, len(q.Ns) > 0, len(q.Extra) > 2:
		rcode = dns.RcodeFormatError
	case q.Question[0].Qclass != dns.ClassINET:
		rcode = dns.RcodeRefused
	}
	if rcode == dns.RcodeSuccess {
		switch q.Question[0].Qtype {
		case dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILA, dns.TypeMAILB:
			rcode = dns.RcodeRefused
		case dns.TypeNone, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY:
			rcode = dns.RcodeFormatError
		default:
			return q, nil
		}
	}
	if err != nil { // the sections are not to be trusted
		q = &dns.Msg{MsgHdr: dns.MsgHdr{
			Id: binary.BigEndian.Uint16(b), Opcode: int(b[2]>>3) & 0xf, RecursionDesired: b[2]&1 != 0,
		}}
	}
	return q, failure(q, rcode)
}

// failure is an answer without records.
func failure(q *dns.Msg, rcode int) *dns.Msg {
	a := new(dns.Msg)
	a.SetReply(q)
	a.Rcode = rcode
	a.RecursionAvailable = true
	return a
}

// send packs the answer to q so that it fits, and passes it on.
func (s *Server) send(q, a *dns.Msg, maxReply int, reply func([]byte)) {
	size := dns.MinMsgSize
	opt := q.IsEdns0()
	if opt != nil {
		size = max(size, int(opt.UDPSize()))
	}
	if maxReply == maxTCP {
		size = maxReply
	}
	if opt != nil && a.IsEdns0() == nil {
		a.SetEdns0(uint16(min(maxReply, dns.DefaultMsgSize)), opt.Do())
	}
	a.Compress = true
	a.Truncate(min(size, maxReply))
	b, err := a.Pack()
	if err != nil || len(b) > maxReply {
		if b, err = failure(q, dns.RcodeServerFailure).Pack(); err != nil {
			return
		}
	}
	reply(b)
}
