package front

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestAFileLimitThatIsTooLowIsSaid(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		of     Config
		limit  int64
		needed string // "" = enough
	}{
		"enough":                    {Config{MaxConnections: 100}, ownFiles + 100, ""},
		"one too few":               {Config{MaxConnections: 100}, ownFiles + 99, "needed=1124"},
		"a gateway has enough":      {Config{MaxConnections: 100, FilesPerConnection: 2}, ownFiles + 200, ""},
		"a gateway has one too few": {Config{MaxConnections: 100, FilesPerConnection: 2}, ownFiles + 199, "needed=1224"},
		"without a bound":           {Config{}, ownFiles, ""},
		"not even its own":          {Config{}, ownFiles - 1, "needed=1024"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			warnOfFiles(slog.New(slog.NewTextHandler(&said, nil)), x.of, x.limit)
			if x.needed == "" && said.Len() > 0 || !strings.Contains(said.String(), x.needed) {
				t.Errorf("%q", said.String())
			}
		})
	}
}

func TestTooFewFilesAreRefused(t *testing.T) {
	t.Parallel()
	if err := requireFiles("a host", ownFiles); err != nil {
		t.Error(err)
	}
	if err := requireFiles("a host", ownFiles-1); err == nil || !strings.Contains(err.Error(), "1023, and a host needs 1024: raise it, such as with ulimit -n 1024") {
		t.Error(err)
	}
}
