package snowlease

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// What fits `sun_path` on Linux with its closing 0, bytes.
const longestSocketPath = 107

// registry is a registry URL, taken apart.
type registry struct {
	daemons          []*daemon
	namespace, token string
	borrow           bool
}

// daemon is one address of a daemon.
type daemon struct {
	shown string // without user and password
	base  string // of the URLs of its calls
	login string // of the URL: it takes the place of a token
	http  *http.Transport
}

var (
	unfit    = regexp.MustCompile(`[\x00-\x20\x7f#\\]`)
	password = regexp.MustCompile(`^(\w*:/*)?.*@`)
)

// readRegistry reads http://HOST:PORT or https://…, several of them separated by commas, or unix:PATH. Its query takes namespace, token and
// borrow, and with https tlsCa, tlsCert and tlsKey: PEM files.
func readRegistry(text string) (*registry, *Error) {
	invalid := func(rule string) *Error {
		// All up to the last `@` may be a password, and so may the query.
		without, _, _ := strings.Cut(password.ReplaceAllString(text, "${1}***@"), "?")
		return expected("registry", rule, without)
	}
	scheme, rest, _ := strings.Cut(text, ":")
	scheme = strings.ToLower(scheme)
	if scheme != "http" && scheme != "https" && scheme != "unix" {
		return nil, invalid("to be a daemon's: http://HOST:PORT, https://HOST:PORT or unix:PATH")
	}
	if unfit.MatchString(text) {
		return nil, invalid("to have no spaces, control characters, `#` or `\\`")
	}
	body, query, _ := strings.Cut(rest, "?")
	values, err := readQuery(query)
	if err != nil {
		return nil, invalid("to have in its query only namespace, token, borrow (true or false), tlsCa, tlsCert and tlsKey, each once")
	}
	read := &registry{namespace: values["namespace"], token: values["token"], borrow: values["borrow"] == "true"}
	ca, certificate, key := values["tlsCa"], values["tlsCert"], values["tlsKey"]
	namesFiles := ca+certificate+key != ""
	if scheme == "unix" {
		if strings.HasPrefix(body, "///") {
			body = body[2:]
		}
		path, err := url.PathUnescape(body)
		if err != nil || path == "" || path == "/" || strings.HasPrefix(path, "//") || strings.HasPrefix(path, "~") ||
			len(path) > longestSocketPath || strings.ContainsRune(path, 0) || namesFiles {
			return nil, invalid(fmt.Sprintf("to be like unix:/run/snowlease.sock, with a path of at most %d bytes", longestSocketPath))
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		read.daemons = []*daemon{{shown: "unix:" + path, base: "http://localhost", http: newHTTP(dial, nil)}}
		return read, nil
	}
	var secure *tls.Config
	for _, part := range strings.Split(scheme+":"+body, ",") {
		if !strings.Contains(part, "://") {
			part = scheme + "://" + part
		}
		address, err := readAddress(part)
		if err != nil {
			return nil, invalid("to be a list of addresses like http://HOST:PORT, separated by commas")
		}
		if address.Scheme == "https" && secure == nil {
			var err *Error
			if secure, err = readTLS(ca, certificate, key); err != nil {
				return nil, err
			}
		}
		found := &daemon{http: newHTTP((&net.Dialer{}).DialContext, secure)}
		if user := address.User; user != nil {
			secret, _ := user.Password()
			found.login = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+secret))
			address.User = nil
			found.shown = "***@"
		}
		found.base = strings.TrimRight(address.String(), "/")
		found.shown = address.Scheme + "://" + found.shown + strings.TrimPrefix(found.base, address.Scheme+"://")
		read.daemons = append(read.daemons, found)
	}
	if namesFiles && secure == nil {
		return nil, invalid("to name certificates only with https:")
	}
	return read, nil
}

func readQuery(query string) (map[string]string, error) {
	values := map[string]string{}
	if query == "" {
		return values, nil
	}
	for _, pair := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		value, err := url.PathUnescape(value)
		_, twice := values[name]
		isFlag := value == "true" || value == "false"
		switch name {
		case "namespace", "token", "tlsCa", "tlsCert", "tlsKey":
		case "borrow":
			twice = twice || !isFlag
		default:
			twice = true
		}
		if err != nil || twice || value == "" {
			return nil, fmt.Errorf("not a query of a registry")
		}
		values[name] = value
	}
	return values, nil
}

func readAddress(part string) (*url.URL, error) {
	address, err := url.Parse(part)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(address.Port(), 10, 16)
	hasPort := address.Port() != "" || strings.HasSuffix(address.Host, ":")
	isASCII := strings.IndexFunc(part, func(r rune) bool { return r > 0x7e }) < 0
	isWeb := address.Scheme == "http" || address.Scheme == "https"
	if !isWeb || address.Hostname() == "" || !isASCII || hasPort && (err != nil || port == 0) {
		return nil, fmt.Errorf("not an address")
	}
	return address, nil
}

// newHTTP keeps no connection: a daemon that is stopped or gone would leave a dead one behind, and a call is rare. It asks no proxy, and
// follows no redirect, since no http.Client is above it.
func newHTTP(dial func(context.Context, string, string) (net.Conn, error), secure *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            dial,
		TLSClientConfig:        secure,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

func readTLS(ca, certificate, key string) (*tls.Config, *Error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		config.RootCAs = x509.NewCertPool()
		if pem, err := os.ReadFile(ca); err != nil || !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, refusal("CONFIG_INVALID", "Expected `tlsCa` to be a PEM file with certificates; check %s.", shown(ca))
		}
	}
	if certificate != "" || key != "" {
		if key == "" {
			key = certificate
		}
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, refusal("CONFIG_INVALID", "Expected `tlsCert` and `tlsKey` to be PEM files that belong together: %v.", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
