package harness

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
)

// Security is how a client of a secured listener authenticates: by SCRAM-SHA-512 or OAUTHBEARER.
type Security struct {
	Mechanism string
	User      string
	Password  string
	Token     string
	TLS       *tls.Config
}

// Secured makes a scenario that runs another one over SASL_SSL, with topics and groups of its own.
// It is left out where the runner has no secured listener for it.
func Secured(name, mechanism string, run func(context.Context, *Env, *Result) error) Scenario {
	return Scenario{
		Name: name,
		Run: func(ctx context.Context, env *Env, result *Result) error {
			security, err := newSecurity(mechanism)
			if err != nil {
				return err
			}
			secured := *env
			secured.Bootstrap = strings.Split(os.Getenv("COMPAT_SECURED"), ",")
			secured.Prefix = env.Topic(name)
			secured.Security = security
			return run(ctx, &secured, result)
		},
		isSecured: true,
	}
}

func newSecurity(mechanism string) (*Security, error) {
	content, err := os.ReadFile(os.Getenv("COMPAT_CA"))
	if err != nil {
		return nil, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%s has no certificate", os.Getenv("COMPAT_CA"))
	}
	return &Security{
		Mechanism: mechanism,
		User:      os.Getenv("COMPAT_USER"),
		Password:  os.Getenv("COMPAT_PASSWORD"),
		Token:     os.Getenv("COMPAT_TOKEN"),
		TLS:       &tls.Config{RootCAs: authorities},
	}, nil
}
