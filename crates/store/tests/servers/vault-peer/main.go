// A real Vault in one process, for conformance tests: key-value stores of versions 1 and 2, tokens, AppRole and JWT, over TLS with a
// certificate of its own. It prints one line of JSON that says how to reach it, and ends with its standard input.
package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	jwt "github.com/hashicorp/vault-plugin-auth-jwt"
	kv "github.com/hashicorp/vault-plugin-secrets-kv"
	"github.com/hashicorp/vault/builtin/credential/approle"
	vaulthttp "github.com/hashicorp/vault/http"
	"github.com/hashicorp/vault/internalshared/configutil"
	"github.com/hashicorp/vault/sdk/helper/consts"
	"github.com/hashicorp/vault/sdk/logical"
	"github.com/hashicorp/vault/sdk/physical/inmem"
	"github.com/hashicorp/vault/vault"
)

const policy = `path "secret/*" { capabilities = ["create", "read", "update", "delete", "list"] }`

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

var (
	engines = map[string]logical.Factory{"kv": kv.Factory}
	methods = map[string]logical.Factory{"approle": approle.Factory, "jwt": jwt.Factory}
)

// registry names the plugins that are built in.
type registry struct{}

func (registry) Get(name string, kind consts.PluginType) (func() (any, error), bool) {
	factory, ok := map[consts.PluginType]map[string]logical.Factory{
		consts.PluginTypeSecrets: engines, consts.PluginTypeCredential: methods,
	}[kind][name]
	return func() (any, error) { return factory, nil }, ok
}

func (r registry) Contains(name string, kind consts.PluginType) bool {
	_, ok := r.Get(name, kind)
	return ok
}

func (registry) Keys(kind consts.PluginType) []string {
	switch kind {
	case consts.PluginTypeSecrets:
		return slices.Collect(maps.Keys(engines))
	case consts.PluginTypeCredential:
		return slices.Collect(maps.Keys(methods))
	default:
		return nil
	}
}

func (r registry) DeprecationStatus(name string, kind consts.PluginType) (consts.DeprecationStatus, bool) {
	return consts.Supported, r.Contains(name, kind)
}

func (registry) IsBuiltinEntPlugin(string, consts.PluginType) bool { return false }

func newCore() *vault.Core {
	logger := hclog.New(&hclog.LoggerOptions{Output: os.Stderr, Level: hclog.Error})
	physical, err := inmem.NewInmem(nil, logger)
	check(err)
	core, err := vault.NewCore(&vault.CoreConfig{
		Physical:           physical,
		LogicalBackends:    engines,
		CredentialBackends: methods,
		BuiltinRegistry:    registry{},
		DisableMlock:       true,
		Logger:             logger,
	})
	check(err)
	return core
}

// unsealed initialises a core and returns its root token.
func unsealed(core *vault.Core) string {
	keys, err := core.Initialize(context.Background(), &vault.InitParams{
		BarrierConfig:  &vault.SealConfig{SecretShares: 1, SecretThreshold: 1},
		RecoveryConfig: &vault.SealConfig{},
	})
	check(err)
	_, err = core.Unseal(keys.SecretShares[0])
	check(err)
	return keys.RootToken
}

// certificate makes a certificate for the loopback address, which is its own authority.
func certificate() (tls.Certificate, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "vault"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	authority, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(err)
	parent, err := x509.ParseCertificate(authority)
	check(err)
	server, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "127.0.0.1"},
		NotBefore:    template.NotBefore,
		NotAfter:     template.NotAfter,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	signed, err := x509.CreateCertificate(rand.Reader, leaf, parent, &server.PublicKey, key)
	check(err)
	text := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority}))
	return tls.Certificate{Certificate: [][]byte{signed}, PrivateKey: server}, text
}

type client struct {
	http    *http.Client
	address string
	token   string
}

// ask sends one request, as the administrator.
func (c client) ask(method, path string, body any) (int, []byte) {
	text, err := json.Marshal(body)
	check(err)
	request, err := http.NewRequest(method, c.address+"/v1/"+path, bytes.NewReader(text))
	check(err)
	request.Header.Set("X-Vault-Token", c.token)
	response, err := c.http.Do(request)
	check(err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	check(err)
	return response.StatusCode, answer
}

// call asks the server for something. A key-value store that was just mounted prepares itself for a moment.
func (c client) call(method, path string, body any) map[string]any {
	status, answer := c.ask(method, path, body)
	for tries := 0; status == 400 && bytes.Contains(answer, []byte("Upgrading")) && tries < 600; tries++ {
		time.Sleep(100 * time.Millisecond)
		status, answer = c.ask(method, path, body)
	}
	if status >= 300 {
		log.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	var value struct{ Data map[string]any }
	if len(answer) > 0 {
		check(json.Unmarshal(answer, &value))
	}
	return value.Data
}

// pipelineToken signs a token as a pipeline would bring it, and returns the key that verifies it.
func pipelineToken() (string, string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	claims, err := json.Marshal(map[string]any{
		"iss": "https://ci.test", "sub": "project:infra", "aud": "vault",
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	check(err)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	check(err)
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	check(err)
	return text + "." + encode(signature), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func main() {
	core := newCore()
	pair, authority := certificate()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	check(err)
	handler := vaulthttp.Handler.Handler(&vault.HandlerProperties{
		Core:           core,
		ListenerConfig: &configutil.Listener{Address: listener.Addr().String()},
	})
	go func() { check((&http.Server{Handler: handler}).Serve(listener)) }()

	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(authority))
	c := client{
		http:    &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}},
		address: "https://" + listener.Addr().String(),
		token:   unsealed(core),
	}
	c.call("POST", "sys/mounts/secret", map[string]any{"type": "kv", "options": map[string]string{"version": "2"}})
	c.call("POST", "sys/mounts/old", map[string]any{"type": "kv", "options": map[string]string{"version": "1"}})
	c.call("POST", "secret/data/team/bundle", map[string]any{"data": map[string]string{"bundle": "token: hunter2\n"}})
	c.call("POST", "secret/data/team/gone", map[string]any{"data": map[string]string{"bundle": "old"}})
	c.call("DELETE", "secret/data/team/gone", nil)
	c.call("POST", "sys/policies/acl/team", map[string]any{"policy": policy})
	c.call("POST", "sys/auth/approle", map[string]any{"type": "approle"})
	c.call("POST", "auth/approle/role/team", map[string]any{"token_policies": "team", "token_ttl": "3s", "token_max_ttl": "1h"})
	c.call("POST", "sys/auth/jwt", map[string]any{"type": "jwt"})
	token, key := pipelineToken()
	c.call("POST", "auth/jwt/config", map[string]any{"jwt_validation_pubkeys": []string{key}})
	c.call("POST", "auth/jwt/role/team", map[string]any{
		"role_type": "jwt", "user_claim": "sub", "bound_audiences": []string{"vault"}, "token_policies": []string{"team"},
	})
	line, err := json.Marshal(map[string]any{
		"address":   c.address,
		"authority": authority,
		"token":     c.token,
		"role_id":   c.call("GET", "auth/approle/role/team/role-id", nil)["role_id"],
		"secret_id": c.call("POST", "auth/approle/role/team/secret-id", map[string]any{})["secret_id"],
		"jwt":       token,
	})
	check(err)
	fmt.Println(string(line))
	_, _ = io.Copy(io.Discard, os.Stdin)
}
