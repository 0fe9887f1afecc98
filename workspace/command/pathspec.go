package command

import (
	"strconv"
	"strings"
)

// historyDenied are the names that git-read leaves out of listings, diffs and
// history in every repository: those of the denylist as pathspec globs. The
// files of Config.Denied are left out by name as well.
var historyDenied = []string{
	".env*", "*_key*", "*.pem", "*.key", "id_*", "credentials*", ".ssh", ".aws", ".gnupg", ".netrc", ".npmrc", ".pypirc",
	".git-credentials", ".docker/config.json", ".kube/config", "*.p12", "*.pfx", "*.jks", "*.keystore", "terraform.tfstate*",
}

// maxSpecs bounds the denied files that are left out by name.
const maxSpecs = 500

// pathspecs are the arguments behind "--" that leave denied files out. own
// says whether the caller named paths; without any the whole tree is meant.
func pathspecs(root string, denied []DeniedPath, own bool) []string {
	var out []string
	if !own {
		out = append(out, ":(top)")
	}
	for _, g := range historyDenied {
		out = append(out, ":(top,exclude,icase,glob)**/"+g, ":(top,exclude,icase,glob)**/"+g+"/**")
	}
	n := 0
	for _, d := range denied {
		if d.Root == root && n < maxSpecs && !strings.Contains("/"+d.Rel+"/", "/.git/") {
			out = append(out, ":(top,exclude,literal)"+d.Rel)
			n++
		}
	}
	return out
}

func itoa(n int) string { return strconv.Itoa(n) }
