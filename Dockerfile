# The command `redquorum` alone, run by a user without rights.
#
#   docker build --tag redquorum .
#   docker run --rm --env REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 redquorum doctor
#
# `redquorum run` and `redquorum elect` start a program, and this image has no other. The program here needs no library, so
# it can be copied into the image of any program on Linux:
#
#   COPY --from=redquorum /usr/local/bin/redquorum /usr/local/bin/
FROM rust:1-alpine AS build
RUN apk add --no-cache ca-certificates musl-dev
WORKDIR /src
COPY . .
RUN cargo install --locked --path cli --root /out
RUN echo 'redquorum:x:65532:65532::/:/sbin/nologin' >/out/passwd

FROM scratch
LABEL org.opencontainers.image.source=https://github.com/redquorum/redquorum \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
# The CAs for nodes with `rediss://`, unless the settings name others.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/passwd /etc/passwd
COPY --from=build /out/bin/redquorum /usr/local/bin/redquorum
# By number: Kubernetes cannot tell whether a name is that of root.
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/redquorum"]
