#!/usr/bin/env bash
# Makes a CA, a certificate of servers and one of clients, for tests and small installations.
#
#   certificates.sh DIRECTORY HOST...
#
# HOST is a name or an IP address as it stands in the urls of nodes; one certificate is for all of them. Writes ca.pem,
# ca.key, server.pem, server.key, client.pem and client.key, the keys without a passphrase: keep ca.key elsewhere. They
# are valid for a year, and the CA for ten: `certificates.sh` once more in the same directory renews the others.
#
# Where the clients of a quorum have one certificate, servers cannot tell them apart: passwords and ACLs still can.
set -euo pipefail

if (($# < 2)); then
    echo "usage: $0 DIRECTORY HOST..." >&2
    exit 64
fi
directory=$1
shift
mkdir -p "$directory"
cd "$directory"
umask 077

names=
for host in "$@"; do
    if [[ $host == *:* || $host =~ ^[0-9.]+$ ]]; then kind=IP; else kind=DNS; fi
    names+=${names:+,}$kind:$host
done

new_key() { openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

if [[ ! -e ca.pem ]]; then
    new_key ca.key
    openssl req -x509 -new -key ca.key -sha256 -days 3650 -subj "/CN=redquorum CA" -out ca.pem \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
fi

# certificate NAME USAGE ALTERNATIVE_NAMES
certificate() {
    new_key "$1.key"
    openssl req -new -key "$1.key" -subj "/CN=redquorum $1" |
        openssl x509 -req -CA ca.pem -CAkey ca.key -CAcreateserial -sha256 -days 365 -out "$1.pem" -extfile <(
            echo "basicConstraints=critical,CA:FALSE"
            echo "keyUsage=critical,digitalSignature"
            echo "extendedKeyUsage=$2"
            echo "subjectAltName=$3"
        )
}
# A server of Redis shows its certificate as a client, too: to the master whose replica it is.
certificate server serverAuth,clientAuth "$names"
certificate client clientAuth DNS:client
chmod 644 ./*.pem

cat <<END
Of each server, besides --port 0:
  redis-server --tls-port 6379 --tls-cert-file $PWD/server.pem --tls-key-file $PWD/server.key --tls-ca-cert-file $PWD/ca.pem
Of each client:
  redquorum --ca $PWD/ca.pem --cert $PWD/client.pem --key $PWD/client.key --node rediss://$1:6379 ...
END
