FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml LICENSE ./
COPY scorer scorer
COPY exporters exporters
RUN python -m venv /opt/scorer
RUN /opt/scorer/bin/pip install --no-cache-dir ".[kubernetes]"

FROM python:3.13-slim
COPY --from=build /opt/scorer /opt/scorer
# Nobody: it writes nothing but global.state_file and web.unix_socket.
USER 65534:65534
EXPOSE 9808
ENTRYPOINT ["/opt/scorer/bin/scorer"]
CMD ["run", "--config.file=/etc/scorer/scorer.yml"]
