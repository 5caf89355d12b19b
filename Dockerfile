# Runs both commands of README's quick start:
#   docker build -t opendiffusionpipe . && docker run opendiffusionpipe
#   docker run opendiffusionpipe ./bazelw test //...
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git
WORKDIR /opendiffusionpipe
COPY . .
# Bazel 4 fails on its own output folder if an image's layer holds it, but reads a disk cache there.
RUN mkdir /disk_cache && echo 'build --disk_cache=/disk_cache' > .bazelrc.local && \
    ./bazelw build //bench:sd_pipeline && ./bazelw shutdown && rm -rf /root/.cache/bazel
CMD ["./bazelw", "run", "//bench:sd_pipeline"]
