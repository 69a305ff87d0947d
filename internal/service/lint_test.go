// SPDX-License-Identifier: Apache-2.0

package service

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"howett.net/plist"

	"github.com/socket-vmnet2/socket_vmnet2/internal/compat"
	"github.com/socket-vmnet2/socket_vmnet2/internal/inherit"
)

// everyJob is what each property list has besides what tells them apart.
var everyJob = map[string]any{
	"RunAtLoad": true, "KeepAlive": true, "ThrottleInterval": uint64(1), "ExitTimeOut": uint64(5), "ProcessType": "Interactive",
	"SoftResourceLimits": map[string]any{"NumberOfFiles": uint64(8192)}, "HardResourceLimits": map[string]any{"NumberOfFiles": uint64(8192)},
}

// TestPlists parses the property lists and checks them key by key: nothing is missing and nothing is there besides.
func TestPlists(t *testing.T) {
	const label, program, logs = "io.github.socket-vmnet2.socket_vmnet2", "/opt/socket_vmnet/bin/socket_vmnet2", "/var/log/socket_vmnet2/"
	want := map[string]map[string]any{
		label: {
			"Label": label, "ProgramArguments": []any{program, "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"}, "UserName": "root",
			"StandardOutPath": logs + "stdout", "StandardErrorPath": logs + "stderr",
		},
		label + ".host": {
			"Label": label + ".host", "ProgramArguments": []any{program, "--vmnet-mode=host", "--vmnet-gateway=192.168.106.1", "/var/run/socket_vmnet.host"}, "UserName": "root",
			"StandardOutPath": logs + "host.stdout", "StandardErrorPath": logs + "host.stderr",
		},
		label + ".bridged.en0": {
			"Label": label + ".bridged.en0", "ProgramArguments": []any{program, "--vmnet-mode=bridged", "--vmnet-interface=en0", "/var/run/socket_vmnet.bridged.en0"}, "UserName": "root",
			"StandardOutPath": logs + "bridged.en0.stdout", "StandardErrorPath": logs + "bridged.en0.stderr",
		},
		label + ".activated": {
			"Label": label, "ProgramArguments": []any{program, "--vmnet-gateway=192.168.105.1", "/var/run/socket_vmnet"}, "UserName": "root",
			"StandardOutPath": logs + "stdout", "StandardErrorPath": logs + "stderr",
			"Sockets": map[string]any{inherit.Stream: map[string]any{"SockPathName": "/var/run/socket_vmnet", "SockPathMode": uint64(0o660), "SockPathGroup": uint64(20)}},
		},
		label + ".agent": {
			"Label": label, "ProgramArguments": []any{program, "--vmnet-gateway=192.168.105.1", "@HOME@/.socket_vmnet2/shared"},
			"StandardOutPath": "@HOME@/Library/Logs/socket_vmnet2/stdout", "StandardErrorPath": "@HOME@/Library/Logs/socket_vmnet2/stderr",
		},
	}
	files, err := filepath.Glob(etc + "launchd/*")
	require.NoError(t, err)
	var names []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".plist")
		names = append(names, name)
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			var got map[string]any
			format, err := plist.Unmarshal(b, &got)
			require.NoError(t, err)
			assert.Equal(t, plist.XMLFormat, format)
			expected := maps.Clone(everyJob)
			maps.Copy(expected, want[name])
			assert.Equal(t, expected, got)
			for _, comment := range regexp.MustCompile(`(?s)<!--(.*?)-->`).FindAllSubmatch(b, -1) {
				assert.NotContains(t, string(comment[1]), "--", "XML knows no such comment")
			}
			args := launchdArguments(string(b))
			assert.Equal(t, got["ProgramArguments"], slices.Collect(func(yield func(any) bool) {
				_ = !slices.ContainsFunc(args, func(a string) bool { return !yield(a) })
			}), "what status reads is what is there")
		})
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(want)), names)
}

// TestStop: what the managers wait for is longer than the daemon takes, 2 seconds.
func TestUnitsAgree(t *testing.T) {
	var units []map[string][]string
	for _, name := range []string{"socket_vmnet2.service", "socket_vmnet2-host.service", "user/socket_vmnet2.service"} {
		b, err := os.ReadFile(etc + "systemd/" + name)
		require.NoError(t, err)
		unit := map[string][]string{}
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
				unit[key] = append(unit[key], value)
			}
		}
		for key, value := range map[string]string{
			"Type": "notify", "NotifyAccess": "main", "Restart": "always", "RestartSec": "1", "TimeoutStopSec": "5", "LimitNOFILE": "8192", "NoNewPrivileges": "yes",
			"RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6", "MemoryDenyWriteExecute": "yes", "RuntimeDirectory": "socket_vmnet2", "RuntimeDirectoryPreserve": "yes",
		} {
			assert.Equal(t, []string{value}, unit[key], "%s: %s", name, key)
		}
		units = append(units, unit)
	}
	for key, value := range map[string]string{
		"CapabilityBoundingSet": "", "ProtectSystem": "strict", "StateDirectory": "socket_vmnet2", "User": "socket_vmnet2", "Group": "kvm", "PrivateDevices": "yes",
	} {
		assert.Equal(t, []string{value}, units[0][key], key)
	}
	for _, u := range units {
		delete(u, "Description")
		delete(u, "ExecStart")
	}
	assert.Equal(t, units[0], units[1], "the networks of the system differ in nothing else")
}

