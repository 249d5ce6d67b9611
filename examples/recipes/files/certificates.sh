#!/usr/bin/env bash
# Makes a CA, a certificate of servers and one of clients, for tests and small installations.
#
#   certificates.sh DIRECTORY HOST...
#
# HOST is a name or an IP address as it stands in the urls of nodes; one certificate is for all of them. Writes ca.pem,
# ca.key, server.pem, server.key, client.pem and client.key, the keys without a passphrase: keep ca.key elsewhere. They
# are valid for a year, and the CA for ten: `certificates.sh` once more in the same directory, with ca.key, renews the
# others. Where it fails, the files are what they were.
#
# Where the clients of a quorum have one certificate, servers cannot tell them apart: passwords and ACLs still can.
set -euo pipefail

if (($# < 2)); then
    echo "usage: $0 DIRECTORY HOST..." >&2
    exit 64
fi
directory=$1
shift

names= hosts=()
for host in "$@"; do
    if [[ $host =~ ^\[(.*)\]$ ]]; then host=${BASH_REMATCH[1]}; fi
    if [[ $host =~ ^[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*$ ]]; then
        kind=IP url="[$host]"
    elif [[ $host =~ ^[0-9.]+$ ]]; then
        kind=IP url=$host
    elif [[ $host =~ ^[A-Za-z0-9._-]+$ ]]; then
        kind=DNS url=$host
    else
        echo "$host: not a host; a name or an IP address is, without a port" >&2
        exit 64
    fi
    names+=${names:+,}$kind:$host
    hosts+=("$url")
done

mkdir -p "$directory"
cd "$directory"
umask 077
if [[ -e ca.pem && ! -e ca.key || -e ca.key && ! -e ca.pem ]]; then
    echo "$PWD: of ca.pem and ca.key, one is missing: bring it back to renew what it has signed" >&2
    exit 66
fi
# All is made here, and moved at the end: a server does not start with a key that is not its certificate's.
new=$(mktemp -d "$PWD/.new.XXXXXX")
trap 'rm -rf "$new"' EXIT

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

ca=$PWD
if [[ ! -e ca.pem ]]; then
    ca=$new
    new_key "$ca/ca.key"
    openssl req -x509 -new -key "$ca/ca.key" -sha256 -days 3650 -subj "/CN=redquorum CA" -out "$ca/ca.pem" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
fi

# certificate NAME USAGE ALTERNATIVE_NAMES
certificate() {
    local serial
    serial=0x$(openssl rand -hex 16)
    new_key "$new/$1.key"
    openssl req -new -key "$new/$1.key" -subj "/CN=redquorum $1" |
        openssl x509 -req -CA "$ca/ca.pem" -CAkey "$ca/ca.key" -set_serial "$serial" -sha256 -days 365 \
            -out "$new/$1.pem" -extfile <(
            echo "basicConstraints=critical,CA:FALSE"
            echo "keyUsage=critical,digitalSignature"
            echo "extendedKeyUsage=$2"
            echo "subjectAltName=$3"
        )
}
# A server of Redis shows its certificate as a client, too: to the master whose replica it is.
certificate server serverAuth,clientAuth "$names"
certificate client clientAuth DNS:client
chmod 644 "$new"/*.pem
mv -f "$new"/* .

cat <<END
Of each server, besides --port 0:
  redis-server --tls-port 6379 --tls-cert-file $PWD/server.pem --tls-key-file $PWD/server.key --tls-ca-cert-file $PWD/ca.pem
Of each client:
  redquorum --ca $PWD/ca.pem --cert $PWD/client.pem --key $PWD/client.key --node rediss://${hosts[0]}:6379 ...
END
