#!/usr/bin/env bash
# Makes a CA, a certificate for servers and a certificate for clients, for tests and small installations.
#
#   certificates.sh DIRECTORY HOST...
#
# HOST is a name or an IP address as in the urls of nodes. One certificate is valid for all hosts. The script writes
# ca.pem, ca.key, server.pem, server.key, client.pem and client.key. The keys have no passphrase: store ca.key
# elsewhere.
#
# The certificates are valid for a year, and the CA for ten years. To renew the certificates, run the script again in
# the same directory, with ca.key. If the script fails, the files stay unchanged.
#
# If all clients of a quorum have this client certificate, servers cannot distinguish clients by it. Passwords and
# ACLs still can.
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
        echo "$host: not a host: expected a name or an IP address without a port" >&2
        exit 64
    fi
    names+=${names:+,}$kind:$host
    hosts+=("$url")
done

mkdir -p "$directory"
cd "$directory"
umask 077
if [[ -e ca.pem && ! -e ca.key || -e ca.key && ! -e ca.pem ]]; then
    echo "$PWD: one of ca.pem and ca.key is missing: restore it to renew the certificates" >&2
    exit 66
fi
# All files are made here first and moved together at the end, because a server does not start with a key that does
# not fit its certificate.
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
# A replica of Redis shows its certificate to its master as a client does, so the server certificate is also valid for
# clients.
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
