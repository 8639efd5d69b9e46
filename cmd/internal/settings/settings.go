// Package settings derives flags, environment variables and the keys of a
// configuration file from one struct, whose fields carry the tags flag, default
// and doc.
package settings

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Help is the part of a command's long text that explains its settings.
const Help = "Every flag can also be set as an environment variable (--data-dir is\n" +
	"CORVO_DATA_DIR) or as a line of the file named by --config (data-dir:\n" +
	"/var/lib/corvo); a flag overrides the environment, which overrides the file."

// Bind adds a flag with its default for every field of cfg, a pointer to a struct, and of structs embedded in
// it. It panics on a field of a type without a flag, because that is a mistake of the program.
func Bind(flags *pflag.FlagSet, cfg any) { bind(flags, reflect.ValueOf(cfg).Elem()) }

func bind(flags *pflag.FlagSet, v reflect.Value) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			bind(flags, v.Field(i))
			continue
		}
		name, doc, initial := field.Tag.Get("flag"), field.Tag.Get("doc"), field.Tag.Get("default")
		switch target := v.Field(i).Addr().Interface().(type) {
		case *string:
			flags.StringVar(target, name, "", doc)
		case *bool:
			flags.BoolVar(target, name, false, doc)
		case *int64:
			flags.Int64Var(target, name, 0, doc)
		case *time.Duration:
			flags.DurationVar(target, name, 0, doc)
		default:
			panic(fmt.Sprintf("setting %s has type %T, for which there is no flag", name, target))
		}
		if initial == "" {
			continue
		}
		Default(flags, name, initial)
	}
}

// Default changes the default of a flag that Bind has made, for a command that shares its settings with
// others. It panics on a value that the flag refuses, because that is a mistake of the program.
func Default(flags *pflag.FlagSet, name, value string) {
	flag := flags.Lookup(name)
	if err := flag.Value.Set(value); err != nil {
		panic(fmt.Sprintf("default of --%s: %v", name, err))
	}
	flag.DefValue = value
}

// envName returns the environment variable of a flag.
func envName(flag string) string {
	return "CORVO_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Fill sets the flags that the command line does not set, from the environment or else from the configuration
// file. It refuses an unknown key in the file, because somebody believes in that setting.
func Fill(flags *pflag.FlagSet, env func(string) (string, bool), file string) error {
	named := "--config"
	if path, ok := env(envName("config")); ok && file == "" {
		file, named = path, envName("config")
	}
	settings, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", named, err)
	}
	var errs []error
	for name := range settings {
		if flags.Lookup(name) == nil || name == "config" || name == "help" {
			errs = append(errs, fmt.Errorf("%s: unknown setting %q", file, name))
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed || flag.Name == "help" {
			return
		}
		place := envName(flag.Name)
		value, ok := env(place)
		if !ok {
			place = file + ": " + flag.Name
			value, ok = settings[flag.Name]
		}
		if !ok {
			return
		}
		if err := flags.Set(flag.Name, value); err != nil {
			errs = append(errs, Unreadable(place, err))
		}
	})
	return errors.Join(errs...)
}

func read(file string) (map[string]string, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	settings := map[string]string{}
	if err := yaml.Unmarshal(text, &settings); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return settings, nil
}

// shapes describes the values that flags of the library's own types take.
var shapes = map[string]string{
	"int":      "a whole number",
	"int64":    "a whole number",
	"bool":     "true or false",
	"duration": `a duration like "5s" or "10m"`,
}

// Unreadable rewrites the error of a flag's value so that it says which values the flag takes, because the
// library's error names the Go function that could not read the value. Other errors, and those of our own
// flag types, stay as they are. place names the source of the value; empty = the flag.
func Unreadable(place string, err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	flag, cause := bad.GetFlag(), bad.Unwrap()
	shape, ok := shapes[flag.Value.Type()]
	if !ok || !strings.HasPrefix(cause.Error(), "strconv.") && !strings.HasPrefix(cause.Error(), "time: ") {
		return err
	}
	if errors.Is(cause, strconv.ErrRange) {
		shape += " of at most 64 bits"
	}
	if place == "" {
		place = "--" + flag.Name
	}
	return fmt.Errorf("%s is %q; it must be %s", place, bad.GetValue(), shape)
}

// IsAddress reports whether a process may listen on an address, as far as its text tells.
func IsAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	return err == nil && isPort(port)
}

// IsPeer reports whether a process may connect to an address, as far as its text tells.
func IsPeer(text string) bool {
	host, _, err := net.SplitHostPort(text)
	return err == nil && host != "" && IsAddress(text)
}

// isPort reports whether a text is a port, by its number or its name.
func isPort(text string) bool {
	_, err := net.LookupPort("tcp", text)
	return text != "" && err == nil
}

// IsURL reports whether a text is the base URL of a server.
func IsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.Port() != "0" &&
		(u.Port() == "" || isPort(u.Port())) && u.RawQuery == "" && u.Fragment == ""
}

// LogLevels lists the words that --log-level takes.
const LogLevels = "debug, info, warn, error"

// Logger returns a logger. It writes messages of the level named by word, and of higher levels, to standard
// error. Files get the messages from slog.LevelInfo up, or from the named level if that is lower.
func Logger(word string, files ...io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(word)); err != nil || strings.ToLower(word) != word || strings.ContainsAny(word, "+-") {
		return nil, fmt.Errorf("--log-level is %q; it must be one of %s", word, LogLevels)
	}
	handlers := []slog.Handler{slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})}
	for _, file := range files {
		handlers = append(handlers, slog.NewTextHandler(file, &slog.HandlerOptions{Level: min(level, slog.LevelInfo)}))
	}
	if len(handlers) == 1 {
		return slog.New(handlers[0]), nil
	}
	return slog.New(slog.NewMultiHandler(handlers...)), nil
}
