package main

import (
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// topSizeEvery is how often a terminal is asked for its size. Not all systems have a
// signal for it.
const topSizeEvery = 250 * time.Millisecond

// What terminals obey.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // another screen than that of the shell, without a cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	screenHome  = "\x1b[H"
	clearLine   = "\x1b[K" // from the cursor on
	clearBelow  = "\x1b[J"
	bold        = "\x1b[1m"
	reverse     = "\x1b[7m"
	normalText  = "\x1b[m"
)

// onTerminal says whether a person is at both ends.
func onTerminal() bool { return term.IsTerminal(int(os.Stdin.Fd())) && forPerson() }

// screen is the terminal while it is ours alone.
type screen struct {
	keys          chan key
	was           *term.State
	drawn         string // what stands there
	width, height int    // and how large it was then
}

// openScreen takes the terminal over: keys come as they are pressed. close gives it back.
func openScreen() (*screen, error) {
	was, err := term.MakeRaw(int(os.Stdin.Fd()))
	if err != nil {
		return nil, err
	}
	s := &screen{keys: make(chan key), was: was}
	// It ends with the process: nothing wakes it from its read before.
	go s.read()
	_, err = os.Stdout.WriteString(enterScreen)
	return s, err
}

func (s *screen) close() {
	os.Stdout.WriteString(leaveScreen) // a terminal that is gone has nothing to leave
	term.Restore(int(os.Stdin.Fd()), s.was)
}

// draw shows a view in the size that the terminal has.
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

// key is one that was pressed.
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

// sequences are what terminals send for keys. A prefix of one may come first.
var sequences = map[string]key{
	"q": keyQuit, "Q": keyQuit, "\x03": keyQuit, "\x04": keyQuit,
	"\t": keyTab, "r": keyTurn, "k": keyUp, "j": keyDown, "h": keyLeft, "l": keyRight,
	"\x1b[A": keyUp, "\x1b[B": keyDown, "\x1b[C": keyRight, "\x1b[D": keyLeft, "\x1b[5~": keyPageUp, "\x1b[6~": keyPageDown,
	"\x1bOA": keyUp, "\x1bOB": keyDown, "\x1bOC": keyRight, "\x1bOD": keyLeft,
}

// read sends the keys that are pressed.
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

// readKeys are the keys in what a terminal has sent, and the beginning of one that has
// not come whole.
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
		// Of a sequence that is not known nothing is a key.
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
