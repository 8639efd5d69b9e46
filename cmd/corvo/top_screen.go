package main

import (
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// topSizeEvery is the interval at which watch reads the terminal's size, because not all systems signal a
// change.
const topSizeEvery = 250 * time.Millisecond

// The control sequences for the terminal.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // a screen apart from the shell's, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	clearLine   = "\x1b[K" // from the cursor on
	clearBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	reverse     = "\x1b[7m"
	normalText  = "\x1b[m"
)

// onTerminal reports whether stdin and stdout are terminals.
func onTerminal() bool { return term.IsTerminal(int(os.Stdin.Fd())) && forPerson() }

// screen is the terminal while top has it alone.
type screen struct {
	keys          chan key
	was           *term.State
	drawn         string // the frame on the terminal
	width, height int    // the terminal's size for that frame
}

// openScreen takes the terminal over and receives each key when it is pressed. close gives the terminal back.
func openScreen() (*screen, error) {
	was, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{keys: make(chan key), was: was}
	// The goroutine ends with the process, because nothing wakes it from its read earlier.
	go s.read()
	_, err = os.Stdout.WriteString(enterScreen)
	return s, err
}

func (s *screen) close() {
	os.Stdout.WriteString(leaveScreen) // a write error means that the terminal is gone
	term.Restore(int(os.Stdin.Fd()), s.was)
}

// draw draws a view in the terminal's current size.
func (s *screen) draw(v *view) error {
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil {
		return err
	}
	lines := v.render(width, height)
	var frame strings.Builder
	frame.WriteString(screenHome)
	for i, l := range lines {
		if i > 0 {
			frame.WriteString("\r\n")
		}
		frame.WriteString(l.style + l.text + normalText + clearLine)
	}
	frame.WriteString(clearBelow)
	if frame.String() == s.drawn && width == s.width && height == s.height {
		return nil
	}
	s.drawn, s.width, s.height = frame.String(), width, height
	_, err = os.Stdout.WriteString(s.drawn)
	return err
}

// key is a pressed key.
type key int

const (
	keyOther key = iota
	keyQuit
	keyUp
	keyDown
	keyLeft
	keyRight
	keyPageUp
	keyPageDown
	keyTab
	keyTurn
)

// sequences maps the bytes that terminals send to keys. A terminal may send a sequence in parts.
var sequences = map[string]key{
	"q": keyQuit, "Q": keyQuit, "\x03": keyQuit, "\x04": keyQuit,
	"\t": keyTab, "r": keyTurn, "k": keyUp, "j": keyDown, "h": keyLeft, "l": keyRight,
	"\x1b[A": keyUp, "\x1b[B": keyDown, "\x1b[C": keyRight, "\x1b[D": keyLeft, "\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown,
	"\x1bOA": keyUp, "\x1bOB": keyDown, "\x1bOC": keyRight, "\x1bOD": keyLeft,
}

// read sends the pressed keys to s.keys.
func (s *screen) read() {
	defer close(s.keys)
	var begun string
	for buf := make([]byte, 64); ; {
		n, err := os.Stdin.Read(buf)
		if err != nil {
			return
		}
		var all []key
		all, begun = readKeys(begun + string(buf[:n]))
		for _, k := range all {
			s.keys <- k
		}
	}
}

// readKeys returns the keys in a terminal's bytes, and the beginning of an incomplete sequence.
func readKeys(sent string) (all []key, rest string) {
next:
	for sent != "" {
		for sequence, k := range sequences {
			switch {
			case strings.HasPrefix(sent, sequence):
				all, sent = append(all, k), sent[len(sequence):]
				continue next
			case len(sent) > 0 && strings.HasPrefix(sequence, sent):
				return all, sent
			}
		}
		// Skip an unknown sequence whole, so that none of its bytes counts as a key.
		end := 1
		if strings.HasPrefix(sent, "\x1b[") {
			for end = 2; end < len(sent) && (sent[end] < '@' || sent[end] > '~'); end++ {
			}
			end = min(end+1, len(sent))
		}
		all, sent = append(all, keyOther), sent[end:]
	}
	return all, ""
}
