# Stockade alone, without a Redis: STOCKADE_REDIS_URL names the one to use. docker-compose.yml has a whole stack for one machine,
# docs/production.md says what to think of elsewhere.
#
#   docker build -t stockade .

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
# Features of Cargo.toml, with commas between.
ARG FEATURES=""

# The dependencies, built around empty crates: this layer lasts until a manifest or Cargo.lock changes.
COPY Cargo.toml Cargo.lock ./
COPY bench/Cargo.toml bench/
RUN mkdir -p src bench/src \
    && echo 'fn main() {}' >src/main.rs \
    && touch src/lib.rs bench/src/lib.rs \
    && cargo build --release --locked --features "$FEATURES" --bin stockade

COPY lua lua
COPY src src
# Cargo goes by times, and files of the context may be older than the empty crates.
RUN touch src/main.rs src/lib.rs \
    && cargo build --release --locked --features "$FEATURES" --bin stockade

# Debian 12, as above: glibc and libgcc, no shell and no packages. The tag moves with Debian's security updates.
FROM gcr.io/distroless/cc-debian12:nonroot

LABEL org.opencontainers.image.title="Stockade" \
      org.opencontainers.image.description="A stock service for flash sales: sells each unit once, loses none, and tells everybody what happened" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0" \
      org.opencontainers.image.base.name="gcr.io/distroless/cc-debian12:nonroot"

COPY LICENSE-APACHE LICENSE-MIT /usr/share/doc/stockade/
COPY --from=build /build/target/release/stockade /usr/local/bin/stockade

# Off loopback it starts with API keys only, or with STOCKADE_ALLOW_NO_KEYS=true. It writes no files.
ENV STOCKADE_LISTEN=0.0.0.0:8080 \
    STOCKADE_OPS_LISTEN=0.0.0.0:9090 \
    STOCKADE_LOG=json
EXPOSE 8080 9090

# A number, so that it can be seen not to be root without looking into the image.
USER 65532:65532

# It gives up by itself after 3 s without a connection, or 3 s without an answer. A Redis that reads a large log may take minutes.
HEALTHCHECK --interval=5s --timeout=7s --start-period=600s --retries=3 CMD ["/usr/local/bin/stockade", "healthcheck"]

# Stops accepting, finishes what it has begun, and exits within STOCKADE_DRAIN_SECONDS.
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/stockade"]
