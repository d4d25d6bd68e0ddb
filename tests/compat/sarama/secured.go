package main

import (
	"crypto/sha512"

	"github.com/IBM/sarama"
	"github.com/xdg-go/scram"
	"lacuna.test/harness"
)

// secure has a client authenticate over TLS.
func secure(config *sarama.Config, security *harness.Security) {
	config.Net.TLS.Enable = true
	config.Net.TLS.Config = security.TLS
	config.Net.SASL.Enable = true
	config.Net.SASL.Mechanism = sarama.SASLMechanism(security.Mechanism)
	config.Net.SASL.User = security.User
	config.Net.SASL.Password = security.Password
	config.Net.SASL.SCRAMClientGeneratorFunc = func() sarama.SCRAMClient { return &conversation{} }
	config.Net.SASL.TokenProvider = token(security.Token)
}

// conversation is SCRAM for sarama, which has none of its own.
type conversation struct {
	*scram.ClientConversation
}

func (c *conversation) Begin(user, password, authorization string) error {
	client, err := scram.HashGeneratorFcn(sha512.New).NewClient(user, password, authorization)
	if err != nil {
		return err
	}
	c.ClientConversation = client.NewConversation()
	return nil
}

// token is a provider that always has the same one.
type token string

func (t token) Token() (*sarama.AccessToken, error) {
	return &sarama.AccessToken{Token: string(t)}, nil
}
