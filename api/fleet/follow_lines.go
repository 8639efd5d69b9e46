package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// batchBytes is the size of the read buffer, and so the most bytes of the lines that are handled together after a first
// one.
const batchBytes = 256 << 10

// lineReader reads the lines of a stream of documents.
type lineReader struct{ from *bufio.Reader }

func newLineReader(from io.Reader) lineReader {
	return lineReader{bufio.NewReaderSize(from, batchBytes)}
}

// next waits for a line and returns it with the complete lines behind it that were received already, without the empty
// ones. The error is io.EOF only after a complete line.
func (r lineReader) next() (lines [][]byte, err error) {
	for len(lines) == 0 || r.ready() {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// ready reports whether the buffer has a complete line.
func (r lineReader) ready() bool {
	buffered, _ := r.from.Peek(r.from.Buffered()) // no more than is there, so that Peek does not read
	return bytes.IndexByte(buffered, '\n') >= 0
}

// line reads a line of at most MaxMessageBytes.
func (r lineReader) line() (line []byte, err error) {
	for {
		part, err := r.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxMessageBytes:
			return nil, bufio.ErrTooLong
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
