// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/socket-vmnet2/socket_vmnet2/internal/fakeguest"
)

// curl asks the daemon as curl would.
func curl(c command) error {
	_, err := curlAnswer(c)
	return err
}

// curlAnswer is what the daemon answers; nothing for a download.
func curlAnswer(c command) ([]byte, error) {
	args := c.args()
	method, socket, url, body := http.MethodGet, "", "", ""
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--unix-socket" && i+1 < len(args):
			i++
			socket = box.client(args[i])
		case a == "-X" && i+1 < len(args):
			i++
			method = args[i]
		case a == "-d" && i+1 < len(args):
			i++
			body = args[i]
		case strings.HasPrefix(a, "http"):
			url = a
		case regexp.MustCompile(`^-[fsSLO]*o$`).MatchString(a):
			i++
		case !regexp.MustCompile(`^-[fsSLO]+$`).MatchString(a):
			return nil, fmt.Errorf("what is %q to curl?", a)
		}
	}
	if socket == "" {
		return nil, nil
	}
	url, end, err := withClient(socket, url)
	if err != nil {
		return nil, err
	}
	defer end()
	return request(socket, method, url, body)
}

// request asks at the control socket and wants a 200.
func request(socket, method, url, body string) ([]byte, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	web := &http.Client{Timeout: patience, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := web.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, resp.Status, b)
	}
	return b, err
}

// withClient has a guest be connected while the daemon is asked for its clients, and url name that one.
func withClient(socket, url string) (string, func(), error) {
	none := func() {}
	if !regexp.MustCompile(`/v1/(clients|status)`).MatchString(url) || socket != box.socket+".d/control" {
		return url, none, nil
	}
	g, err := fakeguest.Dial(box.socket, fakeguest.Options{Name: "default"})
	if err != nil {
		return url, none, err
	}
	if _, err := g.Configure(); err != nil {
		g.Close()
		return url, none, err
	}
	for until := time.Now().Add(patience); err == nil && time.Now().Before(until); time.Sleep(10 * time.Millisecond) { // an answer may be old
		var id uint64
		if id, err = clientOf(socket, g.MAC().String()); id != 0 {
			return regexp.MustCompile(`/clients/\d+$`).ReplaceAllString(url, fmt.Sprint("/clients/", id)), g.Close, nil
		}
	}
	g.Close()
	return url, none, errors.Join(err, errors.New("the daemon does not know of its client"))
}

// clientOf is the number of the client with this address, 0 if the daemon does not know it yet.
func clientOf(socket, mac string) (uint64, error) {
	b, err := request(socket, http.MethodGet, "http://x/v1/clients", "")
	if err != nil {
		return 0, err
	}
	var list struct {
		Clients []struct {
			ID  uint64
			MAC string
		}
	}
	err = json.Unmarshal(b, &list)
	for _, c := range list.Clients {
		if c.MAC == mac {
			return c.ID, nil
		}
	}
	return 0, err
}

// TestAnswers: what a page shows behind a question to the daemon is what the daemon answers, member for member. What the answer has,
// the page has; what the page has beyond that is left out where there is no value.
func TestAnswers(t *testing.T) {
	shown := 0
	for _, page := range pages(t) {
		all := blocksOf(page, read(t, page))
		for i, b := range all {
			if !b.isShell() || i+1 == len(all) || all[i+1].language != "json" || !strings.Contains(b.text, "--unix-socket") {
				continue
			}
			commands, err := b.commands()
			require.NoError(t, err)
			require.Len(t, commands, 1)
			answer, err := curlAnswer(commands[0])
			require.NoError(t, err, "%s:%d", b.page, b.line)
			assert.NoError(t, sameShape(answer, []byte(all[i+1].text)), "%s:%d: %s", b.page, b.line, answer)
			shown++
		}
	}
	assert.Greater(t, shown, 6, "the pages show fewer answers than they did")
}

// mayLack are members that an answer does not always have.
var mayLack = []string{"ip_seen", "leases", "leased", "hostname", "name", "command", "user", "state_file", "clients", "ip", "mac", "dhcp", "usernet"}

// counted are objects whose members are reasons.
var counted = []string{"drops", "unanswered"}

// sameShape compares the members of two documents, and the kinds of their values.
func sameShape(answer, page []byte) error {
	var a, p any
	if err := errors.Join(json.Unmarshal(answer, &a), json.Unmarshal(page, &p)); err != nil {
		return err
	}
	return sameKind("", a, p)
}

func sameKind(at string, answer, page any) error {
	if fmt.Sprintf("%T", answer) != fmt.Sprintf("%T", page) {
		return fmt.Errorf("%s is a %T and not a %T", at, answer, page)
	}
	switch a := answer.(type) {
	case map[string]any:
		return sameMembers(at, a, page.(map[string]any))
	case []any:
		p := page.([]any)
		if len(a) == 0 || len(p) == 0 {
			return nil
		}
		return sameKind(at+"[]", a[0], p[0])
	}
	return nil
}

func sameMembers(at string, answer, page map[string]any) (err error) {
	name := at[strings.LastIndexByte(at, '.')+1:]
	if slices.Contains(counted, name) {
		return nil
	}
	for _, m := range slices.Sorted(maps.Keys(answer)) {
		p, ok := page[m]
		if !ok {
			err = errors.Join(err, fmt.Errorf("the page does not show %s.%s", at, m))
			continue
		}
		err = errors.Join(err, sameKind(at+"."+m, answer[m], p))
	}
	for _, m := range slices.Sorted(maps.Keys(page)) {
		if _, ok := answer[m]; !ok && !slices.Contains(mayLack, m) {
			err = errors.Join(err, fmt.Errorf("the answer has no %s.%s", at, m))
		}
	}
	return err
}

// TestSameShape: differences are found.
func TestSameShape(t *testing.T) {
	for _, c := range []struct{ answer, page, want string }{
		{`{"a":1,"b":[{"c":""}]}`, `{"a":2,"b":[{"c":"x"},{}]}`, ""},
		{`{"a":1,"b":2}`, `{"a":2}`, "the page does not show .b"},
		{`{"a":1}`, `{"a":2,"b":2}`, "the answer has no .b"},
		{`{"a":1}`, `{"a":2,"ip":"x"}`, ""},
		{`{"a":{"b":1}}`, `{"a":{"b":"1"}}`, ".a.b is a float64 and not a string"},
		{`{"drops":{"x":1}}`, `{"drops":{}}`, ""},
	} {
		err := sameShape([]byte(c.answer), []byte(c.page))
		if c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.want)
		}
	}
}
