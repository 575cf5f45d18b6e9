# The server in a container, with both command lines.
#
#   docker build -t windsprite .
#   docker run -p 8090:8090 -v windsprite-data:/data \
#       -e WINDSPRITE_ROOT__USERNAME=admin -e WINDSPRITE_ROOT__PASSWORD=change-me windsprite
#
# In a container the server listens on every address, so it never takes the well-known password of a
# first try: set both variables above, or read the random one from /data/root-password.

FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY protocol protocol
COPY sdk sdk
COPY server server
COPY testing testing
RUN python -m venv /opt/windsprite \
    && /opt/windsprite/bin/pip install --no-cache-dir --disable-pip-version-check '.[server,cli]'

FROM python:3.13-slim
COPY --from=build /opt/windsprite /opt/windsprite
RUN useradd --uid 8090 --user-group --no-create-home --shell /usr/sbin/nologin windsprite \
    && install --directory --owner=windsprite --group=windsprite --mode=700 /data
ENV PATH=/opt/windsprite/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    WINDSPRITE_DATA_DIR=/data \
    WINDSPRITE_TCP__ADDRESS=0.0.0.0:8090 \
    WINDSPRITE_LOG__FORMAT=json
USER windsprite
WORKDIR /data
VOLUME /data
EXPOSE 8090
# A ping is answered before any login, so the check needs no password. A server with TLS, or on
# another port, needs the variable WINDSPRITE_SERVER.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 CMD ["windsprite", "ping"]
ENTRYPOINT ["windsprite-server"]
CMD ["run"]
