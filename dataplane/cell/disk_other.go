//go:build !(linux || darwin || freebsd)

package cell

import "errors"

func freeDisk(string) (int64, error) { return 0, errors.ErrUnsupported }
