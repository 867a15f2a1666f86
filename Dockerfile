# harness with git, and without an agent: add yours in an image of your own.
#   docker build --tag harness .
#   docker run --rm -it --volume "$PWD:/work" harness status
FROM rust:1.95-slim-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package harness-supervisor-cli

FROM debian:bookworm-slim
# Debian 12 has git 2.39; several workers need 2.40 or newer, which is in its backports.
RUN echo 'deb http://deb.debian.org/debian bookworm-backports main' > /etc/apt/sources.list.d/backports.list \
    && apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && apt-get install --yes --no-install-recommends --target-release bookworm-backports git \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 harness
COPY --from=build /source/target/release/harness /usr/local/bin/harness
USER harness
WORKDIR /work
# Without it, git refuses a work tree that belongs to another user.
RUN git config --global --add safe.directory /work
ENTRYPOINT ["harness"]
CMD ["--help"]
