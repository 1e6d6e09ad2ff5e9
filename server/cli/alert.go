package cli

import (
	"fmt"

	"callbook/server/outbound"
)

// alertFlags configure the alerts for the operator.
type alertFlags struct {
	AlertURL        string `name:"alert-url" help:"URL that gets a POST request for a new report, low disk space, a failed backup, an overdue certificate and the like, such as a topic of ntfy: https, or http on this machine. Default: no alerts." placeholder:"URL"`
	AlertFormat     string `enum:"json,text" default:"json" help:"json: an object with title and message, as Gotify takes it. text: one line, as ntfy takes it."`
	AlertSecretFile string `help:"File with a secret (whsec_…) that signs the alerts as Standard Webhooks." type:"path" placeholder:"PATH"`
}

// alertOptions checks the settings of alerts. Its errors do not contain the URL or the secret.
func (f alertFlags) alertOptions() (o outbound.AlertOptions, err error) {
	o.URL, o.Text = f.AlertURL, f.AlertFormat == "text"
	if f.AlertURL != "" {
		if _, err := outbound.Origin(f.AlertURL); err != nil {
			return o, fmt.Errorf("--alert-url: %w", err)
		}
	}

	secret, err := fileOf("alert-secret-file", f.AlertSecretFile)
	if err != nil || f.AlertSecretFile == "" {
		return o, err
	}
	if o.Key, err = outbound.ParseWebhookKey(secret); err != nil {
		return o, fmt.Errorf("--alert-secret-file: %w", err)
	}

	return o, nil
}
