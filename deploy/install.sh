#!/bin/sh
# Installs corvo, the node and its command line in one binary:
#
#	curl -fsSL https://get.corvo.dev | sh
#	curl -fsSL https://get.corvo.dev | sh -s -- --version 1.2.3 --dir "$HOME/.local/bin"
#
# The script compares the download with the checksums of its release. If they differ,
# or anything else fails, it installs nothing and leaves an existing corvo unchanged.
set -eu

usage() {
	cat <<-'USAGE'
		usage: install.sh [--version VERSION] [--dir DIR] [--base-url URL]

		  --version   version to install (CORVO_VERSION; the newest)
		  --dir       folder to install into (CORVO_INSTALL_DIR; /usr/local/bin)
		  --base-url  where releases are (CORVO_BASE_URL; https://get.corvo.dev)
	USAGE
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

has() { command -v "$1" >/dev/null 2>&1; }

# platform prints the platform's name in releases.
platform() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) die "no release for $(uname -s): releases are for Linux and macOS" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) die "no release for $(uname -m): releases are for x86_64 and arm64" ;;
	esac
	echo "${os}_${arch}"
}

# download URL FILE
download() {
	if has curl; then
		curl -fsSL --retry 3 -o "$2" "$1" || die "cannot download $1"
	elif has wget; then
		wget -q -O "$2" "$1" || die "cannot download $1"
	else
		die "curl or wget is needed: install one of them"
	fi
}

# checksum FILE prints its SHA-256.
checksum() {
	if has sha256sum; then
		sha256sum "$1"
	elif has shasum; then
		shasum -a 256 "$1"
	elif has openssl; then
		openssl dgst -sha256 -r "$1"
	else
		die "sha256sum, shasum or openssl is needed to check the download: install one of them"
	fi | cut -d ' ' -f 1
}

# listed NAME FILE prints the checksum of NAME in the list FILE.
listed() {
	while read -r sum name; do
		if [ "$name" = "$1" ]; then
			echo "$sum"
		fi
	done <"$2"
}

# The last line calls main, so that a partly downloaded script does nothing.
main() {
	version=${CORVO_VERSION:-}
	dir=${CORVO_INSTALL_DIR:-/usr/local/bin}
	base=${CORVO_BASE_URL:-https://get.corvo.dev}
	while [ $# -gt 0 ]; do
		case $1 in
		--help | -h)
			usage
			exit
			;;
		--version | --dir | --base-url)
			[ $# -ge 2 ] || die "$1 needs a value"
			case $1 in
			--version) version=$2 ;;
			--dir) dir=$2 ;;
			--base-url) base=$2 ;;
			esac
			shift 2
			;;
		*)
			usage >&2
			die "unknown option $1"
			;;
		esac
	done

	on=$(platform)
	if ! mkdir -p "$dir" 2>/dev/null || ! [ -w "$dir" ]; then
		die "cannot write to $dir: run as root, or choose a folder of your own with --dir"
	fi
	work=$(mktemp -d)
	staged=$dir/.corvo.$$
	trap 'rm -rf "$work" "$staged"' EXIT
	trap 'exit 1' HUP INT TERM

	if [ -z "$version" ]; then
		download "$base/latest" "$work/latest"
		read -r version <"$work/latest" || die "$base/latest is empty"
	fi
	version=${version#v}
	case $version in
	*[!0-9A-Za-z.-]* | *..* | '') die "$version is not a version, such as 1.2.3" ;;
	esac

	name=corvo_${version}_$on
	download "$base/$version/SHA256SUMS" "$work/SHA256SUMS"
	want=$(listed "$name.tar.gz" "$work/SHA256SUMS")
	[ -n "$want" ] || die "the release $version has no $name.tar.gz"
	download "$base/$version/$name.tar.gz" "$work/$name.tar.gz"
	got=$(checksum "$work/$name.tar.gz")
	[ -n "$got" ] || exit 1
	[ "$got" = "$want" ] || die "$name.tar.gz differs from the release: its SHA-256 is $got instead of $want; nothing was installed"

	tar -xzf "$work/$name.tar.gz" -C "$work" "$name/corvo"
	cp "$work/$name/corvo" "$staged"
	chmod 755 "$staged"
	runs=$("$staged" version) || die "the downloaded corvo does not run on this machine; nothing was installed"
	mv -f "$staged" "$dir/corvo"

	echo "corvo $runs is in $dir"
	case :$PATH: in
	*:"$dir":*) ;;
	*) echo "$dir is not in your PATH: call it $dir/corvo, or add it" ;;
	esac
	echo "try: corvo server --dev"
}

main "$@"
