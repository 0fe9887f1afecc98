package command

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/weftmesh/weft/workspace"
)

// checkEnv refuses variables a command may not have (cases 53, 54).
func checkEnv(p Plan, env map[string]string) *workspace.Refusal {
	if len(env) > maxEnv {
		return workspace.Refuse(workspace.BadArguments, "%d environment variables, the limit is %d", len(env), maxEnv)
	}
	allowed := append(slices.Clone(commonEnv), p.env...)
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if !slices.Contains(allowed, k) {
			return workspace.Refuse(workspace.BadArguments, "the variable %q can't be set; allowed are %s", k, strings.Join(allowed, ", "))
		}
		if v := env[k]; !plain.MatchString(v) {
			return workspace.Refuse(workspace.BadArguments, "the value of %s holds characters that are not allowed or is too long", k)
		}
	}
	return nil
}

// baseEnv is the environment built from nothing. dirs are the tools'
// directories in the sandbox.
func baseEnv(dirs []string, home, tmp string) []string {
	path := slices.Concat(dirs, []string{"/usr/local/bin", "/usr/bin", "/bin"})
	var unique []string
	for _, d := range path {
		if !slices.Contains(unique, d) {
			unique = append(unique, d)
		}
	}
	return []string{
		"PATH=" + strings.Join(unique, ":"), "HOME=" + home, "TMPDIR=" + tmp,
		"USER=weft", "LOGNAME=weft", "SHELL=/bin/sh", "LANG=C.UTF-8", "TERM=dumb", "WEFT_SESSION=1",
	}
}

// toolEnv keeps the tools offline, quiet and inside the session's cache.
func toolEnv(cache string, net bool, modules string) []string {
	env := []string{
		"GOCACHE=" + cache + "/go-build", "GOPATH=" + cache + "/gopath", "GOTOOLCHAIN=local", "GOTELEMETRY=off", "GOENV=off",
		"GOFLAGS=-buildvcs=false",
		"npm_config_cache=" + cache + "/npm", "npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false",
		"npm_config_prefix=" + cache + "/npm-prefix",
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONNOUSERSITE=1", "PIP_CONFIG_FILE=/dev/null", "PIP_DISABLE_PIP_VERSION_CHECK=1",
		"CARGO_HOME=" + cache + "/cargo", "CARGO_TARGET_DIR=" + cache + "/cargo-target", "CARGO_TERM_COLOR=never",
	}
	if net {
		// Modules are fetched into the session's cache; those of this machine
		// stay read-only and serve as the first proxy.
		return append(env, "GOMODCACHE="+cache+"/gomod")
	}
	return append(env, "GOMODCACHE="+cmp.Or(modules, cache+"/gomod"), "GOPROXY=off", "GOSUMDB=off", "GOVCS=*:off",
		"npm_config_offline=true", "PIP_NO_INDEX=1", "CARGO_NET_OFFLINE=true")
}

// gitEnv neutralises what a repository's configuration could execute (case
// 44). Settings given by environment override every file.
func gitEnv(dir, tree string, use gitUse, by Author) []string {
	settings := [][2]string{
		{"core.fsmonitor", "false"}, {"core.hooksPath", "/dev/null"}, {"core.attributesFile", "/dev/null"},
		{"core.pager", "cat"}, {"core.editor", "/bin/false"}, {"sequence.editor", "/bin/false"},
		{"core.sshCommand", "/bin/false"}, {"core.askPass", "/bin/false"}, {"core.untrackedCache", "false"},
		{"safe.bareRepository", "explicit"}, {"protocol.allow", "never"}, {"credential.helper", ""},
		{"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}, {"log.showSignature", "false"},
		{"gpg.program", "/bin/false"}, {"gpg.ssh.program", "/bin/false"}, {"gpg.x509.program", "/bin/false"},
		{"diff.ignoreSubmodules", "all"}, {"submodule.recurse", "false"}, {"status.submoduleSummary", "false"},
		{"interactive.diffFilter", "cat"}, {"color.ui", "false"}, {"column.ui", "never"}, {"core.quotePath", "false"},
		{"gc.auto", "0"}, {"maintenance.auto", "false"},
	}
	if by.Name != "" {
		settings = append(settings, [2]string{"user.name", by.Name}, [2]string{"user.email", by.Email})
	}
	env := []string{
		"GIT_DIR=" + dir, "GIT_WORK_TREE=" + tree,
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=/bin/false", "GIT_EDITOR=/bin/false", "GIT_PAGER=cat", "PAGER=cat",
		"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1",
	}
	if use != gitWrite {
		env = append(env, "GIT_OPTIONAL_LOCKS=0")
	}
	env = append(env, "GIT_CONFIG_COUNT="+itoa(len(settings)))
	for i, kv := range settings {
		env = append(env, "GIT_CONFIG_KEY_"+itoa(i)+"="+kv[0], "GIT_CONFIG_VALUE_"+itoa(i)+"="+kv[1])
	}
	return env
}
