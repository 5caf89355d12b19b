# Runs both commands of README's quick start:
#   docker build -t opendiffusionpipe . && docker run opendiffusionpipe
#   docker run opendiffusionpipe ./bazelw test //...
FROM debian:12
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git
WORKDIR /opendiffusionpipe
COPY . .
RUN ./bazelw build //bench:sd_pipeline
CMD ["./bazelw", "run", "//bench:sd_pipeline"]
