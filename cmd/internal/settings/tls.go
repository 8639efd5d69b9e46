package settings

// TLS are the settings of the certificate with which a process serves its clients.
type TLS struct {
	CertFile string `flag:"tls-cert-file" doc:"PEM file with certificate and chain, reloaded on change (default: plain HTTP)"`
	KeyFile  string `flag:"tls-key-file" doc:"PEM file with the key of --tls-cert-file"`
}

// Check calls refuse for each setting with whether it is good and the error message if not.
func (t *TLS) Check(refuse func(good bool, message string, args ...any)) {
	refuse(t.CertFile != "" || t.KeyFile == "", "--tls-cert-file is missing: --tls-key-file names the key of a certificate")
	refuse(t.KeyFile != "" || t.CertFile == "", "--tls-key-file is missing: --tls-cert-file needs its key")
}
