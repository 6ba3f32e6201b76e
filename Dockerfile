# A server in a container. Builds without network from wheels: first run
#   python -m build --wheel                      (or: pip wheel --no-deps -w dist .)
#   pip wheel -w dist 'lagotto[server,postgresql] @ file://'"$PWD"
# and then
#   docker build -t lagotto .
#   docker run -p 8000:8000 -v "$PWD/data:/data" lagotto
# The base is /data/kb.db. Create a key before the first start: without one the server refuses to
# listen at an address that other machines can reach.
FROM python:3.12-slim
COPY dist /wheels
RUN pip install --no-cache-dir --no-index --find-links /wheels 'lagotto[server,postgresql]' \
    && rm -r /wheels \
    && useradd --create-home lagotto && mkdir /data && chown lagotto /data
USER lagotto
VOLUME /data
EXPOSE 8000
HEALTHCHECK CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz')"]
ENTRYPOINT ["lagotto", "--kb", "/data/kb.db"]
CMD ["serve", "--host", "0.0.0.0"]
