package snowlease

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
)

const (
	// What fits `sun_path` on Linux with its closing 0, bytes.
	longestSocketPath = 107
	lastPort          = 65_535
)

var (
	httpAddress = regexp.MustCompile(`^https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([1-9][0-9]{0,4}))?(?:/[!-~]*)?$`)
	unfit       = regexp.MustCompile(`[^!-~]|[#\\]`)
)

// registry is what a registry URL says.
type registry struct {
	daemons          []*daemon
	namespace, token string
	borrow           bool
}

// shown is the addresses, as messages show them.
func (r *registry) shown() string {
	var all []string
	for _, one := range r.daemons {
		all = append(all, one.shown)
	}
	return strings.Join(all, ", ")
}

// readRegistry reads http://HOST:PORT or https://…, several of them separated by commas, or unix:PATH. Its query takes namespace, token and
// borrow, and with https tlsCa, tlsCert and tlsKey: PEM files. Error: CONFIG_INVALID.
func readRegistry(text string) (*registry, error) {
	listed, query, _ := strings.Cut(text, "?")
	scheme, rest, _ := strings.Cut(listed, ":")
	without := listed
	if strings.Contains(text, "@") {
		// All before it may be a password.
		without = scheme + ":***"
	}
	invalid := func(rule string) error { return expected("registry", rule, without) }
	if scheme != "http" && scheme != "https" && scheme != "unix" {
		return nil, invalid("to be a daemon's: http://HOST:PORT, https://HOST:PORT or unix:PATH")
	}
	if unfit.MatchString(text) {
		return nil, invalid("to be ASCII without spaces, control characters, `\\` and `#`")
	}
	settings, err := readQuery(query)
	if err != nil {
		return nil, invalid("to have in its query only namespace, token, borrow, tlsCa, tlsCert and tlsKey, each once")
	}
	borrow, isThere := settings["borrow"]
	if isThere && borrow != "true" && borrow != "false" {
		return nil, expected("borrow", "in the query of `registry` to be true or false", borrow)
	}
	read := &registry{namespace: settings["namespace"], token: settings["token"], borrow: borrow == "true"}
	secure, err := readTLS(settings["tlsCa"], settings["tlsCert"], settings["tlsKey"])
	if err != nil {
		return nil, err
	}
	if secure != nil && scheme != "https" {
		return nil, invalid("to name certificates only with https:")
	}
	if scheme == "unix" {
		if strings.HasPrefix(rest, "///") {
			rest = rest[2:]
		}
		path, err := url.PathUnescape(rest)
		isPath := err == nil && path != "" && path != "/" && !strings.HasPrefix(path, "//") && path[0] != '~' && !strings.ContainsRune(path, 0)
		if !isPath || len(path) > longestSocketPath {
			return nil, invalid(fmt.Sprintf("to be like unix:/run/snowlease.sock, with a path of at most %d bytes", longestSocketPath))
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
		read.daemons = []*daemon{newDaemon("unix:"+path, "http://localhost", dial, nil)}
		return read, nil
	}
	for _, part := range strings.Split(listed, ",") {
		if !strings.Contains(part, "://") {
			part = scheme + "://" + part
		}
		match := httpAddress.FindStringSubmatch(part)
		if match == nil || !strings.HasPrefix(part, scheme+":") || number(match[1]) > lastPort {
			return nil, invalid("to be a list of addresses like http://HOST:PORT, separated by commas, without users and passwords")
		}
		base := strings.TrimRight(part, "/")
		if _, err := url.Parse(base); err != nil {
			return nil, invalid("to be a list of addresses like http://HOST:PORT, separated by commas")
		}
		read.daemons = append(read.daemons, newDaemon(base, base, new(net.Dialer).DialContext, secure))
	}
	return read, nil
}

func readQuery(query string) (map[string]string, error) {
	settings := map[string]string{}
	if query == "" {
		return settings, nil
	}
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		_, isTwice := settings[name]
		switch name {
		case "namespace", "token", "borrow", "tlsCa", "tlsCert", "tlsKey":
		default:
			isTwice = true
		}
		if err != nil || isTwice || value == "" {
			return nil, errors.New("no query of a registry")
		}
		settings[name] = value
	}
	return settings, nil
}

// readTLS reads PEM files; nil: none is named.
func readTLS(ca, certificate, key string) (*tls.Config, error) {
	if ca+certificate+key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if pem, err := os.ReadFile(ca); err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, expected("tlsCa", "to be a file with certificates in PEM", ca)
		}
	}
	if certificate+key != "" {
		if key == "" {
			key = certificate
		}
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, refusal("CONFIG_INVALID", "Expected `tlsCert` and `tlsKey` to be PEM files that belong together, got others (%v).", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
