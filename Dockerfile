# The Python package beside a pinned PyTorch. The first stage makes the wheel, the second has only what runs.
#
#   docker build -t stepfuse .              --build-arg TORCH=2.13.0
#   docker run --rm --gpus all stepfuse     runs the self-test
ARG PYTHON=3.11-bookworm

FROM python:${PYTHON} AS build
WORKDIR /src
COPY . .
RUN tools/setup.sh --for=build && apt-get install -y --no-install-recommends libzstd-dev zlib1g-dev \
    && rm -rf /var/lib/apt/lists/*
RUN tools/wheel.sh build /dist

FROM python:${PYTHON}
ARG TORCH=2.13.0
COPY --from=build /dist/*.whl /tmp/
RUN pip install --no-cache-dir torch==${TORCH} numpy /tmp/*.whl && rm /tmp/*.whl
HEALTHCHECK --interval=1h --timeout=60s --start-period=60s CMD ["python", "-m", "stepfuse.selftest"]
CMD ["python", "-m", "stepfuse.selftest"]
