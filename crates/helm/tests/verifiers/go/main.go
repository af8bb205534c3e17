// Reads PEM from standard input as Go programs read it: every private key is parsed, every certificate too, and each that is
// not an authority is verified against the authorities in the same text. Prints a line per block that says what it is; what
// cannot be read or verified is a line that starts with "problem: ", and the exit code is 1.
package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func main() {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Println("problem: " + err.Error())
		os.Exit(1)
	}
	failed := false
	problem := func(format string, args ...any) {
		failed = true
		fmt.Printf("problem: "+format+"\n", args...)
	}
	var certificates []*x509.Certificate
	for number := 1; ; number++ {
		block, rest := pem.Decode(input)
		if block == nil {
			break
		}
		input = rest
		if block.Type == "CERTIFICATE" {
			certificate, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				problem("block %d: %v", number, err)
				continue
			}
			certificates = append(certificates, certificate)
			fmt.Println(describe(certificate))
			continue
		}
		key, err := parseKey(block)
		if err != nil {
			problem("block %d, %s: %v", number, block.Type, err)
			continue
		}
		fmt.Printf("%s: %s\n", block.Type, kind(key))
	}
	for _, certificate := range certificates {
		if err := verify(certificate, certificates); err != nil {
			problem("certificate of %s, issued by %s: %v", certificate.Subject, certificate.Issuer, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func parseKey(block *pem.Block) (any, error) {
	switch block.Type {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		return x509.ParsePKCS8PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("not a private key")
	}
}

func kind(key any) string {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if err := key.Validate(); err != nil {
			return "broken RSA: " + err.Error()
		}
		return fmt.Sprintf("RSA %d", key.N.BitLen())
	case *rsa.PublicKey:
		return fmt.Sprintf("RSA %d", key.N.BitLen())
	case *ecdsa.PrivateKey:
		return key.Curve.Params().Name
	case *ecdsa.PublicKey:
		return key.Curve.Params().Name
	case ed25519.PrivateKey, ed25519.PublicKey:
		return "Ed25519"
	default:
		return fmt.Sprintf("%T", key)
	}
}

// What two certificates for the same purpose have in common.
func describe(c *x509.Certificate) string {
	var extensions []string
	for _, extension := range c.Extensions {
		critical := ""
		if extension.Critical {
			critical = "!"
		}
		extensions = append(extensions, extension.Id.String()+critical)
	}
	return fmt.Sprintf("CERTIFICATE: %s by %s, %s, %s, authority %v, usage %d %v, names %v %v, %d h, extensions %s",
		c.Subject, c.Issuer, kind(c.PublicKey), c.SignatureAlgorithm, c.IsCA, c.KeyUsage, c.ExtKeyUsage,
		c.DNSNames, c.IPAddresses, int(c.NotAfter.Sub(c.NotBefore).Hours()), strings.Join(extensions, " "))
}

// Verifies a certificate that is not an authority against those of the authorities that have its issuer's name.
func verify(c *x509.Certificate, all []*x509.Certificate) error {
	if c.IsCA {
		return nil
	}
	if bytes.Equal(c.RawIssuer, c.RawSubject) {
		return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	}
	roots, found := x509.NewCertPool(), false
	for _, authority := range all {
		if authority.IsCA {
			roots.AddCert(authority)
			found = true
		}
	}
	if !found {
		return fmt.Errorf("no authority is there")
	}
	_, err := c.Verify(x509.VerifyOptions{
		Roots:       roots,
		CurrentTime: c.NotBefore.Add(time.Minute),
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}
