package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a packed file. It has no owner and no time, because those of the file
// system would change the archive's bytes.
type file struct {
	name string
	mode int64
	data []byte
}

// sorted returns files by name, so that an archive has one order.
func sorted(files []file) []file {
	return slices.SortedFunc(slices.Values(files), func(a, b file) int { return strings.Compare(a.name, b.name) })
}

// writeTarball packs files into a folder of an archive. All of them belong to root and
// have the time of the release.
func writeTarball(path, folder string, made time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		// The gzip header has neither a name nor a time unless they are set.
		zipped, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		packed := tar.NewWriter(zipped)
		for _, f := range sorted(files) {
			h := &tar.Header{
				Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: f.mode, Size: int64(len(f.data)),
				ModTime: made, Format: tar.FormatUSTAR,
			}
			if err := packed.WriteHeader(h); err != nil {
				return err
			}
			if _, err := packed.Write(f.data); err != nil {
				return err
			}
		}
		return errors.Join(packed.Close(), zipped.Close())
	})
}

// writeZip packs files without a folder.
func writeZip(path string, made time.Time, files []file) error {
	return create(path, func(w io.Writer) error {
		packed := zip.NewWriter(w)
		for _, f := range sorted(files) {
			h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: made}
			h.SetMode(os.FileMode(f.mode))
			entry, err := packed.CreateHeader(h)
			if err != nil {
				return err
			}
			if _, err := entry.Write(f.data); err != nil {
				return err
			}
		}
		return packed.Close()
	})
}

// create writes a new file and returns an error if it was not written completely.
func create(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// writeSums writes the checksums of the matching files in the format of sha256sum -c.
func writeSums(path string, patterns ...string) error {
	var matched []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		matched = append(matched, found...)
	}
	slices.Sort(matched)
	var sums bytes.Buffer
	for _, name := range matched {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(data), filepath.Base(name))
	}
	return create(path, func(w io.Writer) error {
		_, err := w.Write(sums.Bytes())
		return err
	})
}
