package main

// examples holds the examples in the help of the commands, by command path.
var examples = map[string]string{
	"":        "corvo-cloud dev",
	"dev":     "corvo-cloud dev --data-dir ~/cloud-data",
	"help":    "corvo-cloud help gateway",
	"version": "corvo-cloud version",
	"server":  "corvo-cloud server --data-dir /var/lib/corvo-control --bind :8081 --endpoint https://queue.example.com",
	"gateway": "corvo-cloud gateway --control-plane https://control:8081 --fleet-root 9f2c... --credential-file gateway-1.credential --bind :8080",
	"host":    "corvo-cloud host --control-plane https://control:8081 --fleet-root 9f2c... --credential-file host-1.credential --advertise https://host-1:8082",

	"admin":               "corvo-cloud admin audit verify --operator-key-file /var/lib/corvo-control/operator.key",
	"admin audit":         "corvo-cloud admin audit verify --operator-key-file /var/lib/corvo-control/operator.key",
	"admin audit list":    "corvo-cloud admin audit list --org - --operator-key-file /var/lib/corvo-control/operator.key",
	"admin audit verify":  "corvo-cloud admin audit verify --operator-key-file /var/lib/corvo-control/operator.key",
	"admin ledger":        "corvo-cloud admin ledger verify --data-dir /var/lib/corvo-control",
	"admin ledger close":  "corvo-cloud admin ledger close --month 2026-10 --operator-key-file /var/lib/corvo-control/operator.key",
	"admin ledger export": "corvo-cloud admin ledger export --data-dir /var/lib/corvo-control --out audit-2026",
	"admin ledger show":   "corvo-cloud admin ledger show --operator-key-file /var/lib/corvo-control/operator.key",
	"admin ledger verify": "corvo-cloud admin ledger verify --data-dir /var/lib/corvo-control",
	"admin stripe":        "corvo-cloud admin stripe check --stripe-key-file stripe.key --webhook-url https://cloud.example.com/cloud/v1/webhooks/stripe --return-url https://app.example.com/billing",
	"admin stripe check":  "corvo-cloud admin stripe check --stripe-key-file stripe.key --webhook-url https://cloud.example.com/cloud/v1/webhooks/stripe --return-url https://app.example.com/billing",
	"admin stripe setup":  "corvo-cloud admin stripe setup --stripe-key-file stripe.key --webhook-url https://cloud.example.com/cloud/v1/webhooks/stripe --return-url https://app.example.com/billing",

	"completion":            "corvo-cloud completion bash > /etc/bash_completion.d/corvo-cloud",
	"completion bash":       "corvo-cloud completion bash > /etc/bash_completion.d/corvo-cloud",
	"completion zsh":        "corvo-cloud completion zsh > \"${fpath[1]}/_corvo-cloud\"",
	"completion fish":       "corvo-cloud completion fish > ~/.config/fish/completions/corvo-cloud.fish",
	"completion powershell": "corvo-cloud completion powershell | Out-String | Invoke-Expression",
}