// tool is the path of a program that a test needs.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{"/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/"} {
		if _, err := os.Stat(dir + name); err == nil {
			return dir + name
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no " + name)
	}
	t.Skip("needs " + name + ", which test/e2e/setup.sh gets")
	return ""
}

// TestSystemdAnalyze has systemd read the units: no key is unknown, no value is refused. It also tells how much the services are
// exposed, of 10; a unit without any of the settings has 9.6.
func TestSystemdAnalyze(t *testing.T) {
	analyze := tool(t, "systemd-analyze")
	root, err := os.MkdirTemp("", "service-units-")
	require.NoError(t, err)
	defer func() { _ = os.RemoveAll(root) }()
	require.NoError(t, os.MkdirAll(root+"/opt/socket_vmnet/bin", 0o755))
	require.NoError(t, os.WriteFile(root+rigProgramPath, nil, 0o755))
	for _, unit := range []string{"sysinit", "basic", "shutdown", "multi-user", "default", "sockets"} {
		require.NoError(t, os.MkdirAll(root+"/etc/systemd/system", 0o755))
		require.NoError(t, os.WriteFile(root+"/etc/systemd/system/"+unit+".target", []byte("[Unit]\nDefaultDependencies=no\n"), 0o644))
	}
	verify := func(t *testing.T, dir string) string {
		t.Helper()
		files, err := filepath.Glob(dir + "*.s*")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		args := []string{"verify", "--man=no", "--root=" + root}
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			to := root + "/etc/systemd/system/" + filepath.Base(file)
			require.NoError(t, os.WriteFile(to, b, 0o644))
			args = append(args, strings.TrimPrefix(to, root))
		}
		out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput()
		if err != nil {
			return err.Error() + ": " + string(out)
		}
		return string(out)
	}
	for _, dir := range []string{etc + "systemd/", etc + "systemd/user/"} {
		assert.Empty(t, verify(t, dir), dir)
	}
	bad := t.TempDir() + "/"
	require.NoError(t, os.WriteFile(bad+"x.service", []byte("[Service]\nExecStart=/nowhere\nRestart=perhaps\n"), 0o644))
	assert.NotEmpty(t, verify(t, bad), "it does find faults")

	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "--no-pager", "--threshold=30", etc+"systemd/socket_vmnet2.service").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	t.Log(lines[len(lines)-1])
	assert.NoError(t, err, "exposure above 3.0:\n%s", out)
}

const rigProgramPath = "/opt/socket_vmnet/bin/socket_vmnet2"

// TestSudoers checks the file with visudo, and its command lines with the daemon's own parser.
func TestSudoers(t *testing.T) {
	visudo := tool(t, "visudo")
	b, err := os.ReadFile(etc + "sudoers.d/socket_vmnet2")
	require.NoError(t, err)
	check := func(text string) error {
		file := t.TempDir() + "/sudoers"
		require.NoError(t, os.WriteFile(file, []byte(text), 0o440))
		out, err := exec.CommandContext(t.Context(), visudo, "-cf", file).CombinedOutput()
		t.Log(string(out))
		return err
	}
	require.NoError(t, check(string(b)))
	require.Error(t, check(strings.Replace(string(b), "NOPASSWD:", "NOPASSWD", 1)), "it does find faults")

	lines := regexp.MustCompile(`/opt/socket_vmnet/bin/socket_vmnet2 ([^,\n]*)`).FindAllStringSubmatch(string(b), -1)
	require.Len(t, lines, 4)
	pidfiles := regexp.MustCompile(`/usr/bin/pkill -F (\S+)`).FindAllStringSubmatch(string(b), -1)
	require.Len(t, pidfiles, 3)
	for i, line := range lines {
		cfg, err := parseDaemon(strings.Fields(line[1]))
		require.NoError(t, err, line[1])
		if i > 0 {
			assert.Equal(t, pidfiles[i-1][1], cfg.Pidfile, "what stops a daemon is next to what starts it")
		}
	}
}

// TestPersonality: what jobs run is the new program, whose options the parser here knows.
func TestPersonality(t *testing.T) {
	assert.Equal(t, compat.New, compat.PersonalityOf(rigProgramPath))
}
